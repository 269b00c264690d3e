"""A discrete clock: things that will happen, in the order of their moments; equal moments in the order they were planned."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from bayplan.simulate.scenario.model import Seconds

Action = Callable[[], None]


class Clock:
    """Simulated time. Nothing passes between two events."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self._planned: list[tuple[Seconds, int, Action]] = []
        self._number = 0

    def at(self, moment: Seconds, action: Action) -> None:
        """Plan something; a moment that has passed means now."""
        self._number += 1
        heappush(self._planned, (max(moment, self.now), self._number, action))

    def after(self, delay: Seconds, action: Action) -> None:
        """Plan something so many seconds from now."""
        self.at(self.now + delay, action)

    @property
    def next_moment(self) -> Seconds | None:
        """When the next thing happens; None if nothing is planned."""
        return self._planned[0][0] if self._planned else None

    def advance(self) -> Action:
        """Go to the next moment and return what happens then."""
        self.now, _, action = heappop(self._planned)
        return action
