"""The fewest domains that hold a request, and among those sets the one with the least room to spare.

`greedy` gives the number: the largest domains first. `tightest_set` is a knapsack over pods still to be placed: for
every number of domains, with the leader placed or not, which remainders can be reached, and through which domain they
were reached first. Ties go to the set that is found first in the given order, as in Kueue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.compat.kueue.tas.counting import LevelCounts
from bayplan.compat.kueue.tas.request import Policy
from bayplan.compat.kueue.tas.sharing import ranked
from bayplan.compat.kueue.tas.snapshot import Counts, Indices
from bayplan.engine.numa.rows import Mask

Trace = NDArray[np.int32]

# A domain with this much more than all pods is as good as any other such domain: it keeps the tables small.
AMPLE = 4096
# Beyond these the exact set is not worth its memory (5 bytes a cell) or its time (5e9 steps take a second on one core),
# and the caller fills in order instead.
MOST_CELLS = 50_000_000
MOST_STEPS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Greedy:
    """How many domains it takes to fill the largest first, which of them has the leader, and which came last."""

    domains: int
    with_leader: int | None
    last: int | None


def greedy(level: LevelCounts, domains: Indices, slices: int, policy: Policy, *, leader: bool) -> Greedy | None:
    """The largest domains first, the leader's before all; None if everything is too small."""
    with_leader = None
    need = slices
    if leader:
        domains = ranked(level, domains, policy, leader=True)
        if not len(domains) or not level.takes_leader[domains[0]]:
            return None
        with_leader = int(domains[0])
        need -= int(level.beside_leader.slices[with_leader])
        domains = domains[1:]
    if need <= 0:
        return Greedy(int(leader), with_leader, None)
    order = ranked(level, domains, policy, leader=False)
    reach = np.cumsum(level.alone.slices[order])
    position = int(np.searchsorted(reach, need))
    # With affinity an empty domain may come before a full one; Kueue stops there.
    if position == len(order) or not level.alone.slices[order[:position]].all():
        return None
    return Greedy(position + 1 + leader, with_leader, int(order[position]))


def tightest_set(
    level: LevelCounts, order: Indices, slices: int, size: int, policy: Policy, *, leader: bool
) -> Indices | None:
    """As few domains as `greedy` needs, with the least pods to spare; `order` decides between equals."""
    found = greedy(level, order, slices, policy, leader=leader)
    if found is None:
        return None
    pods = slices * size
    alone = np.minimum(level.alone.pods[order], pods + AMPLE)
    beside = np.minimum(level.beside_leader.pods[order], pods + AMPLE)
    usable_alone = level.alone.slices[order] > 0
    reached = _reach(alone, beside, usable_alone, level.takes_leader[order], pods, found.domains, leader=leader)
    if reached is None:
        return None
    chosen = _walk_back(reached, alone, beside, pods, found.domains)
    return None if chosen is None else order[chosen]


def _reach(
    alone: Counts, beside: Counts, usable_alone: Mask, takes_leader: Mask, pods: int, domains: int, *, leader: bool
) -> Trace | None:
    """For [leader still to place, domains used, pods missing + offset]: 1 + twice the domain that led there first, plus
    1 if it took the leader; 0 where nothing led. The offset is `offset_of`.
    """
    offset = offset_of(alone, pods, domains)
    shape = (1 + leader, domains + 1, pods + offset + 1)
    cells = math.prod(shape)
    if cells > MOST_CELLS or cells * len(alone) > MOST_STEPS:
        return None
    via = np.zeros(shape, dtype=np.int32)
    reached = np.zeros(shape, dtype=np.bool_)
    reached[-1, 0, pods + offset] = True
    for index in range(len(alone)):
        sources = reached[:, :-1].copy()  # as they were before this domain
        sources[0, :, : offset + 1] = False  # nothing is missing any more there
        if usable_alone[index]:
            for waiting in range(1 + leader):
                _mark(reached[waiting], via[waiting], sources[waiting], int(alone[index]), 2 * index + 1)
        if takes_leader[index]:
            _mark(reached[0], via[0], sources[1], int(beside[index]), 2 * index + 2)
    return via


def offset_of(alone: Counts, pods: int, domains: int) -> int:
    """How far below zero the pods still missing can go: by what the largest domains have to spare."""
    return max(0, int(np.sort(alone)[::-1][:domains].sum()) - pods)


def _mark(reached: Mask, via: Trace, sources: Mask, pods: int, code: int) -> None:
    """Mark what `sources` lead to with one domain more and `pods` pods fewer, unless something led there before."""
    targets = np.zeros_like(sources)
    if pods < sources.shape[1]:
        targets[:, : sources.shape[1] - pods] = sources[:, pods:]
    targets &= ~reached[1:]
    reached[1:] |= targets
    via[1:][targets] = code


def _walk_back(via: Trace, alone: Counts, beside: Counts, pods: int, domains: int) -> list[int] | None:
    """The domains that led to the smallest excess with everything placed."""
    offset = offset_of(alone, pods, domains)
    ends = np.flatnonzero(via[0, domains, : offset + 1])
    if not len(ends):
        return None
    leader_open, missing = 0, int(ends[-1])
    chosen = []
    for used in range(domains, 0, -1):
        index, with_leader = divmod(int(via[leader_open, used, missing]) - 1, 2)
        chosen.append(index)
        missing += int(beside[index] if with_leader else alone[index])
        leader_open |= with_leader
    return chosen[::-1]
