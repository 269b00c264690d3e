"""The cluster at the moment of a decision: a tree of domains, what is left in every leaf, and the hosts behind them.

`snapshot_of` builds it from plain leaves. `minus` gives the snapshot after pods have taken their amounts, which is how
a pod set sees the pod sets that were placed before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.compat.kueue.tas.model import Amounts, Assignment, Host, Leaf
from bayplan.engine.numa.rows import Mask
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Toleration

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


Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Leaves are sorted by path; `remaining` has an array over them per resource, `hosts` an entry per leaf.

    `hosts` is None where the lowest level is not the host name: such a leaf is a sum of nodes, and taints, selectors
    and affinity say nothing about it. `tainted` are the leaves with any taint; `tolerations` are those of the resource
    flavor, which every pod gets.
    """

    name: str
    levels: tuple[str, ...]
    tree: Tree
    paths: tuple[Path, ...]
    remaining: Mapping[str, Counts]
    hosts: tuple[Host, ...] | None
    tainted: tuple[int, ...]
    leaf_of: Mapping[Path, int]
    tolerations: tuple[Toleration, ...] = ()

    def level_of(self, label: str) -> int | None:
        """The position of a level, counted from the coarsest."""
        return self.levels.index(label) if label in self.levels else None

    def left_of(self, resource: str) -> Counts:
        """The remaining amount of a resource on every leaf; a resource that no leaf has is zero everywhere."""
        amounts = self.remaining.get(resource)
        return amounts if amounts is not None else np.zeros(len(self.paths), dtype=np.int64)

    def minus(self, per_pod: Amounts, leaves: Indices, pods: Counts) -> Snapshot:
        """The snapshot after `pods` pods were placed on `leaves`, which differ."""
        remaining = dict(self.remaining)
        for resource, amount in per_pod.items():
            left = self.left_of(resource).copy()
            left[leaves] -= amount * pods
            remaining[resource] = left
        return replace(self, remaining=remaining)

    def assignment(self, leaves: Indices, pods: Counts) -> Assignment:
        """Pods on leaves as an assignment, in the order of the domains' names; leaves without pods are left out."""
        shown = shown_levels(self.levels)
        order = np.argsort(leaves, kind="stable")
        domains = tuple(
            (self.paths[leaf][shown], int(count))
            for leaf, count in zip(leaves[order], pods[order], strict=True)
            if count
        )
        return Assignment(self.levels[shown], domains)

    def leaves_of(self, assignment: Assignment) -> tuple[Indices, Counts]:
        """The leaves and pods of an assignment that `stale_domain` finds nothing wrong with, each leaf once."""
        pods: dict[int, int] = {}
        for values, count in assignment.domains:
            leaf = self.leaf_of[values]
            pods[leaf] = pods.get(leaf, 0) + count
        return np.array(list(pods), dtype=np.intp), np.array(list(pods.values()), dtype=np.int64)

    def stale_domain(self, assignment: Assignment) -> str | None:
        """The first domain of an assignment that is gone or not ready any more, by its first value."""
        return next(
            (values[0] if values else "" for values, _ in assignment.domains if values not in self.leaf_of), None
        )


def shown_levels(levels: tuple[str, ...]) -> slice:
    """The levels that an assignment lists: the host name says it all where it is the lowest level."""
    return slice(-1, None) if levels[-1:] == (HOSTNAME,) else slice(None)


def snapshot_of(
    name: str, levels: Sequence[str], leaves: Sequence[Leaf], tolerations: Sequence[Toleration] = ()
) -> Snapshot:
    """The snapshot of a topology's ready nodes.

    Leaves that an assignment could not tell apart are one leaf with the sum of their amounts, in the place of the
    first: the nodes of a rack where racks are the lowest level, or nodes that share a host name. A leaf without a value
    for every level is not part of the topology.
    """
    levels = tuple(levels)
    shown = shown_levels(levels)
    leaves = [leaf for leaf in leaves if len(leaf.values) == len(levels)]
    first_with: dict[Path, Leaf] = {}
    for leaf in leaves:
        first_with.setdefault(leaf.values[shown], leaf)
    merged = sorted(first_with.values(), key=lambda leaf: leaf.values)
    paths = tuple(leaf.values for leaf in merged)
    leaf_of = {path[shown]: index for index, path in enumerate(paths)}
    by_host = levels[-1:] == (HOSTNAME,)
    hosts = tuple(leaf.host or _unknown_host(levels, leaf) for leaf in merged) if by_host else None
    tainted = tuple(index for index, host in enumerate(hosts or ()) if host.taints)
    remaining = _columns(leaves, leaf_of, shown)
    tree = tree_of(paths, len(levels))
    return Snapshot(name, levels, tree, paths, remaining, hosts, tainted, leaf_of, tuple(tolerations))


def _unknown_host(levels: tuple[str, ...], leaf: Leaf) -> Host:
    return Host(leaf.values[-1], dict(zip(levels, leaf.values, strict=True)))


def _columns(leaves: Sequence[Leaf], leaf_of: Mapping[Path, int], shown: slice) -> dict[str, Counts]:
    columns: dict[str, Counts] = {}
    for leaf in leaves:
        index = leaf_of[leaf.values[shown]]
        for resource, amount in leaf.remaining.items():
            if resource not in columns:
                columns[resource] = np.zeros(len(leaf_of), dtype=np.int64)
            columns[resource][index] += amount
    return columns
