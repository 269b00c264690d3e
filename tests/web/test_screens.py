"""Every screen in a real Chromium: its content, live updates, no error, no request to another machine."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.builders.bodies import Json, list_body, node_body
from tests.web.chromium import Page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb, running_web

POD = """
apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: ml}
spec:
  containers:
  - name: main
    image: app
    resources: {requests: {cpu: "%s", memory: 1Gi}, limits: {cpu: "%s", memory: 1Gi}}
"""


def assert_clean(page: Page) -> None:
    assert page.errors == []
    outside = [url for url in page.requests if urlsplit(url).hostname not in ("127.0.0.1", None)]
    assert [url for url in outside if not url.startswith(("data:", "blob:"))] == []


def test_the_cluster_shows_free_amounts_of_every_block_and_draws_them(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/")

    assert page.texts(".domains tbody tr") == [
        "b1\t20\t86 of 160\t1",
        "b2\t20\t134 of 160\t0",
        "outside the topology\t3\t8 of 8\t0",
    ]
    assert page.texts(".domains th") == ["block", "nodes", "free gpu", "closed"]
    assert {"no gpu", "closed"} <= set(page.texts(".legend li")), "grey and hatched boxes"
    assert page.texts(".closed li") == ["1 node closed: cordoned (b1-r4-n5): 8 free gpu not counted"]
    assert page.text("#live") == "dump"
    assert page.texts(".facts li")[0] == "43 nodes"
    assert "43 nodes, free gpu 228 of 328;" in page.run("document.querySelector('canvas').ariaLabel")
    shades = "new Set(document.querySelector('canvas').getContext('2d').getImageData(0, 0, 600, 300).data).size"
    assert page.run(shades) > 20, "the canvas has colours"
    assert_clean(page)


def test_a_click_on_a_box_goes_deeper_and_the_address_says_where(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?in=b1")
    assert [row.split("\t")[0] for row in page.texts(".domains tbody tr")] == ["r1", "r2", "r3", "r4"]

    page.run("document.querySelector('tbody a').click()")
    page.until("location.search.includes('in=b1%2Fr1') && document.querySelectorAll('tbody tr').length === 5")
    assert page.texts("tbody tr")[0] == "b1-r1-n1\tReady\t64 of 96\t640Gi of 960Gi\t0 of 8\t\u2013\tnone"
    page.run("document.querySelector('tbody a').click()")
    page.until("location.pathname === '/node/b1-r1-n1' && document.querySelector('h1')?.innerText === 'Node b1-r1-n1'")
    assert_clean(page)


def test_arrow_keys_choose_a_node_and_enter_opens_it(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?in=b1/r1")
    key = "document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}))"

    page.run(key % "ArrowRight")
    page.run(key % "ArrowRight")
    assert page.text(".tip").startswith("b1-r1-n2: 0 of 8 gpu free")
    page.run(key % "Enter")
    page.until("location.pathname === '/node/b1-r1-n2'")
    assert_clean(page)


SPY = """(() => {
  window.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    window.drawn.push(text);
    fill.call(this, text, ...more);
  };
})()"""


def drawn_at(page: Page, width: int) -> set[str]:
    """The words on the map once the window has another width."""
    page.run(SPY)
    page.size(width, 900)
    page.until("window.drawn.length")
    return set(page.run("window.drawn"))


@pytest.mark.parametrize("width", [390, 1000])
def test_boxes_of_a_small_map_have_the_names_of_their_nodes(page: Page, gangs: RunningWeb, width: int) -> None:
    page.open(f"{gangs.url}/?in=b1/r2")
    assert {"b1-r2-n1", "b1-r2-n5", "8"} <= drawn_at(page, width)


@pytest.mark.parametrize("number,names", [(50, ("node-0", "node-49")), (51, ())])
def test_names_of_nodes_are_shown_without_a_common_domain(
    page: Page, tmp_path: Path, number: int, names: tuple[str, ...]
) -> None:
    nodes = [node_body(f"node-{at}.example.internal", {"cpu": "8"}) for at in range(number)]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(nodes)))
    with running_web("--cluster", str(file)) as web:
        page.open(f"{web.url}/")
        assert set(names) == drawn_at(page, 1000) & {"node-0", "node-49"}
    page.call("Page.navigate", url="about:blank")


def test_slots_of_a_shape_are_counted_as_the_command_counts_them(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?by=slots&requests=nvidia.com/gpu=4,cpu=16&gang=9")

    assert page.texts(".domains tbody tr")[1] == "b2\t20\t32\t0"
    assert_clean(page)


def test_slots_of_nodes_outside_the_tree_are_counted_too(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?by=slots&requests=nvidia.com/gpu=1&in=outside%20the%20topology")
    assert "slots for a pod" in page.texts(".nodes th")
    rows = [row.split("\t")[:3] for row in page.texts("tbody tr")]
    assert ["spare-1", "Ready", "8"] in rows
    assert_clean(page)


def test_a_part_of_the_cluster_counts_its_own_nodes_and_marks_closed_ones(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?in=b1/r4")
    assert page.texts(".facts li")[0] == "5 of 43 nodes"
    assert not [each for each in page.texts(".facts li") if "pod" in each]
    assert [row.split("\t")[0] for row in page.texts("tbody tr") if "SchedulingDisabled" in row] == ["b1-r4-n5"]
    assert_clean(page)


def test_nodes_are_sorted_by_a_click_on_a_column_and_the_choice_stays(
    page: Page, gangs: RunningWeb, gang_cluster: Path
) -> None:
    page.open(f"{gangs.url}/?in=b1/r2")
    assert page.texts(".nodes th") == [
        "node",
        "status",
        "free cpu",
        "free memory",
        "free gpu",
        "largest aligned pod",
        "report",
    ]
    free = "[...document.querySelectorAll('.nodes tbody tr')].map((row) => row.cells[4].innerText)"
    head = "document.querySelectorAll('.nodes th button')[4]"
    page.run(f"{head}.focus(), {head}.click()")
    assert page.run(free) == ["8 of 8", "8 of 8", "8 of 8", "4 of 8", "0 of 8"], "the most first"
    page.run(f"window.before = {head}")
    before = gang_cluster.read_text()
    try:
        gang_cluster.write_text(before + "- {apiVersion: v1, kind: Node, metadata: {name: added}}\n")
        page.until(f"{head} !== window.before && {head} === document.activeElement")
        assert page.run(f"{head}.parentNode.ariaSort") == "descending"
    finally:
        gang_cluster.write_text(before)
    page.until("document.querySelector('.facts li').innerText === '5 of 43 nodes'")
    page.run(f"{head}.click()")
    assert page.run(free)[0] == "0 of 8"
    page.run("document.querySelector('.nodes tbody a').click()")
    page.until("location.pathname === '/node/b1-r2-n4'")
    assert_clean(page)


def test_a_node_without_a_report_shows_what_its_object_says(page: Page, tmp_path: Path) -> None:
    topologies: list[Json] = [
        {
            "apiVersion": api_version,
            "kind": "Topology",
            "metadata": {"name": name},
            "spec": {"levels": [{"nodeLabel": label} for label in labels]},
        }
        for api_version, name, labels in (
            ("kueue.x-k8s.io/v1beta2", "dc", ("block", "rack")),
            ("kai.scheduler/v1alpha1", "kai-dc", ("block", "rack")),
            ("kai.scheduler/v1alpha1", "power", ("feed",)),
        )
    ]
    node = node_body("web-1", {"cpu": "8", "memory": "16Gi"}, block="b1", rack="r1", feed="f1")
    node["spec"] = {"taints": [{"key": "batch", "effect": "NoSchedule"}]}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body([node, *topologies])))
    with running_web("--cluster", str(file)) as web:
        page.open(f"{web.url}/node/web-1")
        told = page.texts(".facts li")
        assert "dc, kai-dc: block b1 \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} rack r1" in told
        assert "power: feed f1" in told
        assert "taint batch:NoSchedule" in told
        rows = page.texts("tbody tr")
        assert {"cpu\t8\t8", "memory\t16Gi\t16Gi", "feed\tf1"} <= set(rows)
        assert_clean(page)
    page.call("Page.navigate", url="about:blank")


def test_a_node_shows_its_zones_with_owners(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/node/telco-1")

    assert page.texts(".zone h3") == ["NUMA 0", "NUMA 1"]
    # 30 CPUs, of which telco/amf-0 has 8.
    squares = (
        "[...document.querySelectorAll('.zone')][0].querySelectorAll('.resource')[0].querySelectorAll('%s').length"
    )
    assert (page.run(squares % "i"), page.run(squares % 'i[title="telco/amf-0"]')) == (30, 8)
    assert "policy single-numa-node" in page.text(".facts")
    facts = page.texts(".facts li")
    assert "largest aligned pod cpu 22 · memory 78Gi · sriov-vf 6 in NUMA 0" in facts
    assert "fragmentation cpu 27 % · memory 17 % · sriov-vf 25 %" in facts
    assert page.texts(".zone .label")[0] == "cpu\n22 of 30 free"
    # 16 of 94Gi are in use, and their part of the bar is filled.
    bar = "document.querySelector('.zone .bar')"
    assert page.run(f"{bar}.querySelector('i').title") == "telco/amf-0"
    share = page.run(f"{bar}.querySelector('i').getBoundingClientRect().width / {bar}.getBoundingClientRect().width")
    assert share == pytest.approx(16 / 94, abs=0.01)
    assert "monitoring/node-exporter-x7k2p\tnot pinned\tcpu 100m · memory 128Mi" in page.texts("tbody tr")
    assert_clean(page)


def test_a_node_leads_back_to_its_block_and_rack_on_the_map(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/node/b2-r3-n1")
    assert page.texts(".facts a") == ["b2", "r3"]
    page.run("[...document.querySelectorAll('.facts a')].at(-1).click()")
    page.until("document.querySelector('h1')?.innerText.endsWith('r3') && location.search.includes('in=b2%2Fr3')")
    assert_clean(page)


def test_a_pod_whose_containers_are_in_two_zones_is_listed_once_with_both(page: Page, tmp_path: Path) -> None:
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": [amount("cpu", "8", "6"), amount("memory", "8Gi", "7Gi")]}
        for zone in (0, 1)
    ]
    limits = {"cpu": "2", "memory": "1Gi"}
    containers = [{"name": name, "image": "a", "resources": {"limits": limits}} for name in ("one", "two")]
    annotations = {"bayplan.io/numa-zones": json.dumps({"one": [0], "two": [1]})}
    items: list[dict[str, object]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "16", "memory": "16Gi", "pods": "9"}},
        },
        {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": "n1"},
            "topologyPolicies": ["SingleNUMANodeContainerLevel"],
            "zones": zones,
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": containers},
            "status": {"phase": "Running"},
        },
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with running_web("--cluster", str(file)) as web:
        page.open(f"{web.url}/node/n1")
        assert page.texts("tbody tr") == ["ns/p\t0, 1\tcpu 4 · memory 2Gi"]
    page.call("Page.navigate", url="about:blank")


def amount(name: str, allocatable: str, available: str) -> dict[str, str]:
    return {"name": name, "capacity": allocatable, "allocatable": allocatable, "available": available}


def test_why_shows_shrinking_bars_misses_and_remedies(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/why")
    assert page.text(".answer") == "1 pod waits (1 cause), 1 was refused by kubelets"
    page.run("document.querySelector('a[href=\"/why/telco/pod/upf-large\"]').click()")

    page.until("document.querySelectorAll('.bars b').length === 4")
    assert page.texts(".bars b") == ["6", "4", "2", "0"]
    assert "telco-1\t0\tcpu\t22\t24\ttelco/amf-0 8" in page.texts("tbody tr")
    assert "cpu 22 instead of 24 (2 nodes)" in page.text("main ul:not(.facts)")
    assert_clean(page)


def test_a_pod_that_runs_is_answered_with_its_place(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/why/telco/pod/amf-0")
    assert page.text(".answer").startswith("telco/amf-0 is on telco-1, ")
    assert_clean(page)


def test_a_gang_without_a_place_says_why_and_what_would_help(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/gangs")
    assert page.texts("tbody tr") == ["ml/finetune\tWaiting\track\t\t9\t0\t9\t0"]
    page.run("document.querySelector('tbody a').click()")

    page.until("location.pathname === '/gang/ml/finetune' && document.querySelector('.answer')")
    assert page.text(".answer").startswith("ml/finetune does not fit: the gang needs 9 slots in one rack")
    assert "8 pods instead of 9" in page.text("main")
    assert page.text(".facts").split("\n") == ["required rack", "members 9"]
    assert "9 members wait" in page.texts("h2")
    assert page.texts(".reason") == ["the gang needs 9 slots in one rack, but can get at most 8."]
    assert_clean(page)


def test_a_gang_of_a_manifest_is_outlined_with_ranks_and_distances(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/what-if")
    manifest = (EXAMPLES / "gangs" / "pretrain.yaml").read_text()
    page.run(f"document.querySelector('textarea').value = {manifest!r}")
    page.run("document.querySelector('form.card').requestSubmit()")

    page.until("document.querySelector('.matrix')")
    assert page.text(".answer").startswith("ml/pretrain fits")
    assert page.run("document.querySelector('.matrix tbody td').innerText") == "0"
    ranks = "[...document.querySelectorAll('h2')].find((each) => each.innerText === 'Ranks').parentElement"
    assert page.run(f"{ranks}.querySelectorAll('tbody tr').length") > 1
    assert page.run(f"[...{ranks}.querySelectorAll('a')].some((each) => each.innerText.startsWith('ml/'))") is False
    assert "Where it would go" in page.texts("h2")
    assert "outlined" in page.run("document.querySelector('canvas').getAttribute('aria-label')")
    assert_clean(page)


def test_each_gang_of_a_manifest_has_a_map_of_the_room_for_its_pods(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/what-if")
    files = [EXAMPLES / "gangs" / name for name in ("pretrain.yaml", "too-large.yaml")]
    manifest = "\n---\n".join(file.read_text() for file in files)
    page.run(f"document.querySelector('textarea').value = {manifest!r}")
    page.run("document.querySelector('form.card').requestSubmit()")

    page.until("document.querySelectorAll('.result canvas').length === 2")
    assert page.texts(".result .answer")[0].startswith("1 of 2 gang")
    assert {"Where it would go", "Room for its pods"} <= set(page.texts(".result h2"))
    assert "the most, 2" in page.texts(".result .legend li")
    assert_clean(page)


@pytest.mark.parametrize("example", ["a pod", "a Job", "a gang"])
def test_every_example_of_the_what_if_screen_can_be_placed(page: Page, telco: RunningWeb, example: str) -> None:
    page.open(f"{telco.url}/what-if")
    page.run(f"document.querySelector('form.card select').value = {example!r}")
    page.run("document.querySelector('form.card select').dispatchEvent(new Event('change'))")
    page.run("document.querySelector('form.card').requestSubmit()")

    page.until("document.querySelector('.result .answer')")
    assert "default/example" in page.text(".result .answer")
    assert "There is no answer" not in page.text("main")
    assert_clean(page)


@pytest.mark.parametrize("cpu,said", [("2", "ml/asked fits: b1-r2-n1, NUMA zone 0"), ("4000", "ml/asked does not fit")])
def test_what_if_answers_for_a_pasted_manifest(page: Page, gangs: RunningWeb, cpu: str, said: str) -> None:
    page.open(f"{gangs.url}/what-if")

    page.run(f"document.querySelector('textarea').value = {POD % (cpu, cpu)!r}")
    page.run("document.querySelector('form.card').requestSubmit()")
    page.until("document.querySelector('.answer')")
    assert page.text(".answer").startswith(said)
    assert_clean(page)


def test_what_if_answers_for_a_cluster_that_differs(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/what-if")
    page.run(f"document.querySelector('textarea').value = {POD % ('2', '2')!r}")
    page.run("document.querySelector('details').open = true")
    page.run("document.querySelector('[name=withoutNode]').value = 'b1-r2-n1, b1-r2-n2'")
    page.run("document.querySelector('form.card').requestSubmit()")
    page.until("document.querySelector('.result .answer')")
    assert page.text(".assuming") == "Assuming: b1-r2-n[1-2] drained (1 pod waits again)"
    assert "b1-r2-n1," not in page.text(".result .answer")
    assert page.run("document.querySelector('.result canvas')") is None  # the map shows the cluster as it is

    page.run("document.querySelector('[name=withoutNode]').value = 'b1-r2-n'")
    page.run("document.querySelector('form.card').requestSubmit()")
    page.until("document.querySelector('.result .bad')")
    assert "there is no node 'b1-r2-n' in the dump; did you mean" in page.text(".result .bad")


def press(page: Page, key: str, **more: int | str) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key, **more)


def test_keys_open_the_list_of_keys_the_search_and_the_answer_of_a_what_if(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/what-if")
    press(page, "?", text="?")
    page.until("document.getElementById('help').open")
    assert "ask, in What if" in page.text("dialog")
    press(page, "Escape", windowsVirtualKeyCode=27)
    page.until("!document.getElementById('help').open")
    press(page, "/", text="/")
    assert page.run("document.activeElement.id") == "search"
    press(page, "?", text="?")
    assert page.run("[document.getElementById('search').value, document.getElementById('help').open]") == ["?", False]
    page.run("document.getElementById('manifest').focus()")
    press(page, "Enter", modifiers=2, windowsVirtualKeyCode=13)
    page.until("document.querySelector('.result .answer')")
    assert_clean(page)


def test_search_finds_by_part_of_a_name_and_opens_with_enter(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/")

    page.run(
        "const box = document.getElementById('search'); box.value = 'b2-r3-n5'; box.dispatchEvent(new Event('input'))"
    )
    page.until("document.querySelector('#found [role=option]')?.innerText.includes('b2-r3-n5')")
    page.run("document.querySelector('form.search').requestSubmit()")
    page.until("location.pathname === '/node/b2-r3-n5'")


def test_a_change_arrives_without_reload(page: Page, gangs: RunningWeb, gang_cluster: Path) -> None:
    page.open(f"{gangs.url}/")
    page.run("window.marker = 'kept'")
    before = gang_cluster.read_text()
    try:
        gang_cluster.write_text(before + "- {apiVersion: v1, kind: Node, metadata: {name: added}}\n")
        page.until("document.querySelector('.facts li').innerText === '44 nodes'")
        gang_cluster.write_text("not: [a cluster")
        page.until("!document.getElementById('trouble').hidden")
        assert page.text(".facts li") == "44 nodes", "the last state stays"
    finally:
        gang_cluster.write_text(before)
    page.until(
        "document.querySelector('.facts li').innerText === '43 nodes' && document.getElementById('trouble').hidden"
    )
    assert page.run("window.marker") == "kept"
    assert_clean(page)


def test_an_unknown_node_is_a_sentence(page: Page, gangs: RunningWeb) -> None:
    page.call("Page.navigate", url=f"{gangs.url}/node/no-such-node")

    page.until("document.querySelector('.message h1')?.innerText.includes(\"there is no node 'no-such-node'\")")


@pytest.mark.parametrize("path", ["/", "/node/b1-r2-n2", "/gang/ml/finetune", "/what-if"])
def test_a_phone_shows_every_screen_without_scrolling_sideways(page: Page, gangs: RunningWeb, path: str) -> None:
    page.size(390, 800, dark=True)
    page.open(f"{gangs.url}{path}")

    assert page.run("document.documentElement.scrollWidth") <= 390
    assert_clean(page)


def test_an_exported_screen_needs_nothing_else(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/")

    html = page.run(
        "import('/static/export.js').then(({screenAsHtml}) => screenAsHtml(document.getElementById('main')))"
    )
    assert "86 of 160" in html
    assert "data:image/png;base64," in html
    for reference in ("<script", "<link", "href=", 'src="/', "<select"):
        assert reference not in html


def test_names_with_markup_are_shown_as_they_are(page: Page, tmp_path: Path) -> None:
    markup = "<img/src=x/onerror=window.injected=1>"
    labels = {"kubernetes.io/hostname": "n1", "example.com/rack": markup}
    taint = {"key": "k", "value": markup, "effect": "NoSchedule"}
    node = {"metadata": {"name": "n1", "labels": labels, "annotations": {"note": markup}}, "spec": {"taints": [taint]}}
    levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "annotations": {"note": markup}},
        "spec": {"containers": [{"name": markup}]},
    }
    items: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Node", **node, "status": {"allocatable": {"cpu": "8"}}},
        {"apiVersion": "v1", "kind": "Pod", **pod},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": {"name": "t"},
            "spec": {"levels": levels},
        },
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with running_web("--cluster", str(file)) as web:
        page.open(f"{web.url}/")
        assert markup in page.text("tbody")
        for path in ("/node/n1", "/why", "/why/ns/pod/p"):
            page.open(f"{web.url}{path}")
        assert page.run("[window.injected ?? 0, document.querySelectorAll('main img').length]") == [0, 0]
        page.call("Page.navigate", url=f"{web.url}/node/%3Cimg%20src%3Dx%3E")
        page.until("document.querySelector('.message h1')?.innerText.includes('<img src=x>')")
        assert page.run("document.querySelectorAll('main img').length") == 0


def test_a_page_whose_server_is_gone_says_so_and_goes_on_when_it_is_back(page: Page, gang_cluster: Path) -> None:
    with running_web("--cluster", str(gang_cluster)) as web:
        page.open(f"{web.url}/")
        page.run("window.marker = 'kept'")
        port = web.url.rpartition(":")[2]
    page.until("document.getElementById('live').innerText === 'offline'")
    assert not page.run("document.getElementById('trouble').hidden")
    assert page.text(".facts li") == "43 nodes", "the last state stays"
    with running_web("--cluster", str(gang_cluster), address=f"127.0.0.1:{port}"):
        page.until("document.getElementById('trouble').hidden && document.getElementById('live').innerText === 'dump'")
        assert page.run("window.marker") == "kept"
    page.call("Page.navigate", url="about:blank")


def test_a_wrong_token_is_told_and_the_right_one_opens_the_page(page: Page, gang_cluster: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse")
    with running_web("--cluster", str(gang_cluster), "--token-file", str(token)) as web:
        page.call("Page.navigate", url=f"{web.url}/")
        sign_in = (
            "document.getElementById('token').value = '%s'; document.querySelector('form.message').requestSubmit()"
        )
        page.until("document.getElementById('token')")
        page.run(f"(() => {{ {sign_in % 'wrong'} }})()")
        page.until("document.querySelector('form.message p')?.innerText.startsWith('send the token')")
        page.run(f"(() => {{ {sign_in % 'correct-horse'} }})()")
        page.until("document.querySelector('.facts li')?.innerText === '43 nodes'")
    page.run("sessionStorage.clear()")
    page.call("Page.navigate", url="about:blank")


@pytest.mark.parametrize(
    "path,said",
    [
        ("/no/such/page", "There is no such page."),
        ("/node/%E0%A4%A", "There is no such page."),
        ("/?in=b9/r9", "r9 here; this is everything."),
        ("/?by=slots&requests=bogus", "'bogus' is not an amount"),
        ("/?resource=no-such", "86 of 160"),
        ("/gang/ml/no-such", "there is no PodGroup 'ml/no-such'"),
        ("/why/ml/pod/no-such", "there is no pod 'ml/no-such'"),
        ("/?topology=no-such", "there is no Topology 'no-such'"),
    ],
)
def test_an_address_that_means_nothing_is_told_on_the_page(page: Page, gangs: RunningWeb, path: str, said: str) -> None:
    page.call("Page.navigate", url=f"{gangs.url}{path}")
    page.until(f"document.querySelector('main')?.innerText.includes({said!r})")
    assert "Cluster" in page.text("nav"), "the way out is there"
    assert not any("Error" in each for each in page.errors)


def test_a_mistyped_amount_can_be_corrected_where_it_was_typed(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?by=slots&requests=gpu")
    page.until("document.querySelector('main [role=alert]')")
    assert page.run("document.querySelector('.controls input').value") == "gpu"
    page.run("document.querySelector('.controls input').focus()")
    page.run("document.querySelector('.controls input').value = 'nvidia.com/gpu=8'")
    page.run("document.querySelector('.controls input').dispatchEvent(new Event('change'))")
    page.until("!document.querySelector('main [role=alert]') && location.search.includes('gpu%3D8')")
