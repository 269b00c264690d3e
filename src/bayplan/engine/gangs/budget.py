"""The time that one decision may take: whoever searches takes a share of what is left, and when nothing is left only quick ways remain.

A decision about a gang may try a hundred parts of it, each in several domains, each with an exact search. The limit is one for all of them, because
whoever schedules stands still meanwhile. It is the only clock in the engine, and it never decides between two answers: it only ends a search.
"""

from __future__ import annotations

from time import monotonic

SECONDS = 2.0


class Budget:
    """So many seconds from now on."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._end = monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left, 0 if it is used up."""
        return max(self._end - monotonic(), 0.0)

    @property
    def is_spent(self) -> bool:
        """True if nothing is left."""
        return monotonic() >= self._end

    def at_most(self, seconds: float) -> Budget:
        """A budget for a part of the work: so many seconds, if there are as many."""
        return Budget(min(seconds, self.left))
