"""The work that one decision may take. Every part of the search charges what it does, and stops when nothing is left.

Work is counted, never timed: steps of a search, nodes looked at, cells of a table, iterations of the solver. So the same question has the same answer on
any machine at any load. A unit is about a microsecond on a machine of 2024; `WORK` is what one search may take, and a decision, which may try a hundred parts of a
gang, has a budget for all of them.

The solver also has a clock, far beyond what its work should take, in case counting fails. If that strikes, the answer says so.
"""

from __future__ import annotations

WORK = 2_000_000


class Budget:
    """So many units of work; a budget inside another one spends that one's, too."""

    def __init__(self, work: float = WORK, around: Budget | None = None) -> None:
        self._left = work
        self._around = around

    @property
    def left(self) -> float:
        """The units that are left, 0 if it is used up."""
        own = max(self._left, 0.0)
        return own if self._around is None else min(own, self._around.left)

    @property
    def is_spent(self) -> bool:
        """True if nothing is left."""
        return self.left <= 0.0

    def at_most(self, work: float) -> Budget:
        """A budget for a part of the work: so many units of this one's, if there are as many."""
        return Budget(min(work, self.left), self)

    def spend(self, work: float) -> None:
        """Charge work that was done."""
        self._left -= work
        if self._around is not None:
            self._around.spend(work)
