"""Gangs that certainly fit are found: groups that need one rack each, on nodes that are seven tenths, nine tenths or
completely full.
"""

from __future__ import annotations

import pytest

from bayplan.gangs.cycle import schedule_gang
from tests.planted_gangs import FULL, any_size, planted
from tests.written_gangs import broken_rule, gang_of, scheduler_of

SEEDS = 40


@pytest.mark.parametrize("form", FULL)
def test_every_planted_gang_is_found(form: str) -> None:
    for seed in range(SEEDS):
        check(any_size(seed, form))


@pytest.mark.parametrize("form", FULL)
def test_a_thousand_nodes_are_no_harder(form: str) -> None:
    check(planted(1, form, racks=64, nodes=16))


def test_the_same_question_has_the_same_answer() -> None:
    """Work is counted, not timed: nothing about the machine may show in a decision."""
    for seed in (3, 12, 24):
        case = any_size(seed, "full")
        seats = [
            [(seat.pod, seat.node) for seat in schedule_gang(scheduler_of(case), gang_of(case)).seats] for _ in range(2)
        ]
        assert seats[0] == seats[1]


def check(case: dict[str, object]) -> None:
    decision = schedule_gang(scheduler_of(case), gang_of(case))
    assert decision.placed, f"{case['id']}: {decision.status}, {decision.bound}"
    assert broken_rule(case, decision) is None, case["id"]
