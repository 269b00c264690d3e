"""Groups of equal pods into domains: found wherever there is a way, and refused only after all ways were tried."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.packing import pack
from bayplan.engine.gangs.problem import Part, Problem, Solution, Status, within
from tests.unit.engine.gangs.small_trees import BLOCK, NODE, RACK, equal_pods, gang, group, racks


def domains_of(problem: Problem, solution: Solution, number: int) -> set[str]:
    """The domains of its required level in which a part's pods stand, those of parts inside it included."""
    level = problem.parts[number].required
    assert level is not None
    positions = [
        spots.positions for inner in within(problem.parts, number) for spots in solution.placed[inner].values()
    ]
    return {"/".join(problem.tree.paths[level][problem.tree.domain_at[level][at]]) for at in np.concatenate(positions)}


def check(problem: Problem, solution: Solution) -> None:
    """All pods are placed, no node has too many, and every part that requires a level is in one domain."""
    used = np.zeros(problem.tree.size, dtype=np.int64)
    for number, part in enumerate(problem.parts):
        for shape, spots in solution.placed[number].items():
            used[spots.positions] += spots.counts
            assert int(spots.counts.sum()) == part.pods[shape]
        assert solution.placed[number].keys() == part.pods.keys()
        if part.required is not None and problem.totals[number]:
            assert len(domains_of(problem, solution, number)) == 1
    assert (used <= problem.slots[0]).all()


@pytest.mark.parametrize(
    "lines, parts",
    [
        # Two go to the tighter rack, three to the other, and four nowhere: unless one thinks ahead.
        (("b1/r1: 5", "b1/r2: 4"), [group("a", 2, RACK), group("b", 3, RACK), group("c", 4, RACK)]),
        # The tighter block has the same room in sum, but no two racks of the right sizes.
        (("b1/r1: 3", "b1/r2: 3", "b2/r1: 4", "b2/r2: 3"), [group("a", 4, RACK), group("b", 2, RACK)]),
        # A group of a wide level must leave room for one that needs a whole node.
        (
            ("b1/r1: 2", "b1/r2: 4", "b2/r1: 2 0 1", "b2/r2: 1 2"),
            [group("a", 4, BLOCK), group("b", 3, NODE), group("c", 1, RACK)],
        ),
        # Groups inside groups: the inner ones stay in the domain of the outer one.
        (
            ("b1/r1: 4", "b1/r2: 1", "b2/r1: 3", "b2/r2: 3"),
            [group("outer", 0, BLOCK), group("one", 3, RACK, parent=1), group("other", 3, RACK, parent=1)],
        ),
        # Pods of the outer group's own take what the inner ones leave.
        (("b1/r1: 2 2", "b1/r2: 3"), [group("outer", 3, BLOCK), group("inner", 4, RACK, parent=1)]),
        # An inner group that requires less than the one around it asks for nothing new.
        (("b1/r1: 4",), [group("outer", 0, RACK), group("inner", 4, BLOCK, parent=1)]),
    ],
)
def test_a_way_is_found(lines: tuple[str, ...], parts: list[Part]) -> None:
    problem = equal_pods(*racks(*lines), gang(), *parts)
    solution = pack(problem, Budget())
    assert solution.found
    check(problem, solution)


@pytest.mark.parametrize(
    "lines, parts",
    [
        (("b1/r1: 5", "b1/r2: 4"), [group("a", 3, RACK), group("b", 3, RACK), group("c", 3, RACK)]),
        (("b1/r1: 4", "b2/r1: 4"), [group("outer", 0, BLOCK), group("a", 3, RACK, 1), group("b", 3, RACK, 1)]),
        (("b1/r1: 2 2", "b1/r2: 3"), [group("outer", 4, BLOCK), group("inner", 4, RACK, parent=1)]),
        (("b1/r1: 1 1",), [group("a", 2, NODE)]),
    ],
)
def test_a_no_is_a_proof(lines: tuple[str, ...], parts: list[Part]) -> None:
    solution = pack(equal_pods(*racks(*lines), gang(), *parts), Budget())
    assert solution.status is Status.INFEASIBLE
    assert solution.bound == "every assignment of groups to domains was tried"


def test_a_search_that_had_to_stop_proves_nothing() -> None:
    problem = equal_pods(*racks("b1/r1: 5", "b1/r2: 4"), gang(), *(group(f"g{number}", 3, RACK) for number in range(3)))
    solution = pack(problem, Budget(), most_steps=2)
    assert solution.status is Status.LIMIT_REACHED
    assert solution.bound == "no assignment of groups found in 2 steps"


def test_members_that_run_bind_a_group_to_their_rack() -> None:
    problem = equal_pods(
        *racks("b1/r1: 3", "b1/r2: 3"), gang(), group("free", 3, RACK), structs.replace(group("bound", 3, RACK), home=0)
    )
    solution = pack(problem, Budget())
    assert domains_of(problem, solution, 2) == {"b1/r1"}
    assert domains_of(problem, solution, 1) == {"b1/r2"}


@pytest.mark.parametrize("number, placed", [(2, True), (3, False)])
def test_groups_that_avoid_each_other(number: int, placed: bool) -> None:
    parts = [structs.replace(group(f"g{index}", 1, RACK), apart=0) for index in range(number)]
    problem = equal_pods(*racks("b1/r1: 4", "b1/r2: 4"), gang(), *parts)
    solution = pack(problem, Budget())
    assert solution.found is placed
    if placed:
        assert domains_of(problem, solution, 1) != domains_of(problem, solution, 2)


def test_thousands_of_groups() -> None:
    tree, slots = racks(*(f"b{number // 16}/r{number % 16}: 8 8 8 8" for number in range(160)))
    problem = equal_pods(tree, slots, gang(), *(group(f"g{number}", 4, NODE) for number in range(1280)))
    solution = pack(problem, Budget())
    assert solution.found
    check(problem, solution)
