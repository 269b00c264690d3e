"""Balanced placement: every chosen domain gets about the same number of slices (Kueue's gate TASBalancedPlacement).

For preferred topologies only. For each domain above the wanted level the best *threshold* is found, the largest number
of slices that every used domain below can have at least. Domains under it are pruned, the tightest smallest set of the
rest is chosen, each gets the threshold, and what remains goes to the first with room. None means: fill in order
instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bayplan.compat.kueue.tas.counting import LevelCounts, Room, cut, roll_up
from bayplan.compat.kueue.tas.optimal_set import Greedy, greedy, tightest_set
from bayplan.compat.kueue.tas.request import Plan, Slicing
from bayplan.compat.kueue.tas.sharing import Shares, descend, ranked
from bayplan.compat.kueue.tas.snapshot import Counts, Indices, Tree
from bayplan.engine.numa.rows import Mask


@dataclass(frozen=True, slots=True)
class Siblings:
    """The children of one domain, pruned: a small tree of its own, with the leaf at which it
    starts in the large one.
    """

    tree: Tree
    counts: Sequence[LevelCounts]
    first_leaf: int
    threshold: int
    domains_needed: int


def place_balanced(tree: Tree, counts: Sequence[LevelCounts], plan: Plan) -> Shares | None:
    """Shares of leaves, or None if no threshold above zero works."""
    if plan.slices <= 0:
        return None
    siblings = _best_siblings(tree, counts, plan)
    if siblings is None:
        return None
    level = plan.level
    candidates = np.arange(siblings.tree.size(level))
    if level < plan.slicing.level:
        chosen = _tightest(siblings.counts[level], _most_even_first(siblings, level), plan)
        if chosen is None:
            return None
        candidates = np.sort(siblings.tree.children(level, chosen))
        level += 1
    shares = _even_shares(siblings.counts[level], candidates, plan, siblings.threshold)
    if shares is None:
        return None
    leaves = descend(siblings.tree, siblings.counts, level, shares, plan, in_one_pool=False)
    return None if leaves is None else _moved(leaves, siblings.first_leaf)


def _best_siblings(tree: Tree, counts: Sequence[LevelCounts], plan: Plan) -> Siblings | None:
    best: Siblings | None = None
    for start, stop in _groups_of_siblings(tree, plan.level):
        for threshold in _thresholds(tree, counts, plan, start, stop):
            if threshold < (best.threshold if best else 1):
                break
            found = _pruned(tree, counts, plan, start, stop, threshold)
            if found is None:
                continue
            if best is None or (found.threshold, -found.domains_needed) > (best.threshold, -best.domains_needed):
                best = found
            break
    return best


def _groups_of_siblings(tree: Tree, level: int) -> list[tuple[int, int]]:
    if level == 0:
        return [(0, tree.size(0))]
    starts = tree.child_starts[level - 1].tolist()
    return list(pairwise(starts))


def _thresholds(tree: Tree, counts: Sequence[LevelCounts], plan: Plan, start: int, stop: int) -> list[int]:
    """Thresholds to try: the largest, and a smaller one that lets even the last domain take the leader."""
    level = plan.level
    if level < plan.slicing.level:
        start, stop = tree.range_at(level, start, stop, level + 1)
        level += 1
    here = counts[level]
    filled = greedy(here, np.arange(start, stop), plan.slices, plan.policy, leader=plan.leader)
    if filled is None:
        return []
    threshold = _threshold(here, filled, plan)
    if not plan.leader or filled.last is None:
        return [threshold]
    with_reserve = min(threshold, int(here.beside_leader.slices[filled.last]))
    return [threshold] if with_reserve == threshold else [threshold, with_reserve]


def _threshold(here: LevelCounts, filled: Greedy, plan: Plan) -> int:
    threshold = plan.slices // filled.domains
    if filled.with_leader is not None:
        threshold = min(threshold, int(here.beside_leader.slices[filled.with_leader]))
    if filled.last is not None:
        threshold = min(threshold, int(here.alone.slices[filled.last]))
    return threshold


def _pruned(
    tree: Tree, counts: Sequence[LevelCounts], plan: Plan, start: int, stop: int, threshold: int
) -> Siblings | None:
    """The siblings without domains below the threshold, if the rest still holds everything.

    Layers of slices below the first are not looked at, as in Kueue.
    """
    level = plan.level
    part = tree.part(level, start, stop)
    first_leaf, last_leaf = tree.range_at(level, start, stop, tree.lowest)
    leaves = cut(counts, tree.lowest, first_leaf, last_leaf)
    if level < tree.lowest:
        children = cut(counts, level + 1, *tree.range_at(level, start, stop, level + 1))
        leaves = _without_small(part, level + 1, children, leaves, threshold)
    slicing = Slicing(plan.slicing.size, plan.slicing.level, (1,) * len(counts))
    recounted = roll_up(part, leaves, slicing, leader=plan.leader, top=level)
    leaves = _without_small(part, level, recounted[level], leaves, threshold)
    recounted = roll_up(part, leaves, slicing, leader=plan.leader, top=level)
    everyone = np.arange(part.size(level))
    filled = greedy(recounted[level], everyone, plan.slices, plan.policy, leader=plan.leader)
    if filled is None:
        return None
    return Siblings(part, recounted, first_leaf, threshold, filled.domains)


def _without_small(tree: Tree, level: int, here: LevelCounts, leaves: LevelCounts, threshold: int) -> LevelCounts:
    """The leaves after domains of `level` that are too small, or too small beside a leader, have lost their room."""
    small = tree.to_leaves(level, here.alone.slices < threshold)
    alone = _emptied(leaves.alone, small)
    if leaves.beside_leader is leaves.alone:
        return LevelCounts(alone, alone, leaves.takes_leader, leaves.affinity)
    no_leader = small | tree.to_leaves(level, here.takes_leader & (here.beside_leader.slices < threshold))
    return replace(
        leaves,
        alone=alone,
        beside_leader=_emptied(leaves.beside_leader, no_leader),
        takes_leader=leaves.takes_leader & ~no_leader,
    )


def _emptied(room: Room, leaves: Mask) -> Room:
    return Room(np.where(leaves, 0, room.pods), np.where(leaves, 0, room.slices))


def _most_even_first(siblings: Siblings, level: int) -> Indices:
    """Leader, then slices, then how evenly a domain's children could be filled, then name."""
    here, starts = siblings.counts[level], siblings.tree.child_starts[level].tolist()
    pods = siblings.counts[level + 1].alone.pods
    evenness = np.array([entropy(pods[start:stop]) for start, stop in pairwise(starts)])
    return np.lexsort((-evenness, -here.beside_leader.slices, ~here.takes_leader))


