"""The scheduler without its edges: watch events in, actions out. No I/O, no clock, no threads.

    set_node, set_pod, ...  update the cluster state, the roster of gangs and the queue
    decide(now) -> Bind           every pod of the unit has a place, and its amounts are assumed
                -> Unschedulable  no place now; the unit is parked until an event can help
                -> Complete       every pod that a gang needs has a node; the caller records it
                -> Release        a partially bound gang that cannot be completed; the caller deletes its pods
    bound, not_bound, gangs.released  report the outcome of a Bind or a Release

A *unit* is decided as a whole: a single pod (`pod_units.py`) or a gang (`gang_units.py`). A problem with an object is
reported on that object and does not affect others. `services/scheduler/` runs this against an API server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from traceback import format_exception

from bayplan.cluster.pods.pod_class import is_large
from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.state import TERMINAL_PHASES, pod_key
from bayplan.cluster.volumes.claims import claims_of
from bayplan.dialects.registry import AnyPodGroup, gang_named
from bayplan.dispatch.actions import INTERNAL_ERROR, Action, Assignment, Bind, Unschedulable
from bayplan.dispatch.core import Core, new_core
from bayplan.dispatch.gang_units import GangUnits
from bayplan.dispatch.pod_units import PodUnits
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import GangUnit, Unit
from bayplan.dispatch.waking import ForItself, Waker
from bayplan.extensions import BrokenExtension
from bayplan.kube.object_set import StorageObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.kube.wire.volcano_topology_v1alpha1 import HyperNode
from bayplan.scheduling.profile import Profile


class Dispatcher:
    """The cluster as the scheduler knows it, and the units that wait for a decision.

    It has many methods because each kind of watch event and each outcome has one; most pass it on in a line or two.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        completes_in: float = 60.0,
        keeps_room_for: float = 300.0,
        expects_group: Callable[[Pod], bool] = lambda _: False,
        why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "",
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        queue = SchedulingQueue(initial_backoff=initial_backoff, max_backoff=max_backoff)
        self._core = core = new_core(profiles, queue, stopwatch, keeps_room_for)
        self.profiles = profiles
        self.state = core.state
        self.reports = core.reports
        self.trees = core.trees
        self.answers = core.answers
        self.roster = core.roster
        self.queue = core.queue
        self.pods = PodUnits(core, expects_group)
        self.waiting = self.pods.waiting
        self.gangs = GangUnits(core, completes_in, why_gang_waits)
        self.preempting = core.preempting
        self.late = core.late
        self.waker = Waker(core.waking, queue, stopwatch)

    # -- watch events ---------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, now: float) -> None:
        """Take in a new or changed pod. Raises `InvalidObject` if a bound pod has invalid amounts."""
        key = pod_key(pod)
        known = self.waiting.get(key) or self.state.bound.get(key)
        has_ended = pod.status is not None and pod.status.phase in TERMINAL_PHASES
        if has_ended or (known is not None and known.metadata.uid != pod.metadata.uid):
            self.remove_pod(key, now, replaced=not has_ended or _may_return(pod))
        if has_ended:
            return
        waits_here = not pod.spec.node_name and pod.spec.scheduler_name in self.profiles
        gang_before = self.roster.gang_of(key)
        if waits_here and self.pods.awaits_grouper(pod):
            gang = ""
            self.roster.remove_member(key)
        else:
            gang = self.roster.set_member(pod) if pod.spec.node_name or waits_here else self.roster.set_stranger(pod)
        if gang_before and gang_before != gang:
            self.gangs.touch(gang_before, now)
        is_news = True
        if waits_here:
            is_news = self.pods.set(key, pod, gang, now)
        else:
            self.pods.remove(key)
        if pod.spec.node_name:
            before = self.state.bound.get(key)
            self.state.set_pod(pod, at=now)
            self.reports.pod_changed(pod)
            if before is None or not _looks_the_same(before, pod):
                self._core.waking.pods_changed(namespace_of(pod))
        if gang and is_news:
            self.gangs.touch(gang, now)

    def ungrouped(self, key: str, now: float) -> None:
        """The pod grouper leaves a pod as it is: alone, or in the gang that it names itself."""
        pod = self.waiting.get(key)
        if pod is not None and gang_named(pod) and not self.roster.gang_of(key):
            self.pods.remove(key)
            self.set_pod(pod, now)
        else:
            self.pods.ungrouped(key, now)

    def remove_pod(self, key: str, now: float, *, replaced: bool = True) -> None:
        """A pod ended or was deleted; `replaced` is False if it will certainly not be replaced on its node."""
        bound = self.state.bound.get(key)
        self.pods.withdraw_remarks(key)
        self.pods.remove(key)
        gang = self.roster.remove_member(key)
        self.state.remove_pod(key, at=now)
        for unit in self._core.preempting.pod_gone(key, now):
            self.queue.wake(ForItself(unit), now)
        if bound is not None:
            self.reports.pod_changed(bound)
            self.pods.by_claim.changed(claim for claim, _ in claims_of(bound))
        self._core.waking.pods_changed(key.partition("/")[0])
        if gang:
            if bound is not None and replaced:
                self.gangs.late_members.lost(gang, bound)
            self.gangs.touch(gang, now)

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a namespace and its labels, which pod affinity terms can select."""
        if self.state.neighbours.labels_of_namespace(name) != labels:
            self.state.neighbours.set_namespace(name, labels)
            self._core.waking.pods_changed(name)

    def remove_namespace(self, name: str) -> None:
        """A namespace was deleted."""
        self.state.neighbours.remove_namespace(name)
        self.queue.tenants.gone(name)
        self._core.waking.namespace_gone(name)

    def set_storage(self, thing: StorageObject) -> None:
        """A claim, a volume, a class or what a CSI driver says was created or changed."""
        self.pods.by_claim.changed(self.state.volumes.set(thing))

    def remove_storage(self, kind: type[StorageObject], key: str) -> None:
        """A storage object was deleted."""
        self.pods.by_claim.changed(self.state.volumes.remove(kind, key))

    def _queue_changed(self, now: float) -> None:
        """Queue the gangs that changed since the last decision, and pods whose claims did."""
        for key in self.pods.by_claim.due(now):
            gang = self.roster.gang_of(key)
            if gang:
                self.gangs.touch(gang, now)
            else:
                self.pods.ungrouped(key, now)
        self.gangs.queue_touched(now)

    def resync(self, now: float) -> None:
        """Settle promises and end the wait for first reports; call every `reports.resync_period` seconds."""
        self.state.time_passed(now)
        self.reports.resync(now)

    def set_levels(
        self, name: str, levels: tuple[str, ...] | None, aliases: Mapping[str, str] | None = None, system: str = ""
    ) -> None:
        """A Topology of a `system` was created or changed, or deleted if `levels` is None."""
        if levels is None:
            self.trees.remove(name, system)
        else:
            self.trees.set(name, levels, aliases or {}, system)
        self.gangs.touch_all()

    def set_hyper_node(self, written: HyperNode) -> None:
        """A HyperNode was created or changed."""
        if self.trees.set_hyper_node(written):
            self.gangs.touch_all()

    def remove_hyper_node(self, name: str) -> None:
        """A HyperNode was deleted."""
        self.trees.remove_hyper_node(name)
        self.gangs.touch_all()

    def set_group(self, written: AnyPodGroup, now: float) -> None:
        """A PodGroup was created or changed."""
        self.gangs.set_group(written, now)

    def remove_group(self, name: str, now: float, unreadable: str = "") -> None:
        """A PodGroup was deleted, or is `unreadable` for this reason."""
        self.gangs.remove_group(name, now, unreadable)

    def set_budget(self, written: PodDisruptionBudget) -> None:
        """Take in a PodDisruptionBudget. Raises `InvalidObject` if its selector is invalid."""
        self.preempting.budgets.set(written)

    def remove_budget(self, key: str) -> None:
        """A PodDisruptionBudget was deleted."""
        self.preempting.budgets.remove(key)

    # -- decisions ------------------------------------------------------------------------------------------------

    def next_may_be_long(self, now: float, at_limit: Collection[str] = ()) -> bool:
        """True if the next decision can take long, because it concerns a gang or a very large pod object."""
        self._queue_changed(now)
        queued = self.queue.peek(now, at_limit)
        if queued is None or isinstance(queued.unit, GangUnit):
            return queued is not None
        pod = self.waiting.get(queued.unit.pod)
        return pod is not None and is_large(pod)

    def decide(self, now: float, at_limit: Collection[str] = ()) -> Action | None:
        """Decide about the next unit; None if no unit is due. Namespaces that are `at_limit` are skipped."""
        self._queue_changed(now)
        for nominated in self._core.preempting.nominations.changed():
            self.queue.wake(ForItself(nominated), now)
        completion = self.gangs.next_completion(now)
        if completion is not None:
            return completion
        while (unit := self.queue.pop(now, at_limit)) is not None:
            action = self._decide_unit(unit, now)
            if action is not None:
                return action
        return None

    def _decide_unit(self, unit: Unit, now: float) -> Action | None:
        """Decide about one unit and charge the time to its namespace."""
        stopwatch, tenants = self._core.stopwatch, self.queue.tenants
        began = stopwatch()
        known = self.queue.get(unit)
        tenant = known.tenant if known is not None else ""
        self._core.preempting.resume(unit)
        try:
            action = self.gangs.decide(unit, now) if isinstance(unit, GangUnit) else self.pods.decide(unit, now)
        except Exception as error:  # noqa: BLE001 - a bug triggered by one unit must not block the others
            self._core.settle_after_failure(now)
            pods = self.roster.waiting(unit.gang) if isinstance(unit, GangUnit) else [self.waiting[unit.pod]]
            action = _give_up(self._core, unit, pods, error, now)
        self._core.preempting.settle(unit, action)
        tenants.bill(tenant, stopwatch() - began, now)
        if isinstance(action, Bind):
            tenants.placed(tenant)
        return action

    def wake(self, now: float) -> None:
        """Drop expired kept room, and retry parked units that recent events can help."""
        self.late.expire(now)
        self.waker.wake(now)

    def next_time(self) -> float | None:
        """When the next decision is due if no event arrives first; None if none is."""
        units = (self.queue.next_time(), self.gangs.next_time(), self.waker.next_time())
        times = (*units, self.pods.by_claim.next_time(), self.late.next_time())
        return min((time for time in times if time is not None), default=None)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def bound(self, action: Bind, now: float) -> None:
        """Every bind of a unit succeeded. A gang is complete; it is decided once more, as members may have arrived."""
        for assignment in action.assignments:
            self.reports.bound(assignment.node, assignment.pod)
        if isinstance(action.unit, GangUnit):
            self.queue.done(action.unit)
            self.gangs.bound(action.unit.gang, now)
        elif self.pods.still_waits(action.assignments[0].pod):
            self.queue.done(action.unit)

    def not_bound(self, action: Bind, failed: Collection[Assignment], now: float) -> None:
        """Some binds of a unit failed: forget what was assumed for them, and retry pods that still exist."""
        for assignment in failed:
            self.reports.unreserved(assignment.node, assignment.pod)
            if self.pods.still_waits(assignment.pod):
                self.state.forget(pod_key(assignment.pod))
                self._core.waking.pods_changed(namespace_of(assignment.pod))
                self.pods.by_claim.changed(claim for claim, _ in claims_of(assignment.pod))
        lost = {pod_key(assignment.pod) for assignment in failed}
        for assignment in action.assignments:
            if pod_key(assignment.pod) not in lost:
                self.reports.bound(assignment.node, assignment.pod)
        if isinstance(action.unit, GangUnit):
            self.queue.retry(action.unit, now)
            # The next attempt may choose another domain.
            self.late.drop(action.unit.gang)
            self.gangs.touch(action.unit.gang, now)
        elif self.pods.still_waits(action.assignments[0].pod):
            # If the pod was deleted during its bind, the queue drops it when its turn comes.
            self.queue.retry(action.unit, now)

    def not_evicted(self, refused: Collection[str], now: float) -> None:
        """The API server refused to evict some pods: units that counted on them plan again."""
        for unit in self.preempting.not_evicted(refused, now):
            self.queue.wake(ForItself(unit), now)


def _give_up(core: Core, unit: Unit, pods: Collection[Pod], error: Exception, now: float) -> Unschedulable:
    """Roll back what was assumed for a unit, and park it until it changes or is flushed."""
    for pod in pods:
        core.forget_assumed(pod)
    core.park(unit, ForItself(unit), now)
    bug = f"{INTERNAL_ERROR}: {type(error).__name__}: {error} (please report)"
    reason = str(error) if isinstance(error, BrokenExtension) else bug
    return Unschedulable(unit, tuple(pods), reason, invalid=True, traceback="".join(format_exception(error)))


def _may_return(ended: Pod) -> bool:
    """True if another pod may follow on the same node: this one neither succeeded nor was ended by the kubelet."""
    return ended.status is not None and ended.status.phase == "Failed" and not ended.status.reason


def _looks_the_same(known: Pod, pod: Pod) -> bool:
    """True if nothing changed in a bound pod that other pods depend on; conditions change often."""
    before, after = known.metadata, pod.metadata
    return (
        known.spec.node_name == pod.spec.node_name
        and before.labels == after.labels
        and before.deletion_timestamp == after.deletion_timestamp
    )
