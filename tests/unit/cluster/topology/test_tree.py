"""The tree above the nodes: every domain a run of neighbours, named by its whole path, in the order people count in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Distances, Path, Tree, build_tree, distance, distances_among, natural_key
from bayplan.kube.topology_levels import HOSTNAME
from tests.builders.objects import node

LEVELS = ("block", "rack")


def cluster(**paths: tuple[str | None, ...]) -> ClusterState:
    """Nodes by name with their values of block and rack; None leaves the label out."""
    state = ClusterState()
    for name, values in paths.items():
        labels = {level: value for level, value in zip(LEVELS, values, strict=False) if value is not None}
        state.set_node(node(name, labels=labels))
    return state


def names(tree: Tree, state: ClusterState) -> list[str]:
    return [state.names[row] for row in tree.rows]


def test_domains_are_runs_of_neighbours() -> None:
    state = cluster(n1=("b2", "r1"), n2=("b1", "r2"), n3=("b1", "r1"), n4=("b2", "r1"), n5=("b1", "r2"))
    tree = build_tree(state, "network", LEVELS)
    assert names(tree, state) == ["n3", "n2", "n5", "n1", "n4"]
    assert [starts.tolist() for starts in tree.starts] == [[0, 3], [0, 1, 3], [0, 1, 2, 3, 4]]
    assert [domains.tolist() for domains in tree.domain_at] == [[0, 0, 0, 1, 1], [0, 1, 1, 2, 2], [0, 1, 2, 3, 4]]
    assert tree.paths[0] == (("b1",), ("b2",))
    assert tree.paths[1] == (("b1", "r1"), ("b1", "r2"), ("b2", "r1"))
    assert tree.paths[2][2] == ("b1", "r2", "n5")
    assert [tree.bounds(1, domain) for domain in range(3)] == [(0, 1), (1, 3), (3, 5)]
    assert tree.sums(np.array([1, 2, 3, 4, 5]), 1).tolist() == [1, 5, 9]


def test_a_tree_over_one_domain_keeps_every_level() -> None:
    state = cluster(n1=("b1", "r1"), n2=("b1", "r2"), n3=("b1", "r2"), n4=("b2", "r1"))
    inside = build_tree(state, "network", LEVELS).inside(1, 3)
    assert names(inside, state) == ["n2", "n3"]
    assert [starts.tolist() for starts in inside.starts] == [[0], [0], [0, 1]]
    assert inside.paths == ((("b1",),), (("b1", "r2"),), (("b1", "r2", "n2"), ("b1", "r2", "n3")))


def test_members_of_domains_are_filled_up_with_the_position_behind_the_last() -> None:
    tree = build_tree(cluster(n1=("b1", "r1"), n2=("b1", "r2"), n3=("b1", "r2")), "network", LEVELS)
    assert [members.tolist() for members in tree.members] == [[[0, 1, 2]], [[0, 3], [1, 2]], [[0], [1], [2]]]


@pytest.mark.parametrize(
    "in_order",
    [
        ["r1", "r2", "r10"],
        ["node-9", "node-10", "node-10a"],
        ["2", "10", "a", "a2", "a10", "b"],
        ["r01", "r1", "r1x"],
        ["v1.9.0", "v1.10.0"],
        ["", "0", "a"],
    ],
)
def test_natural_order(in_order: list[str]) -> None:
    keys = [natural_key(text) for text in in_order]
    assert all(one < other for one, other in pairwise(keys))


def test_racks_and_nodes_stand_in_natural_order() -> None:
    state = cluster(n10=("b1", "r2"), n9=("b1", "r2"), n1=("b1", "r10"))
    assert names(build_tree(state, "network", LEVELS), state) == ["n9", "n10", "n1"]


def test_equal_names_under_different_parents_are_different_domains() -> None:
    tree = build_tree(cluster(n1=("b1", "r1"), n2=("b2", "r1")), "network", LEVELS)
    assert tree.paths[1] == (("b1", "r1"), ("b2", "r1"))


def test_values_with_dots_do_not_run_together() -> None:
    tree = build_tree(cluster(n1=("a.b", "c"), n2=("a", "b.c")), "network", LEVELS)
    assert set(tree.paths[1]) == {("a.b", "c"), ("a", "b.c")}


def test_nodes_without_a_label_or_with_an_empty_one_are_known_to_be_outside() -> None:
    state = cluster(n1=("b1", "r1"), n2=("b1", None), n3=(None, "r1"), n4=(None, None), n5=("b1", ""))
    tree = build_tree(state, "network", LEVELS)
    assert names(tree, state) == ["n1"]
    assert tree.outside == {"n2": "rack", "n3": "block", "n4": "block", "n5": "rack"}


@pytest.mark.parametrize(
    "levels, label, number",
    [
        (LEVELS, "block", 0),
        (LEVELS, "rack", 1),
        (LEVELS, HOSTNAME, 2),
        (LEVELS, "row", None),
        ((*LEVELS, HOSTNAME), HOSTNAME, 2),
        ((), HOSTNAME, 0),
    ],
)
def test_levels_by_label(levels: tuple[str, ...], label: str, number: int | None) -> None:
    tree = build_tree(cluster(n1=("b1", "r1")), "network", levels)
    assert tree.level_number(label) == number
    assert tree.node_level == len([level for level in levels if level != HOSTNAME])


def test_without_levels_all_nodes_stand_side_by_side() -> None:
    state = cluster(n10=(), n2=(), n1=())
    tree = build_tree(state, "", ())
    assert names(tree, state) == ["n1", "n2", "n10"]
    assert tree.paths == ((("n1",), ("n2",), ("n10",)),)


@pytest.mark.parametrize("state", [ClusterState(), cluster(n1=(None,))], ids=["no nodes", "none with the labels"])
def test_a_tree_may_be_empty(state: ClusterState) -> None:
    tree = build_tree(state, "network", LEVELS)
    assert tree.size == 0
    assert [len(starts) for starts in tree.starts] == [0, 0, 0]
    assert tree.sums(np.zeros(0, dtype=np.int64), 0).tolist() == []


def test_removed_nodes_leave_the_next_tree() -> None:
    state = cluster(n1=("b1", "r1"), n2=("b1", "r1"))
    state.remove_node("n1")
    assert names(build_tree(state, "network", LEVELS), state) == ["n2"]


# Zones A and B; racks RA, RB1 and RC; NC1 and NC2 stand in RC.
@pytest.mark.parametrize(
    "one, other, edges",
    [
        (("A", "RC", "NC1"), ("A", "RC", "NC2"), 2),
        (("B", "RB1"), ("A", "RA", "NA1"), 5),
        (("A", "RC", "NC1"), ("A", "RA", "NA1"), 4),
        (("A", "RC", "NC1"), ("B", "RB1", "NB1"), 6),
        (("A", "RC", "NC1"), ("A", "RC", "NC1"), 0),
        (("A", "RC"), ("A", "RC", "NC1"), 1),
    ],
)
def test_distance_counts_edges(one: Path, other: Path, edges: int) -> None:
    assert distance(one, other) == distance(other, one) == edges


@pytest.mark.parametrize(
    "paths, largest, mean",
    [
        ([], 0, 0),
        (["b1/r1/n1"], 0, 0),
        (["b1/r1/n1", "b1/r1/n1"], 0, 0),
        (["b1/r1/n1", "b1/r1/n2"], 2, 2),
        (["b1/r1/n1", "b1/r1/n2", "b1/r2/n3"], 4, (2 + 4 + 4) / 3),
        (["b1/r1/n1", "b2/r1/n2", "b2/r1/n2"], 6, (6 + 6 + 0) / 3),
    ],
)
def test_distances_among_several(paths: list[str], largest: int, mean: float) -> None:
    assert distances_among([tuple(path.split("/")) for path in paths]) == Distances(largest, mean)
