"""Long work beside the loop: the loop goes on, and nothing else touches what the work is about."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bayplan.services.edges.aside import Aside
from tests.scripted_api_server import asynchronous


@asynchronous
async def test_the_loop_goes_on_while_a_decision_takes_its_time() -> None:
    aside, may_end = Aside(), threading.Event()
    deciding = asyncio.create_task(aside.run(lambda: may_end.wait(10)))
    turns = 0
    for _ in range(100):
        await asyncio.sleep(0)
        turns += 1
    assert not deciding.done()
    may_end.set()
    assert await deciding
    assert turns == 100


@asynchronous
async def test_news_and_the_outcomes_of_binds_wait_for_its_end_in_their_order() -> None:
    aside, may_end = Aside(), threading.Event()
    story: list[str] = []

    def decide() -> None:
        may_end.wait(10)
        story.append("decided")

    async def news() -> None:
        await aside.idle()
        story.append("news")

    deciding = asyncio.create_task(aside.run(decide))
    await asyncio.sleep(0)
    following = asyncio.create_task(news())
    await asyncio.sleep(0)
    aside.when_idle(lambda: story.append("grouped"))
    assert story == []
    may_end.set()
    await asyncio.gather(deciding, following)
    assert story == ["decided", "grouped", "news"]
    aside.when_idle(lambda: story.append("at once"))
    assert story[-1] == "at once"


@asynchronous
async def test_what_waited_has_its_turn_before_the_next_decision() -> None:
    aside = Aside()
    story: list[str] = []

    async def decide_again_and_again() -> None:
        for _ in range(3):
            await aside.run(lambda: story.append("decided"))

    async def news() -> None:
        await aside.idle()
        story.append("news")

    deciding = asyncio.create_task(decide_again_and_again())
    await asyncio.sleep(0)
    await asyncio.gather(deciding, news())
    assert story.index("news") == 1


@asynchronous
async def test_a_bug_in_it_is_raised_where_it_was_asked_for() -> None:
    aside = Aside()
    with pytest.raises(ZeroDivisionError):
        await aside.run(lambda: 1 // 0)
    assert not aside.busy
    assert await aside.run(lambda: 7) == 7


@asynchronous
async def test_nothing_is_let_in_before_it_has_ended_even_if_nobody_waits_for_it_any_more() -> None:
    aside, may_end = Aside(), threading.Event()
    deciding = asyncio.create_task(aside.run(lambda: may_end.wait(10)))
    await asyncio.sleep(0)
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)
    assert aside.busy
    may_end.set()
    await aside.idle()
    assert not aside.busy
