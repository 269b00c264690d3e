"""Pods on the nodes of one domain: where a number of each shape goes, or that they have no place.

Nodes are filled shape by shape, the largest first. `Fill.TIGHT` takes the fullest node that still holds a pod, which
leaves large gaps for others; `Fill.FEW` takes the roomiest nodes. Both respect slots (what a kubelet admits of one
shape), sums, and the admission of different shapes on one node. Best fit can miss a packing; swaps
(`pods_by_swaps.py`) seldom do; `packed` misses none, and says so if it had to stop (`exhaustive.py`).

Sizes are compared in shares of what is free, weighted by how scarce the resource is for this gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.equal.choice import distances_to
from bayplan.engine.gangs.equal.equal_pods import fill_nearest, fill_nodes
from bayplan.engine.gangs.groups.exhaustive import Amounts, ExhaustivePacking, Wanted
from bayplan.engine.gangs.groups.few_nodes import on_the_roomiest, on_the_tightest
from bayplan.engine.gangs.groups.packing import in_touched_domains_first
from bayplan.engine.gangs.groups.pods_by_swaps import pods_by_swaps
from bayplan.engine.gangs.problem import Counts, Problem, Spots

Added = tuple[NDArray[np.intp], Counts]
"""Pods by node, from the first of some nodes on: ascending, only where there are any."""

# How often pods are moved on from nodes that refuse a mix, before a domain counts as one that does not hold them.
MOST_ROUNDS = 12
# Up to this many pods go to the best node one by one: quicker than sorting all nodes.
ONE_BY_ONE = 2
# More pods than that are not packed exactly: each is one level of recursion.
MOST_PODS = 400
# More different pods have too many packings to try any.
MOST_SHAPES = 64
ONE = np.ones(1, dtype=np.int64)
# Domains of so few nodes are filled without NumPy (`few_nodes.py`).
FEW_NODES = 32


class Fill(Enum):
    """Which nodes are filled first."""

    TIGHT = auto()
    FEW = auto()


@dataclass(frozen=True, slots=True)
class Filling:
    """The nodes between two positions: what is left of each resource, and the placed pods by shape.

    `added` are those that came last.
    """

    first: int
    end: int
    free: Amounts
    spots: Mapping[int, Spots]
    added: Mapping[int, Spots]
    mixes: dict[int, dict[int, int]] = field(default_factory=dict)
    """The same pods by position, where kubelets are asked about different shapes on a node."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Pods on the nodes of a domain, if they have a place there; not `sure` if the search for one had to stop."""

    filling: Filling | None
    sure: bool = True


