"""Segments above the preferred level: how many each domain gets, so that all touch the fewest preferred domains.

Take segments of 8 pods inside a block, in as few racks as possible. A rack is then filled as part of a block that gets
whole segments. The number of racks that a block needs for k segments is counted, the largest racks first. A table over
blocks and segments says which block gets how many, as in a knapsack. Nested layers of segments are tables of tables.

`equal_pods.py` needs this only if a layer is above the preferred level; otherwise sums are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.problem import Counts

# More preferred domains than any tree has: there is no way.
NO_WAY = np.int64(2**40)


@dataclass(frozen=True, slots=True)
class SegmentLayer:
    """Segments of `size` pods, each inside one domain of a level; `apart`: no two of them in the same domain."""

    level: int
    size: int
    apart: bool = False


@dataclass(frozen=True)
class SegmentedRoom:
    """The input for dealing out segments: `room[level][domain]` in whole segments, layers above the preferred level.

    `used` are preferred domains that cost nothing, because the gang is already there.
    """

    tree: Tree
    room: Sequence[Counts]
    layers: tuple[SegmentLayer, ...]
    preferred: int
    used: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Dealt:
    """Pods per domain of the lowest layer, in the positions from `first` on, and the cost in preferred domains."""

    first: int
    cost: int
    shares: list[tuple[int, int]]


def deal_segments(segmented: SegmentedRoom, inside: Sequence[tuple[int, int]], pods: int) -> Dealt:
    """All pods inside one of the runs of positions `inside`, as cheaply as possible; there is room."""
    best: tuple[int, int, int, _Table] | None = None
    for first, end in inside:
        table = _Table(segmented, 0, first, end, pods // segmented.layers[0].size)
        cost = int(table.costs[-1][-1])
        room = sum(int(segmented.room[segmented.layers[0].level][domain]) for domain in table.domains)
        if cost < NO_WAY and (best is None or (cost, room) < best[:2]):
            best = cost, room, first, table
    assert best is not None
    cost, _, first, table = best
    return Dealt(first, cost, table.dealt(pods // segmented.layers[0].size))


class _Table:
    """For the domains of one layer: `costs[n][k]` is the fewest preferred domains for k segments in the first n."""

    def __init__(self, segmented: SegmentedRoom, depth: int, first: int, end: int, most: int) -> None:
        self.segmented = segmented
        self.depth = depth
        layer = segmented.layers[depth]
        starts = segmented.tree.starts[layer.level]
        low, high = np.searchsorted(starts, (first, end))
        self.domains = [domain for domain in range(int(low), int(high)) if segmented.room[layer.level][domain]]
        self.inner: dict[int, _Table] = {}
        self.by_domain = [self._of_domain(domain, most) for domain in self.domains]
        costs = np.full(most + 1, NO_WAY)
        costs[0] = 0
        self.costs = [costs]
        for own in self.by_domain:
            costs = np.full(most + 1, NO_WAY)
            for number, cost in enumerate(own):
                np.minimum(costs[number:], self.costs[-1][: most + 1 - number] + cost, out=costs[number:])
            self.costs.append(np.minimum(costs, NO_WAY))

    def _of_domain(self, domain: int, most: int) -> Counts:
        """How few preferred domains 0, 1, 2, ... segments of this layer need in one domain."""
        segmented, layer = self.segmented, self.segmented.layers[self.depth]
        number = min(most, int(segmented.room[layer.level][domain]) // layer.size)
        first, end = segmented.tree.bounds(layer.level, domain)
        if self.depth + 1 == len(segmented.layers):
            return self._by_counting(first, end, np.arange(number + 1) * layer.size)
        times = layer.size // segmented.layers[self.depth + 1].size
        inner = self.inner[domain] = _Table(segmented, self.depth + 1, first, end, number * times)
        return inner.costs[-1][::times]

    def _by_counting(self, first: int, end: int, pods: Counts) -> Counts:
        """Preferred domains that cost nothing come first, then the largest."""
        segmented = self.segmented
        low, high = np.searchsorted(segmented.tree.starts[segmented.preferred], (first, end))
        room = segmented.room[segmented.preferred][low:high]
        free = np.array([low + number in segmented.used for number in range(len(room))], dtype=np.bool_)
        reached = np.cumsum(-np.sort(-room[~free]))
        missing = pods - int(room[free].sum())
        needed: Counts = np.searchsorted(reached, missing) + 1
        return np.where(missing <= 0, 0, np.where(needed <= len(reached), needed, NO_WAY))

    def dealt(self, segments: int) -> list[tuple[int, int]]:
        """The way back through the table: pods for each domain of the lowest layer."""
        found: list[tuple[int, int]] = []
        for number in range(len(self.domains), 0, -1):
            own, before = self.by_domain[number - 1], self.costs[number - 1]
            share = next(
                count
                for count in range(min(segments, len(own) - 1), -1, -1)
                if before[segments - count] + own[count] == self.costs[number][segments]
            )
            segments -= share
            domain = self.domains[number - 1]
            if share and domain in self.inner:
                inner = self.segmented.layers[self.depth + 1]
                found += self.inner[domain].dealt(share * self.segmented.layers[self.depth].size // inner.size)
            elif share:
                found.append((domain, share * self.segmented.layers[self.depth].size))
        return found
