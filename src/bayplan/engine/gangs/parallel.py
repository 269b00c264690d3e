"""Parallel groups: which rank of a training job goes to which of the places that its gang has got.

A job declares its parallel groups innermost first, for example 8 tensor-parallel ranks in each of 4 pipeline stages of
2 replicas. The ranks of an inner group talk to each other most, so inner groups are kept together first: as many as
possible on one node, of the rest as many as possible in one rack, and so on up the tree; then these groups are put
together to the next larger ones in the same way. A group that nothing narrower holds is made of the largest leftovers.

In come places by position in the tree's order, out go the same places by rank. `spread_of` counts how far the groups
are spread then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bayplan.cluster.topology.tree import Path, Tree

Unit = list[int]
"""The positions of ranks that stay next to each other."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The number of groups of one kind, and how many are inside one domain of each level, the widest first."""

    groups: int
    inside_one: tuple[int, ...]


def order_by_groups(tree: Tree, positions: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Positions by rank.

    `sizes` are how many units of the kind before make one group, innermost first; the last group may be smaller.
    """
    units = [[position] for position in sorted(positions)]
    # Ranks that make no whole group are the highest, so that they shift no other group.
    highest: list[int] = []
    for size in sizes:
        units, left = _put_together(tree, units, size)
        highest = _joined(left) + highest
    return _joined(units) + highest


def spread_of(by_rank: Sequence[Path], size: int) -> Spread:
    """How far groups of `size` ranks are spread, from the path of each rank down to its node."""
    groups = [by_rank[first : first + size] for first in range(0, len(by_rank), size)]
    levels = range(len(by_rank[0]) if by_rank else 0)
    inside = [sum(len({path[: level + 1] for path in group}) == 1 for group in groups) for level in levels]
    return Spread(len(groups), tuple(inside))


def _put_together(tree: Tree, units: list[Unit], size: int) -> tuple[list[Unit], list[Unit]]:
    """Groups of `size` units, from the node up, and the leftover units."""
    made: list[Unit] = []
    left = units
    for level in range(tree.node_level, -1, -1):
        inside = [unit for unit in left if _in_one(tree, unit, level)]
        left = [unit for unit in left if not _in_one(tree, unit, level)]
        for _, here in groupby(inside, key=lambda unit: int(tree.domain_at[level][unit[0]])):
            largest_first = _largest_first(tree, list(here), level)
            whole = len(largest_first) // size * size
            made += [_joined(largest_first[first : first + size]) for first in range(0, whole, size)]
            left += largest_first[whole:]
        left.sort(key=lambda unit: unit[0])
    whole = len(left) // size * size
    made += [_joined(left[first : first + size]) for first in range(0, whole, size)]
    return sorted(made, key=lambda unit: unit[0]), left[whole:]


def _largest_first(tree: Tree, units: list[Unit], level: int) -> list[Unit]:
    """Units of one domain, largest inner domain first: a group then touches few inner domains."""
    if level == tree.node_level:
        return units
    inner: list[list[Unit]] = []
    for unit in units:
        here = int(tree.domain_at[level + 1][unit[0]])
        if inner and int(tree.domain_at[level + 1][inner[-1][-1][0]]) == here:
            inner[-1].append(unit)
        else:
            inner.append([unit])
    return [unit for each in sorted(inner, key=len, reverse=True) for unit in each]


def _in_one(tree: Tree, positions: Sequence[int], level: int) -> bool:
    """True if all positions are in one domain of a level."""
    domains = tree.domain_at[level]
    return bool(domains[min(positions)] == domains[max(positions)])


def _joined(units: Sequence[Unit]) -> Unit:
    return [position for unit in units for position in unit]
