"""Pods on the nodes of one domain, exactly: tries every way, for questions that best fit leaves open.

In come a few pods by shape and the nodes between two positions. Out goes a packing, or None: a proof that there is
none, unless the search had to stop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Problem, Spots

Amounts = NDArray[np.float64]
Wanted = Sequence[tuple[int, int]]
"""How many pods of which shape, the largest shape first."""

# The most states of nodes that are visited for one question.
MOST_STATES = 4_000


class ExhaustivePacking:
    """Tries every way to put pods on nodes, the largest first; nodes in the same state once, and no state twice."""

    def __init__(
        self, problem: Problem, budget: Budget, scarcity: Amounts, first: int, end: int, wanted: Wanted
    ) -> None:
        self.problem, self.first, self.wanted = problem, first, wanted
        self.shapes = [shape for shape, _ in wanted]
        self.takes = [problem.amounts[shape].tolist() for shape in self.shapes]
        self.mixes = problem.mixes
        slots = np.stack([problem.slots[shape][first:end] for shape in self.shapes], axis=1)
        # The nodes that hold any of these pods, from `first` on.
        self.at = np.flatnonzero(slots.any(axis=1))
        self.end = end
        self.slots: list[list[int]] = slots[self.at].tolist()
        self.free: list[list[float]] = problem.free[:, first + self.at].T.tolist()
        self.counts = [[0] * len(wanted) for _ in self.at]
        self.scarcity: list[float] = scarcity.tolist()
        self.states = 0
        self.budget = budget
        self.seen: set[object] = set()

    def packing(self) -> tuple[Amounts, dict[int, Spots]] | None:
        """What the nodes have left, and the pods on them by shape; None if no way was found."""
        if not self._place(0, self.wanted[0][1]):
            return None
        free = self.problem.free[:, self.first : self.end].astype(np.float64)
        free[:, self.at] = np.array(self.free, dtype=np.float64).reshape(len(self.at), -1).T
        by_shape = np.array(self.counts, dtype=np.int64).T
        spots = {}
        for counts, shape in zip(by_shape, self.shapes, strict=True):
            used = counts.nonzero()[0]
            spots[shape] = Spots(self.first + self.at[used], counts[used])
        return free, spots

    @property
    def stopped(self) -> bool:
        """True if not every way was tried."""
        return self.states >= MOST_STATES or self.budget.is_spent

    def _room(self, kind: int, node: int) -> int:
        room = self.slots[node][kind] - self.counts[node][kind]
        for left, amount in zip(self.free[node], self.takes[kind], strict=True):
            if amount > 0:
                room = min(room, int(left // amount))
        return max(room, 0)

    def _left(self, node: int) -> float:
        """What is left on a node, in shares."""
        return sum(left * worth for left, worth in zip(self.free[node], self.scarcity, strict=True))

    def _place(self, kind: int, missing: int) -> bool:
        """Place the missing pods of a shape, and all later shapes."""
        if not missing:
            if kind + 1 == len(self.wanted):
                return True
            return self._place(kind + 1, self.wanted[kind + 1][1])
        self.states += 1
        # Every node and every shape on it is visited: 2 us and 0.1 us.
        self.budget.spend(5 + len(self.free) * (2 + len(self.wanted) / 10))
        rooms = [self._room(kind, node) for node in range(len(self.free))]
        if self.stopped or sum(rooms) < missing:
            return False
        alike = [self._kind_of(node) for node in range(len(self.free))]
        state = (kind, missing, tuple(sorted(alike)))
        if state in self.seen:
            return False
        self.seen.add(state)
        tried: set[object] = set()
        for node in sorted(range(len(self.free)), key=self._left):
            if not rooms[node] or alike[node] in tried:
                continue
            tried.add(alike[node])
            self._put(node, kind, 1)
            if self._is_admitted(node) and self._place(kind, missing - 1):
                return True
            self._put(node, kind, -1)
        return False

    def _put(self, node: int, kind: int, sign: int) -> None:
        self.counts[node][kind] += sign
        self.free[node] = [left - sign * amount for left, amount in zip(self.free[node], self.takes[kind], strict=True)]

    def _is_admitted(self, node: int) -> bool:
        if self.mixes is None or sum(count > 0 for count in self.counts[node]) < 2:
            return True
        mix = ((shape, count) for shape, count in zip(self.shapes, self.counts[node], strict=True) if count)
        return self.mixes.admits(self.first + int(self.at[node]), tuple(sorted(mix)))

    def _kind_of(self, node: int) -> tuple[object, ...]:
        """What decides about a node's further pods; where kubelets are asked, each node is a kind of its own."""
        own = node if self.mixes is not None else -1
        left = tuple(slots - count for slots, count in zip(self.slots[node], self.counts[node], strict=True))
        return (own, left, tuple(self.free[node]), tuple(self.counts[node]) if self.mixes is not None else ())
