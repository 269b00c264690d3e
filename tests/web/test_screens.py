"""Every screen in a real Chromium: its content, live updates, no error, no request to another machine."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.web.chromium import Page
from tests.web.running_web import RunningWeb

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

    assert page.texts("tbody tr") == ["b1\t20\t94 of 160", "b2\t20\t134 of 160", "outside the topology\t3\t8 of 8"]
    assert page.texts(".facts li")[0] == "43 nodes"
    shades = "new Set(document.querySelector('canvas').getContext('2d').getImageData(0, 0, 600, 300).data).size"
    assert page.run(shades) > 20, "the canvas has colours"
    assert_clean(page)


def test_a_click_on_a_box_goes_deeper_and_the_address_says_where(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?in=b1")
    assert [row.split("\t")[0] for row in page.texts("tbody tr")] == ["r1", "r2", "r3", "r4"]

    page.run("document.querySelector('tbody a').click()")
    page.until("location.search.includes('in=b1%2Fr1') && document.querySelectorAll('tbody tr').length === 5")
    assert page.texts("tbody tr")[0] == "b1-r1-n1\t0 of 8 gpu free\tnone"
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


def test_slots_of_a_shape_are_counted_as_the_command_counts_them(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/?by=slots&requests=nvidia.com/gpu=4,cpu=16&gang=9")

    assert page.texts("tbody tr")[1] == "b2\t20\t32"
    assert_clean(page)


def test_a_node_shows_its_zones_with_owners(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/node/telco-1")

    assert page.texts(".zone h3") == ["NUMA 0", "NUMA 1"]
    # 30 CPUs, of which telco/amf-0 has 8.
    squares = (
        "[...document.querySelectorAll('.zone')][0].querySelectorAll('.resource')[0].querySelectorAll('%s').length"
    )
    assert (page.run(squares % "i"), page.run(squares % 'i[title="telco/amf-0"]')) == (30, 8)
    assert "policy single-numa-node" in page.text(".facts")
    assert_clean(page)


def test_why_shows_shrinking_bars_misses_and_remedies(page: Page, telco: RunningWeb) -> None:
    page.open(f"{telco.url}/why")
    assert page.text(".answer") == "1 pod waits (1 cause), 1 was refused by kubelets"
    page.run("document.querySelector('a[href=\"/why/telco/pod/upf-large\"]').click()")

    page.until("document.querySelectorAll('.bars b').length === 4")
    assert page.texts(".bars b") == ["6", "4", "2", "0"]
    assert "telco-1\t0\tcpu\t22\t24\ttelco/amf-0 8" in page.texts("tbody tr")
    assert "cpu 22 instead of 24 (2 nodes)" in page.text("main ul:not(.facts)")
    assert_clean(page)


def test_a_gang_without_a_place_says_why_and_what_would_help(page: Page, gangs: RunningWeb) -> None:
    page.open(f"{gangs.url}/gangs")
    assert page.texts("tbody tr") == ["ml/finetune\t9\t0\t9\t0"]
    page.run("document.querySelector('tbody a').click()")

    page.until("location.pathname === '/gang/ml/finetune' && document.querySelector('.answer')")
    assert page.text(".answer").startswith("ml/finetune does not fit: the gang needs 9 slots in one rack")
    assert "8 pods instead of 9" in page.text("main")
    assert_clean(page)


@pytest.mark.parametrize("cpu,said", [("2", "ml/asked fits: b1-r2-n1, NUMA zone 0"), ("4000", "ml/asked does not fit")])
def test_what_if_answers_for_a_pasted_manifest(page: Page, gangs: RunningWeb, cpu: str, said: str) -> None:
    page.open(f"{gangs.url}/what-if")

    page.run(f"document.querySelector('textarea').value = {POD % (cpu, cpu)!r}")
    page.run("document.querySelector('form.card').requestSubmit()")
    page.until("document.querySelector('.answer')")
    assert page.text(".answer").startswith(said)
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
    assert "94 of 160" in html
    assert "data:image/png;base64," in html
    for reference in ("<script", "<link", "href=", 'src="/', "<select"):
        assert reference not in html
