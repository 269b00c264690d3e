"""`bayplan numa` draws a node, and says so when it cannot."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan


@pytest.mark.parametrize("node", ["telco-1", "telco-2", "telco-3", "amd-1", "amd-2", "gpu-1"])
def test_every_node_of_the_examples_can_be_drawn(bayplan: Bayplan, node: str) -> None:
    text = bayplan("numa", node)
    assert (text.code, text.err) == (0, "")
    assert text.answer.startswith(f"{node}: ")
    assert max(len(line) for line in text.out.splitlines()) <= 100
    svg = bayplan("numa", node, "-o", "svg")
    assert ET.fromstring(svg.out).tag == "{http://www.w3.org/2000/svg}svg"


def test_pods_placed_first_are_shown(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("numa", "telco-2", "-f", pods)
    assert "→ telco/gateway-0 (sessions)  placed now" in result.out


def test_json_has_zones_and_pods(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("numa", "amd-1", "-o", "json").out)
    assert [zone["package"] for zone in document["zones"]] == ["package 0"] * 4 + ["package 1"] * 4
    assert document["zones"][4]["pods"][0]["zones"] == [4, 5]
    assert document["cpuManager"] == "static (assumed)"


@pytest.mark.parametrize(
    "node, message",
    [
        ("telco-9", "error: there is no node 'telco-9' in the dump; did you mean telco-"),
        ("x", "error: there is no node 'x' in the dump; the dump has 6 nodes"),
    ],
)
def test_an_unknown_node_is_an_error(bayplan: Bayplan, node: str, message: str) -> None:
    result = bayplan("numa", node)
    assert result.code == 2
    assert result.err.startswith(message)


def test_a_node_without_topology_is_an_error(bayplan: Bayplan) -> None:
    result = bayplan("numa", "telco-1", cluster=EXAMPLES / "cluster" / "nodes.yaml")
    first, second = result.err.splitlines()
    assert first == "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node"
    assert (result.code, second) == (2, "error: Node telco-1: has no NodeResourceTopology in the dump")