@dataclass
class Nodes:
    """The nodes of a problem, as its pods see them."""

    problem: Problem
    budget: Budget
    _known: dict[tuple[int, int, tuple[tuple[int, int], ...], bool], Packed] = field(default_factory=dict)

    @cached_property
    def scarcity(self) -> Amounts:
        """The worth of one unit by resource: its share of all that is free, weighted by how much the gang takes."""
        free = np.maximum(self.problem.free, 0.0).sum(axis=1)
        totals = np.array([self.problem.totals[0][shape] for shape in self.problem.shapes], dtype=np.float64)
        taken = totals @ self.problem.amounts[list(self.problem.shapes)]
        free = np.maximum(free, 1e-9)
        weights: Amounts = np.minimum(taken / free, 1.0) / free
        return weights

    @cached_property
    def size(self) -> Sequence[float]:
        """By shape what one pod takes, in shares."""
        return [float(share) for share in self.problem.amounts @ self.scarcity]

    def largest_first(self, counts: Mapping[int, int] | Iterable[tuple[int, int]]) -> Wanted:
        """Pods by shape in the order in which they are put down."""
        return sorted(dict(counts).items(), key=lambda each: (-self.size[each[0]], each[0]))

    @cached_property
    def _takes(self) -> list[list[tuple[int, float]]]:
        """By shape the resources that one pod takes."""
        return [[(at, amount) for at, amount in enumerate(row) if amount > 0] for row in self.problem.amounts.tolist()]

    def empty(self, first: int, end: int) -> Filling:
        """The nodes between two positions before this gang comes."""
        return Filling(first, end, self.problem.free[:, first:end], {}, {})

    def filling(self, first: int, end: int, free: Amounts, spots: Mapping[int, Spots]) -> Filling:
        """The nodes between two positions with their placed pods."""
        filling = Filling(first, end, free, spots, spots)
        if self.problem.mixes is not None:
            for shape, each in spots.items():
                _note(filling, shape, each)
        return filling

    def room(self, filling: Filling, shape: int) -> Counts:
        """How many more pods of a shape each node holds, as far as slots and sums tell."""
        first = filling.first
        room = self.problem.slots[shape][first : filling.end]
        own = filling.spots.get(shape)
        if own is not None:
            room = room.copy()
            room[own.positions - first] -= own.counts
        for resource, amount in self._takes[shape]:
            room = np.minimum(room, filling.free[resource] // amount)
        return np.maximum(room, 0).astype(np.int64)

    def added(
        self, filling: Filling, wanted: Wanted, fill: Fill, touched: NDArray[np.bool_] | None = None
    ) -> Filling | None:
        """The nodes with these pods on them too; None if this way finds no place for all of them.

        `touched` are the preferred domains that the gang uses already: they come first, and get more.
        """
        if self._is_plain_and_small(filling, fill, touched):
            return self._added_to_few(filling, wanted, fill, touched)
        free, spots, come = filling.free.astype(np.float64), dict(filling.spots), dict[int, Spots]()
        now = Filling(filling.first, filling.end, free, spots, come, dict(filling.mixes))
        # What is left on each node, if only the tightest nodes are wanted.
        left = self.scarcity @ free if fill is Fill.TIGHT and self._plain else None
        for shape, number in wanted:
            if left is None:
                found = self._some(now, shape, number, fill, touched)
            elif number == 1 and shape not in spots:
                found = self._tightest(now, shape, left)
            else:
                found = self._tightly(now, shape, number, left)
            if found is None:
                return None
            at, counts = found
            for resource, amount in self._takes[shape]:
                free[resource, at] -= amount * counts
            if left is not None:
                left[at] -= self.size[shape] * counts
            added = Spots(at + filling.first, counts)
            for known in (spots, come):
                known[shape] = _both(known[shape], added) if shape in known else added
            if self.problem.mixes is not None:
                _note(now, shape, added)
            _touch(self.problem, touched, added)
        return now

    def _is_plain_and_small(self, filling: Filling, fill: Fill, touched: NDArray[np.bool_] | None) -> bool:
        """True if slots and sums decide about a few nodes, and no place among them is better than another."""
        if filling.end - filling.first > FEW_NODES or not self._plain:
            return False
        near_others = fill is Fill.FEW and bool(self.problem.parts[0].running_at)
        return not near_others and not (touched is not None and _spans_preferred(self.problem, filling))

    def _added_to_few(
        self, filling: Filling, wanted: Wanted, fill: Fill, touched: NDArray[np.bool_] | None
    ) -> Filling | None:
        """The same for a few nodes."""
        first, size = filling.first, filling.end - filling.first
        free: list[list[float]] = filling.free.tolist()
        left: list[float] = (self.scarcity @ filling.free).tolist() if fill is Fill.TIGHT else []
        spots, come = dict(filling.spots), dict[int, Spots]()
        for shape, number in wanted:
            slots: list[int] = self.problem.slots[shape][first : filling.end].tolist()
            own = spots.get(shape)
            if own is not None:
                for position, count in zip(own.positions.tolist(), own.counts.tolist(), strict=True):
                    slots[position - first] -= count
            takes = self._takes[shape]
            if fill is Fill.TIGHT:
                self.budget.spend((10 if number == 1 and own is None else 15) + size / 50)
                put = on_the_tightest(number, slots, free, takes, left)
            else:
                self.budget.spend(25 + size / 50)
                put = on_the_roomiest(number, slots, free, takes)
            if put is None:
                return None
            for at, count in put:
                for resource, amount in takes:
                    free[resource][at] -= amount * count
                if left:
                    left[at] -= self.size[shape] * count
            come[shape] = added = _spots([(first + at, count) for at, count in put])
            spots[shape] = added if own is None else _both_of_few(own, added)
            _touch(self.problem, touched, added)
        return Filling(first, filling.end, np.array(free), spots, come)

    @cached_property
    def _plain(self) -> bool:
        """True if slots and sums decide about nodes."""
        return self.problem.mixes is None and not self.problem.spread and len(self.problem.free) > 0

    def _tightly(self, filling: Filling, shape: int, number: int, left: Amounts) -> Added | None:
        """This number of pods on the nodes with the least left; None if there is not enough room."""
        self.budget.spend(15 + len(left) / 50)
        order = left.argsort(kind="stable")
        room = self.room(filling, shape)[order]
        reached = room.cumsum()
        if reached[-1] < number:
            return None
        last = int(reached.searchsorted(number))
        room[last] -= reached[last] - number
        used = room[: last + 1].nonzero()[0]
        at, counts = order[used], room[used]
        if len(at) > 1:
            ascending = at.argsort()
            at, counts = at[ascending], counts[ascending]
        return at, counts

    @cached_property
    def _least(self) -> Amounts:
        """By shape, what a node must have of each resource; unrequested resources can be overcommitted."""
        amounts = self.problem.amounts
        return np.where(amounts > 0, amounts, -np.inf)[:, :, np.newaxis]

    def _tightest(self, filling: Filling, shape: int, left: Amounts) -> Added | None:
        """The same for a single pod of a shape of which there is none yet."""
        self.budget.spend(10 + len(left) / 50)
        holds = self.problem.slots[shape][filling.first : filling.end] > 0
        holds &= (filling.free >= self._least[shape]).all(axis=0)
        at = int(np.where(holds, left, np.inf).argmin())
        return (np.array([at]), ONE) if holds[at] else None

    def _some(
        self, filling: Filling, shape: int, number: int, fill: Fill, touched: NDArray[np.bool_] | None
    ) -> Added | None:
        """This number of pods on nodes that take them beside the others; None if there are not enough."""
        room = self.room(filling, shape)
        self.budget.spend(25 + len(room) / 50)
        counts = self._accepted(filling, shape, room, number, fill, touched)
        if counts is None:
            return None
        at = counts.nonzero()[0]
        return at, counts[at]

    def _accepted(
        self,
        filling: Filling,
        shape: int,
        room: Counts,
        number: int,
        fill: Fill,
        touched: NDArray[np.bool_] | None,
    ) -> Counts | None:
        """Pods by node, without those that a kubelet refuses beside others."""
        for _ in range(MOST_ROUNDS):
            if int(room.sum()) < number:
                return None
            counts = self._filled(filling, room, number, fill, touched)
            refused = self._refused(filling, shape, counts)
            if not refused:
                return counts
            room = room.copy()
            room[refused] = counts[refused] - 1
        return None

    def _filled(
        self, filling: Filling, room: Counts, number: int, fill: Fill, touched: NDArray[np.bool_] | None
    ) -> Counts:
        problem = self.problem
        running_at = problem.parts[0].running_at
        if touched is not None and _spans_preferred(self.problem, filling):
            everywhere = np.zeros(problem.tree.size, dtype=np.int64)
            everywhere[filling.first : filling.end] = room
            return in_touched_domains_first(problem, everywhere, filling.first, filling.end, number, touched)
        if problem.spread:
            return fill_nodes(room, number, spread=True)
        if running_at and fill is Fill.FEW:
            return fill_nearest(room, number, distances_to(problem.tree, running_at)[filling.first : filling.end])
        if fill is Fill.FEW:
            return fill_nodes(room, number, spread=False)
        left = self.scarcity @ filling.free if len(filling.free) else room.astype(np.float64)
        counts = np.zeros_like(room)
        if number <= ONE_BY_ONE:
            left = np.where(room > 0, left, np.inf)
            missing = number
            while missing:
                at = int(left.argmin())
                counts[at] = share = min(missing, int(room[at]))
                missing -= share
                left[at] = np.inf
            return counts
        order = np.argsort(left, kind="stable")
        in_order = room[order]
        before = np.cumsum(in_order) - in_order
        counts[order] = np.clip(number - before, 0, in_order)
        return counts

    def _refused(self, filling: Filling, shape: int, counts: Counts) -> list[int]:
        """Where a kubelet would refuse these pods beside those of other shapes."""
        mixes = self.problem.mixes
        if mixes is None:
            return []
        refused = []
        for at in np.flatnonzero(counts).tolist():
            here = filling.mixes.get(filling.first + at, {})
            if here and here.keys() != {shape}:
                mix = {**here, shape: here.get(shape, 0) + int(counts[at])}
                if not mixes.admits(filling.first + at, tuple(sorted(mix.items()))):
                    refused.append(at)
        return refused

    # -- exactly ----------------------------------------------------------------------------------------------------

    def packed(self, first: int, end: int, wanted: Wanted, *, exhaustively: bool = True) -> Packed:
        """Whether these pods fit between two positions that hold no other pod of the gang."""
        question = (first, end, tuple(wanted), exhaustively)
        if question not in self._known:
            self._known[question] = self._find(first, end, wanted, exhaustively=exhaustively)
        return self._known[question]

    def _find(self, first: int, end: int, wanted: Wanted, *, exhaustively: bool) -> Packed:
        if end - first == 1:
            return Packed(self.added(self.empty(first, end), wanted, Fill.FEW))
        for fill in (Fill.FEW, Fill.TIGHT):
            filling = self.added(self.empty(first, end), wanted, fill)
            if filling is not None:
                return Packed(filling)
        if sum(number for _, number in wanted) > MOST_PODS or len(wanted) > MOST_SHAPES:
            return Packed(None, sure=False)
        packing = pods_by_swaps(self.problem, self.budget, first, end, wanted)
        sure = False
        if packing is None and exhaustively:
            search = ExhaustivePacking(self.problem, self.budget, self.scarcity, first, end, wanted)
            packing = search.packing()
            sure = not search.stopped
        return Packed(None, sure) if packing is None else Packed(self.filling(first, end, *packing))


def _touch(problem: Problem, touched: NDArray[np.bool_] | None, added: Spots) -> None:
    """Mark the preferred domains of pods that have come."""
    preferred = problem.parts[0].preferred
    if touched is not None and preferred is not None:
        touched[problem.tree.domain_at[preferred][added.positions]] = True


def _spans_preferred(problem: Problem, filling: Filling) -> bool:
    """True if there are several domains of the gang's preferred level to choose from."""
    preferred = problem.parts[0].preferred
    if preferred is None:
        return False
    domain_at = problem.tree.domain_at[preferred]
    return bool(domain_at[filling.first] != domain_at[filling.end - 1])


def _note(filling: Filling, shape: int, added: Spots) -> None:
    """Write down which pods have come to which nodes."""
    for position, count in zip(added.positions.tolist(), added.counts.tolist(), strict=True):
        before = filling.mixes.get(position, {})
        filling.mixes[position] = {**before, shape: before.get(shape, 0) + count}


def _spots(counts: Iterable[tuple[int, int]]) -> Spots:
    positions, numbers = zip(*counts, strict=True)
    return Spots(np.array(positions, dtype=np.intp), np.array(numbers, dtype=np.int64))


def _both_of_few(one: Spots, other: Spots) -> Spots:
    """The same as `_both` for a few positions: 4 us instead of 10."""
    counts = dict(zip(one.positions.tolist(), one.counts.tolist(), strict=True))
    for position, count in zip(other.positions.tolist(), other.counts.tolist(), strict=True):
        counts[position] = counts.get(position, 0) + count
    return _spots(sorted(counts.items()))


def _both(one: Spots, other: Spots) -> Spots:
    """Pods of one shape that came one after another."""
    positions = np.concatenate((one.positions, other.positions))
    order = positions.argsort(kind="stable")
    positions, counts = positions[order], np.concatenate((one.counts, other.counts))[order]
    first = np.append(True, positions[1:] != positions[:-1]).nonzero()[0]
    return Spots(positions[first], np.add.reduceat(counts, first))
