"""Whom do the news help? Parked units are woken by what can give them a place, and by nothing else.

A unit that finds no place says what it waits for: `ForRoom` (a pod whom no node takes), `ForNeighbours` (a pod whom other pods keep from
the nodes that would take it), `ForGang`, or `ForItself` (only a change of its own helps). All that wait for the same are one wait_group of the
queue (`dispatch/queue.py`). After a batch of news, `wake` finds the wait_groups that are helped:

* ForRoom: has one of the changed nodes as much free in sum as the class asks for (`dispatch/parked_classes.py`)? Then its answer is
  repaired from the change log, as for a decision: is there a node that would take it?
* ForNeighbours: a node takes the class that did not before, any node changed, or pods came or went that it speaks of or that keep it away;
  that is looked into only after something happened in one of their namespaces.
* ForGang: a node has more slots for one of its classes than before, the tree is another one, or neighbours as above. Pods of several
  classes share nodes, so for them any amount that grew counts.

What escapes this, the queue's flush tries after a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms
from bayplan.cluster.state import ClusterState
from bayplan.dispatch.gang_watch import GangWatch
from bayplan.dispatch.parked_classes import ParkedClasses
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.model import Gang
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.errors import InvalidObject
from bayplan.plugins.base import IncomingPod
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.answers import NOT_USABLE

# The namespaces whose pods matter to a unit; None stands for all of them.
Namespaces = frozenset[str] | None
NO_NAMESPACES: frozenset[str] = frozenset()
# So few classes are not worth looking through for those that are gone.
FEW = 64


@dataclass(frozen=True, slots=True)
class ForRoom:
    """No node takes a pod of this class."""

    profile: str
    pod_class: PodClass


@dataclass(frozen=True, slots=True)
class ForNeighbours:
    """Pods in these namespaces keep a pod from every node that takes its class. Pods that are `alike` get the same answer.

    `pod` is one of them, as its neighbours see it; without it, every pod of those namespaces counts.
    """

    profile: str
    pod_class: PodClass
    alike: str
    namespaces: Namespaces = None
    pod: IncomingPod | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ForGang:
    """A gang as it was when it found no place."""

    profile: str
    gang: Gang
    namespaces: Namespaces = NO_NAMESPACES


@dataclass(frozen=True, slots=True)
class ForItself:
    """Nothing that happens to the cluster helps this unit, only a change of its own."""

    key: str


Waits = ForRoom | ForNeighbours | ForGang | ForItself


def namespaces_that_matter(state: ClusterState, namespace: str, labels: Labels, terms: PodTerms) -> Namespaces:
    """Where pods are that can open a node to a pod by coming or going: those that it speaks of, and those that keep it away now."""
    spoken_of = _spoken_of(terms)
    of_namespace = state.neighbours.labels_of_namespace(namespace)
    kept_away = any(True for _ in state.neighbours.anti_affinity.against(namespace, of_namespace, labels))
    if kept_away or any(pods.namespace_selector.requirements is not None for pods in spoken_of):
        return None
    return NO_NAMESPACES.union(*(pods.namespaces for pods in spoken_of))


def _spoken_of(terms: PodTerms) -> list[PodSelector]:
    """The pods that a pod makes demands about."""
    of_terms = [term.pods for term in (*terms.affinity, *terms.anti_affinity)]
    return of_terms + [rule.pods for rule in terms.spread if rule.required]


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood when a unit was parked: what concerns it, and (for neighbours) those, and the nodes that would take its class."""

    news: tuple[object, ...]
    neighbours: tuple[int, ...] = ()
    usable: Mask | None = None


