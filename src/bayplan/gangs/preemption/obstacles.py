"""Why no eviction makes room for a gang: for people, not for decisions.

The plan is made again as if protected pods could go, and then pods that do not end. The pods that such a plan would
evict and that must stay are the obstacles.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayplan.cluster.dry_run import hides_pods
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import Budget
from bayplan.gangs.model import Gang
from bayplan.gangs.preemption.domains import DomainSearch, others_close_nodes
from bayplan.gangs.preemption.plan import WORK_OF_A_QUICK_PROOF, GangPreemption, plan_gang_preemption
from bayplan.gangs.scheduler import GangScheduler
from bayplan.scheduling.preemption.candidates import EvictionRules, ObstacleKind, priority_of
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.obstacles import (
    ABOVE_ALL,
    Obstacle,
    counted,
    deleted_at,
    fits_if_empty,
    lenient,
    stuck_on,
    why_it_stays,
)
from bayplan.scheduling.preemption.on_node import Preemptor
from bayplan.scheduling.preemption.plan import rows_open_to

# In the units of `engine/budget.py`: about a second.
WORK_OF_AN_EXPLANATION = 1_000_000


def obstacles_for_gang(
    scheduler: GangScheduler, gang: Gang, freeable: Freeable, rules: EvictionRules
) -> tuple[Obstacle, ...]:
    """Why no eviction makes room for a gang. The state is as before afterwards."""
    priority = min(map(priority_of, gang.pods))
    for stuck_pods_leave in (False, True):
        made = plan_gang_preemption(
            scheduler,
            gang,
            freeable,
            lenient(rules, stuck_pods_leave=stuck_pods_leave),
            WORK_OF_AN_EXPLANATION,
            WORK_OF_A_QUICK_PROOF,
        )
        if isinstance(made, GangPreemption):
            return _in_the_way(scheduler.state, made, priority, rules)
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is None:
        return ()
    has_room = next(DomainSearch(scheduler, gang, tree, freeable, ABOVE_ALL).in_order(), None) is not None
    return counted(_node_by_node(scheduler, gang, tree, priority if has_room else None))


def _node_by_node(scheduler: GangScheduler, gang: Gang, tree: Tree, priority: int | None) -> Iterator[Obstacle]:
    """Why nodes do not hold the gang; with a priority, because of pods of at least that one."""
    state = scheduler.state
    classes = dict.fromkeys(map(state.classes.of, gang.pods))
    open_to = [rows_open_to(state, each, scheduler.profile, scheduler.answers) for each in classes]
    closed = ~np.isin(tree.rows, np.concatenate(open_to))
    repelled = others_close_nodes(scheduler, gang, tree) & ~closed
    for cause, positions in ((ObstacleKind.CLOSED, closed), (ObstacleKind.AFFINITY, repelled)):
        for row in tree.rows[positions]:
            yield Obstacle(cause, 1, node=state.names[row])
    others = tree.rows[~closed & ~repelled].tolist()
    important = None if priority is None or not others else _more_important(state, priority, len(others))
    if important:
        yield important
    preemptors = [Preemptor(each, None, ABOVE_ALL, scheduler.profile) for each in classes]
    budget = Budget(WORK_OF_AN_EXPLANATION)
    hidden = [
        row
        for row in others
        if not important
        and hides_pods(state, row)
        and not budget.is_spent
        and any(fits_if_empty(state, row, each, budget) for each in preemptors)
    ]
    yield from (Obstacle(ObstacleKind.ZONES_UNKNOWN, 1, node=state.names[row]) for row in hidden)
    if not important and len(others) > len(hidden):
        yield Obstacle(ObstacleKind.NO_ROOM, len(others) - len(hidden))


def _in_the_way(state: ClusterState, made: GangPreemption, priority: int, rules: EvictionRules) -> tuple[Obstacle, ...]:
    """The pods of a plan that must stay or do not end, once for each node and cause."""
    found: dict[tuple[ObstacleKind, str], Obstacle] = {}
    for each in made.victims:
        why = why_it_stays(state, each.key, priority, rules)
        if why is not None:
            node = state.names[state.pods[each.key].row]
            found.setdefault((why.cause, node), Obstacle(why.cause, 1, each.key, node, why.detail))
    for node in dict.fromkeys(node for _, node in made.nodes):
        for key in stuck_on(state, state.rows[node], rules)[:1]:
            found[ObstacleKind.STUCK, node] = Obstacle(ObstacleKind.STUCK, 1, key, node, deleted_at(state, key))
    return counted(found.values())


def _more_important(state: ClusterState, priority: int, nodes: int) -> Obstacle | None:
    """The least important of the pods that a gang must not evict, if there are any."""
    important = ((priority_of(pod), key) for key, pod in state.bound.items() if priority_of(pod) >= priority)
    least = min(important, default=None)
    if least is None:
        return None
    node = state.names[state.pods[least[1]].row]
    return Obstacle(ObstacleKind.PRIORITY, nodes, least[1], node, f"priority {least[0]}")
