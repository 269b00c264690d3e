"""Fairness between namespaces: those that used much time let others go first."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.tenants import ALLOWANCE, MOST_NAMED, OTHERS, Tenants
from bayplan.dispatch.units import PodUnit


def queue_of(*units: str, **more: Any) -> SchedulingQueue:
    """Units such as `costly/a`, in the order of their age."""
    queue = SchedulingQueue()
    for age, key in enumerate(units):
        queue.put(PodUnit(key), priority=more.get(key, 0), created=age, now=0.0, tenant=key.partition("/")[0])
    return queue


def popped(queue: SchedulingQueue, now: float = 0.0, at_limit: tuple[str, ...] = ()) -> list[str]:
    keys = []
    while (key := queue.pop(now, at_limit)) is not None:
        keys.append(str(key))
    return keys


def test_without_debts_the_oldest_goes_first() -> None:
    assert popped(queue_of("a/1", "b/1", "a/2", "b/2")) == ["a/1", "b/1", "a/2", "b/2"]


def test_a_namespace_in_debt_lets_all_others_go_first() -> None:
    queue = queue_of("costly/1", "costly/2", "a/1", "b/1")
    queue.tenants.bill("costly", 14.0, now=0.0)
    assert popped(queue) == ["a/1", "b/1", "costly/1", "costly/2"]


def test_neither_priority_nor_age_help_a_namespace_in_debt() -> None:
    queue = SchedulingQueue()
    queue.put(PodUnit("costly/1"), priority=1000, created=0, now=0.0, tenant="costly")
    queue.put(PodUnit("a/1"), priority=0, created=1, now=0.0, tenant="a")
    queue.tenants.bill("costly", 1.0, now=0.0)
    assert popped(queue) == ["a/1", "costly/1"]


def test_a_namespace_in_debt_need_not_wait_if_no_other_has_units() -> None:
    queue = queue_of("costly/1")
    queue.tenants.bill("costly", 14.0, now=0.0)
    assert popped(queue) == ["costly/1"]


def test_of_several_in_debt_the_one_that_owes_least_is_next() -> None:
    queue = queue_of("worst/1", "bad/1", "worst/2", "bad/2")
    queue.tenants.bill("worst", 14.0, now=0.0)
    queue.tenants.bill("bad", 2.0, now=0.0)
    assert popped(queue) == ["bad/1", "bad/2", "worst/1", "worst/2"]


def test_debt_decays_at_a_tenth_of_the_time() -> None:
    queue = queue_of("costly/1", "costly/2", "a/1")
    queue.tenants.bill("costly", 2.0, now=0.0)
    assert queue.peek(0.0).unit == PodUnit("a/1")  # type: ignore[union-attr]
    assert queue.tenants.debt("costly", 10.0) == pytest.approx(1.0)
    assert popped(queue, now=10 * (2.0 - ALLOWANCE) + 0.1) == ["costly/1", "costly/2", "a/1"]


def test_small_debts_do_not_count() -> None:
    queue = queue_of("a/1", "b/1")
    for second in range(100):
        queue.tenants.bill("a", 0.09, now=float(second))
    assert popped(queue, now=100.0) == ["a/1", "b/1"]


def test_a_namespace_at_its_bind_limit_is_skipped() -> None:
    queue = queue_of("busy/1", "a/1", "busy/2")
    assert popped(queue, at_limit=("busy",)) == ["a/1"]
    assert popped(queue) == ["busy/1", "busy/2"]


def test_units_in_debt_can_change_and_be_removed() -> None:
    queue = queue_of("costly/1", "costly/2", "costly/3", "a/1")
    queue.tenants.bill("costly", 9.0, now=0.0)
    assert queue.pop(0.0) == PodUnit("a/1")
    queue.put(PodUnit("costly/2"), priority=5, created=1, now=0.0, tenant="costly")
    queue.remove(PodUnit("costly/1"))
    assert popped(queue) == ["costly/2", "costly/3"]
    assert len(queue) == 3  # a/1 and these two, in flight


def test_a_search_that_hits_its_limit_rests_longer_each_time_in_the_whole_namespace() -> None:
    queue = queue_of("hard/1", "hard/2", "easy/1")
    rests = []
    for key in (PodUnit("hard/1"), PodUnit("hard/2"), PodUnit("easy/1")):
        assert queue.pop(0.0) == key
        queue.failed(key, 0.0, waits_for=key, hit_limit=True)
        rests.append(queue.get(key).rest_until)  # type: ignore[union-attr]
    assert rests == [2.0, 4.0, 2.0]
    queue.tenants.placed("hard")
    assert queue.tenants.hit_limit("hard") == 2.0


def test_the_rest_after_a_limit_is_bounded() -> None:
    tenants = Tenants()
    assert max(tenants.hit_limit("hard") for _ in range(100)) == 60.0


def test_the_number_of_namespaces_with_their_own_figure_is_bounded() -> None:
    tenants = Tenants()
    for number in range(1000):
        tenants.bill(f"ns-{number}", 1.0, now=0.0)
    assert len(tenants.spent) == MOST_NAMED + 1
    assert tenants.spent[OTHERS] == 1000 - MOST_NAMED
    tenants.bill("cheap", 0.001, now=0.0)
    assert "cheap" not in tenants.spent


def test_settled_accounts_are_dropped() -> None:
    tenants = Tenants()
    for number in range(10_000):
        tenants.bill(f"ns-{number}", 0.001, now=float(number))
    assert len(tenants._debts) < 1000
