"""Groups of different pods into domains, greedily: the quick answer where shapes mix, before anybody asks for a proof.

Rooms of different shapes do not add up, so nothing is counted in advance: pods are put on nodes, and what is left there is known at any
moment, in slots, in amounts and by what kubelets say about mixes. Parents come before children and large groups before small ones. A group takes
the tightest domain that holds all of it; a gang that prefers a level goes on in domains that it uses already, then takes the tightest that
holds all the rest, or else the roomiest. Pods inside a domain come in the order of their size.

Nothing is taken back but what a domain turned out not to hold. So "no" proves nothing, and "yes" is a place, whose domains
`search.py` compares with the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.budget import Budget
from bayplan.engine.gangs.choice import distances_to
from bayplan.engine.gangs.equal_pods import fill_nearest, fill_nodes
from bayplan.engine.gangs.packing import in_touched_domains_first
from bayplan.engine.gangs.problem import NOWHERE, Counts, Problem, Solution, Spots, Status

# Domains that are tried for one group, and for all groups together.
MOST_TRIES = 32
MOST_FILLINGS = 2_000
# Measured with 80 racks of 8 nodes and 312 of 16: 0.15 ms.
SECONDS_PER_FILLING = 0.2e-3
# How often pods are moved on from nodes that refuse a mix, before a domain counts as one that does not hold them.
MOST_ROUNDS = 12


def best_fit(problem: Problem, budget: Budget) -> Solution:
    """A placement of all parts; `LIMIT_REACHED` if this way finds none."""
    for roomiest_first in (False, True):
        attempt = _Attempt(problem, budget, roomiest_first)
        if attempt.place(0, 0, problem.tree.size):
            return Solution(Status.FEASIBLE, attempt.placed())
    return Solution(Status.LIMIT_REACHED, bound="best fit: no place found")


class _Attempt:
    """Who stands where, and what is left: `together[shape]` are the pods that this gang has put at every position."""

    def __init__(self, problem: Problem, budget: Budget, roomiest_first: bool) -> None:  # noqa: FBT001 - a setting
        self.problem = problem
        self.budget = budget
        self.roomiest_first = roomiest_first
        self.free = problem.free.copy()
        self.together = np.zeros((len(problem.slots), problem.tree.size), dtype=np.int64)
        # What is left for each shape is kept, and repaired where somebody is put: half the time with 5,000 nodes.
        self.room = {shape: self._room_at(shape, slice(None)) for shape in problem.shapes}
        self.put: list[tuple[int, int, Spots]] = []
        # Domains that parts which keep apart have taken: (set, domain, how much had been put down then).
        self.taken: list[tuple[int, int, int]] = []
        self.fillings = 0
        self.inside: list[list[int]] = [[] for _ in problem.parts]
        for number, part in enumerate(problem.parts[1:], start=1):
            self.inside[part.parent].append(number)
        self.binds = self._which_bind()
        # The largest first: by the share of all that is free which one pod takes of its scarcest resource.
        shares = problem.amounts / np.maximum(problem.free.sum(axis=1), 1e-9)
        self.largest_first = sorted(problem.shapes, key=lambda shape: -float(shares[shape].max(initial=0.0)))

    def _which_bind(self) -> list[bool]:
        """For every part whether it, or one inside it, must be in one domain of some level."""
        binds = [part.required is not None for part in self.problem.parts]
        for number in range(len(binds) - 1, 0, -1):
            binds[self.problem.parts[number].parent] |= binds[number]
        return binds

    def place(self, number: int, first: int, end: int) -> bool:
        """Put a part, with all that is inside it, somewhere between two positions."""
        part, tree = self.problem.parts[number], self.problem.tree
        if part.required is None:
            return self._fill(number, first, end)
        for domain in self._candidates(number, part.required, first, end):
            low, high = tree.bounds(part.required, domain)
            before = len(self.put)
            if self._fill(number, max(low, first), min(high, end)):
                if part.apart is not None:
                    self.taken.append((part.apart, domain, len(self.put)))
                return True
            self._take_back(before)
            if self.fillings > MOST_FILLINGS or (self.fillings > len(self.problem.parts) and self.budget.is_spent):
                break
        return False

    def _fill(self, number: int, first: int, end: int) -> bool:
        """Put a part's pods between two positions: groups that take domains of their own first, then everybody else."""
        self.fillings += 1
        self.budget.spend(SECONDS_PER_FILLING)
        inner = [each for each in self.inside[number] if any(self.problem.totals[each])]
        bound = sorted((each for each in inner if self.binds[each]), key=lambda each: -self._size(each))
        if not all(self.place(each, first, end) for each in bound):
            return False
        loose = [number, *(each for child in inner if not self.binds[child] for each in self._subtree(child))]
        return all(self._put(shape, loose, first, end) for shape in self.largest_first)

    def _subtree(self, number: int) -> Iterable[int]:
        yield number
        for child in self.inside[number]:
            yield from self._subtree(child)

    def _size(self, number: int) -> float:
        """What a part takes of everything, for the order of groups."""
        return float(
            sum(self.problem.amounts[shape].sum() * self.problem.totals[number][shape] for shape in self.largest_first)
        )

    # -- domains ---------------------------------------------------------------------------------------------------

    def _candidates(self, number: int, level: int, first: int, end: int) -> list[int]:
        """Domains that seem to hold a part, in the order in which they are tried."""
        problem, tree = self.problem, self.problem.tree
        low, high = int(tree.domain_at[level][first]), int(tree.domain_at[level][end - 1]) + 1
        starts = np.maximum(tree.starts[level][low:high], first) - first
        allowed = np.ones(high - low, dtype=np.bool_)
        part = problem.parts[number]
        if part.home is not None:
            allowed[:] = np.arange(low, high) == part.home
        elif part.apart is not None:
            closed = [*problem.closed(number), *(domain for apart, domain, _ in self.taken if apart == part.apart)]
            allowed[[domain - low for domain in closed if low <= domain < high]] = False
        room = np.zeros(high - low, dtype=np.int64)
        for shape in problem.shapes:
            wanted = problem.totals[number][shape]
            if wanted:
                here = np.add.reduceat(self.room[shape][first:end], starts)
                allowed &= here >= wanted
                room += here
        domains = np.flatnonzero(allowed)
        keys = [-room[domains] if self.roomiest_first else room[domains], *self._by_preference(domains + low, level)]
        return [low + int(domain) for domain in domains[np.lexsort(keys)][:MOST_TRIES]]

    def _by_preference(self, domains: NDArray[np.intp], level: int) -> list[Counts]:
        """What the gang's preferred level says about domains: least important first, small is good."""
        problem, tree = self.problem, self.problem.tree
        preferred = problem.parts[0].preferred
        if preferred is None:
            return []
        if preferred > level:
            return [self._domains_needed(domains, level, preferred)]
        around = tree.domain_at[preferred][tree.starts[level][domains]]
        rest = [problem.totals[0][shape] - int(self.together[shape].sum()) for shape in range(len(problem.slots))]
        sums = [tree.sums(self.room[shape], preferred) for shape in problem.shapes]
        holds_rest = np.logical_and.reduce(
            [here >= rest[shape] for shape, here in zip(problem.shapes, sums, strict=True)]
        )
        room = np.add.reduce(sums)
        order = np.where(holds_rest, room, -room)
        return [order[around], ~holds_rest[around], ~self._touched(preferred)[around]]

    def _domains_needed(self, domains: NDArray[np.intp], level: int, preferred: int) -> Counts:
        """For each domain a bound: how many preferred ones inside it the gang's pods need, each shape by itself."""
        problem, tree = self.problem, self.problem.tree
        needed = np.zeros(len(domains), dtype=np.int64)
        for shape in problem.shapes:
            sums = tree.sums(self.room[shape], preferred)
            for index, domain in enumerate(domains.tolist()):
                inside = slice(*np.searchsorted(tree.starts[preferred], tree.bounds(level, domain)))
                reached = np.cumsum(-np.sort(-sums[inside]))
                needed[index] = max(needed[index], 1 + int(np.searchsorted(reached, problem.totals[0][shape])))
        return needed

    def _touched(self, level: int) -> NDArray[np.bool_]:
        """The domains of a level that the gang uses already."""
        touched = np.zeros(len(self.problem.tree.starts[level]), dtype=np.bool_)
        touched[self.problem.tree.domain_at[level][np.flatnonzero(self.together.any(axis=0))]] = True
        touched[self.problem.used(0)] = True
        return touched

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _room_at(self, shape: int, positions: NDArray[np.intp] | slice) -> Counts:
        """How many more pods of a shape there is room for at these positions, as far as slots and amounts tell."""
        room: Counts = self.problem.slots[shape][positions] - self.together[shape, positions]
        for resource, amount in enumerate(self.problem.amounts[shape]):
            if amount > 0:
                room = np.minimum(room, (self.free[resource, positions] // amount).astype(np.int64))
        return np.asarray(np.maximum(room, 0), dtype=np.int64)

    def _put(self, shape: int, parts: Sequence[int], first: int, end: int) -> bool:
        """Put all pods of a shape that some parts have of their own on nodes between two positions."""
        wanted = sum(self.problem.parts[number].pods[shape] for number in parts)
        if not wanted:
            return True
        room = self.room[shape][first:end].copy()
        for _ in range(MOST_ROUNDS):
            if int(room.sum()) < wanted:
                return False
            counts = self._spread_out(room, wanted, first, end)
            refused = self._refused(shape, counts, first)
            if not len(refused):
                self._deal_out(shape, parts, Spots.of(counts, first))
                return True
            room[refused] = counts[refused] - 1
        return False

    def _spread_out(self, room: Counts, wanted: int, first: int, end: int) -> Counts:
        """So many pods on nodes that have room for them: near members that run, in few preferred domains, on few nodes or many."""
        problem = self.problem
        preferred, standing = problem.parts[0].preferred, problem.parts[0].standing
        if (
            preferred is not None
            and problem.tree.domain_at[preferred][first] != problem.tree.domain_at[preferred][end - 1]
        ):
            everywhere = np.zeros(problem.tree.size, dtype=np.int64)
            everywhere[first:end] = room
            return in_touched_domains_first(problem, everywhere, first, end, wanted, self._touched(preferred))
        if standing and not problem.spread:
            return fill_nearest(room, wanted, distances_to(problem.tree, standing)[first:end])
        return fill_nodes(room, wanted, spread=problem.spread)

    def _refused(self, shape: int, counts: Counts, first: int) -> NDArray[np.intp]:
        """Where a kubelet would not take these pods beside those of other shapes."""
        if self.problem.mixes is None:
            return np.zeros(0, dtype=np.intp)
        refused = []
        for index in np.flatnonzero(counts).tolist():
            mix = self.together[:, first + index].copy()
            mix[shape] += counts[index]
            if np.count_nonzero(mix) > 1 and self.problem.mixes.refused(first + index, tuple(mix.tolist())) is not None:
                refused.append(index)
        return np.array(refused, dtype=np.intp)

    def _deal_out(self, shape: int, parts: Sequence[int], spots: Spots) -> None:
        """Write down which part's pods stand where, in the order of parts."""
        shares = [self.problem.parts[number].pods[shape] for number in parts]
        reached = np.cumsum(spots.counts)
        for number, until, share in zip(parts, accumulate(shares), shares, strict=True):
            counts = np.diff(np.minimum(reached, until) - np.minimum(reached, until - share), prepend=0)
            used = np.flatnonzero(counts)
            if len(used):
                self.put.append((number, shape, Spots(spots.positions[used], counts[used])))
                self._book(*self.put[-1][1:], 1)

    def _take_back(self, before: int) -> None:
        while len(self.put) > before:
            _, shape, spots = self.put.pop()
            self._book(shape, spots, -1)
        while self.taken and self.taken[-1][2] > before:
            self.taken.pop()

    def _book(self, shape: int, spots: Spots, sign: int) -> None:
        self.together[shape, spots.positions] += sign * spots.counts
        if len(self.problem.free):
            self.free[:, spots.positions] -= sign * self.problem.amounts[shape][:, None] * spots.counts
        for other in self.problem.shapes:
            self.room[other][spots.positions] = self._room_at(other, spots.positions)

    def placed(self) -> tuple[tuple[Spots, ...], ...]:
        """Pods by part and shape."""
        placed = [[NOWHERE for _ in self.problem.slots] for _ in self.problem.parts]
        for number, shape, spots in self.put:
            placed[number][shape] = spots
        return tuple(tuple(each) for each in placed)
