"""Groups of different pods by best fit: the tightest domain, few preferred ones, large pods first, and mixes that
kubelets refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.best_fit import best_fit
from bayplan.engine.gangs.problem import Counts, Mix, Part, Problem, Solution, Status
from bayplan.engine.gangs.search import search
from tests.unit.engine.gangs.small_trees import BLOCK, RACK, pods_of, racks


def problem(lines: Sequence[str], *parts: Part) -> Problem:
    """Nodes that have so many units free, as they are written; a leader takes two, a worker one."""
    tree, free = racks(*lines)
    return Problem(
        tree, parts, (free // 2, free), np.array([[2.0], [1.0]]), free[None, :].astype(np.float64), resources=("units",)
    )


def gang(required: int | None = None, preferred: int | None = None) -> Part:
    return Part("", -1, {}, required, preferred)


def leader_and_workers(workers: int, required: int | None = None) -> list[Part]:
    return [Part("all", 0, pods_of(1, workers), required)]


def by_rack(asked: Problem, solution: Solution) -> dict[str, tuple[int, int]]:
    """Leaders and workers in each rack that has any."""
    sums: list[Counts] = []
    for shape in (0, 1):
        counts = np.zeros(asked.tree.size, dtype=np.int64)
        for part in solution.placed:
            if shape in part:
                counts[part[shape].positions] += part[shape].counts
        sums.append(asked.tree.sums(counts, RACK))
    paths = ["/".join(path) for path in asked.tree.paths[RACK]]
    return {path: (int(one), int(other)) for path, one, other in zip(paths, *sums, strict=True) if one or other}


@pytest.mark.parametrize(
    "lines, parts, expected",
    [
        # The rack that fits exactly, whatever asks for one.
        (("b1/r1: 8 8", "b2/r1: 6"), [gang(RACK), *leader_and_workers(4)], {"b2/r1": (1, 4)}),
        (("b1/r1: 8 8", "b2/r1: 6"), [gang(None, RACK), *leader_and_workers(4)], {"b2/r1": (1, 4)}),
        (("b1/r1: 8 8", "b2/r1: 6"), [gang(), *leader_and_workers(4, RACK)], {"b2/r1": (1, 4)}),
        # Units that are odd everywhere: the leaders come first, workers take what is left.
        (("b1/r1: 3 3", "b1/r2: 2 2"), [gang(RACK), Part("all", 0, pods_of(2, 2))], {"b1/r1": (2, 2)}),
        # A gang that prefers racks goes on in those it uses, then takes the one that holds the rest.
        (
            ("b1/r1: 6", "b1/r2: 12", "b1/r3: 7"),
            [gang(None, RACK), *leader_and_workers(4, RACK), *leader_and_workers(4, RACK)],
            {"b1/r2": (2, 8)},
        ),
        # Preferred racks inside a required block: the block that needs fewer.
        (("b1/r1: 3", "b1/r2: 3", "b2/r1: 7"), [gang(BLOCK, RACK), *leader_and_workers(4)], {"b2/r1": (1, 4)}),
    ],
)
def test_where_they_go(lines: Sequence[str], parts: list[Part], expected: dict[str, tuple[int, int]]) -> None:
    asked = problem(lines, *parts)
    assert by_rack(asked, best_fit(asked, Budget())) == expected


def test_parts_that_keep_apart_take_different_racks() -> None:
    parts = [structs.replace(part, apart=0) for part in leader_and_workers(1, RACK) * 2]
    asked = problem(("b1/r1: 9", "b1/r2: 3"), gang(), *parts)
    assert by_rack(asked, best_fit(asked, Budget())) == {"b1/r1": (1, 1), "b1/r2": (1, 1)}


def test_a_part_stays_with_its_members_that_run() -> None:
    part = structs.replace(leader_and_workers(1, RACK)[0], home=0, running_at=(0,))
    asked = problem(("b1/r1: 9", "b1/r2: 3"), gang(), part)
    assert by_rack(asked, best_fit(asked, Budget())) == {"b1/r1": (1, 1)}


def test_what_it_does_not_find_is_not_called_impossible() -> None:
    """Three groups of 5 have no place in racks of 5, 6 and 4 units, which is not for this search to prove."""
    asked = problem(("b1/r1: 5", "b1/r2: 6", "b1/r3: 4"), gang(), *leader_and_workers(3, RACK) * 3)
    assert best_fit(asked, Budget()).status is Status.LIMIT_REACHED
    assert search(asked, Budget()).status is Status.INFEASIBLE


class NoMixes:
    """Nodes whose kubelets never take a leader beside a worker."""

    gave_up = False

    def admits(self, position: int, counts: Mix) -> bool:
        return self.refused(position, counts) is None

    def refused(self, position: int, counts: Mix) -> tuple[Mix, Sequence[int]] | None:
        return (((0, 1), (1, 1)), [position]) if len(counts) > 1 else None


def test_pods_move_on_from_a_node_that_refuses_the_mix() -> None:
    asked = replace(problem(("b1/r1: 8 4",), gang(RACK), *leader_and_workers(3)), mixes=NoMixes())
    placed = best_fit(asked, Budget()).placed[1]
    assert set(placed[0].positions.tolist()).isdisjoint(placed[1].positions.tolist())


def test_sixteen_leaders_with_workers_on_empty_racks_have_a_place() -> None:
    """Too many variables for an exact search; every order of groups would do."""
    lines = [f"b{block}/r{rack}: {'8 ' * 8}" for block in range(8) for rack in range(10)]
    asked = problem(lines, gang(), *(Part(f"g{number}", 0, pods_of(1, 16), RACK) for number in range(16)))
    solution = search(asked, Budget())
    assert solution.status is Status.OPTIMAL
    assert {
        int(asked.tree.domain_at[BLOCK][spots.positions[0]]) for part in solution.placed[1:] for spots in part.values()
    } == {0}


@pytest.mark.parametrize(
    "parts, bound",
    [
        ([gang(), Part("all", 0, pods_of(2, 4))], "the gang needs 8 units, but can get at most 7"),
        ([gang(), Part("a", 0, pods_of(1, 3), RACK)], "group a needs 5 units in one rack, but can get at most 4"),
        (
            [gang(), structs.replace(Part("a", 0, pods_of(1, 2), RACK), home=1, running_at=(2,))],
            "group a needs 4 units in b1/r2, where members run, but can get at most 3",
        ),
    ],
)
def test_pods_of_several_shapes_that_ask_for_too_much_together_are_told_of_what(parts: list[Part], bound: str) -> None:
    solution = search(problem(("b1/r1: 2 2", "b1/r2: 3"), *parts), Budget())
    assert (solution.status, solution.bound) == (Status.INFEASIBLE, bound)
