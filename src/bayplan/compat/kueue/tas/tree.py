"""Domains as index ranges: leaves sorted by their path, and for every level where each domain's children begin.

Sorting makes a domain's number its rank by name, its children neighbours, and every sum over children one `reduceat`.
The tree is built once per cluster and holds no amounts; `snapshot.py` puts amounts beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.numa.rows import Mask

Indices = NDArray[np.intp]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """`child_starts[level]` has one entry per domain and a last one for the end; the lowest level has none.

    `leaf_starts[level]` is the same on the leaves. In a part of a tree (`part`) the levels above it are empty.
    """

    child_starts: tuple[Indices, ...]
    leaf_starts: tuple[Indices, ...]

    @property
    def lowest(self) -> int:
        """The level of the leaves."""
        return len(self.leaf_starts) - 1

    def size(self, level: int) -> int:
        """How many domains a level has."""
        return len(self.leaf_starts[level]) - 1

    def children(self, level: int, domains: Indices) -> Indices:
        """The domains one level lower, in the order of their parents."""
        starts = self.child_starts[level]
        ranges = [np.arange(starts[domain], starts[domain + 1]) for domain in domains]
        return np.concatenate(ranges) if ranges else np.empty(0, dtype=np.intp)

    def ancestor(self, leaf: int, level: int) -> int:
        """The domain of a level that a leaf belongs to."""
        return int(np.searchsorted(self.leaf_starts[level], leaf, side="right")) - 1

    def to_leaves(self, level: int, chosen: Mask) -> Mask:
        """The leaves of the chosen domains."""
        return np.repeat(chosen, np.diff(self.leaf_starts[level]))

    def range_at(self, level: int, start: int, stop: int, lower: int) -> tuple[int, int]:
        """Where the domains `start` to `stop` of a level begin and end on a lower level."""
        for each in range(level, lower):
            start, stop = int(self.child_starts[each][start]), int(self.child_starts[each][stop])
        return start, stop

    def part(self, level: int, start: int, stop: int) -> Tree:
        """The domains `start` to `stop` of a level and all below them, numbered from zero."""
        nothing = np.zeros(1, dtype=np.intp)
        child_starts, leaf_starts = [nothing] * level, [nothing] * level
        for each in range(level, self.lowest + 1):
            first, last = self.range_at(level, start, stop, each)
            leaf_starts.append(self.leaf_starts[each][first : last + 1] - self.leaf_starts[each][first])
            if each < self.lowest:
                child_starts.append(self.child_starts[each][first : last + 1] - self.child_starts[each][first])
        return Tree(tuple(child_starts), tuple(leaf_starts))


def tree_of(paths: Sequence[Path], depth: int) -> Tree:
    """The tree above leaves with these paths, which are sorted and differ."""
    firsts = [_where_prefix_changes(paths, level + 1) for level in range(depth)]
    ends = [np.append(first, len(paths)) for first in firsts]
    child_starts = [np.searchsorted(ends[level + 1], ends[level]) for level in range(depth - 1)]
    return Tree(tuple(child_starts), tuple(ends))


def _where_prefix_changes(paths: Sequence[Path], length: int) -> Indices:
    changes = [index for index, path in enumerate(paths) if index == 0 or path[:length] != paths[index - 1][:length]]
    return np.array(changes, dtype=np.intp)
