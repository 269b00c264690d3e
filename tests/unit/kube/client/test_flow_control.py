"""Tokens for requests, and the waiting time after failures: with times and chance written down."""

from __future__ import annotations

import pytest

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.flow_control import TokenBucket


def test_a_burst_goes_at_once_and_what_follows_waits_its_turn() -> None:
    bucket = TokenBucket(10, 3, now=0.0)
    assert [round(bucket.take(0.0), 3) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]


def test_tokens_come_back_with_time_but_never_more_than_a_burst() -> None:
    bucket = TokenBucket(10, 3, now=0.0)
    for _ in range(3):
        bucket.take(0.0)
    assert bucket.take(0.05) == pytest.approx(0.05)
    assert [bucket.take(100.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_over_a_minute_the_average_is_qps() -> None:
    bucket = TokenBucket(50, 100, now=0.0)
    sent = sum(1 for _ in range(5000) if bucket.take(0.0) <= 60.0)
    assert sent == 100 + 50 * 60


@pytest.mark.parametrize("qps", [0, -1])
def test_zero_or_less_is_no_limit(qps: float) -> None:
    bucket = TokenBucket(qps, 0, now=0.0)
    assert {bucket.take(0.0) for _ in range(1000)} == {0.0}


def test_a_burst_of_nothing_still_lets_requests_through() -> None:
    bucket = TokenBucket(1, 0, now=0.0)
    assert [bucket.take(0.0), bucket.take(0.0)] == [0, 1]


@pytest.mark.parametrize(
    "chance, waits",
    [
        (0.5, [1, 2, 4, 8, 8]),
        (0.0, [0.5, 1, 2, 4, 4]),
        (1.0, [1.5, 3, 6, 12, 12]),
    ],
)
def test_each_failure_waits_twice_as_long_up_to_a_limit(chance: float, waits: list[float]) -> None:
    backoff = Backoff(first=1, longest=8, chance=lambda: chance)
    assert [backoff.after_failure() for _ in range(5)] == waits


def test_a_success_makes_the_next_wait_short_again() -> None:
    backoff = Backoff(first=1, longest=8, chance=lambda: 0.5)
    backoff.after_failure()
    backoff.after_failure()
    backoff.reset()
    assert backoff.after_failure() == 1


def test_years_of_failures_do_not_overflow() -> None:
    backoff = Backoff(first=1, longest=8, chance=lambda: 0.5)
    assert {backoff.after_failure() for _ in range(5000)} == {1, 2, 4, 8}
