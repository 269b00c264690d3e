"""Shutdown on signals, event-loop latency and garbage collection."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import weakref
from collections.abc import Iterator

import pytest

from bayplan.services.agent.sources.wakers import SIGNAL, START, Wakers
from bayplan.services.edges.process import GC_THRESHOLDS, LoopMonitor, freeze_gc, run_until_signal, tune_gc
from tests.scripted_api_server import asynchronous


class Part:
    """Works until it is cancelled, then cleans up for a while."""

    def __init__(self) -> None:
        self.works = asyncio.Event()
        self.is_clean = False

    async def run(self) -> None:
        self.works.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.is_clean = True


async def send(number: signal.Signals, *after: Part) -> None:
    """Send this process a signal once all parts work, and wait forever."""
    for part in after:
        await part.works.wait()
    os.kill(os.getpid(), number)
    await asyncio.Event().wait()


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    @asynchronous
    async def test_a_signal_ends_all_parts_after_their_cleanup(self, number: signal.Signals) -> None:
        parts = Part(), Part()
        await run_until_signal(*(part.run() for part in parts), send(number, *parts))
        assert all(part.is_clean for part in parts)

    @asynchronous
    async def test_a_second_signal_does_not_interrupt_the_cleanup(self) -> None:
        async def impatient(part: Part) -> None:
            try:
                await send(signal.SIGTERM, part)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        part = Part()
        await run_until_signal(part.run(), impatient(part))
        assert part.is_clean

    @asynchronous
    async def test_a_failing_part_ends_the_others_and_its_error_propagates(self) -> None:
        async def fails(after: Part) -> None:
            await after.works.wait()
            raise ValueError("a bug")

        part = Part()
        with pytest.raises(ValueError, match="a bug"):
            await run_until_signal(part.run(), fails(part))
        assert part.is_clean

    @asynchronous
    async def test_cancelling_the_service_ends_its_parts(self) -> None:
        part = Part()
        service = asyncio.create_task(run_until_signal(part.run()))
        await part.works.wait()
        service.cancel()
        with pytest.raises(asyncio.CancelledError):
            await service
        assert part.is_clean

    @asynchronous
    async def test_sighup_wakes_the_agent_and_ends_nothing(self) -> None:
        heard = []

        async def looks() -> None:
            async with Wakers(None, interval=0, calm=0.01) as wakers:
                heard.append(await wakers.next())
                os.kill(os.getpid(), signal.SIGHUP)
                heard.append(await wakers.next())
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.Event().wait()

        await run_until_signal(looks())
        assert heard == [{START}, {SIGNAL}]


class TestLoopMonitor:
    def test_blocking_the_loop_counts_and_waiting_does_not(self) -> None:
        monitor = LoopMonitor()

        async def story() -> None:
            await asyncio.sleep(0.2)
            time.sleep(0.06)  # noqa: ASYNC251 - this is what is measured
            await asyncio.sleep(0)

        with asyncio.Runner(loop_factory=monitor.new_loop) as runner:
            runner.run(story())
        assert 0.06 <= monitor.longest(time.monotonic()) < 0.16
        assert monitor.longest_cpu(time.monotonic()) < 0.05
        assert monitor.count >= 3

    def test_cpu_time_of_an_iteration_is_measured_beside_its_duration(self) -> None:
        monitor = LoopMonitor()

        async def works() -> None:
            end = time.thread_time() + 0.05
            while time.thread_time() < end:
                pass

        with asyncio.Runner(loop_factory=monitor.new_loop) as runner:
            runner.run(works())
        assert 0.05 <= monitor.longest_cpu(time.monotonic()) <= monitor.longest(time.monotonic())

    def test_an_old_iteration_is_forgotten(self) -> None:
        monitor = LoopMonitor()
        monitor.record(2.0, now=0.0)
        for now in range(10, 100, 10):
            monitor.record(0.001, now=float(now))
        assert monitor.longest(100.0) == 2.0
        for now in range(100, 600, 10):
            monitor.record(0.001, now=float(now))
        assert monitor.longest(600.0) == 0.001


class TestGarbageCollection:
    @pytest.fixture(autouse=True)
    def restore(self) -> Iterator[None]:
        before = gc.get_threshold()
        yield
        gc.unfreeze()
        gc.set_threshold(*before)

    def test_collections_are_rare(self) -> None:
        tune_gc()
        assert gc.get_threshold() == GC_THRESHOLDS

    def test_a_frozen_object_is_freed_with_its_last_reference(self) -> None:
        part = LoopMonitor()
        seen = weakref.ref(part)
        freeze_gc()
        assert gc.get_freeze_count() > 0
        del part
        assert seen() is None
