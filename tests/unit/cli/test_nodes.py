"""`bayplan nodes`: what is known of every node's NUMA zones."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import list_body
from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.gang_files import CLUSTER

MADE_AT = 1_700_000_000


def items(bayplan: Bayplan, *arguments: str, cluster: object = EXAMPLES / "cluster") -> dict[str, dict[str, Any]]:
    result = bayplan("nodes", "-o", "json", *arguments, cluster=cluster)
    assert result.code == 0
    return {item["node"]: item for item in json.loads(result.out)["items"]}


def test_the_first_line_counts_nodes_by_what_is_known_of_them(bayplan: Bayplan) -> None:
    answer = "6 nodes: 6 with a NUMA report; 1 closed (1 cordoned); 2 fragmented; 1 pod refused by kubelets"
    assert bayplan("nodes").answer == answer
    answer = bayplan("nodes", cluster=CLUSTER).answer
    assert answer.startswith("43 nodes: 15 with a NUMA report, 28 without a report; ")


def test_a_node_has_its_policy_zones_and_the_largest_pod_that_one_zone_takes(bayplan: Bayplan) -> None:
    telco = items(bayplan)["telco-1"]
    assert (telco["policy"], telco["scope"], telco["zones"], telco["report"]) == ("single-numa-node", "pod", 2, "fresh")
    assert telco["largestAligned"] == {
        "zone": 0,
        "amounts": {"cpu": "22", "memory": "78Gi", "example.com/sriov-vf": "6"},
    }
    # 39.9 CPUs are free on the node; a zone has 30, and one has 22 free.
    assert telco["fragmentation"]["cpu"] == pytest.approx(1 - 22 / 30, abs=1e-4)


def test_the_largest_aligned_pod_is_one_that_place_accepts_and_one_cpu_more_is_not(
    bayplan: Bayplan, tmp_path: Path
) -> None:
    for name, more, code in (("fits", 0, 0), ("too-large", 1, 1)):
        amounts = dict(items(bayplan)["telco-1"]["largestAligned"]["amounts"])
        amounts["cpu"] = str(int(amounts["cpu"]) + more)
        written = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "telco-1"},
                "containers": [{"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}],
            },
        }
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(written))
        assert bayplan("place", "-f", file).code == code


def test_a_node_without_a_report_shows_nothing_of_zones(bayplan: Bayplan) -> None:
    node = items(bayplan, cluster=CLUSTER)["b1-r1-n1"]
    assert (node["report"], node["policy"], node["zones"]) == ("none", None, 0)
    assert (node["largestAligned"], node["fragmentation"]) == (None, {})
    line = next(line for line in bayplan("nodes", cluster=CLUSTER).out.splitlines() if line.startswith("  b1-r1-n1"))
    assert line.split()[1:5] == ["Ready", "none", "-", "-"]


def test_refused_pods_are_counted_where_the_kubelet_refused_them(bayplan: Bayplan) -> None:
    assert items(bayplan)["telco-2"]["refused"] == {"TopologyAffinityError": 1}
    assert "1 TopologyAffinityError" in bayplan("nodes", "-o", "wide").out


def written(name: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Failed", **status},
    }


@pytest.mark.parametrize(
    "reason, refused", [("OutOfcpu", True), ("SMTAlignmentError", True), ("Evicted", False), ("", False)]
)
def test_pods_that_failed_for_another_reason_are_none_of_the_kubelets_refusals(
    bayplan: Bayplan, tmp_path: Path, reason: str, refused: bool
) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body([node, written("p", reason=reason)])))
    assert items(bayplan, cluster=file)["n1"]["refused"] == ({reason: 1} if refused else {})


def test_a_report_has_an_age_at_the_newest_time_of_its_dump(bayplan: Bayplan, tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    report = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "attributes": [{"name": "bayplan.io/made-at", "value": str(MADE_AT)}],
        "zones": [{"name": "node-0", "type": "Node", "resources": []}],
    }
    file = tmp_path / "cluster.json"
    later = written("p", reason="Evicted")
    later["metadata"]["creationTimestamp"] = datetime.fromtimestamp(MADE_AT + 240, UTC).isoformat()
    file.write_text(json.dumps(list_body([node, report, later])))
    assert items(bayplan, cluster=file)["n1"]["reportAgeSeconds"] == 240
    assert "  n1    Ready   4m " in bayplan("nodes", cluster=file).out


@pytest.mark.parametrize(
    "arguments, names",
    [
        (["telco-1", "node/gpu-1"], ["telco-1", "gpu-1"]),
        (["-l", "kubernetes.io/hostname in (amd-1,amd-2)"], ["amd-1", "amd-2"]),
        (["-l", "kubernetes.io/hostname=amd-1"], ["amd-1"]),
        (["-l=kubernetes.io/hostname!=amd-1", "amd-1", "amd-2"], ["amd-2"]),
        (["-l", "!kubernetes.io/hostname"], []),
        (["--field-selector", "spec.unschedulable=true"], ["telco-3"]),
        (["--field-selector=metadata.name!=telco-3", "telco-3", "gpu-1"], ["gpu-1"]),
    ],
)
def test_nodes_are_chosen_as_with_kubectl(bayplan: Bayplan, arguments: list[str], names: list[str]) -> None:
    result = bayplan("nodes", "-o", "name", *arguments)
    assert result.out.split() == [f"node/{name}" for name in names]
    assert result.code == 0
    assert ("No resources found." in result.err) is not bool(names)


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["-l", "a=b=c"], "-l: 'a=b=c' is not a label selector: found '=', expected ','"),
        (["-l", "a in b"], "found 'b', expected '('"),
        (["-l", "a in ()"], "the list of values must not be empty"),
        (["-l", "a/b/c=1"], "label 'a/b/c' must have at most one '/'"),
        (["-l", "a=-x"], "value '-x' of label 'a' must be empty or consist of letters"),
        (["-l", ">>>"], "found '>', expected a label"),
        (["-l", "a,"], "found end of text, expected a label after ','"),
        (["-l", "!a=1"], "found '=', expected ','"),
        (["-l", "cores>many"], "value 'many' of label 'cores' must be a whole number"),
        (["--field-selector", "metadata.name=a=b"], "is not of the form FIELD=VALUE"),
        (["--field-selector", "status.phase=Running"], "fields are metadata.name, spec.unschedulable"),
        (["--field-selector", "metadata.name"], "is not of the form FIELD=VALUE"),
        (["telco-9"], "there is no node 'telco-9' in the dump; did you mean telco-"),
        (["-r", "gpuu"], "did you mean nvidia.com/gpu?"),
    ],
)
def test_what_cannot_be_selected_by_is_told(bayplan: Bayplan, arguments: list[str], problem: str) -> None:
    result = bayplan("nodes", *arguments)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


@pytest.mark.parametrize(
    "selector, names",
    [
        ("nvidia.com/gpu.count>4", ["b"]),
        ("nvidia.com/gpu.count<8", ["a"]),
        ("nvidia.com/gpu.count<9,nvidia.com/gpu.count notin (4,5)", ["b"]),
        ("nvidia.com/gpu.count", ["a", "b", "text"]),
        ("!nvidia.com/gpu.count", ["none"]),
    ],
)
def test_labels_are_compared_as_whole_numbers(
    bayplan: Bayplan, tmp_path: Path, selector: str, names: list[str]
) -> None:
    counts = {"a": "4", "b": "8", "text": "many"}
    labels = {name: {"nvidia.com/gpu.count": counts[name]} if name in counts else {} for name in (*counts, "none")}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels[name]}} for name in labels
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(nodes)))
    shown = bayplan("nodes", "-o", "name", "-l", selector, cluster=file).out.split()
    assert sorted(shown) == [f"node/{name}" for name in names]


def test_a_common_domain_is_said_once(bayplan: Bayplan, tmp_path: Path) -> None:
    names = [f"ip-10-0-0-{number}.eu-west-1.compute.internal" for number in (7, 12)]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(nodes)))
    text = bayplan("nodes", cluster=file).out
    assert "  ip-10-0-0-7   Ready   none" in text
    assert text.count(".eu-west-1.compute.internal") == 1
    assert set(items(bayplan, cluster=file)) == set(names)
