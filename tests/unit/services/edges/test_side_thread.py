"""Work in the side thread: the loop continues, and nothing else touches the same objects."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bayplan.services.edges.side_thread import SideThread
from tests.scripted_api_server import asynchronous


@asynchronous
async def test_the_loop_continues_during_a_long_decision() -> None:
    thread, may_end = SideThread(), threading.Event()
    deciding = asyncio.create_task(thread.run(lambda: may_end.wait(10)))
    turns = 0
    for _ in range(100):
        await asyncio.sleep(0)
        turns += 1
    assert not deciding.done()
    may_end.set()
    assert await deciding
    assert turns == 100


@asynchronous
async def test_watch_events_and_bind_results_wait_in_order() -> None:
    thread, may_end = SideThread(), threading.Event()
    story: list[str] = []

    def decide() -> None:
        may_end.wait(10)
        story.append("decided")

    async def news() -> None:
        await thread.idle()
        story.append("news")

    deciding = asyncio.create_task(thread.run(decide))
    await asyncio.sleep(0)
    following = asyncio.create_task(news())
    await asyncio.sleep(0)
    thread.when_idle(lambda: story.append("grouped"))
    assert story == []
    may_end.set()
    await asyncio.gather(deciding, following)
    assert story == ["decided", "grouped", "news"]
    thread.when_idle(lambda: story.append("at once"))
    assert story[-1] == "at once"


@asynchronous
async def test_waiters_run_before_the_next_decision() -> None:
    thread = SideThread()
    story: list[str] = []

    async def decide_again_and_again() -> None:
        for _ in range(3):
            await thread.run(lambda: story.append("decided"))

    async def news() -> None:
        await thread.idle()
        story.append("news")

    deciding = asyncio.create_task(decide_again_and_again())
    await asyncio.sleep(0)
    await asyncio.gather(deciding, news())
    assert story.index("news") == 1


@asynchronous
async def test_an_exception_propagates_to_the_caller() -> None:
    thread = SideThread()
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert not thread.busy
    assert await thread.run(lambda: 7) == 7


@asynchronous
async def test_others_still_wait_after_the_caller_is_cancelled() -> None:
    thread, may_end = SideThread(), threading.Event()
    deciding = asyncio.create_task(thread.run(lambda: may_end.wait(10)))
    await asyncio.sleep(0)
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)
    assert thread.busy
    may_end.set()
    await thread.idle()
    assert not thread.busy
