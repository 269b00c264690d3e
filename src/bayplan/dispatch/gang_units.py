"""Gangs as units of the queue: what is put, what is decided, and what becomes of a gang that has begun.

`dispatch/dispatcher.py` has all news and hands those about gangs over; a gang that something happened to is *touched*, and queued before the next
decision, so that a thousand pods that arrive make one unit. Deciding is `gangs/cycle.py`'s; here is what stands around it: who must have arrived, who
is held back, that a gang which is whole is told so until its PodGroup says it, and that one which began and cannot be completed makes room (`dispatch/partially_bound.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.reports.intake import ReportIntake
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dialects.members import has_begun
from bayplan.dialects.own import pod_group as own
from bayplan.dialects.own.members import Incomplete, who_is_left
from bayplan.dialects.registry import AnyPodGroup, dialect_of, dialect_of_gang, key_of
from bayplan.dispatch.actions import GANG, Action, Assignment, Bind, Complete, Release, Unschedulable
from bayplan.dispatch.partially_bound import PartiallyBound, all_are_here
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.waking import (
    NO_NAMESPACES,
    ForGang,
    ForItself,
    Namespaces,
    Waits,
    Waking,
    namespaces_that_matter,
)
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, waited_for
from bayplan.gangs.relations import may_concern
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.split_gangs import split_problem
from bayplan.gangs.trees import Trees
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup

# A gang of more pods is not looked at after every one of them that comes, changes or goes, but after a rest that grows with its size.
LARGE_GANG = 256
REST_PER_POD = 50e-6

REFUSED_AFTER_ALL = "counting found a place, but a kubelet there would refuse one of the pods"


class GangUnits:
    """The gangs of one dispatcher, whose parts it works on."""

    def __init__(
        self,
        state: ClusterState,
        reports: ReportIntake,
        roster: GangRoster,
        queue: SchedulingQueue,
        waking: Waking,
        schedulers: Mapping[str, GangScheduler],
        trees: Trees,
        *,
        completes_in: float,
        why_gang_waits: Callable[[AnyPodGroup], str],
        stopwatch: Callable[[], float],
    ) -> None:
        self.state = state
        self.reports = reports
        self.roster = roster
        self.queue = queue
        self.schedulers = schedulers
        self._trees = trees
        self._waking = waking
        # Why a gang is held back given its current PodGroup; empty if it is not.
        self._why_gang_waits = why_gang_waits
        # The caller provides the stopwatch; this module reads no clock.
        self._stopwatch = stopwatch
        self._partially_bound = PartiallyBound(completes_in)
        # Gangs that something happened to since the last decision, and when.
        self._touched: dict[str, float] = {}
        self._all_touched = False
        # When large gangs may be looked at again.
        self._rest_until: dict[str, float] = {}
        # Gangs without anything to decide, but whose pods may have changed.
        self._to_count: dict[str, None] = {}
        # When each gang was first queued. Members that come later are as old as their gang, so they go before younger units.
        self._first_queued: dict[str, float] = {}
        # Gangs that were complete too briefly for that to be reported.
        self._ended_untold: dict[str, None] = {}

    def touch(self, name: str, now: float) -> None:
        """Something happened to a gang or to one of its pods."""
        self._touched.setdefault(name, now)

    def touch_all(self) -> None:
        """A Topology or HyperNode changed, which any gang may name, or mean now. Thousands that come together are one change."""
        self._all_touched = True

    def set_group(self, written: AnyPodGroup, now: float) -> None:
        """A PodGroup came or changed."""
        known = self.roster.groups.get(key_of(written))
        name = self.roster.set_group(written)
        if dialect_of(written).was_complete(written):
            self._partially_bound.was_complete(name, written.metadata.uid, own.complete_since(written))
        if known is None or not _asks_for_the_same(known, written):
            self.touch(name, now)

    def remove_group(self, name: str, now: float, unreadable: str = "") -> None:
        """A PodGroup is gone, or is `unreadable` for a reason."""
        self.roster.remove_group(name, unreadable)
        self._partially_bound.has_no_group(name)
        self.touch(name, now)

    def queue_touched(self, now: float) -> None:
        """Put those into the queue that something happened to since the last decision."""
        if self._all_touched:
            self._all_touched = False
            for name in self.roster.names():
                self.touch(name, now)
        for name in [each for each in self._touched if self._may_look_at(each, now)]:
            # Taken out first: one that brings a bug of ours to light does not do so again at every decision.
            since = self._touched.pop(name)
            waiting, running = self.roster.waiting(name), self.roster.running(name)
            if not waiting and not running:
                if self._partially_bound.is_complete(name) and self._is_news(name, now):
                    self._ended_untold[name] = None
                self._partially_bound.forget(name)
                self._first_queued.pop(name, None)
                self._rest_until.pop(name, None)
                self.queue.remove(GANG + name)
                self._to_count[name] = None
            elif not waiting and self._is_of_another_scheduler(name, running):
                self.queue.remove(GANG + name)
            elif not waiting and self._partially_bound.is_told(name, self._uid(name)):
                self.queue.remove(GANG + name)
                self._to_count[name] = None
            else:
                priority = max((pod.spec.priority or 0 for pod in waiting), default=0)
                created = self._first_queued.setdefault(name, since)
                tenant = namespace_of((*waiting, *running)[0])
                self.queue.put(
                    GANG + name, priority=priority, created=created, now=now, pods=len(waiting), tenant=tenant
                )

    def _may_look_at(self, name: str, now: float) -> bool:
        """Whether a gang that changed may be looked at now."""
        if self._partially_bound.is_releasing(name):
            return False
        size = self.roster.size(name)
        if size > LARGE_GANG:
            if now < self._rest_until.get(name, now):
                return False
            self._rest_until[name] = now + size * REST_PER_POD
        return True

    def next_time(self) -> float | None:
        """When the next large gang may be looked at to which something happened."""
        return min((self._rest_until[name] for name in self._touched if name in self._rest_until), default=None)

    def to_count(self) -> Iterator[str]:
        """Gangs without waiting pods whose pods changed; each named once."""
        while self._to_count:
            name = next(iter(self._to_count))
            del self._to_count[name]
            yield name

    def to_tell(self, now: float) -> Complete | None:
        """A complete gang whose PodGroup still does not say so: the write may have failed, and the next scheduler would not know."""
        name = next(iter(self._ended_untold), None)
        if name is not None:
            del self._ended_untold[name]
            return Complete(name)
        name = self._partially_bound.to_tell_again(now)
        return None if name is None else Complete(name)

    def bound(self, name: str, now: float) -> None:
        """Every bind of a gang's plan is done, so it is complete, whatever of it has ended meanwhile."""
        self._partially_bound.all_bound(name)
        self.touch(name, now)

    def released(self, action: Release, deleted: Collection[Pod], now: float, *, refused: bool) -> None:
        """What came of a Release: pods that were deleted, and whether deleting the others was refused."""
        self._partially_bound.released(action.gang, deleted, now, refused=refused)
        self.touch(action.gang, now)

    def decide(self, unit: str, now: float) -> Action | None:
        """Decide about the gang whose turn it is."""
        name = unit.removeprefix(GANG)
        waiting, running = tuple(self.roster.waiting(name)), tuple(self.roster.running(name))
        self._partially_bound.look_at(name, (*waiting, *running))
        is_bound = any(pod_key(pod) in self.state.pods for pod in waiting)
        if is_bound or self._partially_bound.leaves_unseen(name, running):
            # Some are bound or deleted, and the news has not come yet: it brings the gang back here.
            self.queue.done(unit)
            return None
        if (
            self._partially_bound.is_complete(name)
            and has_begun(running, was_complete=True)
            and self._is_news(name, now)
        ):
            return self._complete(unit, now)
        written = self.roster.groups.get(name)
        why = self._why_gang_waits(written) if waiting and written is not None else ""
        if why:
            return self._wait(unit, running, now, Unschedulable(unit, waiting, why))
        try:
            gang = self.roster.gang(name)
            if isinstance(gang, Incomplete):
                return self._wait(unit, running, now, Unschedulable(unit, waiting, gang.reason))
            if not _lacks_somebody(gang):
                split = "" if self._partially_bound.is_told(name, self._uid(name)) else self._what_is_split(gang)
                if split:
                    return self._leave_split(unit, waiting, now, split)
                if self._is_news(name, now):
                    return self._complete(unit, now)
            if not gang.pods:
                self.queue.done(unit)
                return None
            return self._place(unit, gang, running, now)
        except InvalidObject as error:
            return self._wait(unit, running, now, Unschedulable(unit, waiting, str(error), invalid=True))

    def why_not_whole(self, name: str) -> str:
        """What keeps a gang none of whose members wait from being what it asks for: not all have come, or they are not in one domain. Empty if nothing does."""
        try:
            gang = self.roster.gang(name)
        except InvalidObject as error:
            return str(error)
        if isinstance(gang, Incomplete):
            return "" if self._partially_bound.is_complete(name) else gang.reason
        return self._what_is_split(gang)

    def who_is_left(self, name: str) -> str:
        """How many there are of those that a gang of ours needs, where it has lost some; empty if all are there."""
        written = self.roster.groups.get(name)
        return who_is_left(written, self.roster.running(name)) if isinstance(written, PodGroup) else ""

    def _what_is_split(self, gang: Gang) -> str:
        tree = self._trees.get(self._trees.name_for(gang)) if gang.names_levels else None
        return "" if tree is None else split_problem(gang, tree, self.state)

    def _leave_split(self, unit: str, waiting: tuple[Pod, ...], now: float, why: str) -> Unschedulable:
        """Refuse a gang whose required pods all got their nodes from another component: no pod is released for that, and none joins."""
        waits_for = ForItself(unit)
        self.queue.failed(unit, now, waits_for=waits_for)
        self._waking.parked(waits_for)
        return Unschedulable(unit, waiting, why)

    def _is_news(self, name: str, now: float) -> bool:
        """A gang is complete; True if its PodGroup has not been told yet."""
        is_news = self._partially_bound.completed(name, self._uid(name), now)
        if is_news and not self._is_ours(name):
            self._partially_bound.need_not_show(name)
        return is_news

    def _complete(self, unit: str, now: float) -> Complete:
        """Others of the gang may wait still."""
        name = unit.removeprefix(GANG)
        self.queue.done(unit)
        self.touch(name, now)
        return Complete(name)

    def _place(self, unit: str, gang: Gang, running: tuple[Pod, ...], now: float) -> Action:
        pods = {pod_key(pod): pod for pod in gang.pods}
        waiting = tuple(pods.values())
        beyond_need = not _lacks_somebody(gang)
        held = next((pod for pod in waiting if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp), None)
        if held is not None:
            why = "is being deleted" if held.metadata.deletion_timestamp else "waits for its scheduling gates"
            refusal = Unschedulable(unit, waiting, f"pod {pod_key(held)} {why}", beyond_need=beyond_need)
            return self._wait(unit, running, now, refusal)
        began = self._stopwatch()
        scheduler = self.schedulers[gang.pods[0].spec.scheduler_name or ""]
        known = self.queue.get(unit)
        # Only gangs with patience need this; timestamps of thousands of pods take milliseconds to read.
        waited = waited_for(gang, now, known.first_seen if known is not None else now) if gang.patience else 0.0
        decision = schedule_gang(scheduler, gang, waited or 0.0)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else None
        if taken is not None:
            for each in taken:
                self.reports.reserved(each.node or "", pods[each.pod])
            seats = zip(taken, decision.seats, strict=True)
            return Bind(unit, tuple(Assignment(pods[each.pod], each, seat) for each, seat in seats))
        reason = REFUSED_AFTER_ALL if decision.placed else ""
        patience_ends = now + decision.patience_left if decision.waits else None
        refusal = Unschedulable(unit, waiting, reason, gang=decision, beyond_need=beyond_need)
        waits_for = ForGang(scheduler.profile.name, gang, self._namespaces(scheduler, gang))
        took = self._stopwatch() - began
        return self._wait(unit, running, now, refusal, waits_for, took=took, again_at=patience_ends)

    def _wait(
        self,
        unit: str,
        running: tuple[Pod, ...],
        now: float,
        refusal: Unschedulable,
        waits_for: Waits | None = None,
        *,
        took: float = 0.0,
        again_at: float | None = None,
    ) -> Action:
        """A gang has no place. One that began long ago and was never whole gives up what it has, and is left alone until it has."""
        name = unit.removeprefix(GANG)
        ours = self._partially_bound.to_release(name, running, now, in_doubt=not self._was_never_whole(name))
        if ours:
            self.queue.done(unit)
            return Release(name, ours, refusal.reason or (refusal.gang.bound if refusal.gang else ""))
        looks = [moment for moment in (again_at, self._partially_bound.next_look(name)) if moment is not None]
        waits_for = waits_for or ForItself(unit)
        # Late members of a gang that has started are tried as soon as there may be room; others do not pass them.
        hit_limit = refusal.gang is not None and refusal.gang.status is Status.LIMIT_REACHED
        self.queue.failed(
            unit,
            now,
            waits_for=waits_for,
            took=took,
            again_at=min(looks, default=None),
            eager=bool(running),
            hit_limit=hit_limit,
        )
        self._waking.parked(waits_for)
        return refusal

    def _namespaces(self, scheduler: GangScheduler, gang: Gang) -> Namespaces:
        """Where pods are that may keep a gang out."""
        found = NO_NAMESPACES
        if may_concern(self.state, gang, scheduler.profile):
            for member in scheduler.members(gang):
                of_member = namespaces_that_matter(self.state, member.namespace, member.labels, member.terms)
                if of_member is None:
                    return None
                found |= of_member
        return found

    def _was_never_whole(self, name: str) -> bool:
        """True if there can be no doubt about it."""
        written = self.roster.groups.get(name)
        members = (*self.roster.waiting(name), *self.roster.running(name))
        return isinstance(written, PodGroup) and all_are_here(written.spec, members)

    def _uid(self, name: str) -> str:
        """The uid of a gang's PodGroup; empty if there is none."""
        written = self.roster.groups.get(name)
        return "" if written is None else written.metadata.uid

    def _is_of_another_scheduler(self, name: str, running: Iterable[Pod]) -> bool:
        """True of another system's gang that its own scheduler has placed, beside which this one works: its status is for that one to write."""
        ours = any(pod.spec.scheduler_name in self.schedulers for pod in running)
        return not ours and dialect_of_gang(name) is not own.DIALECT

    def _is_ours(self, name: str) -> bool:
        """Whether pods of other systems' gangs are created again, and whether theirs were whole once, is not for us to know.

        Nor is it for one of ours once its PodGroup is gone.
        """
        return dialect_of_gang(name) is own.DIALECT and name in self.roster.groups


def _lacks_somebody(gang: Gang) -> bool:
    """True if pods that a gang needs have no node."""
    return any(group.least for group in gang.whole.every_group())


def _asks_for_the_same(known: AnyPodGroup, written: AnyPodGroup) -> bool:
    """True if a PodGroup has changed in its status alone, which we write ourselves."""
    before, after = known.metadata, written.metadata
    return known.spec == written.spec and (before.uid, before.annotations) == (after.uid, after.annotations)
