"""`preempt`: check kube-scheduler's candidates against NUMA zones before anything is evicted.

kube-scheduler picks victims by sums, which seldom makes room in one zone. Per candidate node:

* the cheapest of its victims that make room for the pod, zones included, remain;
* if they do not suffice, the cheapest victims on that node that do replace them, as the protocol allows;
* if none do, the node is dropped.

Victims for a pod with volumes remain as they are, or the node is dropped. A running gang loses members beyond its
minimum, or all of its members if they are on that node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.claims import claims_of
from bayplan.dispatch.victim_gangs import protection_of, running_gang
from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.preemption.victims import Victims
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import (
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    MetaPod,
    MetaVictims,
)
from bayplan.scheduling.preemption.candidates import EvictionRules, ObstacleKind, Protection, RunningGang, priority_of
from bayplan.scheduling.preemption.on_node import Preemptor, victims_on
from bayplan.scheduling.relations import incoming_pod
from bayplan.services.extender.cluster import ExtenderCluster

# About a second, below any sensible httpTimeout. Nodes beyond it are dropped: an unchecked eviction may be useless.
WORK_OF_A_REQUEST = 1_000_000


def proposals_in(arguments: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    """kube-scheduler's candidates, with their victims by uid."""
    if arguments.node_name_to_meta_victims is not None:
        return arguments.node_name_to_meta_victims
    return {
        node: MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.num_pdb_violations)
        for node, victims in (arguments.node_name_to_victims or {}).items()
    }


def preempt(
    cluster: ExtenderCluster, pod: Pod, proposals: Mapping[str, MetaVictims], work: float = WORK_OF_A_REQUEST
) -> ExtenderPreemptionResult:
    """The candidates that remain. Raises `InvalidObject` if the pod is invalid."""
    state = cluster.state
    pod_class = state.classes.of(pod)
    preemptor = Preemptor(
        pod_class, incoming_pod(state, pod, pod_class), priority_of(pod), cluster.eviction_profile_of(pod)
    )
    budget = Budget(work, hard=True)
    has_volumes = any(claims_of(pod))
    kept: dict[str, MetaVictims] = {}
    try:
        for node, proposed in proposals.items():
            row = state.rows.get(node)
            found = (
                None if row is None else _checked(cluster, row, preemptor, proposed, budget, has_volumes=has_volumes)
            )
            if found is not None:
                kept[node] = found
    except OutOfWork:
        pass
    return ExtenderPreemptionResult(kept)


def _checked(
    cluster: ExtenderCluster,
    row: int,
    preemptor: Preemptor,
    proposed: MetaVictims,
    budget: Budget,
    *,
    has_volumes: bool,
) -> MetaVictims | None:
    state = cluster.state
    given = {victim.uid for victim in proposed.pods or ()}
    if not given <= _uids_on(state, row):
        return None  # the watch is behind the scheduler, or ahead of it
    found = victims_on(state, row, preemptor, _rules(cluster, row, given), budget)
    if has_volumes:
        # Any victim may make room for volumes, which the extender does not watch: all of them go, or none.
        return None if found is None or _cripples_a_gang(cluster, given, row) else proposed
    if found is None:
        found = victims_on(state, row, preemptor, _rules(cluster, row), budget)
        return _by_uid(state, found) if found is not None and found.pods else None
    if found.pods:
        return _by_uid(state, found)
    # Without victims: kube-scheduler knows of an obstacle that the extender does not.
    return None if _cripples_a_gang(cluster, given, row) else proposed


def _rules(cluster: ExtenderCluster, row: int, among: Collection[str] | None = None) -> EvictionRules:
    """Evictions on one node, by uid at most `among` these: pods of other nodes cannot be named in the answer."""

    def protection(pod: Pod) -> Protection | None:
        is_elsewhere = cluster.state.rows.get(pod.spec.node_name or "") != row
        if is_elsewhere or (among is not None and pod.metadata.uid not in among):
            return Protection(ObstacleKind.NOT_EXAMINED)
        return protection_of(cluster.roster, pod)

    return EvictionRules(cluster.budgets, partial(running_gang, cluster.roster), protection)


def _cripples_a_gang(cluster: ExtenderCluster, victims: Collection[str], row: int) -> bool:
    """True if a gang would be left below its minimum without these pods of a node, by uid."""
    state = cluster.state
    lost: dict[str, set[str]] = {}
    gangs: dict[str, RunningGang] = {}
    for key in state.keys_on(row):
        gang = running_gang(cluster.roster, key) if key in state.bound else None
        if gang is not None and state.bound[key].metadata.uid in victims:
            gangs[gang.name] = gang
            lost.setdefault(gang.name, set()).add(key)
    return any(gang.surplus < len(lost[name]) < len(gang.members) for name, gang in gangs.items())


def _uids_on(state: ClusterState, row: int) -> set[str]:
    return {pod.metadata.uid for key in state.keys_on(row) if (pod := state.bound.get(key)) is not None}


def _by_uid(state: ClusterState, victims: Victims) -> MetaVictims:
    return MetaVictims([MetaPod(state.bound[each.key].metadata.uid) for each in victims.pods], victims.cost[0])
