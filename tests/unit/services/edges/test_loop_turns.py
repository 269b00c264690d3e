"""The longest turn of the loop is told for some minutes."""

from __future__ import annotations

import asyncio
import time

from bayplan.services.edges.loop_turns import LoopTurns


def test_what_blocks_the_loop_is_a_long_turn_and_waiting_is_none() -> None:
    turns = LoopTurns()

    async def story() -> None:
        await asyncio.sleep(0.2)
        time.sleep(0.06)  # noqa: ASYNC251 - this is what is measured
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=turns.new_loop) as runner:
        runner.run(story())
    assert 0.06 <= turns.longest(time.monotonic()) < 0.16
    assert turns.count >= 3


def test_an_old_turn_is_forgotten() -> None:
    turns = LoopTurns()
    turns.ended(2.0, now=0.0)
    for now in range(10, 100, 10):
        turns.ended(0.001, now=float(now))
    assert turns.longest(100.0) == 2.0
    for now in range(100, 600, 10):
        turns.ended(0.001, now=float(now))
    assert turns.longest(600.0) == 0.001
