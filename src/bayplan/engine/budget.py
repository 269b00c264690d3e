"""The work that one decision can take. Every part of a decision charges its work, and stops when nothing is left.

Work is counted, never timed: nodes checked, admissions replayed, steps of a search, iterations of the solver. So the
answer does not depend on the machine or its load. A unit is about a microsecond on a machine of 2024.

A part that has used up its own budget (`at_most`) stops at the next opportunity and returns what it has. A decision's
budget is `hard`: `spend` raises `OutOfWork` wherever the search is, and the gang waits with what was found, or with
"search limit reached". The solver also has a clock as a guard, far beyond its expected time. If that triggers, the
answer says so.
"""

from __future__ import annotations

# What one search may take.
WORK = 2_000_000
# What one decision may take at most, with everything that belongs to it: counting slots, replays, all searches for
# parts of the gang.
WORK_OF_A_DECISION = 4 * WORK

# An admission that is replayed: 0.3 ms on two zones, 1 ms and more on eight.
WORK_OF_AN_ADMISSION = 500

LIMIT_REACHED = "search limit reached"


class OutOfWork(Exception):
    """A decision has used up its budget."""


class Budget:
    """An amount of work; a nested budget also spends that of its parent."""

    def __init__(self, work: float = WORK, parent: Budget | None = None, *, hard: bool = False) -> None:
        self.spent = 0.0
        """The units that were charged so far."""
        self._left = work
        self._parent = parent
        self._hard = hard

    @property
    def left(self) -> float:
        """The units that are left, 0 if it is used up."""
        own = max(self._left, 0.0)
        return own if self._parent is None else min(own, self._parent.left)

    @property
    def is_spent(self) -> bool:
        """True if nothing is left."""
        return self.left <= 0.0

    def at_most(self, work: float) -> Budget:
        """A budget for a part of the work, at most what is left of this one."""
        return Budget(min(work, self.left), self)

    def spend(self, work: float) -> None:
        """Charge work that is done next; raises `OutOfWork` if a hard budget has too little left for it."""
        done = min(work, self._left) if self._hard else work
        self._left -= done
        self.spent += done
        if self._parent is not None:
            self._parent.spend(done)
        if done < work:
            self._left = 0.0
            raise OutOfWork


UNLIMITED = Budget(float("inf"))
