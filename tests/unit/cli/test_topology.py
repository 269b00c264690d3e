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
    assert (result.code, result.answer) == (0, "network: 2 blocks, 8 racks, 40 nodes; 3 nodes outside")


def test_every_domain_has_its_line_and_outsiders_the_label_they_lack(bayplan: Bayplan) -> None:
    lines = bayplan("topology", "network", "-r", "gpu", cluster=CLUSTER).out.splitlines()
    assert [line.split() for line in lines[2:6]] == [
        ["domain", "nodes", "gpu", "free", "hosts"],
        ["block", "b1", "20", "94", "of", "160"],
        ["rack", "r1", "5", "20", "of", "40", "b1-r1-n[1-5]"],
        ["rack", "r2", "5", "28", "of", "40", "b1-r2-n[1-5]"],
    ]
    assert lines[-2:] == [
        "Outside:  login-[1-2]  no label example.com/block",
        "          spare-1      no label example.com/rack",
    ]


@pytest.mark.parametrize(
    "level, lines", [("block", 2), ("example.com/rack", 2 + 8), ("node", 2 + 8 + 40), ("kubernetes.io/hostname", 50)]
)
def test_a_level_says_how_far_down(bayplan: Bayplan, level: str, lines: int) -> None:
    text = bayplan("topology", "--level", level, cluster=CLUSTER).out
    assert len(text.split("\n\n")[1].splitlines()) == 1 + lines


def test_counts_are_what_kubelets_would_admit(bayplan: Bayplan) -> None:
    result = bayplan("topology", "--requests", WORKER, "-r", "nvidia.com/gpu", cluster=CLUSTER)
    assert result.answer.endswith("; 52 such pods fit")
    # 28 free GPUs would be 7 pods of 4 GPUs; those of b1-r2-n2 lie in two zones.
    assert "    rack r2      5    28 of 40    6  b1-r2-n[1-5]" in result.out
    assert "  in one block    32  b2" in result.out


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
    assert hints[3] == "b1-r1-n4: 4 gpu free"


def test_labels_that_no_node_carries(bayplan: Bayplan, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: other}\nspec: {levels: [{nodeLabel: x.io/row}]}\n"
    )
    result = bayplan("topology", "other", "--cluster", other, cluster=CLUSTER)
    assert (result.code, result.answer) == (1, "other: no node carries all of its labels; 43 nodes outside")
    several = bayplan("topology", "--cluster", other, cluster=CLUSTER)
    assert (several.code, several.out) == (2, "")
    assert "several Topologies: other, network; name one" in several.err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["netwrk"], "there is no Topology 'netwrk' in the dump; there are network"),
        (["--level", "row"], "--level: 'row' is not known; there are example.com/block, example.com/rack"),
        (["-r", "tpu"], "-r: 'tpu' is not known; there are cpu, memory, pods"),
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
    assert result.err.startswith("error: the cluster holds no Topology")


def test_two_topologies_of_one_name_with_different_levels_are_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: network}\n"
        "spec: {levels: [{nodeLabel: example.com/rack}]}\n"
    )
    result = bayplan("topology", "--cluster", CLUSTER, "--cluster", file, cluster=None)
    assert (
        "warning: Topology network: there are two with different levels; example.com/rack counts, the last"
        in result.err
    )
