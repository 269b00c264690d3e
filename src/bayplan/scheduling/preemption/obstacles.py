"""Why no eviction makes room for a pod or gang, node by node: for people, not for decisions.

A pod without a plan comes in; out goes one `Obstacle` per cause, with the number of nodes and an example. Each node is
asked again as if protected pods could go, then pods that do not end, then pods of any priority. The first answer that
makes room names the cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from msgspec import Struct

from bayplan.cluster.dry_run import hides_pods, in_every_way, ways_without, with_free_zones, without
from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.preemption.victims import PRIORITY_OFFSET, Candidate
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import (
    EvictionRules,
    ObstacleKind,
    Protection,
    is_terminating,
    no_gang,
    priority_of,
    terminating_on,
    unprotected,
)
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.on_node import Preemptor, fits, refusing_filter, victims_on
from bayplan.scheduling.preemption.plan import rows_open_to
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import incoming_pod

# In the units of `engine/budget.py`: about a second.
WORK_OF_AN_EXPLANATION = 1_000_000
WORK_OF_AN_EXAMPLE = 50_000
ABOVE_ALL = PRIORITY_OFFSET
# Filters that compare amounts: without room, as the sentence says, is all there is to it.
FILTERS_OF_AMOUNTS = ("NodeResourcesFit", "NodeResourceTopologyMatch")
LASTING = (
    ObstacleKind.ZONES_UNKNOWN,
    ObstacleKind.NO_ROOM,
    ObstacleKind.AFFINITY,
    ObstacleKind.CLOSED,
    ObstacleKind.NOT_EXAMINED,
)


class Obstacle(Struct, frozen=True):
    """A cause that keeps evictions from making room on some nodes, with an example."""

    cause: ObstacleKind
    nodes: int
    pod: str = ""
    node: str = ""
    detail: str = ""


def obstacles_for(
    state: ClusterState,
    pod: Pod,
    profile: Profile,
    answers: ClassAnswers,
    freeable: Freeable,
    rules: EvictionRules,
    work: float = WORK_OF_AN_EXPLANATION,
) -> tuple[Obstacle, ...]:
    """Why no eviction makes room for a pod, the most frequent cause first. The state is as before afterwards."""
    pod_class = state.classes.of(pod)
    preemptor = Preemptor(pod_class, incoming_pod(state, pod, pod_class), priority_of(pod), profile)
    rows = rows_open_to(state, pod_class, profile, answers)
    freeable.refresh(frozenset(pod_class.request.total) | {PODS})
    closed = set(np.flatnonzero(state.columns.present).tolist()) - {*rows.tolist()}
    found = [Obstacle(ObstacleKind.CLOSED, 1, node=state.names[row]) for row in sorted(closed)]
    # By amounts: where less important pods hold enough, protected ones among them, and where all pods together do.
    likely = freeable.bounds(preemptor, rows).rows.tolist()
    possible = freeable.bounds(replace(preemptor, priority=ABOVE_ALL), rows).rows.tolist()
    others = sorted({*possible} - {*likely})
    too_small = sorted({*rows.tolist()} - {*likely} - {*others})
    # What a pod frees in a zone that is not reported is in no sum: such nodes are looked at, if they are large enough.
    columns = state.columns
    offered = [columns.allocatable[columns.index_of(name)] >= each for name, each in pod_class.request.total.items()]
    hidden = [row for row in too_small if hides_pods(state, row) and all(each[row] for each in offered)]
    others += hidden
    found += [Obstacle(ObstacleKind.NO_ROOM, 1, node=state.names[row]) for row in sorted({*too_small} - {*hidden})]
    search = _Search(state, preemptor, rules, Budget(work, hard=True))
    pending = [*((row, search.obstacle_on) for row in likely), *((row, search.without_any_pod) for row in others)]
    for number, (row, look) in enumerate(pending):
        try:
            found.append(look(row))
        except OutOfWork:
            found += [Obstacle(ObstacleKind.NOT_EXAMINED, 1)] * (len(pending) - number)
            break
    return counted(found)


def counted(found: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    """Obstacles by cause: how many nodes each has, with the first example.

    The most frequent first, and those last that no priority or label changes. Filters that refuse a node without its
    pods count one by one.
    """
    by_cause: dict[tuple[ObstacleKind, str], list[Obstacle]] = {}
    for each in found:
        kind = each.cause, each.detail if each.cause is ObstacleKind.NO_ROOM else ""
        by_cause.setdefault(kind, []).append(each)
    total = [
        _on_nodes(next((one for one in of_cause if one.pod), of_cause[0]), sum(one.nodes for one in of_cause))
        for of_cause in by_cause.values()
    ]
    return tuple(sorted(total, key=lambda each: (each.cause in LASTING, -each.nodes, each.cause, each.detail)))


def _on_nodes(obstacle: Obstacle, nodes: int) -> Obstacle:
    return Obstacle(obstacle.cause, nodes, obstacle.pod, obstacle.node, obstacle.detail)


def lenient(rules: EvictionRules, *, stuck_pods_leave: bool = False) -> EvictionRules:
    """The rules without what protects pods; pods that do not end can count as leaving."""
    freed = replace(rules, budgets=DisruptionBudgets(), gang_of=no_gang, protection=unprotected)
    return replace(freed, is_stuck=lambda _: False) if stuck_pods_leave else freed


def why_it_stays(state: ClusterState, key: str, priority: int, rules: EvictionRules) -> Protection | None:
    """Why a pod is no victim: by itself, or because its gang would be left below its minimum."""
    own = _by_itself(state, key, priority, rules)
    gang = None if own is not None else rules.gang_of(key)
    if gang is None or gang.surplus:
        return own
    for member in gang.members:
        why = _by_itself(state, member, priority, rules)
        if why is not None:
            stays = f"{member} must stay: {why.detail or why.cause.value}"
            return Protection(ObstacleKind.GANG, f"gang {gang.name.rpartition(' ')[2]}, of which {stays}")
    return None


def _by_itself(state: ClusterState, key: str, priority: int, rules: EvictionRules) -> Protection | None:
    pod = state.bound.get(key)
    if pod is None or is_terminating(pod) or key in rules.being_evicted:
        return None
    if priority_of(pod) >= priority:
        return Protection(ObstacleKind.PRIORITY, f"priority {priority_of(pod)}")
    return rules.stays(pod)


def stuck_on(state: ClusterState, row: int, rules: EvictionRules) -> list[str]:
    """The pods of a node that are deleted and do not end."""
    found = ((key, state.bound.get(key)) for key in state.pods_on(row))
    return [key for key, pod in found if pod is not None and is_terminating(pod) and rules.is_stuck(pod)]


def deleted_at(state: ClusterState, key: str) -> str:
    """When a pod that does not end should have ended."""
    return f"should have ended at {state.bound[key].metadata.deletion_timestamp}"


def fits_if_empty(state: ClusterState, row: int, preemptor: Preemptor, budget: Budget) -> bool:
    """Whether a node takes a pod without all its pods, wherever they are in its zones."""
    with without(state, state.pods_on(row)), with_free_zones(state, row):
        return fits(state, row, preemptor, preemptor.for_class(), budget)


@dataclass
class _Search:
    state: ClusterState
    preemptor: Preemptor
    rules: EvictionRules
    budget: Budget
    _names_priority: bool = True

    def obstacle_on(self, row: int) -> Obstacle:
        """Why no victims on a node make room."""
        priority = self.preemptor.priority
        if self._fits_without(row, lenient(self.rules), priority):
            return self._protected(row, lenient(self.rules))
        unstuck = lenient(self.rules, stuck_pods_leave=True)
        stuck = stuck_on(self.state, row, self.rules)
        if stuck and self._fits_without(row, unstuck, priority):
            return self._named(ObstacleKind.STUCK, row, stuck[0], deleted_at(self.state, stuck[0]))
        if hides_pods(self.state, row) and self._may_fit_without(row, lenient(self.rules), priority):
            return Obstacle(ObstacleKind.ZONES_UNKNOWN, 1, node=self.state.names[row])
        return self.without_any_pod(row)

    def without_any_pod(self, row: int) -> Obstacle:
        """Whether more important pods are in the way on a node, or something that no eviction changes."""
        if not self._fits_without(row, lenient(self.rules, stuck_pods_leave=True), ABOVE_ALL):
            if hides_pods(self.state, row) and fits_if_empty(self.state, row, self.preemptor, self.budget):
                return Obstacle(ObstacleKind.ZONES_UNKNOWN, 1, node=self.state.names[row])
            return Obstacle(ObstacleKind.NO_ROOM, 1, node=self.state.names[row], detail=self._refused_empty_by(row))
        if not self._names_priority:
            return Obstacle(ObstacleKind.PRIORITY, 1)
        self._names_priority = False  # one example is enough
        return self._more_important(row)

    def _refused_empty_by(self, row: int) -> str:
        """The filter that refuses the node even without all its pods; empty if it is amounts that do not fit."""
        with without(self.state, self._below(row, lenient(self.rules, stuck_pods_leave=True), ABOVE_ALL)):
            name = refusing_filter(self.state, row, self.preemptor, self.preemptor.for_class())
        return "" if name in FILTERS_OF_AMOUNTS else name

    def _fits_without(self, row: int, rules: EvictionRules, priority: int) -> bool:
        """Whether the node takes the pod without any pod below a priority."""
        return in_every_way(
            self.state,
            self._below(row, rules, priority),
            lambda: fits(self.state, row, self.preemptor, self.preemptor.for_class(), self.budget),
        )

    def _may_fit_without(self, row: int, rules: EvictionRules, priority: int) -> bool:
        """Whether that depends on where these pods are."""
        keys = self._below(row, rules, priority)
        for way in ways_without(self.state, keys):
            with without(self.state, keys, way):
                if fits(self.state, row, self.preemptor, self.preemptor.for_class(), self.budget):
                    return True
        return False

    def _below(self, row: int, rules: EvictionRules, priority: int) -> list[str]:
        """The pods of a node below a priority, and those that are leaving."""
        leaving = terminating_on(self.state, row, rules)
        bound = ((key, self.state.bound.get(key)) for key in self.state.pods_on(row))
        others = [
            key
            for key, pod in bound
            if pod is not None and priority_of(pod) < priority and not is_terminating(pod) and key not in leaving
        ]
        return [*leaving, *others]

    def _protected(self, row: int, rules: EvictionRules) -> Obstacle:
        """A protected pod among the cheapest victims that there would be without protection."""
        for each in self._victims(row, self.preemptor, rules):
            why = why_it_stays(self.state, each.key, self.preemptor.priority, self.rules)
            if why is not None:
                return self._named(why.cause, row, each.key, why.detail)
        return Obstacle(ObstacleKind.NOT_EXAMINED, 1)

    def _more_important(self, row: int) -> Obstacle:
        """The least important of the pods that would have to go."""
        everything = lenient(self.rules, stuck_pods_leave=True)
        victims = self._victims(row, replace(self.preemptor, priority=ABOVE_ALL), everything)
        important = (each for each in victims if each.priority >= self.preemptor.priority)
        dear = sorted(important, key=lambda each: (each.priority, each.key))
        if not dear:
            return Obstacle(ObstacleKind.PRIORITY, 1)
        return self._named(ObstacleKind.PRIORITY, row, dear[0].key, f"priority {dear[0].priority}")

    def _victims(self, row: int, preemptor: Preemptor, rules: EvictionRules) -> tuple[Candidate, ...]:
        """The cheapest victims by some rules; none if finding them takes too much work."""
        budget = Budget(WORK_OF_AN_EXAMPLE, self.budget, hard=True)
        try:
            found = victims_on(self.state, row, preemptor, rules, budget)
        except OutOfWork:
            return ()
        return () if found is None else found.pods

    def _named(self, cause: ObstacleKind, row: int, pod: str, detail: str) -> Obstacle:
        return Obstacle(cause, 1, pod, self.state.names[row], detail)
