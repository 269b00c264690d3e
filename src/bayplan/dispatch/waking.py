"""Which parked units could recent events unblock? Those are woken, and no others.

A unit that finds no place says what it waits for. Units that wait for the same thing are one wait group of the queue.
After a batch of events, `wake` finds the groups that these can help:

* ForRoom: no node takes the pod. A changed node must have enough free in total (`parked_classes.py`) and take it.
* ForNeighbours: other pods keep the pod off the nodes that would take it. A node takes its class that did not before,
  any node changed, or pods changed that its terms select or that keep it away.
* ForGang: a node has more slots for one of its classes (`gang_watch.py`), the tree changed, or neighbours as above.
* ForItself: only a change of the unit itself helps.

The queue's flush retries everything else after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms
from bayplan.cluster.state import ClusterState
from bayplan.dispatch.gang_watch import GangWatch
from bayplan.dispatch.parked_classes import ParkedClasses
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import Unit
from bayplan.engine.numa.rows import Mask
from bayplan.extensions import BrokenExtension
from bayplan.gangs.model import Gang
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.errors import InvalidObject
from bayplan.plugins.base import IncomingPod
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.answers import NOT_USABLE

# The namespaces whose pods matter to a unit; None means all.
Namespaces = frozenset[str] | None
NO_NAMESPACES: frozenset[str] = frozenset()
# Fewer classes are not worth searching for deleted ones.
FEW = 64

# Waking takes at most a fifth of the time, unless it is quick, and never pauses for long.
REST_PER_SECOND_OF_WAKING = 4.0
LONGEST_REST = 1.0
QUICK = 0.002
# Seconds in which parked units are looked at before the next decisions: a tenant can park thousands of different units.
SLICE = 0.02


@dataclass(frozen=True, slots=True)
class ForRoom:
    """No node takes a pod of this class."""

    profile: str
    pod_class: PodClass


@dataclass(frozen=True, slots=True)
class ForNeighbours:
    """Pods in these namespaces keep a pod off every node that takes its class. Pods that are `alike` share an answer.

    `pod` is one of them, as its neighbours see it. Without it, every pod of those namespaces counts.
    """

    profile: str
    pod_class: PodClass
    alike: str
    namespaces: Namespaces = None
    pod: IncomingPod | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ForGang:
    """No place for this gang."""

    profile: str
    gang: Gang
    namespaces: Namespaces = NO_NAMESPACES


@dataclass(frozen=True, slots=True)
class ForItself:
    """Only a change of the unit itself helps."""

    unit: Unit


Waits = ForRoom | ForNeighbours | ForGang | ForItself


def namespaces_that_matter(state: ClusterState, namespace: str, labels: Labels, terms: PodTerms) -> Namespaces:
    """The namespaces of the pods that a pod's terms select, or that keep it off nodes now."""
    selectors = _required_selectors(terms)
    of_namespace = state.neighbours.labels_of_namespace(namespace)
    kept_away = any(True for _ in state.neighbours.anti_affinity.against(namespace, of_namespace, labels))
    if kept_away or any(pods.namespace_selector.requirements is not None for pods in selectors):
        return None
    return NO_NAMESPACES.union(*(pods.namespaces for pods in selectors))


def _required_selectors(terms: PodTerms) -> list[PodSelector]:
    """The selectors of a pod's required terms."""
    of_terms = [term.pods for term in (*terms.affinity, *terms.anti_affinity)]
    return of_terms + [rule.pods for rule in terms.spread if rule.required]


@dataclass(frozen=True, slots=True)
class _Mark:
    """What mattered to a unit when it was parked; for neighbours, also their versions and the usable nodes."""

    news: tuple[object, ...]
    neighbours: tuple[int, ...] = ()
    usable: Mask | None = None


