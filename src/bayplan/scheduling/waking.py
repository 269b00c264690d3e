"""Whom do the news help? Parked units are woken by what can give them a place, and by nothing else.

A unit that finds no place says what it waits for: `ForRoom` (a pod whom no node takes), `ForNeighbours` (a pod whom other pods keep from
the nodes that would take it), `ForGang`, or `ForItself` (only a change of its own helps). All that wait for the same are one lot of the
queue (`scheduling/queue.py`). After a batch of news, `wake` finds the lots that are helped:

* ForRoom: has one of the changed nodes as much free in sum as the class asks for (`scheduling/parked_classes.py`)? Then its answer is
  repaired from the change log, as for a decision: is there a node that would take it?
* ForNeighbours: a node takes the class that did not before, pods changed in a namespace that it looks at, or any node changed.
* ForGang: a node has more slots for one of its classes than before, the tree is another one, or neighbours as above. Pods of several
  classes share nodes, so for them any amount that grew counts.

What escapes this, the queue's flush tries after a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.label_selectors import Labels
from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_terms import PodTerms
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Mask
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.answers import NOT_USABLE
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_cycle import GangScheduler
from bayplan.scheduling.gang_watch import GangWatch
from bayplan.scheduling.parked_classes import ParkedClasses
from bayplan.scheduling.queue import SchedulingQueue

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
    """Pods in these namespaces keep a pod from every node that takes its class. Pods that are `alike` get the same answer."""

    profile: str
    pod_class: PodClass
    alike: str
    namespaces: Namespaces = None


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
    spoken_of = [
        *(term.pods for term in (*terms.affinity, *terms.anti_affinity)),
        *(rule.pods for rule in terms.spread if rule.required),
    ]
    of_namespace = state.neighbours.labels_of_namespace(namespace)
    kept_away = any(True for _ in state.neighbours.anti_affinity.against(namespace, of_namespace, labels))
    if kept_away or any(pods.namespace_selector.requirements is not None for pods in spoken_of):
        return None
    return NO_NAMESPACES.union(*(pods.namespaces for pods in spoken_of))


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood when a unit was parked: what concerns it, and (for neighbours) the nodes that would take its class."""

    news: tuple[object, ...]
    usable: Mask | None = None


class Waking:
    """Knows how things stood when units were parked and what has become better since, for all profiles over one state."""

    def __init__(self, state: ClusterState, schedulers: Mapping[str, GangScheduler]) -> None:
        self._state = state
        self._schedulers = schedulers
        self._watches = {name: GangWatch(scheduler) for name, scheduler in schedulers.items()}
        self._pod_changes: Counter[str] = Counter()
        self._pod_changes_in_all = 0
        self._parked_pods: ParkedClasses[ForRoom] = ParkedClasses(state)
        self._marks: dict[ForNeighbours | ForGang, _Mark] = {}
        self._most_parked_pods = FEW
        self._looked_at = (-1, -1)

    def pods_changed(self, namespace: str) -> None:
        """A pod of a namespace was bound, changed its labels, ended or was deleted; or the namespace's own labels changed."""
        self._pod_changes[namespace] += 1
        self._pod_changes_in_all += 1

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
        """Wake those whom the news since the last call help, and say how many lots of the queue they were."""
        self._forget_the_gone(queue)
        helped = [*self._helped_pods(), *self._helped_by_mark()]
        for waits_for in helped:
            queue.wake(waits_for, now)
        for watch in self._watches.values():
            watch.forget_unseen()
        return len(helped)

    def _helped_pods(self) -> list[ForRoom]:
        """The classes that a node takes now. Nobody took them when they were parked, so only nodes that changed are of interest."""
        node_log, usage_log = self._state.node_log, self._state.usage_log
        looked_at, self._looked_at = self._looked_at, (node_log.end, usage_log.end)
        if not len(self._parked_pods):
            return []
        nodes, usage = node_log.since(looked_at[0]), usage_log.since(looked_at[1])
        everywhere = slice(0, self._state.columns.size)
        rows = everywhere if nodes is None or usage is None else np.union1d(nodes, usage)
        hopeful = self._parked_pods.that_may_fit(rows)
        helped = [each for each in hopeful if self._usable(each.profile, each.pod_class).any()]
        for each in helped:
            self._parked_pods.remove(each)
        return helped

    def _helped_by_mark(self) -> list[ForNeighbours | ForGang]:
        """Those for whom something is better than when they were parked."""
        helped = [waits_for for waits_for, then in self._marks.items() if _better(then, self._mark(waits_for))]
        for waits_for in helped:
            del self._marks[waits_for]
        return helped

    def _forget_the_gone(self, queue: SchedulingQueue) -> None:
        """Whoever was deleted or woken otherwise is forgotten; among the pods, which may be many, when there may be as many again."""
        self._marks = {waits_for: mark for waits_for, mark in self._marks.items() if queue.is_parked(waits_for)}
        if len(self._parked_pods) > self._most_parked_pods:
            for each in list(self._parked_pods):
                if not queue.is_parked(each):
                    self._parked_pods.remove(each)
            self._most_parked_pods = max(2 * len(self._parked_pods), FEW)

    def _mark(self, waits_for: ForNeighbours | ForGang) -> _Mark:
        """How things stand now."""
        profile, news = waits_for.profile, self._neighbour_news(waits_for.namespaces)
        if isinstance(waits_for, ForGang):
            return _Mark((self._watches[profile].look(waits_for.gang), news))
        return _Mark(news, self._usable(profile, waits_for.pod_class))

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
        return sum(self._pod_changes[name] for name in namespaces), self._state.node_log.end


def _better(then: _Mark, now: _Mark) -> bool:
    if then.news != now.news or then.usable is None or now.usable is None:
        return then.news != now.news
    return len(then.usable) != len(now.usable) or bool((now.usable & ~then.usable).any())
