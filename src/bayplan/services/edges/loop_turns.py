"""How long the turns of the event loop are. Whatever blocks the loop delays watches, binds, health and every other tenant's pod by as much.

A turn is the time between two waits for I/O, so it is measured where the loop waits: in its selector.

    with asyncio.Runner(loop_factory=turns.new_loop) as runner: ...
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque

# The longest turn is told for this long, in so many steps.
WINDOW = 300.0
STEPS = 10


class LoopTurns:
    """The turns of one loop: how many, how long in all, and the longest of the last minutes."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        # For each step of the window the time at which it began and its longest turn.
        self._longest: deque[tuple[float, float]] = deque(maxlen=STEPS + 1)

    def ended(self, took: float, now: float) -> None:
        """Record how many seconds a turn took."""
        self.count += 1
        self.seconds += took
        if not self._longest or now - self._longest[-1][0] > WINDOW / STEPS:
            self._longest.append((now, took))
        elif took > self._longest[-1][1]:
            self._longest[-1] = (self._longest[-1][0], took)

    def longest(self, now: float) -> float:
        """The longest turn of the last minutes in seconds."""
        return max((took for began, took in self._longest if now - began <= WINDOW + WINDOW / STEPS), default=0.0)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """An event loop whose turns are measured here."""
        return asyncio.SelectorEventLoop(_MeasuringSelector(self))


class _MeasuringSelector(selectors.DefaultSelector):
    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns
        self._began: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        now = time.monotonic()
        if self._began is not None:
            self._turns.ended(now - self._began, now)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self._began = time.monotonic()
        return ready
