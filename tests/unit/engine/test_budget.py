"""A budget inside a budget: neither is spent further than what is around it."""

from __future__ import annotations

import pytest

from bayplan.engine.budget import Budget, OutOfWork


def test_what_a_part_spends_is_gone_for_the_whole() -> None:
    whole = Budget(2.0)
    part = whole.at_most(0.5)
    part.spend(0.25)
    assert (part.left, whole.left) == (0.25, 1.75)


def test_a_part_has_no_more_than_the_whole_has_left() -> None:
    whole = Budget(2.0)
    part = whole.at_most(5.0)
    whole.spend(1.5)
    assert (part.left, whole.at_most(1.0).left) == (0.5, 0.5)


def test_it_is_spent_when_nothing_is_left_and_never_has_less() -> None:
    budget = Budget(1.0)
    budget.spend(3.0)
    assert (budget.is_spent, budget.left, budget.at_most(1.0).is_spent) == (True, 0.0, True)


def test_a_hard_budget_refuses_work_that_it_has_not_and_parts_of_it_do_too() -> None:
    decision = Budget(10.0, hard=True)
    part = decision.at_most(4.0)
    part.spend(6.0)
    assert (part.is_spent, decision.left) == (True, 4.0)
    with pytest.raises(OutOfWork):
        part.spend(5.0)
    assert decision.is_spent
