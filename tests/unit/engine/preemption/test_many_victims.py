"""Victims on one node in numbers and with priorities that few clusters have."""

from __future__ import annotations

import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.preemption.victims import PRIORITY_OFFSET, Candidate, Victims, cheapest_victims

CPU = ("cpu", None)
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def victims(candidates: list[Candidate], cpus: int, work: float = 1e6) -> Victims | None:
    return cheapest_victims(candidates, [{CPU: cpus}], lambda _: True, {}, Budget(work, hard=True))


def pods(*priorities: int, cpus: int = 1) -> list[Candidate]:
    return [Candidate(f"p{number}", priority, {CPU: cpus}) for number, priority in enumerate(priorities)]


@pytest.mark.parametrize("needed", [1_500, 750])
def test_hundreds_of_equal_victims_are_proven(needed: int) -> None:
    found = victims(pods(*[0] * 1_500), needed)
    assert found is not None
    assert (found.cost, found.proven) == ((0, 0, needed * PRIORITY_OFFSET, needed), True)


def test_the_best_set_so_far_is_returned_when_the_work_ends() -> None:
    candidates = [Candidate(f"p{n}", n % 7, {CPU: 300 + 2 * (n % 11)}) for n in range(1_500)]
    found = victims(candidates, sum(each.frees[CPU] for each in candidates) - 100, work=100_000)
    assert found is not None
    assert (len(found.pods), found.proven) == (1_500, False)


def test_one_victim_of_the_highest_priority_costs_more_than_two_of_the_lowest() -> None:
    found = victims([*pods(LOWEST, LOWEST), Candidate("top", HIGHEST, {CPU: 2})], 2)
    assert found is not None
    assert {each.key for each in found.pods} == {"p0", "p1"}
    assert found.cost == (0, LOWEST, 0, 2)


def test_victims_that_weigh_nothing_are_not_evicted_without_need() -> None:
    found = victims(pods(*[LOWEST] * 20, cpus=2), 7)
    assert found is not None
    assert found.cost == (0, LOWEST, 0, 4)


def test_two_victims_cost_less_than_three_with_a_lower_sum_of_priorities() -> None:
    large = [Candidate(f"l{number}", 2, {CPU: 3}) for number in range(2)]
    found = victims([*large, *pods(2, 0, 0, cpus=2)], 6)
    assert found is not None
    assert [each.key for each in found.pods] == ["l0", "l1"]
