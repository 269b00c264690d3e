"""At which level the pods can be together, and in which domains.

In come the counts of all levels, out goes a level with the domains that hold everything, or the reason against it. One
domain is best, the tightest that suffices; preferred levels give way one by one until only several domains of the top level
are left, filled in order.
"""

from __future__ import annotations

import numpy as np

from bayplan.compat.kueue.tas.counting import LevelCounts
from bayplan.compat.kueue.tas.order import leader_first, ranked, tightest
from bayplan.compat.kueue.tas.reasons import Context, no_fit
from bayplan.compat.kueue.tas.request import Plan
from bayplan.compat.kueue.tas.sharing import fill
from bayplan.compat.kueue.tas.tree import Indices

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