def entropy(pods: Counts) -> float:
    """Shannon's entropy of shares in bits; sorted first, so that equal shares in any order give equal numbers."""
    shares = np.sort(pods[pods > 0])
    shares = shares / shares.sum()
    return float(-(shares * np.log2(shares)).sum())


def _tightest(here: LevelCounts, order: Indices, plan: Plan) -> Indices | None:
    return tightest_set(here, order, plan.slices, plan.slicing.size, plan.policy, leader=plan.leader)


def _even_shares(here: LevelCounts, candidates: Indices, plan: Plan, threshold: int) -> Shares | None:
    chosen = _tightest(here, candidates, plan)
    if chosen is None or plan.slices < len(chosen) * threshold:
        return None
    chosen = ranked(here, chosen, plan.policy, leader=True)
    room = here.alone.slices[chosen]
    if plan.leader:
        room[0] = here.beside_leader.slices[chosen[0]]
    # What is above the threshold goes to the first with room for it.
    before = np.cumsum(room - threshold) - (room - threshold)
    extra = np.clip(plan.slices - len(chosen) * threshold - before, 0, room - threshold)
    if len(chosen) * threshold + int(extra.sum()) < plan.slices:
        return None
    return Shares(chosen, (threshold + extra) * plan.slicing.size, int(chosen[0]) if plan.leader else None)


def _moved(shares: Shares, offset: int) -> Shares:
    leader_at = None if shares.leader_at is None else shares.leader_at + offset
    return Shares(shares.domains + offset, shares.pods, leader_at)
