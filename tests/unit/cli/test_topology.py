"""`bayplan topology` on the cluster of examples/gangs."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER

WORKER = "cpu=16,memory=160Gi,nvidia.com/gpu=4"


def test_the_first_line_counts_domains_and_nodes(bayplan: Bayplan) -> None:
    result = bayplan("topology", cluster=CLUSTER)
    assert (result.code, result.answer) == (0, "network: 2 blocks, 8 racks, 40 nodes; 3 nodes outside; 1 node closed")


def test_every_domain_has_its_line_and_outsiders_the_label_they_lack(bayplan: Bayplan) -> None:
    lines = bayplan("topology", "network", "-r", "gpu", cluster=CLUSTER).out.splitlines()
    assert [line.split() for line in lines[2:6]] == [
        ["domain", "nodes", "gpu", "free", "fit", "frag", "hosts"],
        ["block", "b1", "20", "86", "of", "160", "86", "12", "%", "gpu"],
        ["rack", "r1", "5", "20", "of", "40", "20", "-", "b1-r1-n[1-5]"],
        ["rack", "r2", "5", "28", "of", "40", "28", "12", "%", "gpu", "b1-r2-n[1-5]"],
    ]
    assert lines[-2:] == [
        "Outside:  login-[1-2]  no label example.com/block",
        "          spare-1      no label example.com/rack",
    ]


@pytest.mark.parametrize(
    "level, lines",
    [
        ("block", 2),
        ("example.com/rack", 2 + 8),
        ("node", 2 + 8 + 40),
        ("kubernetes.io/hostname", 50),
        ("numa", 50 + 30),
    ],
)
def test_a_level_says_how_far_down(bayplan: Bayplan, level: str, lines: int) -> None:
    text = bayplan("topology", "--level", level, cluster=CLUSTER).out
    assert len(text.split("\n\n")[1].splitlines()) == 1 + lines


def test_counts_are_what_kubelets_would_admit(bayplan: Bayplan) -> None:
    result = bayplan("topology", "--requests", WORKER, "-r", "nvidia.com/gpu", cluster=CLUSTER)
    assert result.answer.endswith("; 52 such pods fit")
    # 28 free GPUs would be 7 pods of 4 GPUs; those of b1-r2-n2 lie in two zones.
    assert "    rack r2      5    28 of 40    6  14 % gpu  12 % gpu  b1-r2-n[1-5]" in result.out
    assert "  in one block    32  b2" in result.out


@pytest.mark.parametrize(
    "resource, unit, pods",
    [("gpu", "nvidia.com/gpu 1", 134), ("cpu", "cpu 1", 1816), ("memory", "memory 1Gi", 2196)],
)
def test_without_a_shape_the_largest_gang_is_one_of_single_units(
    bayplan: Bayplan, resource: str, unit: str, pods: int
) -> None:
    text = bayplan("topology", "-r", resource, cluster=CLUSTER).out
    assert f"  largest gang  pods of {unit}  where\n" in text
    (line,) = (line for line in text.splitlines() if line.startswith("  in one block"))
    assert line.split() == ["in", "one", "block", str(pods), "b2"]


class TestNumaZones:
    def test_they_are_the_level_below_the_nodes_where_a_report_names_them(self, bayplan: Bayplan) -> None:
        result = bayplan("topology", "-r", "gpu", "--level", "numa", cluster=CLUSTER)
        assert result.answer.startswith("network: 2 blocks, 8 racks, 40 nodes, 30 NUMA zones; ")
        lines = [line.split() for line in result.out.splitlines()]
        # Two GPUs are free in each of its zones: no pod that asks for four has a place there.
        at = lines.index(["b1-r2-n2", "1", "4", "of", "8", "4", "50", "%", "gpu"])
        assert lines[at + 1 : at + 3] == [["zone", "0", "2", "of", "4"], ["zone", "1", "2", "of", "4"]]

    def test_in_a_document_and_a_picture(self, bayplan: Bayplan) -> None:
        document = json.loads(bayplan("topology", "--level", "numa", "-o", "json", cluster=CLUSTER).out)
        node = document["domains"][0]["domains"][1]["domains"][1]
        assert (document["zones"], node["path"][-1]) == (30, "b1-r2-n2")
        (zone, _) = node["domains"]
        assert (zone["level"], zone["path"][-1], zone["slots"]) == ("numa", "0", None)
        assert (zone["free"]["nvidia.com/gpu"], zone["allocatable"]["nvidia.com/gpu"]) == ("2", "4")
        picture = bayplan("topology", "--level", "numa", "-o", "svg", cluster=CLUSTER).out
        hint = "b1-r2-n2: 4 gpu free of 8 · 4 fit, NUMA zone 0 2 gpu free of 4, NUMA zone 1 2 gpu free of 4"
        assert (hint in picture, "Strips: gpu of NUMA zones" in picture) == (True, True)


class TestDistance:
    def test_every_domain_has_its_distance_from_a_node_in_edges(self, bayplan: Bayplan) -> None:
        asked = ("topology", "--distance", "b1-r1-n2", "--level", "node")
        lines = [line.split() for line in bayplan(*asked, "-r", "gpu", cluster=CLUSTER).out.splitlines()]
        distance = {line[0] if "-" in line[0] else line[1]: line for line in lines if len(line) > 3}
        assert [distance[name][2] for name in ("b1-r1-n2", "b1-r1-n1", "b1-r2-n1", "b2-r1-n1")] == ["0", "2", "4", "6"]
        assert [distance[name][3] for name in ("b1", "b2")] == ["2", "4"]
        document = json.loads(bayplan(*asked, "-o", "json", cluster=CLUSTER).out)
        assert (document["distanceFrom"], document["domains"][1]["distance"]) == ("b1-r1-n2", 4)

    def test_a_node_that_is_in_no_domain_has_none(self, bayplan: Bayplan) -> None:
        result = bayplan("topology", "--distance", "spare-1", cluster=CLUSTER)
        assert result.code == 2
        assert "--distance: node 'spare-1' is outside, no label example.com/rack" in result.err


def test_as_a_document(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("topology", "--requests", WORKER, "-o", "json", cluster=CLUSTER).out)
    assert (document["kind"], document["nodes"], document["slots"]) == ("TopologyMap", 40, 52)
    assert [room["most"] for room in document["largestGang"]] == [32, 8, 2]
    rack = document["domains"][1]["domains"][2]
    assert (rack["level"], rack["path"], rack["nodes"], rack["slots"]) == ("example.com/rack", ["b2", "r3"], 5, 8)
    assert rack["free"]["nvidia.com/gpu"] == "36"
    assert {"node": "spare-1", "lacks": "example.com/rack"} in document["outside"]


def test_as_a_picture(bayplan: Bayplan) -> None:
    picture = ET.fromstring(bayplan("topology", "-o", "svg", cluster=CLUSTER).out)
    hints = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}title")][1:]
    assert len(hints) == 40
    assert hints[3] == "b1-r1-n4: 4 gpu free of 8 · 4 fit"


def test_labels_that_no_node_carries(bayplan: Bayplan, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: other}\nspec: "
        "{levels: [{nodeLabel: x.io/row}]}\n"
    )
    result = bayplan("topology", "other", "--cluster", other, cluster=CLUSTER)
    assert (result.code, result.answer) == (1, "other: no node carries all of its labels; 43 nodes outside")
    several = bayplan("topology", "--cluster", other, cluster=CLUSTER)
    assert (several.code, several.out) == (2, "")
    assert "several Topologies: other, network; name one" in several.err


def test_a_device_with_a_name_that_no_pod_can_ask_for_is_no_error(bayplan: Bayplan, tmp_path: Path) -> None:
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": "net"},
        "spec": {"levels": [{"nodeLabel": "x.io/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    labels = {"x.io/rack": "r1", "kubernetes.io/hostname": "n1"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "status": {"allocatable": {"cpu": "8", "pods": "9", "x.io/odd\u202ename": "4"}},
    }
    (tmp_path / "odd.json").write_text(json.dumps({"kind": "List", "items": [topology, node]}))
    result = bayplan("topology", cluster=tmp_path / "odd.json")
    assert (result.code, result.answer) == (0, "net: 1 rack, 1 node"), result


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["netwrk"], "there is no Topology 'netwrk' in the dump; known: network"),
        (
            ["--level", "row"],
            '--level: "row" is not a level; known: example.com/block, example.com/rack, node, numa',
        ),
        (["-r", "tpu"], "-r: 'tpu' is not known; expected cpu, memory, pods"),
        (["--requests", "cpu"], "--requests: 'cpu' is not an amount; expected such as cpu=8"),
        (["--requests", "cpu=1,cpu=2"], "--requests: 'cpu' appears twice"),
        (["--requests", "cpu=1x"], '--requests: cpu: invalid quantity "1x"'),
        (["--requests", "cpu=1", "-f", "x.yaml"], "--requests and -f both say what a pod looks like"),
    ],
)
def test_what_cannot_be_answered(bayplan: Bayplan, arguments: list[str], message: str) -> None:
    result = bayplan("topology", *arguments, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_cluster_without_topologies(bayplan: Bayplan) -> None:
    result = bayplan("topology")
    assert result.code == 2
    assert result.err.startswith("error: the dump holds no Topology")


def test_kueue_and_kai_may_each_have_a_topology_of_one_name(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: network}\n"
        "spec: {levels: [{nodeLabel: example.com/rack}]}\n"
    )
    unnamed = bayplan("topology", "--cluster", CLUSTER, "--cluster", file, cluster=None)
    assert (unnamed.code, unnamed.out) == (2, "")
    assert "several Topologies: kueue/network, kai/network; name one" in unnamed.err
    named = bayplan("topology", "kai/network", "--cluster", CLUSTER, "--cluster", file, cluster=None)
    assert (named.code, named.answer.partition(",")[0]) == (0, "kai/network: 4 racks")


def test_topologies_with_the_same_levels_are_one(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: kai-network}\n"
        "spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}]}\n"
    )
    result = bayplan("topology", "--cluster", CLUSTER, "--cluster", file, cluster=None)
    assert (result.code, result.answer) == (0, "network: 2 blocks, 8 racks, 40 nodes; 3 nodes outside; 1 node closed")


def test_levels_need_no_topology_object(bayplan: Bayplan) -> None:
    result = bayplan("topology", "--levels", "block,rack", "-r", "gpu", cluster=CLUSTER)
    assert (result.code, result.answer) == (
        0,
        "node labels: 2 blocks, 8 racks, 40 nodes; 3 nodes outside; 1 node closed",
    )
    by_topology = bayplan("topology", "-r", "gpu", cluster=CLUSTER).out.partition("\n")[2]
    assert result.out.partition("\n")[2] == by_topology


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--levels", "blok"], 'no node has a label "blok"; did you mean example.com/block? See'),
        (["--levels", "rack,rack"], '"example.com/rack" appears twice'),
        (["--levels", "node,rack"], '"kubernetes.io/hostname" can only be the lowest level'),
        (["network", "--levels", "rack"], "leave out 'network' or --levels"),
        (["--levels", ""], 'no node has a label ""'),
    ],
)
def test_labels_that_make_no_tree_are_told(bayplan: Bayplan, arguments: list[str], problem: str) -> None:
    result = bayplan("topology", *arguments, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


def test_a_cluster_without_a_topology_is_told_about_levels(bayplan: Bayplan) -> None:
    result = bayplan("topology")
    assert result.code == 2
    assert "the dump holds no Topology" in result.err
    assert "--levels topology.kubernetes.io/zone" in result.err


def test_each_domain_has_its_fragmentation_over_nodes_with_reports(bayplan: Bayplan) -> None:
    """b1-r2-n2 has 4 free GPUs, 2 in each zone: half of what could lie together.

    Its rack has three more nodes with 4 in a zone.
    """
    document = json.loads(bayplan("topology", "-r", "gpu", "-o", "json", cluster=CLUSTER).out)
    racks = {tuple(rack["path"]): rack for block in document["domains"] for rack in block["domains"]}
    assert racks["b1", "r2"]["fragmentation"] == {"nvidia.com/gpu": 0.125}
    assert racks["b1", "r1"]["fragmentation"] == {}
    nodes = {node["path"][-1]: node for node in racks["b1", "r2"]["domains"]}
    assert nodes["b1-r2-n2"]["fragmentation"] == {"nvidia.com/gpu": 0.5}


def test_what_pods_of_a_shape_cannot_use_is_stranded(bayplan: Bayplan) -> None:
    """36 GPUs are free in b2/r3; pods of 4 can have 32 of them."""
    document = json.loads(bayplan("topology", "-r", "gpu", "--requests", WORKER, "-o", "json", cluster=CLUSTER).out)
    racks = {tuple(rack["path"]): rack for block in document["domains"] for rack in block["domains"]}
    assert racks["b2", "r3"]["stranded"] == {"resource": "nvidia.com/gpu", "share": round(4 / 36, 4)}
    assert racks["b1", "r1"]["stranded"] == {"resource": "nvidia.com/gpu", "share": 0.0}


@pytest.mark.parametrize("command", [["topology"], ["slots", "--pods", "2"]])
@pytest.mark.parametrize(
    "requests, code, said",
    [
        ("gpu=4", 0, ""),
        ("gpus=4", 2, "error: --requests: no node has gpus; did you mean nvidia.com/gpu? See"),
        ("tpu=4", 2, "error: --requests: no node has tpu"),
        ("nvidia.com/gpus=4", None, "warning: --requests: no node has nvidia.com/gpus; did you mean nvidia.com/gpu?"),
        ("example.com/fpga=1", None, "warning: --requests: no node has example.com/fpga\n"),
    ],
)
def test_requests_take_short_names_or_say_what_may_be_meant(
    bayplan: Bayplan, command: list[str], requests: str, code: int | None, said: str
) -> None:
    result = bayplan(*command, "--requests", requests, cluster=CLUSTER)
    assert code is None or result.code == code
    assert result.err.startswith(said)
    if requests == "gpu=4":
        assert "nvidia.com/gpu 4" in result.out


def test_wide_names_every_host(bayplan: Bayplan) -> None:
    narrow, wide = (
        bayplan("topology", "--level", "block", "-r", "gpu", "-o", form, cluster=CLUSTER).out
        for form in ("text", "wide")
    )
    assert " more" in narrow
    assert " more" not in wide
    assert "b1-r1-n[1-5], b1-r2-n[1-5], b1-r3-n[1-5], b1-r4-n[1-5]" in wide
