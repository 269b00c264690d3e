"""The scheduler without its edges: news about the cluster in, things to do out. No I/O, no clock, no threads.

    news (`set_node`, `set_pod`, ...) -> columns, roster, queue
    decide(now) -> Bind      every pod of it has a place, and its amounts are assumed
                -> Unschedulable   no place now; the unit waits until something happens that can help
                -> Complete  a gang all of whose pods have nodes, for the caller to record
                -> Release   a gang that began and cannot be completed: its pods are to make room
    bound / not_bound        what came of a Bind; of a Release `gangs.released`

A *unit* is decided as a whole: a single pod or a gang. `services/scheduler/` runs this against an API server; tests
run it in virtual time. A problem with an object is reported on that object and does not affect others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from traceback import format_exception

import msgspec

from bayplan.cluster.pods.pod_class import is_large
from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.reports.intake import LEDGER, ReportSettings, intake_for
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.reports.numa_policy import ignored_annotations, policy_problems
from bayplan.cluster.reports.topology_report import ObjectRemark
from bayplan.cluster.state import TERMINAL_PHASES, ClusterState, pod_key
from bayplan.dialects.given_ranks import GivenRanks
from bayplan.dialects.pod_words import word_problems
from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import GANG, Action, Assignment, Bind, Unschedulable
from bayplan.dispatch.gang_units import GangUnits
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.waking import (
    NO_NAMESPACES,
    ForItself,
    ForNeighbours,
    ForRoom,
    Waits,
    Waking,
    namespaces_that_matter,
)
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.hypernode_v1alpha1 import HyperNode
from bayplan.kube.wire.topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import NOT_USABLE, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import incoming_pod

# Checking which units an event helps takes at most a fifth of the time, unless it is quick; but units never wait long for it.
REST_PER_SECOND_OF_WAKING = 4.0
LONGEST_REST = 1.0
QUICK = 0.002


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
        why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "",
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.profiles = profiles
        topology = next((profile.topology for profile in profiles.values() if profile.topology is not None), None)
        self.state = ClusterState(topology.arguments.assumptions if topology is not None else Assumptions())
        settings = topology.arguments.reports if topology is not None else ReportSettings()
        self.state.freshness.waits_for_reports = settings.accounting == LEDGER
        self.reports = intake_for(self.state, settings, set(profiles))
        self.trees = Trees(self.state)
        self.answers = ClassAnswers(self.state)
        self.roster = GangRoster(lambda: self.trees.topologies)
        self.queue = SchedulingQueue(initial_backoff=initial_backoff, max_backoff=max_backoff)
        self.schedulers = {
            name: GangScheduler(self.state, self.trees, profile, self.answers) for name, profile in profiles.items()
        }
        # Whether a pod that names no gang may still be put into one: it must not be placed by itself before that is known.
        self._expects_group = expects_group
        self._waking = Waking(self.state, self.schedulers)
        self._woken_at: tuple[int, ...] = ()
        # The caller provides the stopwatch; this module reads no clock.
        self._stopwatch = stopwatch
        self._wakes_from = 0.0
        # How long the last look took.
        self.waking_takes = 0.0
        self.waiting: dict[str, Pod] = {}
        self._given_ranks = GivenRanks()
        self.gangs = GangUnits(
            self.state,
            self.reports,
            self.roster,
            self.queue,
            self._waking,
            self.schedulers,
            self.trees,
            completes_in=completes_in,
            why_gang_waits=why_gang_waits,
            stopwatch=stopwatch,
        )

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
            name = self._join(key, pod, now)
            before = self.state.bound.get(key)
            self.state.set_pod(pod, at=now)
            self.reports.pod_changed(pod)
            if before is None or not _looks_the_same(before, pod):
                self._waking.pods_changed(namespace_of(pod))
            if name:
                self.gangs.touch(name, now)
        elif pod.spec.scheduler_name in self.profiles:
            self._await(key, pod, now)
        else:
            self._leave_queue(key)
            left, name = self.roster.gang_of(key), self.roster.set_stranger(pod)
            for gang in dict.fromkeys((left, name)):
                if gang:
                    self.gangs.touch(gang, now)

    def remove_pod(self, key: str, now: float) -> None:
        """A pod ended or was deleted."""
        known = self.waiting.get(key) or self.state.bound.get(key)
        problems = self._problems_of(known) if known is not None else []
        for problem in (*problems, *self._given_ranks.went(key)):
            self.state.withdraw(problem)
        self._leave_queue(key)
        name = self.roster.remove_member(key)
        stood = self.state.bound.get(key)
        self.state.remove_pod(key, at=now)
        if stood is not None:
            self.reports.pod_changed(stood)
        self._waking.pods_changed(key.partition("/")[0])
        if name:
            self.gangs.touch(name, now)

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace with its labels, by which terms may mean the pods in it."""
        if self.state.neighbours.labels_of_namespace(name) != labels:
            self.state.set_namespace(name, labels)
            self._waking.pods_changed(name)

    def remove_namespace(self, name: str) -> None:
        """A namespace is gone."""
        self.state.remove_namespace(name)
        self.queue.tenants.gone(name)
        self._waking.namespace_gone(name)

    def set_report(self, report: NodeResourceTopology, now: float) -> None:
        """A node reported itself."""
        self.reports.topology(report, now)

    def resync(self, now: float) -> None:
        """Time has passed, which settles promises and ends the wait for first reports; every `reports.resync_period` seconds."""
        self.state.time_passed(now)
        self.reports.resync(now)

    def set_levels(self, name: str, levels: tuple[str, ...] | None) -> None:
        """A Topology came, changed, or is gone."""
        if levels is None:
            self.trees.remove(name)
        else:
            self.trees.set(name, levels)
        self.gangs.touch_all()

    def set_hyper_node(self, written: HyperNode) -> None:
        """A HyperNode came or changed."""
        if self.trees.set_hyper_node(written):
            self.gangs.touch_all()

    def remove_hyper_node(self, name: str) -> None:
        """A HyperNode is gone."""
        self.trees.remove_hyper_node(name)
        self.gangs.touch_all()

    def set_group(self, written: AnyPodGroup, now: float) -> None:
        """A PodGroup came or changed."""
        self.gangs.set_group(written, now)

    def remove_group(self, name: str, now: float, unreadable: str = "") -> None:
        """A PodGroup is gone, or is `unreadable` for a reason."""
        self.gangs.remove_group(name, now, unreadable)

    def _is_another(self, key: str, pod: Pod) -> bool:
        """True if a pod of that name was known, and it was another one."""
        known = self.waiting.get(key) or self.state.bound.get(key)
        return known is not None and known.metadata.uid != pod.metadata.uid

    def _await(self, key: str, pod: Pod, now: float) -> None:
        known = self.waiting.get(key)
        self.waiting[key] = pod
        name = self._join(key, pod, now)
        if key in self.state.pods:
            return  # It has its place, and the bind is under way or done.
        if known is not None and _asks_the_same(known, pod):
            return
        for problem in (*self._problems_of(pod), *self._given_ranks.came(key, name, pod)):
            self.state.note(problem)
        if name:
            self.queue.remove(key)
            self.gangs.touch(name, now)
        elif pod.metadata.deletion_timestamp:
            self.queue.remove(key)
        else:
            self._put_pod(key, pod, now)

    def _problems_of(self, pod: Pod) -> list[ObjectRemark]:
        """What a pod asks for by labels and annotations, and does not get."""
        profile = self.profiles.get(pod.spec.scheduler_name or "")
        ignored = ignored_annotations(pod, profile.name, profile.filter_names) if profile is not None else []
        return [*(ignored or policy_problems(pod, self.state.classes.request_of)), *word_problems(pod)]

    def _join(self, key: str, pod: Pod, now: float) -> str:
        """Add a pod to the gang that it names, if any; the gang that it named before loses a member."""
        before, name = self.roster.gang_of(key), self.roster.set_member(pod)
        if before and before != name:
            self.gangs.touch(before, now)
        return name

    def stands_alone(self, key: str, now: float) -> None:
        """It has become known that a pod belongs to no gang."""
        pod = self.waiting.get(key)
        if pod is not None and key not in self.state.pods and not self.roster.gang_of(key):
            self._put_pod(key, pod, now)

    def _put_pod(self, key: str, pod: Pod, now: float) -> None:
        gated = bool(pod.spec.scheduling_gates) or self._expects_group(pod)
        created = self._created(key, now)
        tenant = namespace_of(pod)
        self.queue.put(key, priority=pod.spec.priority or 0, created=created, now=now, gated=gated, tenant=tenant)

    def _created(self, unit: str, now: float) -> float:
        """When a unit began to wait: a change does not make it younger."""
        known = self.queue.get(unit)
        return now if known is None else known.created

    def _leave_queue(self, key: str) -> None:
        if self.waiting.pop(key, None) is not None:
            self.queue.remove(key)

    # -- decisions ------------------------------------------------------------------------------------------------

    def next_may_be_long(self, now: float, at_limit: Collection[str] = ()) -> bool:
        """Whether the next decision may take long: it is about a gang or about a pod that says very much."""
        self.gangs.queue_touched(now)
        unit = self.queue.peek(now, at_limit)
        if unit is None:
            return False
        pod = self.waiting.get(unit.key)
        return unit.key.startswith(GANG) or (pod is not None and is_large(pod))

    def decide(self, now: float, at_limit: Collection[str] = ()) -> Action | None:
        """Decide about the next unit; None if no waiting unit has a chance. Namespaces that are `at_limit` are skipped."""
        self.gangs.queue_touched(now)
        to_tell = self.gangs.to_tell(now)
        if to_tell is not None:
            return to_tell
        unit = self.queue.pop(now, at_limit)
        while unit is not None:
            action = self._decide_about(unit, now)
            if action is not None:
                return action
            unit = self.queue.pop(now, at_limit)
        return None

    def _decide_about(self, unit: str, now: float) -> Action | None:
        """A decision whose time is charged to the unit's namespace."""
        began = self._stopwatch()
        known = self.queue.get(unit)
        tenant = known.tenant if known is not None else ""
        try:
            action = self.gangs.decide(unit, now) if unit.startswith(GANG) else self._decide_pod(unit, now)
        except Exception as error:  # noqa: BLE001 - a bug of ours that one unit brings to light must not stop all others
            action = self._give_up(unit, error, now)
        self.queue.tenants.charge(tenant, self._stopwatch() - began, now)
        if isinstance(action, Bind):
            self.queue.tenants.placed(tenant)
        return action

    def _give_up(self, unit: str, error: Exception, now: float) -> Unschedulable:
        """Nothing is taken for the unit, and it waits until it changes or is flushed."""
        pods = self.roster.waiting(unit.removeprefix(GANG)) if unit.startswith(GANG) else [self.waiting[unit]]
        for pod in pods:
            placed = self.state.pods.get(pod_key(pod))
            if placed is not None and not placed.confirmed:
                node = self.state.names[placed.row]
                self.state.forget(pod_key(pod))
                self.reports.unreserved(node, pod)
        self.queue.failed(unit, now, waits_for=ForItself(unit))
        reason = f"internal error: {type(error).__name__}: {error} (please report)"
        return Unschedulable(unit, tuple(pods), reason, invalid=True, traceback="".join(format_exception(error)))

    def _decide_pod(self, key: str, now: float) -> Action | None:
        pod = self.waiting.get(key)
        if pod is None or key in self.state.pods or pod.metadata.deletion_timestamp:
            self.queue.done(key)
            return None
        profile = self.profiles[pod.spec.scheduler_name or ""]
        try:
            decision = schedule_one(self.state, pod, profile, self.answers, explain=False)
        except InvalidObject as error:
            # Nothing but a change of the pod itself can help.
            self.queue.failed(key, now, waits_for=ForItself(key))
            return Unschedulable(key, (pod,), str(error), invalid=True)
        if self.reports.counts_refusals:
            for row in self.answers.rows_refused_for_zones(self.state.classes.of(pod), profile):
                self.reports.refused(self.state.names[row])
        if not decision.placed:
            waits_for = ForItself(key) if decision.held_back else self._waits_for(pod, profile)
            self.queue.failed(key, now, waits_for=waits_for)
            self._waking.parked(waits_for)
            return Unschedulable(key, (pod,), decision.held_back, decision)
        assume(self.state, decision, pod)
        self.reports.reserved(decision.node or "", pod)
        return Bind(key, (Assignment(pod, decision),))

    def _waits_for(self, pod: Pod, profile: Profile) -> Waits:
        """Room on a node; or, where nodes would take it, that other pods come or go."""
        pod_class = self.state.classes.of(pod)
        answer = self.answers.for_class(pod_class, profile)
        if not (answer.rank != NOT_USABLE).any():
            return ForRoom(profile.name, pod_class)
        metadata, spec = pod.metadata, pod.spec
        alike = (metadata.namespace, metadata.labels, spec.affinity, spec.topology_spread_constraints)
        wait_group = ForNeighbours(profile.name, pod_class, msgspec.json.encode(alike).decode())
        incoming = incoming_pod(self.state, pod, pod_class)
        if incoming is None:
            return wait_group
        namespaces = namespaces_that_matter(self.state, incoming.namespace, incoming.labels, incoming.terms)
        # If no pod is known to keep it away, any pod may.
        return wait_group if namespaces == NO_NAMESPACES else replace(wait_group, namespaces=namespaces, pod=incoming)

    def wake(self, now: float) -> None:
        """After news: units that these can help are tried again. Where very many wait, that is not looked into after every piece of news."""
        moment = self._waking.moment()
        if moment != self._woken_at and now >= self._wakes_from:
            self._woken_at = moment
            began = self._stopwatch()
            self._waking.wake(self.queue, now)
            took = self._stopwatch() - began
            self._wakes_from = now + min(took * REST_PER_SECOND_OF_WAKING, LONGEST_REST) if took > QUICK else now
            self.waking_takes = took

    def next_time(self) -> float | None:
        """When there is something to do even if no news come."""
        of_waking = None if self._waking.moment() == self._woken_at else self._wakes_from
        moments = (self.queue.next_time(), self.gangs.next_time(), of_waking)
        return min((moment for moment in moments if moment is not None), default=None)

    def is_assumed(self, pod: Pod, node: str) -> bool:
        """True if a pod's place is still kept for it: neither was given back nor has its node gone."""
        placed = self.state.pods.get(pod_key(pod))
        return self._still_waits(pod) and placed is not None and self.state.names[placed.row] == node

    # -- what came of a Bind --------------------------------------------------------------------------------------

    def bound(self, action: Bind, now: float) -> None:
        """Every bind of a unit is done. A gang is complete, and looked at once more: others may have arrived."""
        for assignment in action.assignments:
            self.reports.bound(assignment.node, assignment.pod)
        if action.unit.startswith(GANG):
            self.queue.done(action.unit)
            self.gangs.bound(action.unit.removeprefix(GANG), now)
        elif self._still_waits(action.assignments[0].pod):
            self.queue.done(action.unit)

    def not_bound(self, action: Bind, failed: Collection[Assignment], now: float) -> None:
        """Some binds of a unit definitely failed: release what was assumed for them, and retry pods that still exist."""
        for assignment in failed:
            self.reports.unreserved(assignment.node, assignment.pod)
            if self._still_waits(assignment.pod):
                self.state.forget(pod_key(assignment.pod))
                self._waking.pods_changed(namespace_of(assignment.pod))
        lost = {pod_key(assignment.pod) for assignment in failed}
        for assignment in action.assignments:
            if pod_key(assignment.pod) not in lost:
                self.reports.bound(assignment.node, assignment.pod)
        if action.unit.startswith(GANG):
            self.queue.retry(action.unit, now)
            self.gangs.touch(action.unit.removeprefix(GANG), now)
        elif self._still_waits(action.assignments[0].pod):
            # One that was deleted during its bind has no other: the queue forgets it when its turn comes.
            self.queue.retry(action.unit, now)

    def _still_waits(self, pod: Pod) -> bool:
        """True if this very pod waits. If not, what is assumed and queued under its name belongs to a successor, which has a bind of its own."""
        known = self.waiting.get(pod_key(pod))
        return known is not None and known.metadata.uid == pod.metadata.uid


def _looks_the_same(known: Pod, pod: Pod) -> bool:
    """True if a pod on a node has changed in nothing that others look at; its conditions, for example, change often."""
    before, after = known.metadata, pod.metadata
    return (
        known.spec.node_name == pod.spec.node_name
        and before.labels == after.labels
        and before.deletion_timestamp == after.deletion_timestamp
    )


def _asks_the_same(known: Pod, pod: Pod) -> bool:
    """True if a waiting pod has changed in nothing that a decision depends on; its conditions, for example, change often."""
    before, after = known.metadata, pod.metadata
    return (
        known.spec == pod.spec
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.deletion_timestamp == after.deletion_timestamp
    )
