"""Which domain comes first, and which is the tightest that suffices.

Kueue's order, key by key:

| key | order |
|---|---|
| takes the leader (only while one is to be placed) | yes first |
| affinity (only with its gate) | liked first |
| slices | most first, or least first for unconstrained pods |
| pods | least first: less is left over beside the slices |
| name | a to z |
"""

from __future__ import annotations

import numpy as np

from bayplan.compat.kueue.tas.counting import LevelCounts
from bayplan.compat.kueue.tas.request import Policy
from bayplan.compat.kueue.tas.snapshot import Counts
from bayplan.compat.kueue.tas.tree import Indices
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
