"""Tell users why their pods wait: events, conditions and the status of PodGroups.

Refusals arrive faster than they can be explained, and the next attempt supersedes most. So only the latest refusal of
each unit is kept, and it is explained after a moment. While the pods of a gang still arrive, their number changes each
time: the PodGroup shows it every other second, and the pods only once it no longer changes. All members of a gang get
the condition; the PodGroup and a few members get events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from msgspec import structs

from bayplan.cluster.pods.terms import namespace_of
from bayplan.dialects.dialect import full_name
from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import Complete, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.late_room import EndedRoom
from bayplan.dispatch.units import GangUnit, Unit
from bayplan.extensions import BrokenExtension
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup as KubernetesPodGroup
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.conditions import ConditionWriter, Reason
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing.gang_status import GangProgress, GangStatusWriter, group_of
from bayplan.services.scheduler.announcing.remarks import ObjectRemarks, subject_of
from bayplan.services.scheduler.announcing.sentences import Sentences

logger = logging.getLogger(__name__)

# Seconds before a refusal is reported, and before that of a gang without a placement attempt.
REFUSED_FOR = 0.3
ARRIVING_FOR = 2.0
# Seconds an external pod grouper has before a pod reports what it waits for.
UNGROUPED_FOR = 3.0
# Seconds without a change before an incomplete gang gets events.
STUCK_FOR = 10.0
# A thousand members share one reason: only this many get events.
MEMBERS_WITH_EVENTS = 8
MAX_REMEMBERED = 50_000
CONDITIONS_PER_BATCH = 256


class _PendingRefusals:
    """The latest refusal of each unit, due `delay` seconds after the first; oldest first."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._by_unit: dict[Unit, tuple[float, Unschedulable]] = {}

    @property
    def next_time(self) -> float | None:
        return next((since + self._delay for since, _ in self._by_unit.values()), None)

    def put(self, refusal: Unschedulable, now: float) -> None:
        """Replace the unit's refusal. A pending unit keeps its time."""
        since, _ = self._by_unit.get(refusal.unit, (now, None))
        self._by_unit[refusal.unit] = (since, refusal)

    def put_anew(self, refusal: Unschedulable, now: float) -> None:
        """Replace the unit's refusal; another reason starts the delay again."""
        _, before = self._by_unit.get(refusal.unit, (now, refusal))
        if before.reason != refusal.reason:
            self.drop(refusal.unit)
        self.put(refusal, now)

    def drop(self, unit: Unit) -> None:
        self._by_unit.pop(unit, None)

    def clear(self) -> None:
        self._by_unit.clear()

    def take(self, now: float) -> Unschedulable | None:
        """Remove and return a refusal that is due."""
        if self.next_time is None or self.next_time > now:
            return None
        return self._by_unit.pop(next(iter(self._by_unit)))[1]


