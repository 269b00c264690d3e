"""The state of a descent (`gathering.py`): where every pod is, and how many pods each domain of each level has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.engine.gangs.groups.groups import WHOLE_GANG, groups_of
from bayplan.engine.gangs.problem import Counts, Placed, Problem, Solution, Spots, Status, domain_counts

Key = tuple[int, int]
"""A part and a shape."""
Move = tuple[Key, int, int]
"""A number of pods to add at a position; negative to remove."""


def by_position(problem: Problem, placed: Placed) -> Counts:
    """Pods by position, running ones included."""
    pods = np.zeros(problem.tree.size, dtype=np.int64)
    if problem.parts[0].running_at:
        np.add.at(pods, list(problem.parts[0].running_at), 1)
    for shapes in placed:
        for spots in shapes.values():
            pods[spots.positions] += spots.counts
    return pods


def by_level(problem: Problem, counts: Counts) -> list[Counts]:
    """Sums per domain, for each level."""
    return [problem.tree.sums(counts, level) for level in range(problem.tree.node_level + 1)]


class State:
    """Where every pod is, and what each domain of each level holds."""

    def __init__(self, problem: Problem, placed: Placed) -> None:
        self.problem, self.tree = problem, problem.tree
        self.groups = groups_of(problem)
        self.at: dict[Key, dict[int, int]] = {}
        self.domains = [at.tolist() for at in self.tree.domain_at]
        self.used = {shape: np.zeros(self.tree.size, dtype=np.int64) for shape in problem.shapes}
        self.free = problem.free.astype(np.float64)
        # By shape the resources that one pod takes.
        self._takes = {
            shape: [(resource, amount) for resource, amount in enumerate(problem.amounts[shape].tolist()) if amount > 0]
            if len(self.free)
            else []
            for shape in problem.shapes
        }
        # The room of a shape, by position or by domain, until a pod moves.
        self._room: dict[tuple[int, int, int], Counts] = {}
        self._room_in: dict[tuple[int, int], Counts] = {}
        for number, shapes in enumerate(placed):
            for shape, spots in shapes.items():
                self.at[number, shape] = dict(zip(spots.positions.tolist(), spots.counts.tolist(), strict=True))
                self.used[shape][spots.positions] += spots.counts
                if len(self.free):
                    self.free[:, spots.positions] -= problem.amounts[shape][:, np.newaxis] * spots.counts
        self.inside = by_level(problem, by_position(problem, placed))
        self.closeness = sum(int((inside * inside).sum()) for inside in self.inside)
        self.counts = domain_counts(problem, self._solution()) if problem.prefers else ()

    def placed(self) -> Placed:
        """The placement by part and shape."""
        rows: list[dict[int, Spots]] = [{} for _ in self.problem.parts]
        for (number, shape), here in self.at.items():
            positions = sorted(here)
            rows[number][shape] = Spots(
                np.array(positions, dtype=np.intp), np.array([here[each] for each in positions], dtype=np.int64)
            )
        return tuple(rows)

    def _solution(self) -> Solution:
        return Solution(Status.FEASIBLE, self.placed())

    def _count(self, position: int, count: int) -> None:
        """Keep sums and their squares: large is close."""
        for inside, domains in zip(self.inside, self.domains, strict=True):
            before = int(inside[domains[position]])
            inside[domains[position]] = before + count
            self.closeness += count * (2 * before + count)

    def shift(self, move: Move, sign: int = 1) -> None:
        """Apply a move, or undo it with sign -1."""
        key, position, number = move
        count, here = sign * number, self.at[key]
        self._room.clear()
        self._room_in.clear()
        here[position] = here.get(position, 0) + count
        if not here[position]:
            del here[position]
        self._count(position, count)
        self.used[key[1]][position] += count
        if len(self.free):
            self.free[:, position] -= count * self.problem.amounts[key[1]]

    def room(self, shape: int, first: int, end: int) -> Counts:
        """The room for a shape at each position from `first` to `end`."""
        known = self._room.get((shape, first, end))
        if known is None:
            room = self.problem.slots[shape][first:end] - self.used[shape][first:end]
            for resource, amount in self._takes[shape]:
                room = np.minimum(room, self.free[resource, first:end] // amount)
            known = self._room[shape, first, end] = np.maximum(room, 0).astype(np.int64)
        return known

    def room_in(self, shape: int, level: int) -> Counts:
        """The room for a shape in each domain of a level."""
        if (shape, level) not in self._room_in:
            self._room_in[shape, level] = self.tree.sums(self.room(shape, 0, self.tree.size), level)
        return self._room_in[shape, level]

    def bounds(self, group: int, position: int) -> tuple[int, int]:
        """The positions of the domain that a group has, of which one is known."""
        if group == WHOLE_GANG:
            return 0, self.tree.size
        level = self.groups.level_of[group]
        return self.tree.bounds(level, self.domains[level][position])

    def is_allowed(self, moves: list[Move]) -> bool:
        """True if kubelets take what is where pods have moved, and no goal before the mean distance is missed."""
        mixes = self.problem.mixes
        if mixes is not None:
            for position in {move[1] for move in moves}:
                mix: dict[int, int] = {}
                for (_, shape), here in self.at.items():
                    if position in here:
                        mix[shape] = mix.get(shape, 0) + here[position]
                if len(mix) > 1 and not mixes.admits(position, tuple(sorted(mix.items()))):
                    return False
        if not self.counts:
            return True
        counts = domain_counts(self.problem, self._solution())
        if counts > self.counts:
            return False
        self.counts = counts
        return True

    def undo(self, moves: Sequence[Move]) -> None:
        """Undo moves, the last one first."""
        for move in reversed(moves):
            self.shift(move, -1)
