"""Groups of equal pods as close together as can be, and what is proven about that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.division import divided
from bayplan.engine.gangs.problem import Part, Placed, Problem
from tests.unit.engine.gangs.small_trees import BLOCK, RACK, equal_pods, gang, group, racks

NOT_DIVIDED = ("b1/r1: 3", "b1/r2: 3", "b1/r3: 3", "b2/r1: 4", "b3/r1: 4")


def racks_of(problem: Problem, placed: Placed) -> dict[str, str]:
    """By group the racks of its pods, `b1/r1 b1/r2`."""
    tree = problem.tree
    found = {}
    for part, shapes in zip(problem.parts, placed, strict=True):
        at = (
            Counter("/".join(tree.paths[RACK][tree.domain_at[RACK][int(p)]]) for p in shapes[0].positions)
            if shapes
            else {}
        )
        found[part.name] = " ".join(sorted(at))
    return {name: where for name, where in found.items() if where}


@pytest.mark.parametrize(
    "lines, parts, places",
    [
        pytest.param(
            ("b1/r1: 4", "b1/r2: 4", "b2/r1: 4"),
            [gang(), group("a", 3, RACK), group("b", 4, RACK)],
            {"a": "b1/r2", "b": "b1/r1"},
            id="all pods as one group, then divided",
        ),
        pytest.param(
            # Together eight pods are closest in b1, where neither group finds a rack.
            NOT_DIVIDED,
            [gang(), group("a", 4, RACK), group("b", 4, RACK)],
            {"a": "b2/r1", "b": "b3/r1"},
            id="a group is bound to a domain where division fails",
        ),
        pytest.param(
            ("b1/r1: 2", "b1/r2: 2", "b2/r1: 4", "b3/r1: 2"),
            [gang(), structs.replace(group("a", 4), preferred=RACK), structs.replace(group("b", 2), preferred=BLOCK)],
            {"a": "b2/r1", "b": "b1/r1"},
            id="a preferred level counts like a required one",
        ),
    ],
)
def test_the_closest_division_is_found_and_proven(
    lines: tuple[str, ...], parts: list[Part], places: dict[str, str]
) -> None:
    problem = equal_pods(*racks(*lines), *parts)
    found = divided(problem, sum(part.preferred is not None for part in parts), Budget())
    assert found is not None
    assert (racks_of(problem, found.placed), found.proven) == (places, True)


def test_without_work_only_the_first_table_is_made_and_nothing_is_proven() -> None:
    problem = equal_pods(*racks(*NOT_DIVIDED), gang(), group("a", 4, RACK), group("b", 4, RACK))
    assert divided(problem, 0, Budget(0.0)) is None


@pytest.mark.parametrize("spread, roomiest", [(True, False), (False, True)])
def test_gangs_that_are_not_to_be_close_are_left_to_others(spread: bool, roomiest: bool) -> None:
    problem = equal_pods(*racks("b1/r1: 4"), gang(), group("a", 2, RACK), group("b", 1, RACK))
    assert divided(replace(problem, spread=spread, roomiest=roomiest), 0, Budget()) is None
