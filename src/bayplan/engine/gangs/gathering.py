"""Groups closer to each other: pods of a placement that is good already move where the mean distance between all pods gets smaller.

Two pods in one domain are two edges closer than two in different ones, at every level. So the mean distance falls as the sum of squares of what domains hold
grows, and what a move gains is known for all pods and all nodes at once. Moved are pods of one part from a node to another, and whole groups from one domain to
another; where none of that helps, a node is filled with pods from several others. No move takes more preferred domains, or more domains of a wider level; what a group requires holds, and so does everything that kubelets say.

This is a descent: it ends where no single move helps, which need not be the best there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups import WHOLE_GANG, groups_of
from bayplan.engine.gangs.problem import Counts, Placed, Problem, Solution, Spots, Status, domain_counts
from bayplan.engine.gangs.tree_table import largest_first

# Rounds over all pods; most placements need one or two.
MOST_ROUNDS = 8
# Domains that are tried for one group.
MOST_TRIES = 3
# Nodes beyond those beside pods of the gang that are compared.
MOST_TARGETS = 64
# Cells, pods by nodes, that are compared at once.
MOST_CELLS = 200_000
# What a microsecond compares on one level.
CELLS_PER_WORK = 100
WORK_OF_A_MOVE = 80

Key = tuple[int, int]
"""A part and a shape."""
Move = tuple[Key, int, int]
"""So many pods more, or fewer, at a position."""


def gathered(problem: Problem, placed: Placed, budget: Budget) -> Placed:
    """The same pods with a mean distance that is no larger, as far as the budget goes."""
    budget.spend(20 + 5 * sum(map(len, placed)))
    state = _State(problem, placed)
    for _ in range(MOST_ROUNDS):
        before = state.closeness
        for unit in state.units:
            if budget.is_spent:
                return state.placed()
            state.move_unit(unit, budget)
        state.move_pods(budget)
        if state.closeness == before and not budget.is_spent:
            state.fill_nodes(budget)
        if state.closeness == before or budget.is_spent:
            break
    return state.placed()


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is moved as a whole: pods of some parts, from one domain of a level to another one inside the domain of the group around them."""

    keys: tuple[Key, ...]
    level: int
    around: int


