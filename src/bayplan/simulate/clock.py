"""A discrete clock: things that will happen, in the order of their moments.

Equal moments in the order they were planned.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from bayplan.simulate.scenario.model import Seconds

Action = Callable[[], object]


class Clock:
    """Simulated time. Nothing passes between two events."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self._planned: list[tuple[Seconds, int, Action]] = []
        self._number = 0

    def at(self, moment: Seconds, action: Action) -> int:
        """Plan something; a moment that has passed means now. The number is for `cancel`."""
        self._number += 1
        heappush(self._planned, (max(moment, self.now), self._number, action))
        return self._number

    def cancel(self, number: int) -> None:
        """Something will not happen; if it has happened already, nothing changes."""
        self._planned = [planned for planned in self._planned if planned[1] != number]
        heapify(self._planned)

    def after(self, delay: Seconds, action: Action) -> None:
        """Schedule something for this many seconds from now."""
        self.at(self.now + delay, action)

    @property
    def next_moment(self) -> Seconds | None:
        """When the next thing happens; None if nothing is planned."""
        return self._planned[0][0] if self._planned else None

    def advance(self) -> Action:
        """Go to the next moment and return what happens then."""
        self.now, _, action = heappop(self._planned)
        return action
