"""Equal groups stand in the tree in the order of their ranks, and gangs that prefer nothing stand close together all
the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.equal_groups import in_order_of_ranks
from bayplan.engine.gangs.problem import Part, Problem, Solution, Spots, Status
from bayplan.engine.gangs.search import search
from tests.unit.engine.gangs.small_trees import RACK, equal_pods, gang, group, racks

LINES = ("b1/r1: 4", "b1/r2: 6", "b2/r1: 4", "b2/r2: 5")


def blocks(problem: Problem, solution: Solution) -> str:
    """The block of each group, in the order of ranks."""
    firsts = [next(int(spots.positions[0]) for spots in part.values()) for part in solution.placed[1:]]
    return " ".join(f"b{int(problem.tree.domain_at[0][position]) + 1}" for position in firsts)


def test_groups_of_two_sizes_change_the_block_once() -> None:
    sizes = (2, 3, 2, 3, 2, 3)
    problem = equal_pods(
        *racks("b1/r1: 5", "b1/r2: 5", "b2/r1: 5"),
        gang(),
        *(group(f"g{number}", size, RACK) for number, size in enumerate(sizes)),
    )
    assert blocks(problem, search(problem, Budget())) == "b1 b1 b1 b1 b2 b2"


def test_as_many_groups_as_possible_share_a_block_because_that_is_closer() -> None:
    sizes = (2, 3, 2, 3, 2, 3)
    problem = equal_pods(
        *racks(*LINES), gang(), *(group(f"g{number}", size, RACK) for number, size in enumerate(sizes))
    )
    in_blocks = blocks(problem, search(problem, Budget())).split()
    pods = {block: sum(size for size, at in zip(sizes, in_blocks, strict=True) if at == block) for block in in_blocks}
    assert sorted(pods.values()) == [5, 10]


def at(position: int) -> dict[int, Spots]:
    """One pod at a position."""
    return {0: Spots(np.array([position]), np.array([1]))}


@pytest.mark.parametrize(
    "parts, before, after",
    [
        ([group("a", 1), group("b", 1)], [3, 0], [0, 3]),
        ([group("a", 1), group("b", 2)], [3, 0], [3, 0]),
        ([group("a", 1), structs.replace(group("b", 1), running_at=(0,))], [3, 0], [3, 0]),
        ([group("a", 1), group("b", 1), group("c", 1)], [2, 3, 0], [0, 2, 3]),
    ],
    ids=["equal", "unlike", "one has members that run", "three"],
)
def test_who_is_exchanged(parts: list[Part], before: list[int], after: list[int]) -> None:
    problem = equal_pods(*racks(*LINES), gang(), *parts)
    solution = Solution(Status.OPTIMAL, ({}, *(at(position) for position in before)))
    ordered = in_order_of_ranks(problem, solution)
    assert [int(part[0].positions[0]) for part in ordered.placed[1:]] == after


def test_groups_within_groups_move_as_a_whole() -> None:
    outer = [group("x", 0), group("y", 0)]
    inner = [group(name, 1, parent=parent) for parent, name in ((1, "x0"), (1, "x1"), (2, "y0"), (2, "y1"))]
    problem = equal_pods(*racks(*LINES), gang(), *outer, *inner)
    solution = Solution(Status.OPTIMAL, ({}, {}, {}, at(3), at(2), at(1), at(0)))
    ordered = in_order_of_ranks(problem, solution)
    assert [int(part[0].positions[0]) for part in ordered.placed[3:]] == [0, 1, 2, 3]


def test_groups_that_prefer_nothing_stand_on_one_node_if_one_holds_them() -> None:
    problem = equal_pods(
        *racks("b1/r1: 4 2", "b1/r2: 3 3", "b2/r1: 6", "b2/r2: 2"),
        gang(),
        *(group(f"g{number}", 2, RACK) for number in range(3)),
    )
    solution = search(problem, Budget())
    assert {int(position) for part in solution.placed for spots in part.values() for position in spots.positions} == {4}
