"""The time that one decision may take: whoever searches takes a share of what is left, and when nothing is left only quick ways remain.

A decision about a gang may try a hundred parts of it, each in several domains, each with an exact search. The limit is one for all of them, because
whoever schedules stands still meanwhile. Deciding knows no clock: the exact search reports the seconds that its solver took, and others book what
a step of theirs costs, as it was measured. So the same question has the same answer on a busy machine, as long as the solver is not asked.
"""

from __future__ import annotations

SECONDS = 2.0


class Budget:
    """So many seconds to spend; a budget inside another one spends that one's, too."""

    def __init__(self, seconds: float = SECONDS, around: Budget | None = None) -> None:
        self._left = seconds
        self._around = around

    @property
    def left(self) -> float:
        """The seconds that are left, 0 if it is used up."""
        own = max(self._left, 0.0)
        return own if self._around is None else min(own, self._around.left)

    @property
    def is_spent(self) -> bool:
        """True if nothing is left."""
        return self.left <= 0.0

    def at_most(self, seconds: float) -> Budget:
        """A budget for a part of the work: so many seconds of this one's, if there are as many."""
        return Budget(min(seconds, self.left), self)

    def spend(self, seconds: float) -> None:
        """Somebody has searched for so long."""
        self._left -= seconds
        if self._around is not None:
            self._around.spend(seconds)
