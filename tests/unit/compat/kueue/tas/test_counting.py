"""The tree of domains and the counts on it: index ranges, sums, slices and the room beside a leader."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.compat.kueue.tas.counting import LevelCounts, count_leaves, roll_up
from bayplan.compat.kueue.tas.request import Slicing
from bayplan.compat.kueue.tas.snapshot import tree_of
from tests.unit.compat.kueue.tas.builders import racks

PATHS = [("b1", "r1", "x1"), ("b1", "r1", "x2"), ("b1", "r2", "x3"), ("b2", "r1", "x4")]
TREE = tree_of(PATHS, 3)
CLUSTER = racks({"b1/r1/x1": 5, "b1/r1/x2": 2, "b1/r2/x3": 3, "b2/r1/x4": 4})


def test_children_are_neighbours() -> None:
    assert [TREE.size(level) for level in range(3)] == [2, 3, 4]
    assert TREE.children(0, np.array([1, 0])).tolist() == [2, 0, 1]
    assert TREE.children(1, np.array([0])).tolist() == [0, 1]
    assert TREE.range_at(0, 0, 1, 2) == (0, 3)


@pytest.mark.parametrize("leaf, level, domain", [(0, 0, 0), (2, 0, 0), (3, 0, 1), (1, 1, 0), (2, 1, 1), (3, 2, 3)])
def test_ancestors(leaf: int, level: int, domain: int) -> None:
    assert TREE.ancestor(leaf, level) == domain


def test_a_part_is_numbered_from_zero() -> None:
    part = TREE.part(1, 1, 3)
    assert [part.size(level) for level in range(3)] == [0, 2, 2]
    assert part.children(1, np.array([0, 1])).tolist() == [0, 1]


def counted(slicing: Slicing, leader_cpu: int | None = None) -> list[LevelCounts]:
    leader = None if leader_cpu is None else {"cpu": leader_cpu, "pods": 1}
    leaves = count_leaves(CLUSTER, {"cpu": 1, "pods": 1}, leader, None, None)
    return roll_up(CLUSTER.tree, leaves, slicing, leader=leader is not None)


@pytest.mark.parametrize(
    "slicing, pods, slices",
    [
        pytest.param(Slicing(1, 2, (1, 1, 1)), [[10, 4], [7, 3, 4]], [[10, 4], [7, 3, 4], [5, 2, 3, 4]], id="pods"),
        pytest.param(Slicing(2, 2, (1, 1, 1)), [[10, 4], [7, 3, 4]], [[4, 2], [3, 1, 2], [2, 1, 1, 2]], id="on hosts"),
        pytest.param(Slicing(3, 1, (1, 1, 1)), [[10, 4], [7, 3, 4]], [[3, 1], [2, 1, 1], [0, 0, 0, 0]], id="in racks"),
        pytest.param(Slicing(4, 1, (1, 1, 2)), [[8, 4], [6, 2, 4]], [[1, 1], [1, 0, 1], [0, 0, 0, 0]], id="two layers"),
    ],
)
def test_sums(slicing: Slicing, pods: list[list[int]], slices: list[list[int]]) -> None:
    counts = counted(slicing)
    assert [level.alone.pods.tolist() for level in counts] == [*pods, [5, 2, 3, 4]]
    assert [level.alone.slices.tolist() for level in counts] == slices
    assert all(level.beside_leader is level.alone for level in counts)


def test_beside_a_leader() -> None:
    counts = counted(Slicing(1, 2, (1, 1, 1)), leader_cpu=3)
    assert [level.beside_leader.pods.tolist() for level in counts] == [[7, 1], [4, 0, 1], [2, 2, 0, 1]]
    assert [level.takes_leader.tolist() for level in counts] == [[True, True], [True] * 3, [True, False, True, True]]


def test_where_no_leader_fits_nothing_fits_beside_it() -> None:
    counts = counted(Slicing(1, 2, (1, 1, 1)), leader_cpu=9)
    assert [level.beside_leader.pods.tolist() for level in counts] == [[0, 0], [0, 0, 0], [5, 2, 3, 4]]
