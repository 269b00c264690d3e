"""A topology as data, and as a picture, for trees of different depth."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree, build_tree
from bayplan.explain.gangs.outcome import Party, parties_of
from bayplan.explain.theme import LIGHT
from bayplan.explain.topology.map import TopologyMap, default_resources, topology_map
from bayplan.explain.topology.svg import topology_svg
from bayplan.explain.topology.text import topology_text
from bayplan.gangs.model import Seat
from bayplan.kube.wire.core_v1 import Node
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, node, simple_pod, topology, zone

SVG = "{http://www.w3.org/2000/svg}"


def small_cluster() -> ClusterState:
    """Blocks b1 (racks r1, r2) and b2 (rack r1), two nodes in each rack, 4 GPUs on each node;
    one node without a rack.
    """
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
    return tree, topology_map(state, tree, default_resources(state, tree.rows))


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
    assert default_resources(state, tree.rows) == ["cpu", "memory", GPU]


RDMA, KVM = "example.com/rdma", "example.com/kvm"


@pytest.mark.parametrize(
    "nodes, devices",
    [
        # Of as many nodes, the device that a node has fewest of; then by the last part of the name.
        ([node("n1", {KVM: 1000, GPU: 8, RDMA: 8})], [GPU, RDMA, KVM]),
        ([node("n1", {GPU: 8, RDMA: 4}), node("n2", {GPU: 8})], [GPU, RDMA]),
        ([node("n1", {KVM: 1000}), node("n2", {KVM: 1000, GPU: 8})], [KVM, GPU]),
        # What nodes are kept for comes first.
        (
            [node("n1", {RDMA: 4}), node("n2", {RDMA: 4, GPU: 8}, taints=[{"key": GPU, "effect": "NoSchedule"}])],
            [GPU, RDMA],
        ),
    ],
)
def test_devices_are_shown_in_the_order_in_which_they_matter(nodes: list[Node], devices: list[str]) -> None:
    state = cluster(nodes=nodes)
    assert default_resources(state, np.arange(len(nodes)))[2:] == devices


def test_devices_that_zones_report_come_before_others() -> None:
    report = topology(zone(0, {"cpu": 8, GPU: 8}), name="n1")
    state = cluster(report, nodes=[node("n1", {KVM: 4, GPU: 8}), node("n2", {KVM: 4})])
    assert default_resources(state, np.arange(2))[2:] == [GPU, KVM]


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
    party = Party("", {"b2-r1-n1": (0, 1, 2)})
    words = texts(topology_svg(replace(drawn, parties=(party,), title="ml/x fits")))
    assert words[0] == "ml/x fits"
    assert {"3 pods", "3", "ranks 0-2"} <= set(words)


def test_groups_and_segments_are_told_apart_by_words_and_by_colours() -> None:
    _, drawn = drawn_for(small_cluster(), "block", "rack")
    seats = [
        Seat("ml/l", "leader", "b2-r1-n1", ("b2", "r1", "b2-r1-n1"), 0),
        *(Seat(f"ml/w{rank}", "workers", "b2-r1-n1", ("b2", "r1", "b2-r1-n1"), rank, 0) for rank in (1, 2)),
        *(Seat(f"ml/w{rank}", "workers", "b1-r2-n1", ("b1", "r2", "b1-r2-n1"), rank, 1) for rank in (3, 4)),
    ]
    picture = topology_svg(replace(drawn, parties=parties_of(seats), title="ml/x fits"))
    assert [text for text in texts(picture) if text.startswith("rank")] == [
        "ranks 3-4 · workers, segment 1",
        "rank 0 · leader",
        "ranks 1-2 · workers, segment 0",
    ]
    assert all(colour in picture for colour in LIGHT.parties[:3])


def long_names(depth: int) -> ClusterState:
    """Blocks with long names, at the end of a long path if `depth` is large."""
    nodes = []
    for number in range(8):
        values = {f"level-{each}": f"domain-{each}-{number >> 2}" for each in range(depth - 1)}
        nodes.append(node(f"n{number}", {"cpu": 8, GPU: 4}, labels={**values, f"level-{depth - 1}": f"r{number % 4}"}))
    return cluster(nodes=nodes)


@pytest.mark.parametrize("depth", [1, 2, 3, 15])
@pytest.mark.parametrize("gang", [False, True])
def test_nothing_is_written_over_something_else(depth: int, gang: bool) -> None:
    _, drawn = drawn_for(long_names(depth), *(f"level-{each}" for each in range(depth)))
    if gang:
        parties = (Party("workers of the third kind, segment 0", {"n1": (0,)}), Party("b", {"n1": (1, 2)}))
        answer = "ml/a-gang-with-a-long-name does not fit: " + "many words, " * 20 + "the last one"
        drawn = replace(drawn, parties=parties, title=answer)
    picture = ET.fromstring(topology_svg(drawn))
    assert overlapping(picture) == []
    if gang:
        assert "the last one" in " ".join(text.text or "" for text in picture.iter(f"{SVG}text"))


def overlapping(picture: ET.Element) -> list[tuple[str, str]]:
    """Texts that share pixels, or leave the picture, by what a wide font needs for a character."""
    boxes = []
    for text in picture.iter(f"{SVG}text"):
        size = float(text.get("font-size", "12"))
        width = len(text.text or "") * size * (0.66 if text.get("font-weight") else 0.6)
        left = float(text.get("x", "0")) - {"end": width, "middle": width / 2}.get(text.get("text-anchor", ""), 0)
        bottom = float(text.get("y", "0"))
        boxes.append((text.text or "", left, left + width, bottom - 0.75 * size, bottom + 0.2 * size))
    paper = (float(picture.get("width", "0")), float(picture.get("height", "0")))
    found = [(box[0], "the edge") for box in boxes if box[1] < 0 or box[2] > paper[0] or box[4] > paper[1]]
    for number, one in enumerate(boxes):
        found += [
            (one[0], other[0])
            for other in boxes[number + 1 :]
            if one[1] < other[2] and other[1] < one[2] and one[3] < other[4] and other[3] < one[4]
        ]
    return found


def texts(picture: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture).iter(f"{SVG}text")]


def test_names_from_labels_cannot_break_the_picture() -> None:
    state = cluster(nodes=[node('n<1>&"', {"cpu": 1}, labels={"rack": "r<b>"})])
    _, drawn = drawn_for(state, "rack")
    hints = [title.text for title in ET.fromstring(topology_svg(drawn)).iter(f"{SVG}title")]
    assert hints[1] is not None
    assert hints[1].startswith('n<1>&"')