class Waking:
    """Knows how things stood when units were parked and what has become better since, for all profiles over one state."""

    def __init__(self, state: ClusterState, schedulers: Mapping[str, GangScheduler]) -> None:
        self._state = state
        self._schedulers = schedulers
        self._watches = {name: GangWatch(scheduler) for name, scheduler in schedulers.items()}
        # Of each namespace that is there, which change of all was its last.
        self._last_change: dict[str, int] = {}
        self._pod_changes_in_all = 0
        self._parked_pods: ParkedClasses[ForRoom] = ParkedClasses(state)
        self._marks: dict[ForNeighbours | ForGang, _Mark] = {}
        self._most_parked_pods = FEW
        self._looked_at = (-1, -1)

    def pods_changed(self, namespace: str) -> None:
        """A pod of a namespace was bound, changed its labels, ended or was deleted; or the namespace's own labels changed."""
        self._pod_changes_in_all += 1
        self._last_change[namespace] = self._pod_changes_in_all

    def namespace_gone(self, namespace: str) -> None:
        """A namespace was deleted: nothing more happens there, and clusters that test software have many of these."""
        self._pod_changes_in_all += 1
        self._last_change.pop(namespace, None)

    def moment(self) -> tuple[int, ...]:
        """Where the news stand. If that differs before and after an attempt, the attempt may have missed some."""
        return self._state.node_log.end, self._state.usage_log.end, self._pod_changes_in_all

    def parked(self, waits_for: Waits) -> None:
        """A unit was parked this moment: from now on, only what becomes better helps it. Whom this is not said of, only the flush wakes."""
        match waits_for:
            case ForRoom(profile, pod_class):
                judged = any(isinstance(each, NodeResourcesFit) for each in self._schedulers[profile].profile.filters)
                self._parked_pods.add(waits_for, asked_of_node(pod_class) if judged else ())
            case ForNeighbours() | ForGang():
                self._marks[waits_for] = self._mark(waits_for)

    def wake(self, queue: SchedulingQueue, now: float) -> int:
        """Wake the units that events since the last call help, and return how many wait_groups of the queue they were."""
        self._forget_the_gone(queue)
        helped = [*self._helped_pods(queue), *self._helped_by_mark()]
        for waits_for in helped:
            queue.wake(waits_for, now)
        for watch in self._watches.values():
            watch.forget_unseen()
        return len(helped)

    def _helped_pods(self, queue: SchedulingQueue) -> list[ForRoom]:
        """The classes that a node takes now. No node took them when they were parked, so only changed nodes matter."""
        node_log, usage_log = self._state.node_log, self._state.usage_log
        looked_at, self._looked_at = self._looked_at, (node_log.end, usage_log.end)
        if not len(self._parked_pods):
            return []
        nodes, usage = node_log.since(looked_at[0]), usage_log.since(looked_at[1])
        everywhere = slice(0, self._state.columns.size)
        rows = everywhere if nodes is None or usage is None else np.union1d(nodes, usage)
        helped = []
        for each in self._parked_pods.that_may_fit(rows):
            # Units that are gone must not cost anything: the answer for a pod with thousands of terms takes long.
            is_parked = queue.is_parked(each)
            if is_parked and not self._usable(each.profile, each.pod_class).any():
                continue
            self._parked_pods.remove(each)
            if is_parked:
                helped.append(each)
        return helped

    def _helped_by_mark(self) -> list[ForNeighbours | ForGang]:
        """Those whose situation has improved since they were parked."""
        helped = [waits_for for waits_for, then in self._marks.items() if self._may_be_better(waits_for, then)]
        for waits_for in helped:
            del self._marks[waits_for]
        return helped

    def _may_be_better(self, waits_for: ForNeighbours | ForGang, then: _Mark) -> bool:
        try:
            return self._is_better(waits_for, then)
        except InvalidObject:
            return True  # A pod has changed and says what cannot be: deciding about the unit tells it so.

    def _forget_the_gone(self, queue: SchedulingQueue) -> None:
        """Forget deleted units and those woken otherwise; for pods, which may be many, only when their number may have doubled."""
        self._marks = {waits_for: mark for waits_for, mark in self._marks.items() if queue.is_parked(waits_for)}
        if len(self._parked_pods) > self._most_parked_pods:
            for each in list(self._parked_pods):
                if not queue.is_parked(each):
                    self._parked_pods.remove(each)
            self._most_parked_pods = max(2 * len(self._parked_pods), FEW)

    def _mark(self, waits_for: ForNeighbours | ForGang) -> _Mark:
        """How things stand now."""
        if isinstance(waits_for, ForGang):
            return _Mark(self._gang_news(waits_for))
        usable = self._usable(waits_for.profile, waits_for.pod_class)
        return _Mark(self._neighbour_news(waits_for.namespaces), self._neighbours_of(waits_for), usable)

    def _is_better(self, waits_for: ForNeighbours | ForGang, then: _Mark) -> bool:
        """True if something has become better than it was; what costs least to know is looked at first."""
        if isinstance(waits_for, ForGang):
            return self._gang_news(waits_for) != then.news
        if self._neighbour_news(waits_for.namespaces) != then.news and (
            waits_for.pod is None or self._neighbours_of(waits_for) != then.neighbours
        ):
            return True
        before, usable = then.usable, self._usable(waits_for.profile, waits_for.pod_class)
        return before is None or len(before) != len(usable) or bool((usable & ~before).any())

    def _gang_news(self, waits_for: ForGang) -> tuple[object, ...]:
        return self._watches[waits_for.profile].look(waits_for.gang), self._neighbour_news(waits_for.namespaces)

    def _neighbours_of(self, waits_for: ForNeighbours) -> tuple[int, ...]:
        """Numbers of which one changes when a pod comes or goes that a pod speaks of, one goes that keeps it away, or a node changes."""
        pod, neighbours = waits_for.pod, self._state.neighbours
        if pod is None:
            return ()
        of_namespace = neighbours.labels_of_namespace(pod.namespace)
        held = neighbours.anti_affinity.against(pod.namespace, of_namespace, pod.labels)
        return (
            self._state.node_log.end,
            *(neighbours.tally((pods,)).version for pods in _spoken_of(pod.terms)),
            *(each.on.version for each in held),
        )

    def _usable(self, profile: str, pod_class: PodClass) -> Mask:
        """The nodes that would take a pod of a class now."""
        scheduler = self._schedulers[profile]
        answer = scheduler.answers.for_class(pod_class, scheduler.profile)
        usable: Mask = answer.rank != NOT_USABLE
        return usable

    def _neighbour_news(self, namespaces: Namespaces) -> tuple[int, ...]:
        """Numbers that change with the pods of some namespaces, and with nodes: they make the domains that pods are counted in."""
        if namespaces is not None and not namespaces:
            return ()
        if namespaces is None:
            return self._pod_changes_in_all, self._state.node_log.end
        return *(self._last_change.get(name, 0) for name in sorted(namespaces)), self._state.node_log.end
