"""How much one client may ask."""

from __future__ import annotations

from bayplan.services.web.limits import BURST, MOST_CLIENTS, PER_SECOND, RateLimit


def test_a_client_gets_its_burst_and_then_its_rate_without_disturbing_others() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])
    assert [limit.seconds_to_wait("a") for _ in range(int(BURST))] == [0.0] * int(BURST)
    assert limit.seconds_to_wait("a") == 1 / PER_SECOND
    assert limit.seconds_to_wait("b") == 0.0
    now[0] = 1 / PER_SECOND
    assert limit.seconds_to_wait("a") == 0.0


def test_costly_questions_take_more_of_the_bucket() -> None:
    limit = RateLimit(lambda: 0.0)
    assert [limit.seconds_to_wait("a", BURST / 2) for _ in range(3)] == [0.0, 0.0, BURST / 2 / PER_SECOND]


def test_memory_for_clients_is_bounded() -> None:
    limit = RateLimit(lambda: 0.0)
    for number in range(MOST_CLIENTS + 10):
        limit.seconds_to_wait(str(number))
    assert len(limit._buckets) == MOST_CLIENTS