class Announcer:
    """Reports decisions on pods and PodGroups; `gangs` has the progress of gangs, `remarks` problems with objects.

    `where_asked` names the annotation behind a field of a PodGroup, `unlike_template` how one differs from its
    template.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        events: EventRecorder,
        conditions: ConditionWriter,
        gangs: GangStatusWriter,
        *,
        where_asked: Callable[[AnyPodGroup, str, str], str] = lambda *_: "",
        unlike_template: Callable[[KubernetesPodGroup], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.events = events
        self.gangs = GangProgress(dispatcher, gangs)
        self.remarks = ObjectRemarks(dispatcher, events, where_asked, unlike_template)
        self._conditions = conditions
        self._dispatcher = dispatcher
        self._sentences = Sentences(dispatcher)
        self._refused = _PendingRefusals(REFUSED_FOR)
        self._ungrouped = _PendingRefusals(UNGROUPED_FOR)
        # Undecided gangs: those whose status is due, and those that may be stuck.
        self._arriving = _PendingRefusals(ARRIVING_FOR)
        self._stuck = _PendingRefusals(STUCK_FOR)
        self._pending = (self._refused, self._ungrouped, self._arriving, self._stuck)
        # The last reason with numbers on the pods of each stuck gang.
        self._reported_in_full: BoundedDict[Unit, str] = BoundedDict(MAX_REMEMBERED)
        # By unit, conditions that are not written yet.
        self._conditions_due: dict[Unit, Iterator[tuple[Pod, str, Reason]]] = {}

    @property
    def next_time(self) -> float | None:
        """When the next explanation is due; None if none is pending."""
        times = [
            *(each.next_time for each in self._pending),
            self.gangs.next_time,
            0.0 if self._conditions_due else None,
        ]
        return min((moment for moment in times if moment is not None), default=None)

    def refused(self, refusal: Unschedulable, now: float) -> None:
        """A unit has no place; the explanation follows."""
        if refusal.undecided:
            self._refused.drop(refusal.unit)
            self._arriving.put(refusal, now)
            self._stuck.put_anew(refusal, now)
        else:
            self._arriving.drop(refusal.unit)
            self._stuck.drop(refusal.unit)
            self._refused.put(refusal, now)

    def not_grouped(self, refusal: Unschedulable, now: float) -> None:
        """A pod waits for an external pod grouper; reported if that takes long."""
        self._ungrouped.put(refusal, now)

    def not_bound(self, refusal: Unschedulable) -> None:
        """The API server refused a unit's binds. Reported at once, because the next attempt would withdraw it."""
        self._try(self._explain, refusal)

    def withdraw(self, unit: Unit) -> None:
        """Drop pending explanations of a unit: they are no longer true."""
        for each in self._pending:
            each.drop(unit)
        self._reported_in_full.pop(unit, None)
        self._conditions_due.pop(unit, None)
        if isinstance(unit, GangUnit):
            self.gangs.withdraw(unit.gang)

    def withdraw_all(self) -> None:
        """Drop all pending explanations: another replica leads."""
        for each in self._pending:
            each.clear()
        self.gangs.clear()
        self._reported_in_full.clear()
        self._conditions_due.clear()

    def placed(self, unit: Unit) -> None:
        """A unit has its place; `pod_placed` follows for each of its pods."""
        self.withdraw(unit)
        self.remarks.on_group(group_of(self._dispatcher, unit))

    def pod_placed(self, pod: Pod) -> None:
        """A pod of a placed unit is about to be bound."""
        self._conditions.forget(pod.metadata.uid)

    def complete(self, action: Complete) -> None:
        """Every pod that a gang needs has a node."""
        group = self.gangs.complete(action.gang)
        if group is not None:
            self.remarks.on_template(group)

    def room_ended(self, rooms: Iterable[EndedRoom]) -> None:
        """Room that was kept for later members of gangs is free for others: their time is over."""
        for room in rooms:
            members = "1 member" if room.members == 1 else f"{room.members} members"
            text = f"room for {members} was kept for {room.seconds:g} s; others can take it now"
            logger.info("kept room has expired", extra={"gang": room.gang, "members": room.members})
            group = self._dispatcher.roster.groups.get(room.gang)
            if group is not None:
                self.events.record(subject_of(group), "Warning", "RoomExpired", "Scheduling", text)

    async def explain_for(self, seconds: float, now: float, side_thread: SideThread) -> None:
        """Explain due refusals for a moment. Long searches for reasons run in the thread."""
        end = time.perf_counter() + seconds
        for due, explain in (
            (self._refused, self._explain),
            (self._ungrouped, self._explain),
            (self._arriving, self._explain_arriving),
            (self._stuck, self._explain_stuck),
        ):
            while time.perf_counter() < end and (refusal := due.take(now)) is not None:
                must_search = self._sentences.must_search(refusal)
                found = await side_thread.run(partial(self._with_reason, refusal, now)) if must_search else refusal
                if found is not None:
                    self._try(explain, found)
        while time.perf_counter() < end and await self.gangs.write_next(now, side_thread):
            pass
        while time.perf_counter() < end and (unit := next(iter(self._conditions_due), None)):
            self._write_conditions(unit)

    def _with_reason(self, refusal: Unschedulable, now: float) -> Unschedulable | None:
        """The refusal with its reason, or None after a bug. The pod's namespace is charged for the search."""
        began = time.perf_counter()
        try:
            return structs.replace(refusal, reason=self._sentences.of(refusal))
        except BrokenExtension as error:
            logger.exception("failed to explain refusal", extra={"unit": str(refusal.unit), "problem": str(error)})
            return structs.replace(refusal, reason=str(error))
        except Exception:
            logger.exception("failed to explain refusal", extra={"unit": str(refusal.unit)})
            return None
        finally:
            tenant = namespace_of(refusal.pods[0]) if refusal.pods else ""
            self._dispatcher.queue.tenants.bill(tenant, time.perf_counter() - began, now)

    @staticmethod
    def _try(explain: Callable[[Unschedulable], None], refusal: Unschedulable) -> None:
        """A bug in one explanation must not stop the scheduler."""
        try:
            explain(refusal)
        except Exception:
            logger.exception("failed to explain refusal", extra={"unit": str(refusal.unit)})

    def _explain(self, refusal: Unschedulable) -> None:
        text = self._sentences.of(refusal)
        logger.debug("unschedulable", extra={"unit": str(refusal.unit), "pods": len(refusal.pods), "why": text})
        self._record_events(refusal, text)
        self._write_status(refusal, text)

    def _explain_arriving(self, refusal: Unschedulable) -> None:
        """Each new pod changes the numbers: they go to the pods only once they no longer change."""
        reported = self._reported_in_full.get(refusal.unit) == refusal.reason
        # `waits for pods: 3 of 8 have arrived` without its numbers.
        on_pods = "" if reported else refusal.reason.partition(": ")[0]
        self._write_status(refusal, self._sentences.of(refusal), on_pods=on_pods)

    def _explain_stuck(self, refusal: Unschedulable) -> None:
        if self._dispatcher.queue.get(refusal.unit) is not None:  # else it is gone
            self._reported_in_full[refusal.unit] = refusal.reason
            self._explain(refusal)

    def _record_events(self, refusal: Unschedulable, text: str) -> None:
        """Events on the PodGroup and its owner, and on the pod or the first members."""
        group = group_of(self._dispatcher, refusal.unit)
        if group is not None:
            self.events.record(subject_of(group), "Warning", "FailedScheduling", "Scheduling", text)
            self.remarks.on_owner(group, refusal.gang.problem if refusal.gang is not None else "")
        for pod in _not_gated(refusal.pods)[:MEMBERS_WITH_EVENTS]:
            self.events.failed_scheduling(pod, _on_member(group, text))

    def _write_status(self, refusal: Unschedulable, text: str, on_pods: str = "") -> None:
        """The status of the PodGroup, and the condition of every pod without gates."""
        group = group_of(self._dispatcher, refusal.unit)
        if group is not None:
            self.remarks.on_group(group)
            self.remarks.on_template(group)
            self.gangs.refused(group, refusal, text)
        message = _on_member(group, on_pods or text)
        reason = _reason(refusal)
        self._conditions_due[refusal.unit] = ((pod, message, reason) for pod in _not_gated(refusal.pods))
        self._write_conditions(refusal.unit)

    def _write_conditions(self, unit: Unit) -> None:
        """Write one batch of a unit's conditions."""
        batch = list(islice(self._conditions_due[unit], CONDITIONS_PER_BATCH))
        for pod, message, reason in batch:
            self._conditions.unschedulable(pod, message, reason)
        if len(batch) < CONDITIONS_PER_BATCH:
            del self._conditions_due[unit]


def _reason(refusal: Unschedulable) -> Reason:
    """The condition's reason. A gang that waits for its pods, its PodGroup or a better place needs no new nodes."""
    if refusal.invalid:
        return "SchedulerError"
    waits = refusal.undecided or (refusal.gang is not None and bool(refusal.gang.waits))
    return "GangWaiting" if waits else "Unschedulable"


def _on_member(group: AnyPodGroup | None, text: str) -> str:
    """A message about a gang as its members show it."""
    return text if group is None else f"gang {full_name(group.metadata)}: {text}"


def _not_gated(pods: tuple[Pod, ...]) -> list[Pod]:
    """Gated pods keep the API server's own condition: autoscalers must not make room for them."""
    return [pod for pod in pods if not pod.spec.scheduling_gates]
