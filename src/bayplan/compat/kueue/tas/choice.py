"""At which level the pods can be together, and in which domains.

In come the counts of all levels, out goes a level with the domains that hold everything, or the reason against it. One
domain is best, the tightest that suffices; preferred levels give way one by one until only several domains of the top
level are left, filled in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.counting import MOST_PODS, LevelCounts
from bayplan.compat.kueue.tas.model import Amounts
from bayplan.compat.kueue.tas.request import Plan
from bayplan.compat.kueue.tas.sharing import fill, leader_first, ranked, tightest
from bayplan.compat.kueue.tas.snapshot import Indices, Snapshot
from bayplan.engine.numa.rows import Mask


@dataclass(frozen=True, slots=True)
class Context:
    """What a reason may speak of: the counts, and why leaves were not counted before any resource was looked at."""

    snapshot: Snapshot
    plan: Plan
    per_pod: Amounts
    counts: Sequence[LevelCounts]
    allowed: Mask | None
    causes: Counter[str]


def no_fit(context: Context, level: int, fitting: int) -> str:
    """The pods do not fit at `level`, where `fitting` slices would."""
    plan, topology = context.plan, json.dumps(context.snapshot.name)
    if plan.layers:
        return f"topology {topology} doesn't allow to fit{_fit_per_layer(context, level)}{_exclusions(context)}"
    unit = "slice" if plan.slicing.size > 1 else "pod"
    if fitting:
        said = f"allows to fit only {fitting} out of {plan.slices} {unit}(s)"
    else:
        said = f"doesn't allow to fit any of {plan.slices} {unit}(s)"
    return f"topology {topology} {said}{_exclusions(context)}"


def _fit_per_layer(context: Context, level: int) -> str:
    """What every layer of slices finds in the domain that holds most of the outermost slices."""
    snapshot, counts = context.snapshot, context.counts
    best = int(np.argmax(counts[level].alone.slices))
    parts = []
    for layer in context.plan.layers:
        target = snapshot.levels.index(layer.level)
        start, stop = snapshot.tree.range_at(level, best, best + 1, target)
        fitting = int((counts[target].alone.pods[start:stop] // layer.size).sum())
        parts.append(f"; {fitting}/{context.plan.pods // layer.size} slice(s) fit on level {layer.level}")
    return "".join(parts)


def _exclusions(context: Context) -> str:
    causes = context.causes + short_resources(context.snapshot, context.per_pod, _without_room(context))
    if not causes:
        return ""
    listed = ", ".join(sorted(f"{cause}: {leaves}" for cause, leaves in causes.items()))
    return f". Total nodes: {len(context.snapshot.paths)}; excluded: {listed}"


def _without_room(context: Context) -> Mask:
    empty = np.asarray(context.counts[-1].alone.pods == 0)
    return empty if context.allowed is None else empty & context.allowed


def short_resources(snapshot: Snapshot, per_pod: Amounts, leaves: Mask) -> Counter[str]:
    """How many of the leaves lack which resource. Of several, a leaf counts for the first by name."""
    names = sorted(per_pod)
    columns = []
    for name in names:
        amount = per_pod[name]
        fits = snapshot.left_of(name)[leaves] // amount if amount > 0 else np.full(int(leaves.sum()), MOST_PODS)
        columns.append(np.clip(fits, 0, MOST_PODS))
    scarcest = np.argmin(np.array(columns), axis=0)
    return Counter(
        {f'resource "{names[index]}"': int(count) for index, count in enumerate(np.bincount(scarcest)) if count}
    )


Choice = tuple[int, Indices]


def choose(context: Context) -> Choice | str:
    """The level and its domains, in the order in which they are to be filled."""
    plan, policy = context.plan, context.plan.policy
    level = plan.level
    while True:
        here = context.counts[level]
        room = here.beside_leader.slices
        if not len(room):
            return f"no topology domains at level: {context.snapshot.levels[level]}"
        order = ranked(here, np.arange(len(room)), policy, leader=True)
        suffices = room[order] >= plan.slices
        if plan.leader:
            suffices &= here.takes_leader[order]
        if policy.least_free_first and suffices.any():
            return level, order[np.argmax(suffices)][np.newaxis]
        if suffices[0] or (suffices.any() and plan.required and policy.by_affinity):
            rest = order[np.argmax(suffices) :]
            among = here.takes_leader if plan.leader else None
            return level, np.array([tightest(rest, room, plan.slices, here, policy, among)])
        if plan.required:
            most = here.alone.pods[order[-1]] if policy.least_free_first else here.alone.slices[order[0]]
            return no_fit(context, level, int(most))
        if plan.unconstrained or level == 0:
            return _several(context, level, order)
        level -= 1


def _several(context: Context, level: int, order: Indices) -> Choice | str:
    """Domains that hold everything together: the one with the leader first, then as they come."""
    plan, here = context.plan, context.counts[level]
    need = plan.slices
    first = order[:0]
    if plan.leader:
        order = leader_first(order, here.alone.slices, here.beside_leader.slices, here.takes_leader, need)
        if not here.takes_leader[order[0]]:
            return no_fit(context, level, 0)
        first = np.array([_with_leader(here, order, plan)])
        need -= int(here.beside_leader.slices[first[0]])
        order = order[1:]
    if need <= 0 and plan.leader:
        return level, first
    order = ranked(here, order, plan.policy, leader=False)
    filled = fill(here, order, here.alone.slices, need, plan.policy)
    if filled is None:
        return no_fit(context, level, plan.slices - need + int(here.alone.slices[order].sum()))
    return level, np.concatenate((first, filled[0]))


def _with_leader(here: LevelCounts, order: Indices, plan: Plan) -> int:
    room = here.beside_leader.slices
    if plan.policy.least_free_first or room[order[0]] < plan.slices:
        return int(order[0])
    return tightest(order, room, plan.slices, here, plan.policy, here.takes_leader)
