"""Groups closer to each other: move pods of a good placement where the mean distance gets smaller.

Two pods in one domain are two edges closer than two in different ones, at every level. So the mean distance falls as
the sum of squares of pods per domain grows, and the gain of a move is known for all pods and nodes at once. Pods of one
part move between nodes, and whole groups between domains. If none of that helps, a node is filled with pods from
several others. No move takes more preferred or wider domains, or violates a requirement or a kubelet's admission.

This is a descent: it ends when no single move helps, which need not be the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.equal.tree_table import largest_first
from bayplan.engine.gangs.groups.groups import WHOLE_GANG, groups_of
from bayplan.engine.gangs.problem import Counts, Placed, Problem, Solution, Spots, Status, domain_counts

# Rounds over all pods; most placements need one or two.
MOST_ROUNDS = 8
# Domains that are tried for one group.
MOST_TRIES = 3
# Groups are put down anew in several orders if there are no more.
FEW_UNITS = 8
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


def closeness(problem: Problem, placed: Placed) -> int:
    """How close pods are, running ones included: the sum over all levels of squares of pods per domain."""
    return _sum_of_squares(problem, _by_position(problem, placed))


def closeness_of(problem: Problem, counts: Counts) -> int:
    """The same by what each position has of the pods that are placed."""
    pods = counts.copy()
    np.add.at(pods, list(problem.parts[0].running_at), 1)
    return _sum_of_squares(problem, pods)


def _sum_of_squares(problem: Problem, pods: Counts) -> int:
    return sum(int((inside * inside).sum()) for inside in _by_level(problem, pods))


def closest_possible(problem: Problem) -> int:
    """A bound on closeness: at each level by itself, as many pods as fit in the largest domains."""
    running_at = problem.parts[0].running_at
    room = np.add.reduce([np.minimum(problem.slots[shape], count) for shape, count in problem.totals[0].items()])
    np.add.at(room, list(running_at), 1)
    pods = len(running_at) + sum(problem.totals[0].values())
    total = 0
    for sums in _by_level(problem, room):
        largest_first = np.sort(sums)[::-1]
        before = largest_first.cumsum() - largest_first
        here = np.clip(pods - before, 0, largest_first)
        total += int((here * here).sum())
    return total


def _by_position(problem: Problem, placed: Placed) -> Counts:
    pods = np.zeros(problem.tree.size, dtype=np.int64)
    np.add.at(pods, list(problem.parts[0].running_at), 1)
    for shapes in placed:
        for spots in shapes.values():
            pods[spots.positions] += spots.counts
    return pods


def _by_level(problem: Problem, counts: Counts) -> list[Counts]:
    return [problem.tree.sums(counts, level) for level in range(problem.tree.node_level + 1)]


def gathered(problem: Problem, placed: Placed, budget: Budget) -> Placed:
    """The same pods with a mean distance that is no larger, as far as the budget goes."""
    budget.spend(20 + 5 * sum(map(len, placed)))
    state = _State(problem, placed)
    closest = closest_possible(problem)
    _descend(state, closest, budget)
    best = state
    for order in _orders(state.units):
        if best.closeness == closest or budget.is_spent:
            break
        # Once more from another beginning: one group after another, each as close to those before it as it can be.
        state = _State(problem, placed)
        if state.begin_anew(order, budget):
            _descend(state, closest, budget)
            best = max(best, state, key=lambda each: each.closeness)
    return best.placed()


def _orders(units: Sequence[_Unit]) -> list[tuple[_Unit, ...]]:
    """Orders in which units are put down: the largest first, those of narrow domains first, as they are written.

    Of many there is one.
    """
    distinct: list[_Unit] = []
    taken: set[Key] = set()
    for unit in units:
        # Parts of a group that prefer a level inside it are units, too; they come with their group.
        if taken.isdisjoint(unit.keys):
            distinct.append(unit)
            taken.update(unit.keys)
    units = distinct
    by_size = sorted(units, key=lambda unit: -unit.pods)
    orders = (by_size, sorted(by_size, key=lambda unit: -unit.level), units)
    chosen = orders if len(units) <= FEW_UNITS else orders[:1]
    return list(dict.fromkeys(map(tuple, chosen))) if len(units) > 1 else []


def _descend(state: _State, closest: int, budget: Budget) -> None:
    """Move as long as that helps; nothing is closer than `closest`."""
    for _ in range(MOST_ROUNDS):
        before = state.closeness
        for step in (state.move_units, state.move_pods, state.fill_nodes):
            if state.closeness == closest or budget.is_spent:
                return
            # To fill nodes takes long, and comes where nothing before it has helped.
            if step != state.fill_nodes or state.closeness == before:
                step(budget)
        if state.closeness == before:
            return


@dataclass(frozen=True, slots=True)
class _Unit:
    """Pods of some parts that move together to another domain of a level, inside the domain of the outer group."""

    keys: tuple[Key, ...]
    level: int
    around: int
    pods: int


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
        for number, shapes in enumerate(placed):
            for shape, spots in shapes.items():
                self.at[number, shape] = dict(zip(spots.positions.tolist(), spots.counts.tolist(), strict=True))
                self.used[shape][spots.positions] += spots.counts
                if len(self.free):
                    self.free[:, spots.positions] -= problem.amounts[shape][:, np.newaxis] * spots.counts
        self.inside = _by_level(problem, _by_position(problem, placed))
        self.closeness = sum(int((inside * inside).sum()) for inside in self.inside)
        self.counts = domain_counts(problem, self._solution()) if problem.prefers else ()
        self.units = tuple(self._units())

    def _units(self) -> list[_Unit]:
        """Groups without others inside, and parts that prefer a level below what is required of them."""
        bound: dict[int, list[Key]] = {}
        for key in self.at:
            bound.setdefault(self.groups.bound_by[key[0]], []).append(key)
        units = [
            _Unit(tuple(bound[group.part]), group.level, group.around, sum(self.groups.own[group.part].values()))
            for group in self.groups.groups
            if group.home is None and group.apart is None and not self.groups.inside[group.part]
        ]
        for number, part in enumerate(self.problem.parts):
            around = self.groups.bound_by[number]
            if number and part.pods and part.preferred is not None and part.preferred > self.groups.level_of[around]:
                keys = tuple((number, shape) for shape in part.pods)
                units.append(_Unit(keys, part.preferred, around, sum(part.pods.values())))
        return units

    # -- what is where ----------------------------------------------------------------------------------------------

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
        if not self.counts:
            return True
        counts = domain_counts(self.problem, self._solution())
        if counts > self.counts:
            return False
        self.counts = counts
        return True

    # -- pods -------------------------------------------------------------------------------------------------------

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
        """Nodes with room that could be better: beside pods of the gang in the lowest domains, else the roomiest."""
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

    # -- groups -----------------------------------------------------------------------------------------------------

    def move_units(self, budget: Budget) -> None:
        """Each unit to a better domain, if there is any."""
        for unit in self.units:
            if budget.is_spent:
                return
            position = next(iter(self.at[unit.keys[0]]))
            if not self._with_room(unit, position, {self.domains[unit.level][position]}).any():
                continue
            before = self.closeness
            leaving = self._leave(unit)
            if self._settle(unit, leaving, before, budget, elsewhere=True) is None:
                self._undo(leaving)

    def begin_anew(self, order: Sequence[_Unit], budget: Budget) -> bool:
        """Remove all units and put them back in an order; False if one has no place, or if more domains are used."""
        counts = self.counts
        leaving = {unit: self._leave(unit) for unit in order}
        self.counts = ()
        for unit in order:
            if budget.is_spent or self._settle(unit, leaving[unit], -1, budget) is None:
                return False
        self.counts = counts
        return self._is_allowed([])

    def _leave(self, unit: _Unit) -> list[Move]:
        leaving = [(key, position, -count) for key in unit.keys for position, count in self.at[key].items()]
        for move in leaving:
            self._shift(move)
        return leaving

    def _undo(self, moves: Sequence[Move]) -> None:
        for move in reversed(moves):
            self._shift(move, -1)

    def _settle(
        self, unit: _Unit, moved: list[Move], before: int, budget: Budget, *, elsewhere: bool = False
    ) -> list[Move] | None:
        """Put a removed unit into the domain with the largest closeness, if that is an improvement; else None."""
        budget.spend(WORK_OF_A_MOVE)
        left = {self.domains[unit.level][position] for _, position, _ in moved} if elsewhere else set()
        best: tuple[int, list[Move]] | None = None
        for domain in self._candidates(unit, moved[0][1], left, before):
            budget.spend(WORK_OF_A_MOVE)
            coming = self._arrivals(unit, *self.tree.bounds(unit.level, domain))
            if coming is None:
                continue
            if self.closeness > max(before, best[0] if best else before) and self._is_allowed([*moved, *coming]):
                best = self.closeness, coming
            self._undo(coming)
        if best is None:
            return None
        for move in best[1]:
            self._shift(move)
        return best[1]

    def _candidates(self, unit: _Unit, position: int, left: set[int], before: int) -> list[int]:
        """Domains with slots for a unit where it could be closer to the other pods, the best first, but none it `left`."""
        level, tree = unit.level, self.tree
        domains = np.flatnonzero(self._with_room(unit, position, left))
        if not len(domains):
            return []
        # The most closeness that the pods can bring there.
        pods = unit.pods
        starts = tree.starts[level][domains]
        value = np.zeros(len(domains), dtype=np.int64)
        for each, inside in enumerate(self.inside):
            if each <= level:
                there = inside[tree.domain_at[each][starts]]
            else:
                there = np.maximum.reduceat(inside[tree.domain_at[each]], tree.starts[level])[domains]
            value += pods * (2 * there + pods)
        order = np.argsort(-value, kind="stable")[:MOST_TRIES]
        return [int(domains[index]) for index in order if self.closeness + value[index] > before]

    def _with_room(self, unit: _Unit, position: int, left: set[int]) -> NDArray[np.bool_]:
        """The domains that have slots for a unit and that it may take, but for those that it `left`."""
        tree, level = self.tree, unit.level
        first, end = self._bounds(unit.around, position)
        low, high = int(tree.domain_at[level][first]), int(tree.domain_at[level][end - 1]) + 1
        enough = np.zeros(len(tree.starts[level]), dtype=np.bool_)
        enough[low:high] = True
        enough[list(left)] = False
        for shape, count in self._wanted(unit).items():
            enough &= self._left(shape, level) >= count
        return enough

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
