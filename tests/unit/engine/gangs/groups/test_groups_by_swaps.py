"""Groups into domains by swaps: racks that are full to the last slot, homes, groups that keep apart, and gangs that are
left to other searches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.groups_by_swaps import by_swaps
from bayplan.engine.gangs.problem import Part, Problem, Solution, Status
from tests.unit.engine.gangs.small_trees import BLOCK, NODE, RACK, by_rack, pods_of, racks

GANG = Part("", -1, {})


def problem(lines: Sequence[str], *parts: Part) -> Problem:
    """Nodes that have so many units free, as they are written; pods of three shapes take 3, 2 and 1 unit."""
    tree, free = racks(*lines)
    amounts = np.array([[3.0], [2.0], [1.0]])
    return Problem(tree, parts, (free // 3, free // 2, free), amounts, free[None, :].astype(np.float64))


def pods(asked: Problem, solution: Solution) -> list[dict[str, int]]:
    """By group, pods in each rack."""
    found = []
    for part in solution.placed[1:]:
        counts = np.zeros(asked.tree.size, dtype=np.int64)
        for spots in part.values():
            counts[spots.positions] += spots.counts
        found.append(by_rack(asked.tree, counts))
    return found


def in_a_rack(*counts: int) -> Part:
    return Part("group", 0, pods_of(*counts), RACK)


def test_racks_are_filled_to_the_last_unit() -> None:
    # 4 + 3 + 5 and 6 + 6 units: best fit would put the groups of 6 and 5 into one rack.
    groups = [in_a_rack(2), in_a_rack(0, 3), in_a_rack(1, 1), in_a_rack(0, 2), in_a_rack(1)]
    asked = problem(("b1/r1: 6 6", "b1/r2: 3 5 4"), GANG, *groups)
    found = by_swaps(asked, Budget())
    assert found.found
    assert all(len(each) == 1 for each in pods(asked, found))


def test_units_that_nodes_cannot_use_are_counted() -> None:
    # The nodes of the first rack have odd rooms: only the group of single units fills them.
    asked = problem(("b1/r1: 1 1 1 1", "b1/r2: 4"), GANG, in_a_rack(0, 2), in_a_rack(0, 0, 4))
    assert pods(asked, by_swaps(asked, Budget())) == [{"b1/r2": 2}, {"b1/r1": 4}]


def test_homes_closed_racks_and_distance() -> None:
    at_home = structs.replace(in_a_rack(0, 1), home=1, running_at=(2,))
    asked = problem(("b1/r1: 2 2", "b1/r2: 2"), GANG, at_home, in_a_rack(0, 1), in_a_rack(0, 1))
    assert pods(asked, by_swaps(asked, Budget())) == [{"b1/r2": 1}, {"b1/r1": 1}, {"b1/r1": 1}]
    apart = [structs.replace(in_a_rack(0, 0, 1), apart=0) for _ in range(2)]
    asked = problem(("b1/r1: 2 2", "b1/r2: 2"), GANG, *apart)
    one, other = pods(asked, by_swaps(asked, Budget()))
    assert one.keys() != other.keys()


@pytest.mark.parametrize(
    "parts",
    [
        # Pods beside the groups.
        [Part("", -1, pods_of(0, 0, 1)), in_a_rack(1)],
        # Groups of two levels.
        [GANG, in_a_rack(1), Part("block", 0, pods_of(1), BLOCK)],
        # Groups inside groups that have a choice.
        [GANG, Part("outer", 0, {}, RACK), Part("inner", 1, pods_of(1), NODE)],
        # More than there is room for.
        [GANG, in_a_rack(5), in_a_rack(5)],
    ],
)
def test_what_it_leaves_to_other_searches(parts: list[Part]) -> None:
    assert by_swaps(problem(("b1/r1: 6 6", "b1/r2: 3 5 4"), *parts), Budget()).status is Status.LIMIT_REACHED


def test_outer_groups_that_keep_apart_are_not_taken_for_one() -> None:
    outer = [structs.replace(Part("outer", 0, {}, BLOCK), apart=0) for _ in range(2)]
    inner = [Part("inner", number, pods_of(1), RACK) for number in (1, 2)]
    assert not by_swaps(problem(("b1/r1: 6 6",), GANG, *outer, *inner), Budget()).found
