"""A topology as data, and as a picture, for trees of different depth."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.tree import Tree, build_tree
from bayplan.explain.topology_map import TopologyMap, default_resources, topology_map
from bayplan.explain.topology_svg import topology_svg
from bayplan.explain.topology_text import topology_text
from tests.helpers import GPU, cluster, node, simple_pod

SVG = "{http://www.w3.org/2000/svg}"


def small_cluster() -> ClusterState:
    """Blocks b1 (racks r1, r2) and b2 (rack r1), two nodes in each rack, 4 GPUs on each node; one node without a rack."""
    places = [("b1", "r1"), ("b1", "r2"), ("b2", "r1")]
    nodes = [
        node(f"{block}-{rack}-n{number}", {"cpu": 8, GPU: 4}, labels={"block": block, "rack": rack})
        for block, rack in places
        for number in (1, 2)
    ]
    taken = simple_pod({"cpu": 2, GPU: 3}, "taken", nodeName="b1-r1-n1")
    return cluster(nodes=[*nodes, node("lost", {"cpu": 8}, labels={"block": "b1"})], pods=[taken])


def drawn_for(state: ClusterState, *levels: str) -> tuple[Tree, TopologyMap]:
    tree = build_tree(state, "net", levels)
    return tree, topology_map(state, tree, default_resources(state, tree))


def test_amounts_add_up_from_nodes_to_racks_to_blocks() -> None:
    _, drawn = drawn_for(small_cluster(), "block", "rack")
    assert [(domain.path, domain.free[GPU], domain.total[GPU]) for domain in drawn.domains] == [
        (("b1",), 13, 16),
        (("b2",), 8, 8),
    ]
    assert [(rack.path, rack.free[GPU], rack.nodes) for rack in drawn.at(2)] == [
        (("b1", "r1"), 5, ("b1-r1-n1", "b1-r1-n2")),
        (("b1", "r2"), 8, ("b1-r2-n1", "b1-r2-n2")),
        (("b2", "r1"), 8, ("b2-r1-n1", "b2-r1-n2")),
    ]
    assert drawn.at(3)[0].free == {"cpu": 6000, "memory": 0, GPU: 1}
    assert drawn.outside == {"lost": "rack"}


def test_only_devices_that_some_node_has_are_shown() -> None:
    state = small_cluster()
    state.columns.resource("example.com/unheard-of")
    tree = build_tree(state, "net", ["block"])
    assert default_resources(state, tree) == ["cpu", "memory", GPU]


def test_slots_and_what_an_idle_node_would_hold() -> None:
    state = small_cluster()
    tree = build_tree(state, "net", ["block", "rack"])
    pod = state.classes.of(simple_pod({"cpu": 1, GPU: 2}))
    drawn = topology_map(state, tree, [GPU], pod, np.array([0, 2, 2, 2, 2, 2]))
    assert (drawn.slots, [domain.slots for domain in drawn.domains]) == (10, [6, 4])
    assert [(each.slots, each.slots_if_idle) for each in drawn.at(3)][:2] == [(0, 2), (2, 2)]
    assert [room.most for room in drawn.rooms] == [6, 4, 2]


@pytest.mark.parametrize(
    "levels, answer",
    [
        (("block", "rack"), "net: 2 blocks, 3 racks, 6 nodes; 1 node outside"),
        (("block",), "net: 2 blocks, 7 nodes"),
        (("kubernetes.io/hostname",), "net: 7 nodes"),
        (("row", "rack"), "net: no node carries all of its labels; 7 nodes outside"),
    ],
)
def test_the_answer_and_a_picture_for_trees_of_any_depth(levels: tuple[str, ...], answer: str) -> None:
    tree, drawn = drawn_for(small_cluster(), *levels)
    assert topology_text(drawn, max(len(tree.levels), 1)).partition("\n")[0] == answer
    picture = ET.fromstring(topology_svg(drawn))
    hints = [title.text for title in picture.iter(f"{SVG}title")][1:]
    assert len(hints) == tree.size


def test_equal_rack_names_in_two_blocks_are_two_racks() -> None:
    _, drawn = drawn_for(small_cluster(), "block", "rack")
    assert [rack.path for rack in drawn.at(2)].count(("b1", "r1")) == 1
    assert ("b2", "r1") in [rack.path for rack in drawn.at(2)]


def test_the_picture_shows_a_gangs_pods_instead_of_what_is_free() -> None:
    _, drawn = drawn_for(small_cluster(), "block", "rack")
    marked = replace(drawn, marked={"b2-r1-n1": 3}, title="ml/x fits")
    words = [text.text for text in ET.fromstring(topology_svg(marked)).iter(f"{SVG}text")]
    assert words[0] == "ml/x fits"
    assert "3 pods" in words
    assert "3" in words


def test_names_from_labels_cannot_break_the_picture() -> None:
    state = cluster(nodes=[node('n<1>&"', {"cpu": 1}, labels={"rack": "r<b>"})])
    _, drawn = drawn_for(state, "rack")
    hints = [title.text for title in ET.fromstring(topology_svg(drawn)).iter(f"{SVG}title")]
    assert hints[1] is not None
    assert hints[1].startswith('n<1>&"')
