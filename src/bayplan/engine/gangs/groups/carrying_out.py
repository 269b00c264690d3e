"""From domains to nodes: once every group has its domain, its pods are put on nodes there.

The narrowest domains are filled first, and wider ones take what is left. Groups in one domain follow one another, each
on few nodes. If one of them finds no place, all are packed together as tightly as possible, and at last exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.groups.groups import WHOLE_GANG, Groups
from bayplan.engine.gangs.groups.nodes import Fill, Filling, Nodes
from bayplan.engine.gangs.problem import NOWHERE, Placed, Problem, Spots

Domains = Mapping[int, int]
"""By group the domain that it has taken."""


def carried_out(problem: Problem, groups: Groups, nodes: Nodes, domains: Domains) -> Placed | None:
    """Pods by part and shape; None if a domain does not hold its pods beside those in narrower domains."""
    return _CarryingOut(problem, groups, nodes).placed(domains)


class _CarryingOut:
    def __init__(self, problem: Problem, groups: Groups, nodes: Nodes) -> None:
        self.problem = problem
        self.groups = groups
        self.nodes = nodes
        self.whole = nodes.empty(0, problem.tree.size)
        self.found: dict[tuple[int, int], Spots] = {}
        # Domains are filled as if no other pod of the gang were there, unless there are groups of other levels.
        self.nested = len({groups.level_of[group] for group, own in groups.own.items() if own}) > 1

    def placed(self, domains: Domains) -> Placed | None:
        problem, tree = self.problem, self.problem.tree
        at: dict[tuple[int, int, int], list[int]] = {}
        for group, own in self.groups.own.items():
            if own:
                level = self.groups.level_of[group]
                bounds = (0, tree.size) if group == WHOLE_GANG else tree.bounds(level, domains[group])
                at.setdefault((-level, *bounds), []).append(group)
        preferred = problem.parts[0].preferred
        touched = np.zeros(0 if preferred is None else len(tree.starts[preferred]), dtype=np.bool_)
        touched[problem.used(0)] = True
        for (_, first, end), here in sorted(at.items()):
            base = self._before(first, end)
            after = self._one_by_one(base, here, touched) or self._together(base, here)
            if after is None:
                return None
            if self.nested:
                self._note(after)
        rows: list[dict[int, Spots]] = [{} for _ in problem.parts]
        for (number, shape), spots in self.found.items():
            rows[number][shape] = spots
        return tuple(rows)

    def _one_by_one(self, base: Filling, groups: Sequence[int], touched: NDArray[np.bool_]) -> Filling | None:
        """Each group by itself on few nodes, in few preferred domains."""
        now, found, touched_before = base, dict(self.found), touched.copy()
        for group in groups:
            wanted = self.nodes.largest_first(self.groups.own[group])
            after = self.nodes.added(now, wanted, Fill.FEW, touched)
            if after is None:
                self.found = found
                touched[:] = touched_before
                return None
            for shape, _ in wanted:
                self._deal_out(self.groups.members[group], shape, after.added[shape])
            now = after
        return now

    def _together(self, base: Filling, groups: Sequence[int]) -> Filling | None:
        """All groups of a domain at once, as tightly as possible."""
        pods: dict[int, int] = {}
        for group in groups:
            for shape, count in self.groups.own[group].items():
                pods[shape] = pods.get(shape, 0) + count
        wanted = self.nodes.largest_first(pods)
        after = self.nodes.added(base, wanted, Fill.TIGHT)
        if after is None and not base.spots:
            after = self.nodes.packed(base.first, base.end, wanted).filling
        if after is not None:
            members = [part for group in groups for part in self.groups.members[group]]
            for shape, _ in wanted:
                self._deal_out(members, shape, after.added[shape])
        return after

    def _before(self, first: int, end: int) -> Filling:
        """The nodes between two positions with those of narrower domains on them."""
        if not self.whole.spots:
            return self.nodes.empty(first, end)
        spots = {}
        for shape, each in self.whole.spots.items():
            low, high = np.searchsorted(each.positions, (first, end))
            if low < high:
                spots[shape] = Spots(each.positions[low:high], each.counts[low:high])
        return self.nodes.filling(first, end, self.whole.free[:, first:end], spots)

    def _note(self, after: Filling) -> None:
        """Remember the placed pods for later groups."""
        free = self.whole.free.copy()
        free[:, after.first : after.end] = after.free
        spots = dict(self.whole.spots)
        for shape, each in after.spots.items():
            known = spots.get(shape, NOWHERE)
            others = (known.positions < after.first) | (known.positions >= after.end)
            positions = np.concatenate((known.positions[others], each.positions))
            order = np.argsort(positions)
            spots[shape] = Spots(positions[order], np.concatenate((known.counts[others], each.counts))[order])
        self.whole = Filling(0, self.problem.tree.size, free, spots, {}, {**self.whole.mixes, **after.mixes})

    def _deal_out(self, parts: Sequence[int], shape: int, spots: Spots) -> None:
        """Assign the placed pods to parts, in their order."""
        parts = [number for number in parts if shape in self.problem.parts[number].pods]
        if len(parts) == 1:
            self.found[parts[0], shape] = spots
            return
        shares = [self.problem.parts[number].pods[shape] for number in parts]
        reached = np.cumsum(spots.counts)
        for number, until, share in zip(parts, accumulate(shares), shares, strict=True):
            counts = np.diff(np.minimum(reached, until) - np.minimum(reached, until - share), prepend=0)
            used = np.flatnonzero(counts)
            self.found[number, shape] = Spots(spots.positions[used], counts[used])
