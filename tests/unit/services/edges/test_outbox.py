"""Messages that may wait: their order, their limits, and what becomes of them when the API server has trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.kube.client.client import Unreachable
from bayplan.services.edges.outbox import MOST_TRIES, Outbox
from tests.unit.services.edges.small_server import in_virtual_time, now, refusal


class Letters:
    """Sends by writing down; fails as often as told."""

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


def test_messages_arrive_in_order_and_urgent_ones_first() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        for number in range(3):
            outbox.put(f"k{number}", f"note {number}")
        outbox.put("fire", "fire", urgent=True)

    outbox = run(letters, story)
    assert letters.texts == ["fire", "note 0", "note 1", "note 2"]
    assert (outbox.sent, outbox.dropped, outbox.failed) == (4, 0, 0)


def test_a_later_message_takes_the_place_of_one_that_waits() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("pod", "no room")
        outbox.put("pod", "still no room")

    run(letters, story)
    assert letters.texts == ["still no room"]


def test_a_later_message_follows_one_that_is_on_its_way() -> None:
    letters = Letters(seconds=1.0)

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("pod", "no room")
        await asyncio.sleep(0.5)
        outbox.put("pod", "room")

    run(letters, story)
    assert letters.texts == ["no room", "room"]


def test_more_than_may_wait_are_dropped_and_counted() -> None:
    letters = Letters()

    async def story(outbox: Outbox[str]) -> None:
        assert [outbox.put(f"k{number}", str(number)) for number in range(4)] == [True, True, False, False]

    outbox = run(letters, story, most=2)
    assert letters.texts == ["0", "1"]
    assert outbox.dropped == 2


def test_a_burst_goes_out_at_once_and_then_the_rate_holds() -> None:
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


def test_trouble_that_time_heals_is_waited_out() -> None:
    letters = Letters(Unreachable("reset"), refusal(503), refusal(429))

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("k", "after all")
        await asyncio.sleep(60)

    outbox = run(letters, story)
    assert letters.texts == ["after all"]
    assert letters.arrived[0][0] > 1.0
    assert (outbox.sent, outbox.failed) == (1, 0)


def test_what_the_server_refuses_or_never_takes_is_given_up() -> None:
    letters = Letters(refusal(403), *[Unreachable("reset")] * MOST_TRIES)

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("a", "forbidden")
        outbox.put("b", "into the void")
        outbox.put("c", "fine")
        await asyncio.sleep(200)

    outbox = run(letters, story)
    assert letters.texts == ["fine"]
    assert (outbox.sent, outbox.failed) == (1, 2)


def test_a_bug_in_one_message_does_not_silence_the_others() -> None:
    letters = Letters(KeyError("bug"))

    async def story(outbox: Outbox[str]) -> None:
        outbox.put("a", "bug")
        outbox.put("b", "fine")

    assert run(letters, story).failed == 1
    assert letters.texts == ["fine"]


def test_what_has_become_untrue_is_neither_sent_nor_tried_again() -> None:
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


def test_stopping_sends_what_waits_without_pacing_but_not_for_ever() -> None:
    quick, stuck = Letters(), Letters(seconds=3600.0)

    async def story(outbox: Outbox[str]) -> None:
        for number in range(100):
            outbox.put(f"k{number}", str(number))

    assert run(quick, story, rate=1.0).sent == 100
    assert quick.arrived[-1][0] < 5.0
    outbox = run(stuck, story, flush_seconds=2.0)
    assert (outbox.sent, outbox.dropped) == (0, 99)
