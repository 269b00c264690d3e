"""Handing pods out to domains, level by level down to the leaves.

`hand_out` fills domains in a given order and lets the last one be the tightest that suffices. `descend` repeats it on
every level: above the level of slices all children of the chosen domains are filled as one pool, so that as few as
possible are used; from there down every domain hands on exactly what it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.counting import LevelCounts
from bayplan.compat.kueue.tas.request import Plan, Policy
from bayplan.compat.kueue.tas.snapshot import Counts, Indices, Tree
from bayplan.engine.numa.rows import Mask

_MUCH = np.iinfo(np.int64).max


def ranked(level: LevelCounts, domains: Indices, policy: Policy, *, leader: bool) -> Indices:
    """The domains, best first."""
    domains = np.sort(domains)  # lexsort keeps the order of equals, and a domain's number is its rank by name
    room = level.beside_leader if leader else level.alone
    slices = room.slices[domains]
    keys: list[Counts | Mask] = [room.pods[domains], slices if policy.least_free_first else -slices]
    if policy.by_affinity:
        keys.append(-level.affinity[domains])
    if leader:
        keys.append(~level.takes_leader[domains])
    return domains[np.lexsort(keys)]


def tightest(
    order: Indices, room: Counts, need: int, level: LevelCounts, policy: Policy, among: Mask | None = None
) -> int:
    """The first domain in `order` with the least sufficient room, or the very first if none suffices.

    With affinity only the domains that are liked as much as the first are compared. `among` are those that count.
    """
    if policy.by_affinity:
        liked = level.affinity[order]
        order = order[: _equal_at_start(liked)]
    rooms = room[order]
    enough = rooms >= need
    if among is not None:
        enough &= among[order]
    if not enough.any():
        return int(order[0])
    return int(order[np.argmin(np.where(enough, rooms, _MUCH))])


def leader_first(order: Indices, alone: Counts, beside_leader: Counts, takes_leader: Mask, need: int) -> Indices:
    """The same order with the first domain in front that takes the leader and leaves enough room in sum for `need`.

    A domain's count assumes that the leader sits where it costs least; without this it might be put elsewhere.
    """
    spare = int(alone[order].sum()) - need
    suitable = takes_leader[order] & (alone[order] - beside_leader[order] <= spare)
    position = int(np.argmax(suitable))
    if not suitable[position]:
        return order
    return np.concatenate((order[position : position + 1], order[:position], order[position + 1 :]))


def _equal_at_start(values: Counts) -> int:
    different = np.flatnonzero(values != values[0])
    return int(different[0]) if len(different) else len(values)


@dataclass(frozen=True, slots=True)
class Shares:
    """Pods per domain; a domain may have a share of none. `leader_at` is the domain that has the leader."""

    domains: Indices
    pods: Counts
    leader_at: int | None = None


@dataclass(frozen=True, slots=True)
class Units:
    """A level's rooms counted in groups of `size` pods."""

    size: int
    alone: Counts
    beside_leader: Counts


def slices_of(level: LevelCounts, size: int) -> Units:
    """The rooms in slices, as they were counted."""
    return Units(size, level.alone.slices, level.beside_leader.slices)


def groups_of(level: LevelCounts, size: int) -> Units:
    """The rooms in groups of pods, for levels whose slices are none or those of another layer."""
    return Units(size, level.alone.in_units_of(size), level.beside_leader.in_units_of(size))


def hand_out(
    level: LevelCounts, order: Indices, units: Units, pods: int, policy: Policy, *, leader: bool
) -> Shares | None:
    """Shares of `pods` pods for the first domains in `order`, or None if all of them are too small."""
    need = pods // units.size
    domains: list[int] = []
    taken: list[int] = []
    if leader:
        order = leader_first(order, units.alone, units.beside_leader, level.takes_leader, need)
        for position, domain in enumerate(order.tolist()):
            room, takes_leader = int(units.beside_leader[domain]), bool(level.takes_leader[domain])
            if takes_leader and room >= need:
                if policy.least_free_first:
                    final = domain
                else:
                    final = tightest(order[position:], units.beside_leader, need, level, policy, level.takes_leader)
                return _shares([*domains, final], [*taken, need], units.size, leader_at=final)
            domains.append(domain)
            taken.append(min(room, need))
            need -= taken[-1]
            if takes_leader:
                break
        else:
            return None
        order = order[len(domains) :]
    filled = fill(level, order, units.alone, need, policy)
    if filled is None:
        return None
    chosen, rest = filled
    full = units.alone[chosen[:-1]]
    leader_at = domains[-1] if leader else None
    return _shares([*domains, *chosen.tolist()], [*taken, *full.tolist(), rest], units.size, leader_at)


def fill(level: LevelCounts, order: Indices, room: Counts, need: int, policy: Policy) -> tuple[Indices, int] | None:
    """The domains that hold `need` if filled in order, and what is left for the last, which is the tightest that
    suffices.

    None if all of them together are too small.
    """
    reach = np.cumsum(room[order])
    position = int(np.searchsorted(reach, need))
    if position == len(order):
        return None
    rest = need - (int(reach[position - 1]) if position else 0)
    last = order[position]
    if not policy.least_free_first:
        last = tightest(order[position:], room, rest, level, policy)
    return np.append(order[:position], last), rest


def descend(
    tree: Tree, counts: Sequence[LevelCounts], level: int, shares: Shares, plan: Plan, *, in_one_pool: bool
) -> Shares | None:
    """Shares of leaves for shares of domains on `level`; None if a domain's children are smaller than was counted."""
    for upper in range(level, tree.lowest):
        below = counts[upper + 1]
        given: Shares | None
        if in_one_pool and upper < plan.slicing.level:
            order = ranked(below, tree.children(upper, shares.domains), plan.policy, leader=False)
            units = slices_of(below, plan.slicing.size)
            given = hand_out(below, order, units, plan.pods, plan.policy, leader=plan.leader)
        else:
            size = plan.slicing.inner_sizes[upper + 1] if upper >= plan.slicing.level else plan.slicing.size
            given = _hand_on(tree, upper, below, shares, groups_of(below, size), plan.policy)
        if given is None:
            return None
        shares = given
    return shares


def _hand_on(tree: Tree, upper: int, below: LevelCounts, shares: Shares, units: Units, policy: Policy) -> Shares | None:
    """Every domain's share to its own children."""
    parts = []
    for domain, pods in zip(shares.domains.tolist(), shares.pods.tolist(), strict=True):
        leader = domain == shares.leader_at
        if not pods and not leader:
            continue
        start, stop = tree.range_at(upper, domain, domain + 1, upper + 1)
        order = ranked(below, np.arange(start, stop), policy, leader=False)
        part = hand_out(below, order, units, pods, policy, leader=leader)
        if part is None:
            return None
        parts.append(part)
    if not parts:
        return _shares([], [], units.size)
    leader_at = next((part.leader_at for part in parts if part.leader_at is not None), None)
    domains = np.concatenate([part.domains for part in parts])
    return Shares(domains, np.concatenate([part.pods for part in parts]), leader_at)


def _shares(domains: list[int], taken: list[int], size: int, leader_at: int | None = None) -> Shares:
    return Shares(np.array(domains, dtype=np.intp), np.array(taken, dtype=np.int64) * size, leader_at)