class _State:
    """Where every pod is, and what each domain of each level holds."""

    def __init__(self, problem: Problem, placed: Placed) -> None:
        self.problem, self.tree = problem, problem.tree
        self.groups = groups_of(problem)
        self.at: dict[Key, dict[int, int]] = {}
        self.domains = [at.tolist() for at in self.tree.domain_at]
        self.used = {shape: np.zeros(self.tree.size, dtype=np.int64) for shape in problem.shapes}
        self.free = problem.free.astype(np.float64)
        self.left: dict[tuple[int, int], Counts] = {}
        pods = np.zeros(self.tree.size, dtype=np.int64)
        for number, shapes in enumerate(placed):
            np.add.at(pods, list(problem.parts[number].standing), 1)
            for shape, spots in shapes.items():
                self.at[number, shape] = dict(zip(spots.positions.tolist(), spots.counts.tolist(), strict=True))
                self.used[shape][spots.positions] += spots.counts
                pods[spots.positions] += spots.counts
                if len(self.free):
                    self.free[:, spots.positions] -= problem.amounts[shape][:, np.newaxis] * spots.counts
        self.inside = [self.tree.sums(pods, level) for level in range(self.tree.node_level + 1)]
        self.closeness = sum(int((inside * inside).sum()) for inside in self.inside)
        self.counts = domain_counts(problem, self._solution()) if problem.prefers else ()
        self.units = tuple(self._units())

    def _units(self) -> list[_Unit]:
        """Groups without others inside, and parts that prefer a level below what is required of them."""
        bound: dict[int, list[Key]] = {}
        for key in self.at:
            bound.setdefault(self.groups.bound_by[key[0]], []).append(key)
        units = [
            _Unit(tuple(bound[group.part]), group.level, group.around)
            for group in self.groups.groups
            if group.home is None and group.apart is None and not self.groups.inside[group.part]
        ]
        for number, part in enumerate(self.problem.parts):
            around = self.groups.bound_by[number]
            if number and part.pods and part.preferred is not None and part.preferred > self.groups.level_of[around]:
                units.append(_Unit(tuple((number, shape) for shape in part.pods), part.preferred, around))
        return units

    # -- what is where -------------------------------------------------------------------------------------------------------

    def placed(self) -> Placed:
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

    def _shift(self, move: Move, sign: int = 1) -> None:
        key, position, number = move
        count, here = sign * number, self.at[key]
        self.left.clear()
        here[position] = here.get(position, 0) + count
        if not here[position]:
            del here[position]
        self._count(position, count)
        self.used[key[1]][position] += count
        if len(self.free):
            self.free[:, position] -= count * self.problem.amounts[key[1]]

    def _room(self, shape: int, first: int, end: int) -> Counts:
        room = self.problem.slots[shape][first:end] - self.used[shape][first:end]
        for resource, amount in enumerate(self.problem.amounts[shape].tolist() if len(self.free) else ()):
            if amount > 0:
                room = np.minimum(room, self.free[resource, first:end] // amount)
        left: Counts = np.maximum(room, 0).astype(np.int64)
        return left

    def _left(self, shape: int, level: int) -> Counts:
        """The room for a shape in each domain of a level."""
        if (shape, level) not in self.left:
            self.left[shape, level] = self.tree.sums(self._room(shape, 0, self.tree.size), level)
        return self.left[shape, level]

    def _bounds(self, group: int, position: int) -> tuple[int, int]:
        """The positions of the domain that a group has, of which one is known."""
        if group == WHOLE_GANG:
            return 0, self.tree.size
        level = self.groups.level_of[group]
        return self.tree.bounds(level, self.domains[level][position])

    def _is_allowed(self, moves: list[Move]) -> bool:
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
        if not self.problem.prefers:
            return True
        counts = domain_counts(self.problem, self._solution())
        if counts > self.counts:
            return False
        self.counts = counts
        return True

    # -- pods ----------------------------------------------------------------------------------------------------------------

    def move_pods(self, budget: Budget) -> None:
        """Pods of one part from a node to a better one, as long as there is any."""
        bundles = sorted((count, key, position) for key, here in self.at.items() for position, count in here.items())
        targets = self._targets()
        chunk = max(1, MOST_CELLS // max(len(targets), 1))
        for begin in range(0, len(bundles) if len(targets) else 0, chunk):
            some = bundles[begin : begin + chunk]
            budget.spend(50 + len(some) * len(targets) * len(self.inside) / CELLS_PER_WORK)
            if budget.is_spent:
                return
            for index in np.flatnonzero((self._gains(some, targets) > 0).any(axis=1)).tolist():
                budget.spend(WORK_OF_A_MOVE)
                _, key, position = some[index]
                self._move_bundle(key, position, targets)

    def _targets(self) -> NDArray[np.intp]:
        """Nodes with room that could be better: beside pods of the gang in the lowest domains, and the roomiest of wider ones."""
        room = np.maximum.reduce([self._room(shape, 0, self.tree.size) for shape in self.used])
        lowest = max(self.tree.node_level - 1, 0)
        beside = (room > 0) & (self.inside[lowest][self.tree.domain_at[lowest]] > 0)
        wider = np.flatnonzero((room > 0) & (self.inside[0][self.tree.domain_at[0]] > 0) & ~beside)
        roomiest = wider[np.argsort(-room[wider], kind="stable")[:MOST_TARGETS]]
        return np.concatenate((np.flatnonzero(beside), roomiest))

    def _gains(self, bundles: list[tuple[int, Key, int]], targets: NDArray[np.intp]) -> Counts:
        """[bundle, target]: what is gained by moving as many pods of it there as have room."""
        rooms = {shape: self._room(shape, 0, self.tree.size)[targets] for shape in {key[1] for _, key, _ in bundles}}
        positions = np.array([position for _, _, position in bundles])
        most = np.array([count for count, _, _ in bundles])[:, np.newaxis]
        share = np.minimum(np.stack([rooms[key[1]] for _, key, _ in bundles]), most)
        gain: Counts = np.zeros_like(share)
        for inside, domain_at in zip(self.inside, self.tree.domain_at, strict=True):
            here, there = domain_at[positions][:, np.newaxis], domain_at[targets]
            gain += np.where(there == here, 0, 2 * share * (inside[there] - inside[here] + share))
        allowed = np.array([self._bounds(self.groups.bound_by[key[0]], position) for _, key, position in bundles])
        gain[(targets < allowed[:, :1]) | (targets >= allowed[:, 1:]) | (share == 0)] = 0
        gain[targets == positions[:, np.newaxis]] = 0
        return gain

    def _move_bundle(self, key: Key, position: int, targets: NDArray[np.intp]) -> None:
        count = self.at[key].get(position, 0)
        if not count:
            return
        gain = self._gains([(count, key, position)], targets)[0]
        room = self._room(key[1], 0, self.tree.size)
        for index in np.argsort(-gain, kind="stable")[:MOST_TRIES].tolist():
            if gain[index] <= 0:
                return
            best = int(targets[index])
            share = min(int(room[best]), count)
            moves: list[Move] = [(key, position, -share), (key, best, share)]
            for move in moves:
                self._shift(move)
            if self._is_allowed(moves):
                return
            for move in moves:
                self._shift(move, -1)

    def fill_nodes(self, budget: Budget) -> None:
        """Nodes with much room take pods from nodes that have few, as many as make the gang closer."""
        room = np.maximum.reduce([self._room(shape, 0, self.tree.size) for shape in self.used])
        for position in np.argsort(-room, kind="stable")[:MOST_TRIES].tolist():
            if not room[position] or budget.is_spent:
                return
            budget.spend(WORK_OF_A_MOVE * (1 + len(self.at)))
            self._fill(position)

    def _fill(self, position: int) -> None:
        """Fill one node step by step, and stay where the gang was closest."""
        before = best = self.closeness
        moves: list[Move] = []
        kept = 0
        nodes = self.inside[-1]
        others = sorted((int(nodes[at]), key, at) for key, here in self.at.items() for at in here if at != position)
        for _, key, at in others:
            first, end = self._bounds(self.groups.bound_by[key[0]], at)
            share = min(self.at[key].get(at, 0), int(self._room(key[1], position, position + 1)[0]))
            if share and first <= position < end:
                for move in ((key, at, -share), (key, position, share)):
                    moves.append(move)
                    self._shift(move)
                if self.closeness > best:
                    best, kept = self.closeness, len(moves)
        for move in reversed(moves[kept:]):
            self._shift(move, -1)
        if kept and (self.closeness <= before or not self._is_allowed(moves[:kept])):
            for move in reversed(moves[:kept]):
                self._shift(move, -1)

    # -- groups --------------------------------------------------------------------------------------------------------------

    def move_unit(self, unit: _Unit, budget: Budget) -> None:
        """All pods of a unit to a better domain, if there is any."""
        budget.spend(WORK_OF_A_MOVE)
        leaving: list[Move] = [(key, position, -count) for key in unit.keys for position, count in self.at[key].items()]
        pods = -sum(count for _, _, count in leaving)
        first, end = self._bounds(unit.around, leaving[0][1])
        low, high = self.tree.domain_at[unit.level][[first, end - 1]] + (0, 1)
        candidates = self._candidates(unit, leaving, pods, int(low), int(high))
        if not candidates:
            return
        before = self.closeness
        for move in leaving:
            self._shift(move)
        for domain in candidates:
            budget.spend(WORK_OF_A_MOVE)
            coming = self._arrivals(unit, *self.tree.bounds(unit.level, domain))
            if coming is None:
                continue
            if self.closeness > before and self._is_allowed([*leaving, *coming]):
                return
            for move in coming:
                self._shift(move, -1)
        for move in leaving:
            self._shift(move, -1)

    def _candidates(self, unit: _Unit, leaving: list[Move], pods: int, low: int, high: int) -> list[int]:
        """Domains that have slots for a unit, and could be closer to the other pods; the best first."""
        level, tree = unit.level, self.tree
        enough = np.ones(high - low, dtype=np.bool_)
        for shape, wanted in self._wanted(unit).items():
            enough &= self._left(shape, level)[low:high] >= wanted
        for _, position, _ in leaving:
            enough[self.domains[level][position] - low] = False
        domains = np.flatnonzero(enough) + low
        if not len(domains):
            return []
        # What closeness is lost when the pods are gone, and the most that they can bring elsewhere.
        starts = tree.starts[level][domains]
        worth, value = 0, np.zeros(len(domains), dtype=np.int64)
        for each, inside in enumerate(self.inside):
            gone: dict[int, int] = {}
            for _, position, count in leaving:
                gone[self.domains[each][position]] = gone.get(self.domains[each][position], 0) - count
            worth += sum(count * (2 * int(inside[domain]) - count) for domain, count in gone.items())
            if each <= level:
                at = tree.domain_at[each][starts]
                there = inside[at]
                for domain, count in gone.items():
                    there = there - count * (at == domain)
            else:
                there = np.maximum.reduceat(inside[tree.domain_at[each]], tree.starts[level])[domains]
            value += pods * (2 * there + pods)
        order = np.argsort(-value, kind="stable")[:MOST_TRIES]
        return [int(domains[index]) for index in order if value[index] > worth]

    def _wanted(self, unit: _Unit) -> dict[int, int]:
        wanted: dict[int, int] = {}
        for number, shape in unit.keys:
            wanted[shape] = wanted.get(shape, 0) + self.problem.parts[number].pods[shape]
        return wanted

    def _arrivals(self, unit: _Unit, low: int, high: int) -> list[Move] | None:
        """Put the pods of a unit on the nodes between two positions; if they do not fit, place none and return None."""
        coming: list[Move] = []
        for key in unit.keys:
            room, wanted = self._room(key[1], low, high), self.problem.parts[key[0]].pods[key[1]]
            if int(room.sum()) < wanted:
                for move in coming:
                    self._shift(move, -1)
                return None
            # Nodes that the gang uses already come first.
            used = self.inside[-1][low:high] > 0
            touched = np.where(used, room, 0)
            share = min(wanted, int(touched.sum()))
            counts = largest_first(touched, share) if share else np.zeros_like(room)
            if wanted > share:
                counts = counts + largest_first(np.where(used, 0, room), wanted - share)
            for at in np.flatnonzero(counts).tolist():
                coming.append((key, low + at, int(counts[at])))
                self._shift(coming[-1])
        return coming
