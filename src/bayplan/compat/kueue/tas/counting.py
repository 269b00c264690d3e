"""How many pods and slices every domain can take: counted on the leaves, added up level by level.

In come a snapshot, what a pod takes and a plan; out goes one `LevelCounts` per level, coarsest first. Nothing is ever
written back to them: the search (`choice.py`, `sharing.py`, `balanced.py`) reads, and keeps what it hands out in shares
of its own.

With a leader every domain has two rooms: what it takes alone, and what it takes beside the leader. A domain loses to
the leader only what its best-suited child loses, since the leader needs just one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.model import Amounts
from bayplan.compat.kueue.tas.request import Slicing
from bayplan.compat.kueue.tas.snapshot import Counts, Snapshot, Tree
from bayplan.engine.numa.rows import Mask

MOST_PODS = 2**31 - 1  # Kueue counts in 32 bits; a resource of which nothing is wanted limits to this
_MUCH = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Room:
    """What every domain of a level can take, in pods and in slices. Below the level of slices there are none."""

    pods: Counts
    slices: Counts

    def in_units_of(self, size: int) -> Counts:
        """Pods counted in groups of `size`."""
        return self.pods // size if size > 1 else self.pods


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """One level's domains in the order of their names.

    Without a leader `beside_leader` is `alone`, and no domain takes one.
    """

    alone: Room
    beside_leader: Room
    takes_leader: Mask
    affinity: Counts


def count_leaves(
    snapshot: Snapshot, per_pod: Amounts, leader: Amounts | None, allowed: Mask | None, affinity: Counts | None
) -> LevelCounts:
    """The lowest level, slices not counted yet."""
    pods = pods_that_fit(snapshot, per_pod)
    no_pod = np.zeros(len(pods), dtype=np.bool_)
    if allowed is not None:
        pods = np.where(allowed, pods, 0)
    if affinity is None:
        affinity = np.zeros(len(pods), dtype=np.int64)
    alone = _unsliced(pods)
    if leader is None:
        return LevelCounts(alone, alone, no_pod, affinity)
    takes_leader = pods_that_fit(snapshot, leader) > 0
    beside = pods_that_fit(snapshot, per_pod, after=leader)
    if allowed is not None:
        takes_leader &= allowed
    return LevelCounts(alone, _unsliced(np.where(takes_leader, beside, pods)), takes_leader, affinity)


def pods_that_fit(snapshot: Snapshot, per_pod: Amounts, after: Amounts | None = None) -> Counts:
    """How often a pod's amounts fit into every leaf, once one pod with the amounts `after` is in."""
    fits = np.full(len(snapshot.paths), MOST_PODS, dtype=np.int64)
    for resource, amount in per_pod.items():
        if amount <= 0:
            continue
        left = snapshot.left_of(resource)
        taken = after.get(resource, 0) if after is not None else 0
        np.minimum(fits, (left - taken if taken else left) // amount, out=fits)
    return np.maximum(fits, 0, out=fits)


def roll_up(tree: Tree, leaves: LevelCounts, slicing: Slicing, *, leader: bool, top: int = 0) -> list[LevelCounts]:
    """All levels from `top` down, from the leaves' pods. Levels above `top` repeat it and are never read."""
    lowest = tree.lowest
    here = leaves
    if lowest == slicing.level:
        alone = _sliced(leaves.alone.pods, slicing.size)
        beside = _sliced(leaves.beside_leader.pods, slicing.size) if leader else alone
        here = LevelCounts(alone, beside, leaves.takes_leader, leaves.affinity)
    counts = [here] * (lowest + 1)
    for level in range(lowest - 1, top - 1, -1):
        here = _one_level_up(tree, level, here, slicing, leader=leader)
        counts[level] = here
    return counts


def _one_level_up(tree: Tree, level: int, children: LevelCounts, slicing: Slicing, *, leader: bool) -> LevelCounts:
    starts = tree.child_starts[level][:-1]
    at_slices = level == slicing.level
    below = _whole_groups(children.alone, slicing.inner_sizes[level + 1])
    affinity = np.add.reduceat(children.affinity, starts)
    pods = np.add.reduceat(below.pods, starts)
    alone = _sliced(pods, slicing.size) if at_slices else Room(pods, np.add.reduceat(below.slices, starts))
    if not leader:
        return LevelCounts(alone, alone, np.zeros(len(starts), dtype=np.bool_), affinity)
    below_beside = _whole_groups(children.beside_leader, slicing.inner_sizes[level + 1])
    takes_leader = np.logical_or.reduceat(children.takes_leader, starts)

    def less_the_smallest_loss(total: Counts, without: Counts, beside: Counts) -> Counts:
        losses = np.where(children.takes_leader, without - beside, _MUCH)
        return np.where(takes_leader, total - np.minimum.reduceat(losses, starts), 0)

    pods_beside = less_the_smallest_loss(pods, below.pods, below_beside.pods)
    if at_slices:
        beside = _sliced(pods_beside, slicing.size)
    else:
        beside = Room(pods_beside, less_the_smallest_loss(alone.slices, below.slices, below_beside.slices))
    return LevelCounts(alone, beside, takes_leader, affinity)


def cut(counts: Sequence[LevelCounts], level: int, start: int, stop: int) -> LevelCounts:
    """The domains `start` to `stop` of one level."""
    here = counts[level]
    alone = _slice_of(here.alone, start, stop)
    beside = alone if here.beside_leader is here.alone else _slice_of(here.beside_leader, start, stop)
    return LevelCounts(alone, beside, here.takes_leader[start:stop], here.affinity[start:stop])


def _slice_of(room: Room, start: int, stop: int) -> Room:
    return Room(room.pods[start:stop], room.slices[start:stop])


def _sliced(pods: Counts, size: int) -> Room:
    return Room(pods, pods // size if size > 1 else pods)


def _unsliced(pods: Counts) -> Room:
    return Room(pods, np.zeros_like(pods))


def _whole_groups(room: Room, size: int) -> Room:
    return Room(room.pods // size * size, room.slices) if size > 1 else room
