"""Process-level plumbing of a service: shutdown on signals, event-loop latency, garbage collection."""

from __future__ import annotations

import asyncio
import gc
import logging
import selectors
import signal
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

logger = logging.getLogger(__name__)

SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Seconds of work before other tasks of the loop get their turn.
SLICE = 0.005
# `LoopMonitor` remembers the longest iteration for this many seconds, in this many buckets.
WINDOW = 300.0
BUCKETS = 10
# With Python's own thresholds, garbage collection took a quarter of the CPU time at 5,000 nodes and blocked the loop
# for 150 ms at a time. A scheduler keeps hundreds of thousands of objects and creates hardly any cycles. A collection
# of the second generation visits up to 50,000 objects. With 100,000, the tasks that bind a gang of ten thousand pods
# made it 48 ms long.
GC_THRESHOLDS = (10_000, 5, 1_000)


async def run_until_signal(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts of a service until SIGTERM, SIGINT or the end of one part; then cancel all and await their cleanup.

    The exception of a failed part propagates.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SHUTDOWN_SIGNALS:  # handlers stay installed: a second signal must not interrupt the cleanup
        loop.add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(part) for part in parts]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # raises what ended it
        logger.info("stopping")
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)


async def in_slices(steps: Iterable[object]) -> None:
    """Run all steps; other tasks of the loop get their turn after each `SLICE`."""
    end = time.perf_counter() + SLICE
    for _ in steps:
        if time.perf_counter() > end:
            await asyncio.sleep(0)
            end = time.perf_counter() + SLICE


def tune_gc() -> None:
    """Collect garbage rarely. Call this at startup."""
    gc.set_threshold(*GC_THRESHOLDS)


def freeze_gc() -> None:
    """Exclude all existing objects from collection. Call this after the first lists."""
    gc.freeze()


class LoopMonitor:
    """Measures iterations of an event loop: `asyncio.Runner(loop_factory=monitor.new_loop)`.

    An iteration is the time between two waits for I/O. It delays every watch, bind and probe by as much.
    """

    def __init__(self) -> None:
        self.count = 0
        self._longest = _RecentMaximum()
        self._longest_cpu = _RecentMaximum()

    def record(self, took: float, now: float, cpu: float = 0.0) -> None:
        """Record an iteration: its seconds, and its seconds of CPU time."""
        self.count += 1
        self._longest.add(took, now)
        self._longest_cpu.add(cpu, now)

    def longest(self, now: float) -> float:
        """The longest recent iteration in seconds."""
        return self._longest.at(now)

    def longest_cpu(self, now: float) -> float:
        """The most seconds of CPU time that a recent iteration used; if `longest` is far more, the machine was busy."""
        return self._longest_cpu.at(now)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that reports its iterations here."""
        return asyncio.SelectorEventLoop(_MeasuringSelector(self))


class _RecentMaximum:
    """The largest value of the last `WINDOW` seconds."""

    def __init__(self) -> None:
        # Start and largest value of each bucket.
        self._buckets: deque[tuple[float, float]] = deque(maxlen=BUCKETS + 1)

    def add(self, value: float, now: float) -> None:
        if not self._buckets or now - self._buckets[-1][0] > WINDOW / BUCKETS:
            self._buckets.append((now, value))
        elif value > self._buckets[-1][1]:
            self._buckets[-1] = (self._buckets[-1][0], value)

    def at(self, now: float) -> float:
        return max((value for began, value in self._buckets if now - began <= WINDOW + WINDOW / BUCKETS), default=0.0)


class _MeasuringSelector(selectors.DefaultSelector):
    def __init__(self, monitor: LoopMonitor) -> None:
        super().__init__()
        self._monitor = monitor
        self._began: tuple[float, float] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began is not None:
            began, cpu_began = self._began
            now = time.monotonic()
            self._monitor.record(now - began, now, time.thread_time() - cpu_began)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self._began = time.monotonic(), time.thread_time()
        return ready
