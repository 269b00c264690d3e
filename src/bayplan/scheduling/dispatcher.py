"""The scheduler without its edges: news about the cluster in, things to do out. No I/O, no clock, no threads.

    news (`set_node`, `set_pod`, ...) -> columns, roster, queue
    decide(now) -> Bind      every pod of it has a place, and its amounts are assumed
                -> Refusal   no place now; the unit waits until something happens that can help
                -> Complete  a gang all of whose pods have nodes: somebody may write that down
                -> Release   a gang that began and cannot be completed: its pods are to make room
    bound / not_bound        what came of a Bind

A *unit* is what is decided at once: a pod that stands alone, or a gang. `services/scheduler/` runs this against an API server; tests
run it by virtual time. Whatever is wrong with an object is said about that object, and everybody else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
import numpy as np

from bayplan.cluster.numa_policy import policy_problems
from bayplan.cluster.report_intake import LEDGER, ReportSettings, intake_for
from bayplan.cluster.state import TERMINAL_PHASES, ClusterState, pod_key
from bayplan.kube.core_v1 import Pod
from bayplan.kube.errors import InvalidObject
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import NOT_USABLE, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.dialects import own
from bayplan.scheduling.dialects.table import AnyPodGroup, dialect_of, dialect_of_gang, key_of
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_cycle import GangScheduler, assume_gang, schedule_gang
from bayplan.scheduling.gang_members import Incomplete
from bayplan.scheduling.gang_relations import may_concern
from bayplan.scheduling.gang_roster import GangRoster
from bayplan.scheduling.half_bound import HalfBound
from bayplan.scheduling.profile import CODES_PER_FILTER, Profile
from bayplan.scheduling.queue import SchedulingQueue
from bayplan.scheduling.todo import Assignment, Bind, Complete, Refusal, Release, Todo
from bayplan.scheduling.trees import Trees
from bayplan.scheduling.waking import NO_NAMESPACES, ForGang, ForItself, ForNeighbours, ForRoom, Waits, Waking

GANG = "gang "
REFUSED_AFTER_ALL = "counting found a place, but a kubelet there would refuse one of the pods"


class Dispatcher:
    """Everything that the scheduler knows, and the units that wait."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        completes_in: float = 60.0,
        expects_group: Callable[[Pod], bool] = lambda _: False,
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.profiles = profiles
        self.state = ClusterState()
        topology = next((profile.topology for profile in profiles.values() if profile.topology is not None), None)
        books = topology.arguments.reports if topology is not None else ReportSettings()
        self.state.freshness.waits_for_reports = books.books == LEDGER
        self.reports = intake_for(self.state, books, set(profiles))
        self.trees = Trees(self.state)
        self.answers = ClassAnswers(self.state)
        self.roster = GangRoster(lambda: self.trees.levels)
        self.queue = SchedulingQueue(initial_backoff=initial_backoff, max_backoff=max_backoff)
        self.schedulers = {
            name: GangScheduler(self.state, self.trees, profile, self.answers) for name, profile in profiles.items()
        }
        # Whether a pod that names no gang may still be put into one: it must not be placed by itself before that is known.
        self._expects_group = expects_group
        self._waking = Waking(self.state, self.schedulers)
        self._woken_at: tuple[int, ...] = ()
        self.waiting: dict[str, Pod] = {}
        # How long attempts take is for somebody with a clock to say.
        self._stopwatch = stopwatch
        self._half_bound = HalfBound(completes_in)
        # Gangs that something happened to since the last decision, and when.
        self._touched: dict[str, float] = {}

    # -- news -----------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, now: float) -> None:
        """A pod as the cluster shows it. Raises `InvalidObject` if it stands on a node with amounts that cannot be."""
        key = pod_key(pod)
        if self._is_another(key, pod):
            self.remove_pod(key, now)
        if pod.status is not None and pod.status.phase in TERMINAL_PHASES:
            self.remove_pod(key, now)
        elif pod.spec.node_name:
            self._leave_queue(key)
            name = self.roster.set_member(pod)
            self.state.set_pod(pod, at=now)
            self.reports.pod_changed(pod)
            self._waking.pods_changed(pod.metadata.namespace or "default")
            if name:
                self._touched.setdefault(name, now)
        elif pod.spec.scheduler_name in self.profiles:
            self._await(key, pod, now)
        else:
            self._leave_queue(key)

    def remove_pod(self, key: str, now: float) -> None:
        """A pod ended or was deleted."""
        self._leave_queue(key)
        name = self.roster.remove_member(key)
        stood = self.state.bound.get(key)
        self.state.remove_pod(key, at=now)
        if stood is not None:
            self.reports.pod_changed(stood)
        self._waking.pods_changed(key.partition("/")[0])
        if name:
            self._touched.setdefault(name, now)

    def set_report(self, report: NodeResourceTopology, now: float) -> None:
        """A node reported itself."""
        self.reports.topology(report, now)

    def resync(self, now: float) -> None:
        """Time has passed, which settles promises; every `reports.resync_period` seconds."""
        self.reports.resync(now)

    def set_levels(self, name: str, levels: tuple[str, ...] | None, now: float) -> None:
        """A Topology came, changed, or is gone."""
        if levels is None:
            self.trees.remove(name)
        else:
            self.trees.set(name, levels)
        # Gangs that name it, or that could now mean it.
        for gang in self.roster.names():
            self._touched.setdefault(gang, now)

    def set_group(self, written: AnyPodGroup, now: float) -> None:
        """A PodGroup came or changed."""
        known = self.roster.groups.get(key_of(written))
        name = self.roster.set_group(written)
        if dialect_of(written).was_complete(written):
            self._half_bound.was_complete(name, own.complete_since(written))
        if known is None or not _asks_for_the_same(known, written):
            self._touched.setdefault(name, now)

    def remove_group(self, name: str, now: float) -> None:
        """A PodGroup is gone."""
        self.roster.remove_group(name)
        self._touched.setdefault(name, now)

    def _is_another(self, key: str, pod: Pod) -> bool:
        """True if a pod of that name was known, and it was another one."""
        known = self.waiting.get(key) or self.state.bound.get(key)
        return known is not None and known.metadata.uid != pod.metadata.uid

    def _await(self, key: str, pod: Pod, now: float) -> None:
        known = self.waiting.get(key)
        self.waiting[key] = pod
        name = self.roster.set_member(pod)
        if key in self.state.pods:
            return  # It has its place, and the bind is under way or done.
        if known is not None and _asks_the_same(known, pod):
            return
        for problem in policy_problems(pod, self.state.classes.request_of):
            self.state.note(problem)
        if name:
            self.queue.remove(key)
            self._touched.setdefault(name, now)
        elif pod.metadata.deletion_timestamp:
            self.queue.remove(key)
        else:
            self._put_pod(key, pod, now)

    def stands_alone(self, key: str, now: float) -> None:
        """It has become known that a pod belongs to no gang."""
        pod = self.waiting.get(key)
        if pod is not None and key not in self.state.pods and not self.roster.gang_of(key):
            self._put_pod(key, pod, now)

    def _put_pod(self, key: str, pod: Pod, now: float) -> None:
        gated = bool(pod.spec.scheduling_gates) or self._expects_group(pod)
        created = self._created(key, now)
        self.queue.put(key, priority=pod.spec.priority or 0, created=created, now=now, gated=gated)

    def _queue_gangs(self, now: float) -> None:
        """Gangs that something happened to since the last decision: a thousand pods that arrive make one unit."""
        for name, since in self._touched.items():
            waiting, running = self.roster.waiting(name), self.roster.running(name)
            if not waiting and not running:
                self._half_bound.forget(name)
                self.queue.remove(GANG + name)
            elif not waiting and self._half_bound.is_complete(name):
                self.queue.remove(GANG + name)
            else:
                priority = max((pod.spec.priority or 0 for pod in waiting), default=0)
                created = self._created(GANG + name, since)
                self.queue.put(GANG + name, priority=priority, created=created, now=now, pods=len(waiting))
        self._touched.clear()

    def _created(self, unit: str, now: float) -> float:
        """When a unit began to wait: a change does not make it younger."""
        known = self.queue.get(unit)
        return now if known is None else known.created

    def _leave_queue(self, key: str) -> None:
        if self.waiting.pop(key, None) is not None:
            self.queue.remove(key)

    # -- decisions ------------------------------------------------------------------------------------------------

    def decide(self, now: float) -> Todo | None:
        """Decide about the next unit; None if nobody is waiting that has something to hope for."""
        self._queue_gangs(now)
        unit = self.queue.pop(now)
        while unit is not None:
            try:
                todo = self._decide_gang(unit, now) if unit.startswith(GANG) else self._decide_pod(unit, now)
            except Exception as error:  # noqa: BLE001 - a bug of ours that one unit brings to light must not stop all others
                todo = self._give_up(unit, error, now)
            if todo is not None:
                return todo
            unit = self.queue.pop(now)
        return None

    def _give_up(self, unit: str, error: Exception, now: float) -> Refusal:
        """Nothing is taken for the unit, and it waits until it changes or is flushed."""
        pods = self.roster.waiting(unit.removeprefix(GANG)) if unit.startswith(GANG) else [self.waiting[unit]]
        for pod in pods:
            self.state.forget(pod_key(pod))
        self.queue.failed(unit, now, waits_for=ForItself(unit))
        return Refusal(
            unit, tuple(pods), f"internal error: {type(error).__name__}: {error} (please report)", invalid=True
        )

    def _decide_pod(self, key: str, now: float) -> Todo | None:
        pod = self.waiting.get(key)
        if pod is None or key in self.state.pods:
            self.queue.done(key)
            return None
        profile = self.profiles[pod.spec.scheduler_name or ""]
        try:
            decision = schedule_one(self.state, pod, profile, self.answers, explain=False)
        except InvalidObject as error:
            # Nothing but a change of the pod itself can help.
            self.queue.failed(key, now, waits_for=ForItself(key))
            return Refusal(key, (pod,), str(error), invalid=True)
        if self.reports.counts_refusals:
            self._tell_refusals(pod, profile)
        if not decision.placed:
            waits_for = ForItself(key) if decision.held_back else self._waits_for(pod, profile)
            self.queue.failed(key, now, waits_for=waits_for)
            self._waking.parked(waits_for)
            return Refusal(key, (pod,), decision.held_back, decision)
        assume(self.state, decision, pod)
        self.reports.reserved(decision.node or "", pod)
        return Bind(key, (Assignment(pod, decision),))

    def _decide_gang(self, unit: str, now: float) -> Todo | None:
        name = unit.removeprefix(GANG)
        waiting, running = tuple(self.roster.waiting(name)), tuple(self.roster.running(name))
        self._half_bound.look_at(name, (*waiting, *running))
        if any(pod_key(pod) in self.state.pods for pod in waiting):
            # Some are bound, and the news has not come yet: it brings the gang back here.
            self.queue.done(unit)
            return None
        try:
            gang = self.roster.gang(name)
            if isinstance(gang, Incomplete):
                return self._wait(unit, running, now, Refusal(unit, waiting, gang.reason))
            if not any(group.least for group in gang.whole.every_group()) and self._half_bound.completed(name):
                self.queue.done(unit)
                self._touched.setdefault(name, now)
                return Complete(name, len(running))
            if not gang.pods:
                self.queue.done(unit)
                return None
            return self._place_gang(unit, gang, running, now)
        except InvalidObject as error:
            return self._wait(unit, running, now, Refusal(unit, waiting, str(error), invalid=True))

    def _place_gang(self, unit: str, gang: Gang, running: tuple[Pod, ...], now: float) -> Todo:
        pods = {pod_key(pod): pod for pod in gang.pods}
        waiting = tuple(pods.values())
        held = next((pod for pod in waiting if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp), None)
        if held is not None:
            why = "is being deleted" if held.metadata.deletion_timestamp else "waits for its scheduling gates"
            return self._wait(unit, running, now, Refusal(unit, waiting, f"pod {pod_key(held)} {why}"))
        began = self._stopwatch()
        scheduler = self.schedulers[gang.pods[0].spec.scheduler_name or ""]
        known = self.queue.get(unit)
        waited = now - known.first_seen if known is not None else 0.0
        decision = schedule_gang(scheduler, gang, waited)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else None
        if taken is not None:
            for each in taken:
                self.reports.reserved(each.node or "", pods[each.pod])
            seats = zip(taken, decision.seats, strict=True)
            return Bind(unit, tuple(Assignment(pods[each.pod], each, seat) for each, seat in seats))
        reason = REFUSED_AFTER_ALL if decision.placed else ""
        patience_ends = None
        if decision.waits and gang.patience is not None:
            patience_ends = now - waited + gang.patience.seconds
        refusal = Refusal(unit, waiting, reason, gang=decision)
        # Where neighbours matter, pods of any namespace may be the ones that keep it out.
        namespaces = None if may_concern(self.state, gang, scheduler.profile) else NO_NAMESPACES
        waits_for = ForGang(scheduler.profile.name, gang, namespaces)
        took = self._stopwatch() - began
        return self._wait(unit, running, now, refusal, waits_for, took=took, again_at=patience_ends)

    def _wait(
        self,
        unit: str,
        running: tuple[Pod, ...],
        now: float,
        refusal: Refusal,
        waits_for: Waits | None = None,
        *,
        took: float = 0.0,
        again_at: float | None = None,
    ) -> Todo:
        """A gang has no place. One that began long ago and was never whole gives up what it has."""
        name = unit.removeprefix(GANG)
        # Whether pods of other systems' gangs are created again, and whether theirs were whole once, is not for us to know.
        ours = self._half_bound.to_release(name, running, now) if dialect_of_gang(name) is own.DIALECT else ()
        if ours:
            self.queue.retry(unit, now)
            return Release(name, ours, refusal.reason or (refusal.gang.bound if refusal.gang else ""))
        looks = [moment for moment in (again_at, self._half_bound.next_look(name)) if moment is not None]
        waits_for = waits_for or ForItself(unit)
        self.queue.failed(unit, now, waits_for=waits_for, took=took, again_at=min(looks, default=None))
        self._waking.parked(waits_for)
        return refusal

    def _waits_for(self, pod: Pod, profile: Profile) -> Waits:
        """Room on a node; or, where nodes would take it, that other pods come or go."""
        pod_class = self.state.classes.of(pod)
        answer = self.answers.for_class(pod_class, profile)
        if not (answer.rank != NOT_USABLE).any():
            return ForRoom(profile.name, pod_class)
        metadata, spec = pod.metadata, pod.spec
        alike = (metadata.namespace, metadata.labels, spec.affinity, spec.topology_spread_constraints)
        return ForNeighbours(profile.name, pod_class, msgspec.json.encode(alike).decode())

    def wake(self, now: float) -> None:
        """After news: units that these can help are tried again."""
        moment = self._waking.moment()
        if moment != self._woken_at:
            self._woken_at = moment
            self._waking.wake(self.queue, now)

    def is_assumed(self, pod: Pod, node: str) -> bool:
        """True if a pod's place is still kept for it: neither was given back nor has its node gone."""
        placed = self.state.pods.get(pod_key(pod))
        return self._still_waits(pod) and placed is not None and self.state.names[placed.row] == node

    # -- what came of a Bind --------------------------------------------------------------------------------------

    def bound(self, todo: Bind, now: float) -> None:
        """Every bind of a unit is done. A gang is looked at once more: others may have arrived, or it is complete now."""
        for assignment in todo.assignments:
            self.reports.bound(assignment.node, assignment.pod)
        if todo.unit.startswith(GANG):
            self.queue.done(todo.unit)
            self._touched.setdefault(todo.unit.removeprefix(GANG), now)
        elif self._still_waits(todo.assignments[0].pod):
            self.queue.done(todo.unit)

    def not_bound(self, todo: Bind, failed: Collection[Assignment], now: float) -> None:
        """Some binds of a unit failed for certain: what was assumed for them is free again, and who is still there tries again."""
        for assignment in failed:
            self.reports.unreserved(assignment.node, assignment.pod)
            if self._still_waits(assignment.pod):
                self.state.forget(pod_key(assignment.pod))
        lost = {pod_key(assignment.pod) for assignment in failed}
        for assignment in todo.assignments:
            if pod_key(assignment.pod) not in lost:
                self.reports.bound(assignment.node, assignment.pod)
        if todo.unit.startswith(GANG):
            self.queue.retry(todo.unit, now)
            self._touched.setdefault(todo.unit.removeprefix(GANG), now)
        elif self._still_waits(todo.assignments[0].pod):
            self.queue.retry(todo.unit, now)

    def _still_waits(self, pod: Pod) -> bool:
        """True if this very pod waits. If not, what is assumed and queued under its name belongs to a successor, which has a bind of its own."""
        known = self.waiting.get(pod_key(pod))
        return known is not None and known.metadata.uid == pod.metadata.uid

    def _tell_refusals(self, pod: Pod, profile: Profile) -> None:
        """Nodes that the NUMA filter refused, for a cache that wants to know."""
        answer = self.answers.for_class(self.state.classes.of(pod), profile)
        for position, plugin in enumerate(profile.filters):
            if plugin is profile.topology:
                for row in np.flatnonzero(answer.blocked // CODES_PER_FILTER == position):
                    self.reports.refused(self.state.names[row])


def _asks_the_same(known: Pod, pod: Pod) -> bool:
    """True if a waiting pod has changed in nothing that a decision depends on; its conditions, for example, change often."""
    before, after = known.metadata, pod.metadata
    return (
        known.spec == pod.spec
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.deletion_timestamp == after.deletion_timestamp
    )


def _asks_for_the_same(known: AnyPodGroup, written: AnyPodGroup) -> bool:
    """True if a PodGroup has changed in its status alone, which we write ourselves."""
    before, after = known.metadata, written.metadata
    return known.spec == written.spec and (before.uid, before.annotations) == (after.uid, after.annotations)
