"""Whom do the news help? Parked units are woken by what can give them a place, and by nothing else.

A unit that finds no place says what it waits for: `ForRoom` (a pod whom no node takes), `ForNeighbours` (a pod whom other pods keep from
the nodes that would take it), `ForGang`, or `ForItself` (only a change of its own helps). After a batch of news, `wake` looks at each
lot of the queue (`scheduling/queue.py`) that is closed:

* ForRoom: the answer of its class is repaired from the change log, as for a decision; is there a node now that would take it?
* ForNeighbours: a node takes the class that did not before, pods changed in a namespace that it looks at, or any node changed.
* ForGang: a node has more slots for one of its classes than before, the tree is another one, or neighbours as above. Pods of several
  classes share nodes, so for them any amount that grew counts.

What escapes this, the queue's flush tries after a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from bayplan.cluster.pod_class import PodClass
from bayplan.engine.rows import Mask
from bayplan.scheduling.answers import NOT_USABLE
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_cycle import GangScheduler
from bayplan.scheduling.gang_watch import GangWatch
from bayplan.scheduling.queue import SchedulingQueue

# The namespaces whose pods matter to a unit; None stands for all of them.
Namespaces = frozenset[str] | None
NO_NAMESPACES: frozenset[str] = frozenset()
# So many marks of units that are parked no more may be kept before they are looked through.
MARKS_TO_SPARE = 64


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


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood when a unit was parked: what concerns it, and (for neighbours) the nodes that would take its class."""

    news: tuple[object, ...]
    usable: Mask | None = None


class Waking:
    """Knows how things stood when units were parked and what has become better since, for all profiles over one state."""

    def __init__(self, schedulers: Mapping[str, GangScheduler]) -> None:
        self._schedulers = schedulers
        self._watches = {name: GangWatch(scheduler) for name, scheduler in schedulers.items()}
        self._pod_changes: Counter[str] = Counter()
        self._marks: dict[Hashable, _Mark] = {}

    def pods_changed(self, namespace: str) -> None:
        """A pod of a namespace was bound, changed its labels, ended or was deleted; or the namespace's own labels changed."""
        self._pod_changes[namespace] += 1

    def moment(self) -> tuple[int, ...]:
        """Where the news stand. If that differs before and after an attempt, the attempt may have missed some."""
        states = [scheduler.state for scheduler in self._schedulers.values()]
        logs = (log.end for state in states for log in (state.node_log, state.usage_log))
        return (self._pod_changes.total(), *logs)

    def parked(self, waits_for: Waits) -> None:
        """A unit has just been told "no": from now on, only what becomes better helps it."""
        mark = self._mark(waits_for)
        if mark is not None:
            self._marks[waits_for] = mark

    def wake(self, queue: SchedulingQueue, now: float) -> int:
        """Open the lots whom the news help, and say how many they were."""
        closed = list(queue.closed_lots())
        helped = [waits_for for waits_for in closed if self._is_helped(waits_for)]
        for waits_for in helped:
            queue.wake(waits_for, now)
        self._forget_all_but(closed)
        return len(helped)

    def _is_helped(self, waits_for: Hashable) -> bool:
        match waits_for:
            case ForRoom(profile, pod_class):
                return bool(self._usable(profile, pod_class).any())
            case ForNeighbours() | ForGang():
                then, now = self._marks.get(waits_for), self._mark(waits_for)
                return then is None or now is None or _better(then, now)
            case _:
                return False

    def _mark(self, waits_for: Waits) -> _Mark | None:
        match waits_for:
            case ForNeighbours(profile, pod_class, _, namespaces):
                return _Mark(self._neighbour_news(profile, namespaces), self._usable(profile, pod_class))
            case ForGang(profile, gang, namespaces):
                return _Mark((self._watches[profile].look(gang), self._neighbour_news(profile, namespaces)))
            case _:
                return None

    def _usable(self, profile: str, pod_class: PodClass) -> Mask:
        """The nodes that would take a pod of a class now."""
        scheduler = self._schedulers[profile]
        answer = scheduler.answers.for_class(pod_class, scheduler.profile)
        usable: Mask = answer.rank != NOT_USABLE
        return usable

    def _neighbour_news(self, profile: str, namespaces: Namespaces) -> tuple[int, ...]:
        """Numbers that change with the pods of some namespaces, and with nodes: they make the domains that pods are counted in."""
        if namespaces is not None and not namespaces:
            return ()
        changes = self._pod_changes
        news = changes.total() if namespaces is None else sum(changes[name] for name in namespaces)
        return news, self._schedulers[profile].state.node_log.end

    def _forget_all_but(self, closed: list[Hashable]) -> None:
        """Whoever is not parked is marked again when it is."""
        if len(self._marks) > 2 * len(closed) + MARKS_TO_SPARE:
            self._marks = {waits_for: self._marks[waits_for] for waits_for in closed if waits_for in self._marks}
        for watch in self._watches.values():
            watch.forget_unseen()


def _better(then: _Mark, now: _Mark) -> bool:
    if then.news != now.news or then.usable is None or now.usable is None:
        return then.news != now.news
    return len(then.usable) != len(now.usable) or bool((now.usable & ~then.usable).any())
