"""A service runs until a signal or a bug ends it, and puts things in order either way."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from bayplan.services.agent.sources.wakers import SIGNAL, START, Wakers
from bayplan.services.edges.signals import until_a_signal
from tests.scripted_api_server import asynchronous


class Part:
    """Works until it is cancelled, then tidies up for a while."""

    def __init__(self) -> None:
        self.works = asyncio.Event()
        self.is_tidy = False

    async def run(self) -> None:
        self.works.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.is_tidy = True


async def send(number: signal.Signals, *after: Part) -> None:
    """Send this process a signal once all parts work, and go on for ever."""
    for part in after:
        await part.works.wait()
    os.kill(os.getpid(), number)
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@asynchronous
async def test_a_signal_ends_all_parts_and_each_may_tidy_up(number: signal.Signals) -> None:
    parts = Part(), Part()
    await until_a_signal(*(part.run() for part in parts), send(number, *parts))
    assert all(part.is_tidy for part in parts)


@asynchronous
async def test_a_second_signal_does_not_cut_off_the_tidying() -> None:
    async def impatient(part: Part) -> None:
        try:
            await send(signal.SIGTERM, part)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    part = Part()
    await until_a_signal(part.run(), impatient(part))
    assert part.is_tidy


@asynchronous
async def test_a_part_that_fails_ends_the_others_and_says_why() -> None:
    async def fails(after: Part) -> None:
        await after.works.wait()
        raise ValueError("a bug")

    part = Part()
    with pytest.raises(ValueError, match="a bug"):
        await until_a_signal(part.run(), fails(part))
    assert part.is_tidy


@asynchronous
async def test_a_service_that_is_cancelled_from_outside_ends_its_parts() -> None:
    part = Part()
    service = asyncio.create_task(until_a_signal(part.run()))
    await part.works.wait()
    service.cancel()
    with pytest.raises(asyncio.CancelledError):
        await service
    assert part.is_tidy


@asynchronous
async def test_sighup_wakes_the_agent_and_ends_nothing() -> None:
    heard = []

    async def looks() -> None:
        async with Wakers(None, interval=0, calm=0.01) as wakers:
            heard.append(await wakers.next())
            os.kill(os.getpid(), signal.SIGHUP)
            heard.append(await wakers.next())
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    await until_a_signal(looks())
    assert heard == [{START}, {SIGNAL}]
