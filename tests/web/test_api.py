"""`/api/v1` of a running `bayplan web`: the same documents as the commands, limits, headers, hostile input."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.builders.bodies import list_body, node_body, pod_body
from tests.running_commands import PROGRAM
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb, running_web

MARKUP = "<img/src=x/onerror=alert(1)>"
HOSTILE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}, "annotations": {"note": MARKUP}},
            "spec": {"taints": [{"key": "k", "value": MARKUP, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10"}},
        }
    ],
}


def printed(*arguments: str) -> Any:
    done = subprocess.run([*PROGRAM, *arguments, "-o", "json"], capture_output=True, check=False, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "question,command",
    [
        ("nodes", ("nodes",)),
        ("waiting", ("why", "-A")),
        ("why/telco/pod/upf-large", ("why", "pod/upf-large", "-n", "telco")),
        ("why/telco/pod/upf-7d9c", ("why", "pod/upf-7d9c", "-n", "telco")),
        ("nodes/telco-1", ("numa", "telco-1")),
    ],
)
def test_documents_are_those_of_the_commands(telco: RunningWeb, question: str, command: tuple[str, ...]) -> None:
    expected = printed(*command, "--cluster", str(EXAMPLES / "cluster"))
    got = telco.api(question)
    of_the_page = ("metadata", "summary", "refusedPods", "domains", "labels", "podAmounts", "rooms")
    for changing in (*of_the_page, "waitingSeconds"):
        got.pop(changing, None)
        expected.pop(changing, None)
    for each in (*got.get("items", ()), *expected.get("items", ())):
        each.pop("reportAgeSeconds", None)
    assert got == expected


def test_what_if_is_place_and_changes_nothing(telco: RunningWeb) -> None:
    manifest = EXAMPLES / "pods" / "upf-large.yaml"
    before = telco.api("waiting")
    answer = telco.ask("/api/v1/what-if", manifest.read_bytes(), {"Content-Type": "application/yaml"})
    got = answer.json
    preemption = got.pop("preemption")
    assert [each["slots"] for each in got.pop("rooms")] == [[0] * 6]
    assert preemption.keys() == {"telco/upf-large"}
    causes = {each["cause"]: each["nodes"] for each in preemption["telco/upf-large"]["causes"]}
    assert causes == {"priority": 2, "closed": 2, "noRoom": 2}
    assert got == printed("place", "-f", str(manifest), "--cluster", str(EXAMPLES / "cluster"))
    assert telco.api("waiting") == before


@pytest.mark.parametrize(
    "parameters, flags",
    [
        ("withoutNode=telco-1,telco-2", ("--without-node", "telco-1", "--without-node", "telco-2")),
        ("addNodes=2&like=telco-1", ("--add-nodes", "2", "--like", "telco-1")),
    ],
)
def test_what_if_assumes_what_place_does(telco: RunningWeb, parameters: str, flags: tuple[str, ...]) -> None:
    manifest = EXAMPLES / "pods" / "upf.yaml"
    answer = telco.ask(
        f"/api/v1/what-if?{parameters}", manifest.read_bytes(), {"Content-Type": "application/yaml"}
    ).json
    del answer["preemption"], answer["rooms"]
    assert answer["assuming"]
    assert answer == printed("place", "-f", str(manifest), "--cluster", str(EXAMPLES / "cluster"), *flags)
    assert len(telco.api("nodes")["items"]) == 6


@pytest.mark.parametrize(
    "parameters, said",
    [
        ("withoutNode=telco-9", "there is no node 'telco-9' in the dump; did you mean telco-3"),
        ("addNodes=2", "addNodes and like belong together: addNodes 4 like NODE"),
        ("addNodes=many&like=telco-1", "Invalid value for 'addNodes': 'many' is not a valid integer range."),
        ("withoutTaint=a", "withoutTaint: no node has the taint 'a'"),
        ("withoutNodes=a", "unknown parameter 'withoutNodes'"),
    ],
)
def test_what_a_what_if_assumes_of_nothing_is_an_error(telco: RunningWeb, parameters: str, said: str) -> None:
    manifest = (EXAMPLES / "pods" / "upf.yaml").read_bytes()
    answer = telco.ask(f"/api/v1/what-if?{parameters}", manifest, {"Content-Type": "application/yaml"})
    assert answer.status in (400, 404)
    assert said in answer.json["error"]


@pytest.mark.parametrize(
    "manifest,said",
    [
        (b"kind: Pod\nmetadata: {name: [}", "manifest"),
        (b"apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "no pod"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resorces: {}}]}", "resorces"),
    ],
)
def test_an_unusable_manifest_is_a_sentence_without_our_paths(telco: RunningWeb, manifest: bytes, said: str) -> None:
    answer = telco.ask("/api/v1/what-if", manifest, {"Content-Type": "application/yaml"})
    assert answer.status in (400, 404)
    assert said in answer.json["error"]
    assert "/proc/" not in answer.json["error"]


def test_an_unchanged_answer_is_304_and_large_ones_are_zipped(telco: RunningWeb) -> None:
    first = telco.ask("/api/v1/map", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(first.body))["kind"] == "ClusterMap"
    again = telco.ask("/api/v1/map", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


def test_a_map_that_has_not_changed_since_is_only_its_version(telco: RunningWeb) -> None:
    whole = telco.api("map")
    changes = telco.api(f"map?since={whole['version']}")
    assert (changes["kind"], changes["at"], changes["version"]) == ("ClusterMapChanges", [], whole["version"])
    for unknown in ("made-up", f"{whole['version']}0"):
        assert telco.api(f"map?since={unknown}")["kind"] == "ClusterMap"


def test_a_node_lists_the_pods_that_its_kubelet_refused(telco: RunningWeb) -> None:
    (refused,) = telco.api("nodes/telco-2")["refusedPods"]
    assert (refused["pod"], refused["reason"]) == ("telco/upf-7d9c", "TopologyAffinityError")


def test_lists_come_in_pages(telco: RunningWeb) -> None:
    first = telco.api("nodes?limit=4")
    assert (len(first["items"]), first["metadata"]) == (4, {"continue": "4", "remainingItemCount": 2})
    rest = telco.api(f"nodes?limit=4&continue={first['metadata']['continue']}")
    assert [each["node"] for each in first["items"] + rest["items"]] == [
        each["node"] for each in telco.api("nodes")["items"]
    ]
    assert rest["metadata"] == {"continue": None, "remainingItemCount": 0}


@pytest.mark.parametrize(
    "path,status,said",
    [
        ("/api/v1/nodes/no-such-node", 404, "there is no node 'no-such-node'"),
        ("/api/v1/why/telco/pod/upf", 404, "there is no pod 'telco/upf'"),
        ("/api/v1/map?topology=nope", 404, "holds no Topology"),
        ("/api/v1/map?requests=cpu", 400, "requests: 'cpu' is not an amount"),
        ("/api/v1/map?requests=foo=1", 400, "requests: no node has foo"),
        ("/api/v1/topology", 404, "holds no Topology"),
        ("/api/v1/why/telco/foo/x", 404, "kind 'foo' is unknown here"),
        ("/api/v1/why/telco/node/telco-1", 404, "kind 'node' is unknown here"),
        # A pod of another namespace, by whatever spelling, is not one of telco.
        ("/api/v1/why/telco/monitoring/node-exporter-x7k2p", 404, "kind 'monitoring' is unknown here"),
        ("/api/v1/why/telco/pod/monitoring%2Fnode-exporter-x7k2p", 404, "there is no pod"),
        ("/api/v1/nodes?limit=0", 400, "limit: expected a number up to 1000"),
        ("/api/v1/nodes?limit=99999999999999", 400, "limit"),
        ("/api/v1/nodes?continue=-1", 400, "continue"),
        ("/api/v1/nodes?sort=name", 400, "unknown parameter 'sort'"),
        ("/api/v1/secrets", 404, "no such page"),
        ("/api/v1/gangs/telco/none", 404, "there is no gang 'telco/none' in the dump"),
        ("/api/v1/simulation", 404, "nothing is simulated here"),
        ("/api/v1/simulation/frames/3", 404, "nothing is simulated here"),
        ("/static/../server.py", 404, "no such page"),
        ("/static/%2e%2e/server.py", 404, "no such page"),
        (f"/api/v1/search?q={'x' * 5000}", 414, "longer than 4096"),
        (f"/api/v1/search?q={'x' * 30_000}", 414, "longer than 4096"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(telco: RunningWeb, path: str, status: int, said: str) -> None:
    answer = telco.ask(path)
    assert (answer.status, said in answer.json["error"]) == (status, True), answer.body
    assert "--" not in answer.json["error"] or "bayplan" in answer.json["error"], "flags are those of commands"


@pytest.mark.parametrize(
    "method,path,headers,status",
    [
        ("POST", "/api/v1/nodes", {}, 405),
        ("DELETE", "/api/v1/nodes/telco-1", {}, 405),
        ("PUT", "/", {}, 405),
        ("POST", "/api/v1/what-if", {"Content-Type": "text/plain"}, 415),
        ("POST", "/api/v1/what-if", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", "/api/v1/what-if", {"Content-Type": "application/yaml", "Origin": "http://evil.example"}, 403),
        ("GET", "/api/v1/cluster", {"Origin": "null"}, 403),
        ("GET", "/api/v1/cluster", {"Host": "evil.example"}, 421),
    ],
)
def test_other_methods_sites_and_hosts_are_refused(
    telco: RunningWeb, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert telco.ask(path, b"x" if method == "POST" else None, headers, method).status == status


def test_a_huge_manifest_is_refused(telco: RunningWeb) -> None:
    answer = telco.ask("/api/v1/what-if", b"#" * (2 << 20), {"Content-Type": "application/yaml"})
    assert answer.status == 413


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/v1/cluster", "/api/v1/nodes/nope", "/nope"])
def test_every_answer_carries_strict_headers(telco: RunningWeb, path: str) -> None:
    headers = telco.ask(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")


def test_the_openapi_document_has_every_route(telco: RunningWeb) -> None:
    document = telco.api("openapi.json")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            filled = path.format(**dict.fromkeys(names, "x"))
            if not path.endswith("/events"):
                assert telco.ask(filled, b"" if method == "post" else None).status not in (405, 500), path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    file: Path = tmp_path_factory.mktemp("hostile") / "cluster.json"
    file.write_text(json.dumps(HOSTILE))
    with running_web("--cluster", str(file)) as web:
        yield web


def test_markup_in_objects_is_data_in_json_with_its_own_type(hostile: RunningWeb) -> None:
    answer = hostile.ask("/api/v1/nodes/n1")
    assert answer.headers["Content-Type"] == "application/json"
    assert MARKUP not in hostile.ask("/node/n1").body.decode()


def test_a_what_if_of_very_many_pods_is_refused_with_advice(telco: RunningWeb) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 5_000, "selector": {"matchLabels": {"a": "b"}}, "template": pods}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    headers = {"Content-Type": "application/json"}
    answer = telco.ask("/api/v1/what-if", json.dumps(body).encode(), headers)
    advice = "stands for more than 2000 pods, the limit; use bayplan place instead"
    assert (answer.status, answer.json["error"]) == (400, f"Deployment default/web (manifest:1:78): spec: {advice}")


def test_a_what_if_that_stands_for_very_many_pods_is_refused_before_they_are_made(telco: RunningWeb) -> None:
    containers = {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}
    job = {"spec": {"parallelism": 100_000, "completions": 100_000, "template": {"spec": containers}}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 1_000, "template": job}]}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}, "spec": spec}
    group = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    group["spec"] = {"size": 50_000, "pod": {"resources": {"cpu": "1"}}}
    for each in (body, group):
        answer = telco.ask("/api/v1/what-if", json.dumps(each).encode(), {"Content-Type": "application/json"})
        assert answer.status == 400
        assert answer.json["error"].endswith("; use bayplan place instead")


def test_a_packed_manifest_is_as_large_as_what_it_unpacks_to(telco: RunningWeb) -> None:
    packed = gzip.compress(b"#" + b" " * (2 << 20))
    answer = telco.ask("/api/v1/what-if", packed, {"Content-Type": "application/yaml"})
    assert (answer.status, answer.json["error"]) == (400, "file manifest: is larger than 1Mi when it is unpacked")


def test_a_reader_who_reloads_the_page_again_and_again_is_served() -> None:
    # A server of its own: the other tests are clients of theirs, and have used up what a client may ask.
    with running_web("--cluster", str(EXAMPLES / "cluster")) as web:
        assert {web.ask_once("/static/app.js").status for _ in range(300)} == {200}


def test_the_search_names_one_gang_before_its_pods_and_names_before_namespaces(gangs: RunningWeb) -> None:
    found = [(each["type"], each["name"]) for each in gangs.api("search?q=ml")["items"]]
    assert found[0] == ("gang", "finetune"), "all of them are in the namespace ml"
    found = [(each["type"], each["name"]) for each in gangs.api("search?q=b1-r2")["items"]]
    assert [kind for kind, _ in found[:5]] == ["node"] * 5
    assert [name for kind, name in found if kind == "pod"] == ["busy-b1-r2-n2", "busy-b1-r2-n4"]


def test_a_browser_gets_the_page_for_an_unknown_address_and_a_program_a_sentence(gangs: RunningWeb) -> None:
    browsed = gangs.ask("/no-such-page", headers={"Accept": "text/html,*/*"})
    assert (browsed.status, browsed.headers.get_content_type()) == (404, "text/html")
    assert browsed.headers["Content-Security-Policy"]
    for path in ("/no-such-page", "/api/v1/no-such"):
        asked = gangs.ask(path, headers={"Accept": "*/*"})
        assert (asked.status, "no such page" in asked.json["error"]) == (404, True)
    assert gangs.ask("/api/v1/no-such", headers={"Accept": "text/html"}).json["error"]


def test_a_gang_is_listed_with_its_name(gangs: RunningWeb) -> None:
    (gang,) = gangs.api("gangs")["items"]
    assert (gang["gang"], gang["namespace"], gang["name"]) == ("ml/finetune", "ml", "finetune")


@pytest.mark.parametrize(
    "inside,names",
    [
        ("b1/r2", {f"b1-r2-n{number}" for number in range(1, 6)}),
        ("outside the topology", {"login-1", "login-2", "spare-1"}),
    ],
)
def test_nodes_are_those_of_a_domain(gangs: RunningWeb, inside: str, names: set[str]) -> None:
    listed = gangs.api(f"nodes?topology=network&in={quote(inside)}")
    assert {each["node"] for each in listed["items"]} == names
    assert listed["answer"].startswith(f"{len(names)} nodes: ")


@pytest.mark.parametrize("inside", ["b1/r9", "b1/r2/b1-r2-n1", "r2"])
def test_nodes_of_a_domain_that_does_not_exist_are_an_error(gangs: RunningWeb, inside: str) -> None:
    answer = gangs.ask(f"/api/v1/nodes?in={inside}")
    assert (answer.status, answer.json["error"]) == (404, f"in: there is no '{inside}' in topology 'network'")


def test_ages_on_the_map_are_counted_to_the_newest_moment_of_a_dump(tmp_path: Path) -> None:
    pod = pod_body("p", "ns", {"cpu": "1"})
    pod["metadata"]["creationTimestamp"] = "2026-05-01T10:00:00Z"
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body([node_body("n1", {"cpu": "8"}), pod])))
    with running_web("--cluster", str(file)) as web:
        assert web.api("map")["clock"] == datetime(2026, 5, 1, 10, tzinfo=UTC).timestamp()
