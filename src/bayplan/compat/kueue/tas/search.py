"""One search: a pod set, or workers with their leader, on one snapshot.

Count what every domain takes (`counting.py`), choose a level and its domains (`choice.py`, or `balanced.py` where asked
for), hand the pods out down to the leaves (`sharing.py`). Out come leaves with pods, or a reason.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.balanced import place_balanced
from bayplan.compat.kueue.tas.choice import Context, choose
from bayplan.compat.kueue.tas.counting import count_leaves, roll_up
from bayplan.compat.kueue.tas.hosts import Screen, screen
from bayplan.compat.kueue.tas.model import PodSet, Settings
from bayplan.compat.kueue.tas.request import plan_of
from bayplan.compat.kueue.tas.sharing import Shares, descend, hand_out, slices_of
from bayplan.compat.kueue.tas.snapshot import Counts, Indices, Snapshot


@dataclass(frozen=True, slots=True)
class Within:
    """Only leaves of one domain count: the one at `position` on `level`."""

    level: int
    position: int


@dataclass(frozen=True, slots=True)
class Found:
    """Pods per leaf, and the leaf of the leader."""

    leaves: Indices
    pods: Counts
    leader_at: int | None = None


def search(
    snapshot: Snapshot, settings: Settings, workers: PodSet, leader: PodSet | None = None, within: Within | None = None
) -> Found | str:
    """Where the pods go, or why they do not fit. The leader goes where the workers' own conditions allow."""
    plan = plan_of(workers, snapshot.levels, settings, leader=leader is not None)
    if isinstance(plan, str):
        return plan
    per_pod = workers.amounts_per_pod
    usable = screen(snapshot, workers, with_preferred=settings.preferred_affinity)
    if within is not None:
        usable = _confined(snapshot, usable, within)
    per_leader = leader.amounts_per_pod if leader is not None else None
    leaves = count_leaves(snapshot, per_pod, per_leader, usable.allowed, usable.affinity)
    counts = roll_up(snapshot.tree, leaves, plan.slicing, leader=plan.leader)
    shares: Shares | None = None
    if settings.balanced and not plan.required and not plan.unconstrained:
        shares = place_balanced(snapshot.tree, counts, plan)
    if shares is None:
        chosen = choose(Context(snapshot, plan, per_pod, counts, usable.allowed, usable.causes))
        if isinstance(chosen, str):
            return chosen
        level, domains = chosen
        units = slices_of(counts[level], plan.slicing.size)
        shares = hand_out(counts[level], domains, units, plan.pods, plan.policy, leader=plan.leader)
        if shares is not None:
            shares = descend(snapshot.tree, counts, level, shares, plan, in_one_pool=True)
    if shares is None:
        # Kueue would leave the pods out that found no place; half a gang is no answer.
        topology = json.dumps(snapshot.name)
        return f"topology {topology} has room for {plan.pods} pod(s) in sum, but not in the domains that were chosen"
    return Found(shares.domains, shares.pods, shares.leader_at)


def _confined(snapshot: Snapshot, usable: Screen, within: Within) -> Screen:
    """The leaves inside a domain; the usable ones outside are counted as excluded by it."""
    start, stop = snapshot.tree.range_at(within.level, within.position, within.position + 1, snapshot.tree.lowest)
    allowed = np.zeros(len(snapshot.paths), dtype=np.bool_)
    allowed[start:stop] = True if usable.allowed is None else usable.allowed[start:stop]
    before = len(allowed) if usable.allowed is None else int(usable.allowed.sum())
    outside = Counter({"topologyDomain": before - int(allowed.sum())})
    return Screen(allowed, usable.causes + outside, usable.affinity)
