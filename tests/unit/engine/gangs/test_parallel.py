"""Ranks of parallel groups: inner groups stay on a node, in a rack, in a block before outer ones do."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from bayplan.engine.gangs.parallel import order_by_groups, spread_of
from tests.unit.engine.gangs.small_trees import racks

LINES = ("b1/r1: 6 2", "b1/r2: 8 3", "b2/r1: 2 8", "b2/r2: 1 2")


def positions(*lines: str) -> list[int]:
    _, slots = racks(*lines)
    return np.repeat(np.arange(len(slots)), slots).tolist()


@pytest.mark.parametrize(
    "lines, sizes, nodes_of_groups",
    [
        # two nodes hold a group each, the rest of their rack makes another
        (("b1/r1: 6 2", "b1/r2: 8"), (8,), [[0, 1], [2]]),
        # in the order of the tree both groups would be split
        (("b1/r1: 6 8 2",), (8,), [[0, 2], [1]]),
        # leftovers of one rack are put together before those of two
        (("b1/r1: 3 1", "b1/r2: 3 1"), (4,), [[0, 1], [2, 3]]),
        # two inner groups make an outer one: those of one rack
        (("b1/r1: 2", "b1/r2: 2 2", "b1/r3: 2"), (2, 2), [[0, 3], [1, 2]]),
        # the last group is smaller
        (("b1/r1: 4 1", "b1/r2: 4"), (4,), [[0], [2], [1]]),
    ],
)
def test_which_nodes_make_a_group(
    lines: tuple[str, ...], sizes: tuple[int, ...], nodes_of_groups: list[list[int]]
) -> None:
    tree, _ = racks(*lines)
    by_rank = order_by_groups(tree, positions(*lines), sizes)
    size = int(np.prod(sizes))
    groups = [sorted(set(by_rank[first : first + size])) for first in range(0, len(by_rank), size)]
    assert groups == nodes_of_groups


def test_as_many_inner_groups_as_possible_are_inside_each_domain() -> None:
    draw = random.Random(3)
    for _ in range(300):
        lines = [
            f"b{block}/r{rack}: {' '.join(str(draw.randint(0, 9)) for _ in range(3))}"
            for block in (1, 2)
            for rack in (1, 2)
        ]
        tree, slots = racks(*lines)
        size = draw.randint(2, 6)
        places = positions(*lines)
        by_rank = order_by_groups(tree, places, (size, draw.randint(1, 3)))
        assert Counter(by_rank) == Counter(places)
        whole = by_rank[: len(by_rank) // size * size]
        most = [int((tree.sums(slots, level) // size).sum()) for level in range(tree.node_level + 1)]
        paths = tree.paths[tree.node_level]
        assert list(spread_of([paths[position] for position in whole], size).inside_one) == most


def test_spread_says_how_many_groups_each_level_holds_whole() -> None:
    tree, _ = racks(*LINES)
    by_rank = order_by_groups(tree, positions(*LINES), (8,))
    spread = spread_of([tree.paths[tree.node_level][position] for position in by_rank], 8)
    assert (spread.groups, spread.inside_one) == (4, (3, 3, 2))