class Waking:
    """Compares the cluster with its state when each unit was parked, for all profiles."""

    def __init__(self, state: ClusterState, schedulers: Mapping[str, GangScheduler]) -> None:
        self._state = state
        self._schedulers = schedulers
        self._watches = {name: GangWatch(scheduler) for name, scheduler in schedulers.items()}
        # By namespace, the number of its last pod change.
        self._last_change: dict[str, int] = {}
        self._pod_changes_in_all = 0
        self._parked_pods: ParkedClasses[ForRoom] = ParkedClasses(state)
        self._marks: dict[ForNeighbours | ForGang, _Mark] = {}
        self._most_parked_pods = FEW
        self._seen = (-1, -1)
        # A look at all parked units that has not ended yet.
        self._looking: Iterator[ForRoom | ForNeighbours | ForGang | None] | None = None

    def pods_changed(self, namespace: str) -> None:
        """A pod of a namespace was bound, relabelled or removed, or the namespace was relabelled."""
        self._pod_changes_in_all += 1
        self._last_change[namespace] = self._pod_changes_in_all

    def namespace_gone(self, namespace: str) -> None:
        """A namespace was deleted. Test clusters create and delete many."""
        self._pod_changes_in_all += 1
        self._last_change.pop(namespace, None)

    def moment(self) -> tuple[int, ...]:
        """A version of everything that can help parked units."""
        return self._state.node_log.end, self._state.usage_log.end, self._pod_changes_in_all

    def parked(self, waits_for: Waits) -> None:
        """Note the state of the cluster for a unit that was just parked; without this, only the flush wakes it."""
        match waits_for:
            case ForRoom(profile, pod_class):
                checks_fit = any(
                    isinstance(each, NodeResourcesFit) for each in self._schedulers[profile].profile.filters
                )
                self._parked_pods.add(waits_for, asked_of_node(pod_class) if checks_fit else ())
            case ForNeighbours() | ForGang():
                self._marks[waits_for] = self._mark(waits_for)

    @property
    def is_looking(self) -> bool:
        """Whether the last call of `wake` did not get to all parked units."""
        return self._looking is not None

    def wake(self, queue: SchedulingQueue, now: float, enough: Callable[[], bool] = lambda: False) -> int:
        """Wake the units that events since they were looked at can help; returns the number of wait groups.

        It ends when it is `enough`, and the next call goes on from there.
        """
        self._looking = self._looking or self._look_at_all(queue)
        woken = 0
        for helped in self._looking:
            if helped is not None:
                queue.wake(helped, now)
                woken += 1
            if enough():
                return woken
        self._looking = None
        return woken

    def _look_at_all(self, queue: SchedulingQueue) -> Iterator[ForRoom | ForNeighbours | ForGang | None]:
        """After each look at a wait group: the group if it can be helped, else None."""
        self._forget_deleted(queue)
        for watch in self._watches.values():
            watch.start_pass()
        # Members of started gangs come first: they must not lose the room to those who could go elsewhere.
        first = [each for each in self._marks if isinstance(each, ForGang) and each.gang.has_started]
        yield from self._look_at_marked(first, queue)
        for pods in self._pods_that_may_fit():
            yield pods if self._is_helped(pods, queue) else None
        seen = set(first)
        yield from self._look_at_marked([each for each in self._marks if each not in seen], queue)
        for watch in self._watches.values():
            watch.forget_unused()

    def _look_at_marked(
        self, marks: Sequence[ForNeighbours | ForGang], queue: SchedulingQueue
    ) -> Iterator[ForNeighbours | ForGang | None]:
        for marked in marks:
            then = self._marks.get(marked)
            helped = then is not None and queue.is_parked(marked) and self._may_be_better(marked, then)
            if helped:
                del self._marks[marked]
            yield marked if helped else None

    def _pods_that_may_fit(self) -> list[ForRoom]:
        """Classes that a changed node may take. Only those matter: no node took them when they were parked."""
        node_log, usage_log = self._state.node_log, self._state.usage_log
        seen, self._seen = self._seen, (node_log.end, usage_log.end)
        if not len(self._parked_pods):
            return []
        nodes, usage = node_log.since(seen[0]), usage_log.since(seen[1])
        everywhere = slice(0, self._state.columns.size)
        rows = everywhere if nodes is None or usage is None else np.union1d(nodes, usage)
        return self._parked_pods.that_may_fit(rows)

    def _is_helped(self, pods: ForRoom, queue: SchedulingQueue) -> bool:
        """Whether a node takes a parked class now; one that it takes, or that is not parked any more, is forgotten."""
        # Checked first: the answer for a deleted pod with thousands of terms would take long.
        is_parked = queue.is_parked(pods)
        try:
            if is_parked and not self._usable(pods.profile, pods.pod_class).any():
                return False
        except BrokenExtension:
            pass  # The next decision reports the plugin.
        self._parked_pods.discard(pods)
        return is_parked

    def _may_be_better(self, waits_for: ForNeighbours | ForGang, then: _Mark) -> bool:
        try:
            return self._is_better(waits_for, then)
        except (InvalidObject, BrokenExtension):
            return True  # The next decision reports the invalid pod or the plugin.

    def _forget_deleted(self, queue: SchedulingQueue) -> None:
        """Forget units that are no longer parked; for pods, only when their number may have doubled."""
        self._marks = {waits_for: mark for waits_for, mark in self._marks.items() if queue.is_parked(waits_for)}
        if len(self._parked_pods) > self._most_parked_pods:
            for each in list(self._parked_pods):
                if not queue.is_parked(each):
                    self._parked_pods.discard(each)
            self._most_parked_pods = max(2 * len(self._parked_pods), FEW)

    def _mark(self, waits_for: ForNeighbours | ForGang) -> _Mark:
        """What matters to a unit now."""
        if isinstance(waits_for, ForGang):
            return _Mark(self._gang_news(waits_for))
        usable = self._usable(waits_for.profile, waits_for.pod_class)
        return _Mark(self._neighbour_news(waits_for.namespaces), self._neighbours_of(waits_for), usable)

    def _is_better(self, waits_for: ForNeighbours | ForGang, then: _Mark) -> bool:
        """True if the situation of a unit has improved; cheap checks first."""
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
        """Versions of the nodes, of the pods that a pod's terms select, and of those that keep it away."""
        pod, neighbours = waits_for.pod, self._state.neighbours
        if pod is None:
            return ()
        of_namespace = neighbours.labels_of_namespace(pod.namespace)
        held = neighbours.anti_affinity.against(pod.namespace, of_namespace, pod.labels)
        return (
            self._state.node_log.end,
            *(neighbours.tally((pods,)).version for pods in _required_selectors(pod.terms)),
            *(each.on.version for each in held),
        )

    def _usable(self, profile: str, pod_class: PodClass) -> Mask:
        """The nodes that take a pod of a class now."""
        scheduler = self._schedulers[profile]
        answer = scheduler.answers.for_class(pod_class, scheduler.profile)
        usable: Mask = answer.total_score != NOT_USABLE
        return usable

    def _neighbour_news(self, namespaces: Namespaces) -> tuple[int, ...]:
        """Versions of the pods in some namespaces, and of the nodes, which make up the domains of terms."""
        if namespaces is not None and not namespaces:
            return ()
        if namespaces is None:
            return self._pod_changes_in_all, self._state.node_log.end
        return *(self._last_change.get(name, 0) for name in sorted(namespaces)), self._state.node_log.end


class Waker:
    """Runs `Waking.wake` after events, with pauses if it takes long because very many units are parked."""

    def __init__(self, waking: Waking, queue: SchedulingQueue, stopwatch: Callable[[], float]) -> None:
        self._waking = waking
        self._queue = queue
        self._stopwatch = stopwatch
        self._seen: tuple[int, ...] = ()
        self._paused_until = 0.0
        self.took = 0.0

    def wake(self, now: float) -> None:
        """Wake the units that events since the last call can help, unless paused. `took` says how long that took."""
        moment = self._waking.moment()
        if (moment != self._seen or self._waking.is_looking) and now >= self._paused_until:
            if not self._waking.is_looking:
                self._seen = moment
            began = self._stopwatch()
            self._waking.wake(self._queue, now, lambda: self._stopwatch() - began > SLICE)
            self.took = self._stopwatch() - began
            pause = min(self.took * REST_PER_SECOND_OF_WAKING, LONGEST_REST) if self.took > QUICK else 0.0
            self._paused_until = now + pause

    def next_time(self) -> float | None:
        """When the pause ends, if there are unseen events or units that were not looked at yet."""
        is_done = self._waking.moment() == self._seen and not self._waking.is_looking
        return None if is_done else self._paused_until
