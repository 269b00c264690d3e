"""A budget inside a budget: neither is spent further than what is around it."""

from __future__ import annotations

from bayplan.engine.budget import Budget


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
