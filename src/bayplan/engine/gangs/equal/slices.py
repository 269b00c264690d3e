"""Slices above the preferred level: how many each domain gets, so that all touch the fewest preferred domains.

Take slices of 8 pods inside a block, in as few racks as possible. A rack is then filled as part of a block that gets
whole slices. The number of racks that a block needs for k slices is counted, the largest racks first. Which block gets
how many slices is a table over blocks and slices, as in a knapsack. Nested layers of slices are tables of tables.

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
class Layer:
    """Slices of `size` pods, each inside one domain of a level; `apart`: no two of them in the same domain."""

    level: int
    size: int
    apart: bool = False


@dataclass(frozen=True)
class SlicedRoom:
    """The input for dealing out slices: `room[level][domain]` in whole slices, and layers above the preferred level.

    `used` are preferred domains that cost nothing, because the gang is already there.
    """

    tree: Tree
    room: Sequence[Counts]
    layers: tuple[Layer, ...]
    preferred: int
    used: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Dealt:
    """Pods per domain of the lowest layer, in the positions from `first` on, and the cost in preferred domains."""

    first: int
    cost: int
    shares: list[tuple[int, int]]


def deal_slices(sliced: SlicedRoom, inside: Sequence[tuple[int, int]], pods: int) -> Dealt:
    """All pods inside one of the runs of positions `inside`, as cheaply as possible; there is room."""
    best: tuple[int, int, int, _Table] | None = None
    for first, end in inside:
        table = _Table(sliced, 0, first, end, pods // sliced.layers[0].size)
        cost = int(table.costs[-1][-1])
        room = sum(int(sliced.room[sliced.layers[0].level][domain]) for domain in table.domains)
        if cost < NO_WAY and (best is None or (cost, room) < best[:2]):
            best = cost, room, first, table
    assert best is not None
    cost, _, first, table = best
    return Dealt(first, cost, table.dealt(pods // sliced.layers[0].size))


class _Table:
    """For the domains of one layer: `costs[n][k]` is the fewest preferred domains for k slices in the first n."""

    def __init__(self, sliced: SlicedRoom, depth: int, first: int, end: int, most: int) -> None:
        self.sliced = sliced
        self.depth = depth
        layer = sliced.layers[depth]
        starts = sliced.tree.starts[layer.level]
        low, high = np.searchsorted(starts, (first, end))
        self.domains = [domain for domain in range(int(low), int(high)) if sliced.room[layer.level][domain]]
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
        """How few preferred domains 0, 1, 2, ... slices of this layer need in one domain."""
        sliced, layer = self.sliced, self.sliced.layers[self.depth]
        number = min(most, int(sliced.room[layer.level][domain]) // layer.size)
        first, end = sliced.tree.bounds(layer.level, domain)
        if self.depth + 1 == len(sliced.layers):
            return self._by_counting(first, end, np.arange(number + 1) * layer.size)
        times = layer.size // sliced.layers[self.depth + 1].size
        inner = self.inner[domain] = _Table(sliced, self.depth + 1, first, end, number * times)
        return inner.costs[-1][::times]

    def _by_counting(self, first: int, end: int, pods: Counts) -> Counts:
        """Preferred domains that cost nothing come first, then the largest."""
        sliced = self.sliced
        low, high = np.searchsorted(sliced.tree.starts[sliced.preferred], (first, end))
        room = sliced.room[sliced.preferred][low:high]
        free = np.array([low + number in sliced.used for number in range(len(room))], dtype=np.bool_)
        reached = np.cumsum(-np.sort(-room[~free]))
        missing = pods - int(room[free].sum())
        needed: Counts = np.searchsorted(reached, missing) + 1
        return np.where(missing <= 0, 0, np.where(needed <= len(reached), needed, NO_WAY))

    def dealt(self, slices: int) -> list[tuple[int, int]]:
        """The way back through the table: pods for each domain of the lowest layer."""
        found: list[tuple[int, int]] = []
        for number in range(len(self.domains), 0, -1):
            own, before = self.by_domain[number - 1], self.costs[number - 1]
            share = next(
                count
                for count in range(min(slices, len(own) - 1), -1, -1)
                if before[slices - count] + own[count] == self.costs[number][slices]
            )
            slices -= share
            domain = self.domains[number - 1]
            if share and domain in self.inner:
                inner = self.sliced.layers[self.depth + 1]
                found += self.inner[domain].dealt(share * self.sliced.layers[self.depth].size // inner.size)
            elif share:
                found.append((domain, share * self.sliced.layers[self.depth].size))
        return found
