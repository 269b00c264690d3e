"""Process-level plumbing of a service: shutdown on signals, event-loop latency, garbage collection."""

from __future__ import annotations

import asyncio
import gc
import logging
import selectors
import signal
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# `LoopMonitor` remembers the longest iteration for this many seconds, in this many buckets.
WINDOW = 300.0
BUCKETS = 10
# With Python's own thresholds, garbage collection took a quarter of the CPU time at 5,000 nodes and blocked the loop
# for 150 ms at a time. A scheduler keeps hundreds of thousands of objects and creates hardly any cycles.
GC_THRESHOLDS = (50_000, 10, 100)


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
        # Start and longest iteration of each bucket.
        self._longest: deque[tuple[float, float]] = deque(maxlen=BUCKETS + 1)

    def record(self, took: float, now: float) -> None:
        """Record the duration of an iteration in seconds."""
        self.count += 1
        if not self._longest or now - self._longest[-1][0] > WINDOW / BUCKETS:
            self._longest.append((now, took))
        elif took > self._longest[-1][1]:
            self._longest[-1] = (self._longest[-1][0], took)

    def longest(self, now: float) -> float:
        """The longest recent iteration in seconds."""
        return max((took for began, took in self._longest if now - began <= WINDOW + WINDOW / BUCKETS), default=0.0)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop that reports its iterations here."""
        return asyncio.SelectorEventLoop(_MeasuringSelector(self))


class _MeasuringSelector(selectors.DefaultSelector):
    def __init__(self, monitor: LoopMonitor) -> None:
        super().__init__()
        self._monitor = monitor
        self._began: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        now = time.monotonic()
        if self._began is not None:
            self._monitor.record(now - self._began, now)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self._began = time.monotonic()
        return ready
