"""Outbox: order, limits, and retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.kube.client.client import Unreachable
from bayplan.services.edges.outbox import MAX_ATTEMPTS, Outbox
from tests.builders.services import api_error, in_virtual_time, now


class Letters:
    """Records what is sent, after raising the given problems."""

    def __init__(self, *problems: Exception, seconds: float = 0.0) -> None:
        self.arrived: list[tuple[float, str]] = []
        self._problems = list(problems)
        self._seconds = seconds

    async def send(self, message: str) -> None:
        await asyncio.sleep(self._seconds)
        if self._problems:
            raise self._problems.pop(0)
        self.arrived.append((now(), message))

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.arrived]


def run(letters: Letters, story: Callable[[Outbox[str]], Awaitable[None]], **limits: float) -> Outbox[str]:
    async def tell() -> Outbox[str]:
        async with Outbox(letters.send, workers=1, **limits) as outbox:  # type: ignore[arg-type]
            await story(outbox)
        return outbox

    return in_virtual_time(tell())


def test_messages_arrive_in_order_urgent_ones_first() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        for number in range(3):
            outbox.put(f"k{number}", f"note {number}")
        outbox.put("fire", "fire", urgent=True)

    outbox = run(letters, story)
    assert letters.texts == ["fire", "note 0", "note 1", "note 2"]
    assert (outbox.sent, outbox.dropped, outbox.failed) == (4, 0, 0)


def test_a_newer_message_replaces_a_waiting_one() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("pod", "no room")
        outbox.put("pod", "still no room")

    run(letters, story)
    assert letters.texts == ["still no room"]


def test_a_newer_message_follows_one_in_flight() -> None:
    letters = Letters(seconds=1.0)

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("pod", "no room")
        await asyncio.sleep(0.5)
        outbox.put("pod", "room")

    run(letters, story)
    assert letters.texts == ["no room", "room"]


def test_messages_beyond_the_limit_are_dropped_and_counted() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        assert [outbox.put(f"k{number}", str(number)) for number in range(4)] == [True, True, False, False]

    outbox = run(letters, story, most=2)
    assert letters.texts == ["0", "1"]
    assert outbox.dropped == 2


def test_the_rate_limit_applies_after_a_burst() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        await asyncio.sleep(100)
        for number in range(30):
            outbox.put(f"k{number}", str(number))
        await asyncio.sleep(100)

    run(letters, story, rate=10.0)
    after = [round(moment - 100, 3) for moment, _ in letters.arrived]
    assert after[:10] == [0.0] * 10
    assert after[-1] == 2.0


def test_transient_errors_are_retried() -> None:
    letters = Letters(Unreachable("reset"), api_error(503), api_error(429))

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("k", "after all")
        await asyncio.sleep(60)

    outbox = run(letters, story)
    assert letters.texts == ["after all"]
    assert letters.arrived[0][0] > 1.0
    assert (outbox.sent, outbox.failed) == (1, 0)


def test_permanent_errors_and_too_many_retries_give_up() -> None:
    letters = Letters(api_error(403), *[Unreachable("reset")] * MAX_ATTEMPTS)

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("a", "forbidden")
        outbox.put("b", "into the void")
        outbox.put("c", "fine")
        await asyncio.sleep(200)

    outbox = run(letters, story)
    assert letters.texts == ["fine"]
    assert (outbox.sent, outbox.failed) == (1, 2)


def test_a_bug_in_one_message_does_not_block_the_others() -> None:
    letters = Letters(KeyError("bug"))

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("a", "bug")
        outbox.put("b", "fine")

    assert run(letters, story).failed == 1
    assert letters.texts == ["fine"]


def test_a_cancelled_message_is_neither_sent_nor_retried() -> None:
    letters = Letters(Unreachable("reset"))

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("sending", "no room")
        await asyncio.sleep(0.1)
        outbox.put("waiting", "no room")
        outbox.cancel("sending")
        outbox.cancel("waiting")
        await asyncio.sleep(60)

    run(letters, story)
    assert letters.texts == []


def test_closing_sends_the_rest_without_pacing_within_a_time_limit() -> None:
    quick, stuck = Letters(), Letters(seconds=3600.0)

    async def story(outbox: Outbox[str]) -> None:
        for number in range(100):
            outbox.put(f"k{number}", str(number))

    assert run(quick, story, rate=1.0).sent == 100
    assert quick.arrived[-1][0] < 5.0
    outbox = run(stuck, story, flush_seconds=2.0)
    assert (outbox.sent, outbox.dropped) == (0, 99)
