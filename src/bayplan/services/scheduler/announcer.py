"""Tells users why their pods wait and what is wrong with their objects: events, conditions and the log.

Refusals come in faster than they can be put into words, and most are overtaken by the next attempt. So only the latest of each unit is kept, and it
is explained after a moment, when there is time. A gang whose pods still arrive waits for another number of them each time: that is written on its
PodGroup every other second, its pods have one condition without numbers, and only if nothing has come for a while the numbers are told there too, and in events. So are the numbers of
one that is complete, whose pods begin to run, end and are replaced. Of a gang the
PodGroup and a few members get events; all members have the condition. A problem with an object is told once, when it appears.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from msgspec import structs

from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.reports.topology_report import ObjectRemark
from bayplan.dialects.dialect import full_name
from bayplan.dialects.progress import NO_MEMBERS
from bayplan.dialects.redundant_levels import redundant_levels
from bayplan.dialects.registry import AnyPodGroup, remarks_on
from bayplan.dispatch.actions import GANG, Complete, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.gangs.checks import Naming, naming_in
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, NUMATOPOLOGIES, PODS, pod_groups
from bayplan.kube.wire.core_v1 import OwnerReference, Pod
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup
from bayplan.kube.wire.scheduling_v1alpha2 import PodGroup as KubernetesPodGroup
from bayplan.services.edges.conditions import ConditionWriter, Reason
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.gang_writes import WAITS_FOR_PODS, GangStatusWriter
from bayplan.services.scheduler.words import Sentences

logger = logging.getLogger(__name__)

# A node's reports, as problems with objects name them and as problems with fields do.
NODE_REPORTS = {name for each in (NODE_RESOURCE_TOPOLOGIES, NUMATOPOLOGIES, NODES) for name in (str(each), each.kind)}
# How long a refusal must stand before it is reported, and how long that of a gang without a placement attempt.
STANDS_FOR = 0.3
ARRIVES_FOR = 2.0
# How long an external pod grouper has for a pod before the pod is told what it waits for.
GROUPED_WITHIN = 3.0
# So long nothing must have changed about such a gang before it is worth an event.
STUCK_FOR = 10.0
# A thousand members share one reason: only this many of them get events about it.
MEMBERS_WITH_EVENTS = 8
MOST_REMEMBERED = 50_000
# Conditions that are written in one go.
CONDITIONS_AT_ONCE = 256


class _Refused:
    """The latest refusal of each unit, to be told when it is so old; the oldest first."""

    def __init__(self, told_after: float) -> None:
        self._told_after = told_after
        self._by_unit: dict[str, tuple[float, Unschedulable]] = {}

    @property
    def next_time(self) -> float | None:
        return next((since + self._told_after for since, _ in self._by_unit.values()), None)

    def put(self, refusal: Unschedulable, now: float) -> None:
        """A unit that waits to be told already waits no longer because of this."""
        since, _ = self._by_unit.get(refusal.unit, (now, None))
        self._by_unit[refusal.unit] = (since, refusal)

    def put_anew(self, refusal: Unschedulable, now: float) -> None:
        """One that says something else than the last begins to wait again."""
        _, before = self._by_unit.get(refusal.unit, (now, refusal))
        if before.reason != refusal.reason:
            self.drop(refusal.unit)
        self.put(refusal, now)

    def drop(self, unit: str) -> None:
        self._by_unit.pop(unit, None)

    def clear(self) -> None:
        self._by_unit.clear()

    def take(self, now: float) -> Unschedulable | None:
        """One that is due."""
        if self.next_time is None or self.next_time > now:
            return None
        return self._by_unit.pop(next(iter(self._by_unit)))[1]


class Announcer:
    """Reports the dispatcher's decisions on the objects concerned."""

    def __init__(
        self, dispatcher: Dispatcher, events: EventRecorder, conditions: ConditionWriter, gangs: GangStatusWriter
    ) -> None:
        self.events = events
        self.conditions = conditions
        self._gangs = gangs
        self._dispatcher = dispatcher
        self._sentences = Sentences(dispatcher)
        self._refused = _Refused(STANDS_FOR)
        # Pods that wait for a pod grouper elsewhere.
        self._ungrouped = _Refused(GROUPED_WITHIN)
        # Gangs that are undecided: those whose state is to be written, and those that may be stuck.
        self._arriving = _Refused(ARRIVES_FOR)
        self._stuck = _Refused(STUCK_FOR)
        self._waiting_to_be_told = (self._refused, self._ungrouped, self._arriving, self._stuck)
        # What the pods of those that are stuck have been told, with its numbers.
        self._told_in_full: dict[str, str] = {}
        # By unit, the conditions of its pods that are still to be written.
        self._conditions_due: dict[str, Iterator[tuple[Pod, str, Reason]]] = {}
        # Complete gangs whose pods are to be counted again, and since when.
        self._to_count: dict[str, float] = {}
        # Where a PodGroup's owner asks for the value of a field, if known.
        self.where_asked: Callable[[AnyPodGroup, str, str], str] = lambda *_: ""
        self._told: dict[str, str] = {}
        # Of each PodGroup, by uid, what its owner was told last.
        self._told_owners: dict[str, str] = {}
        # In what one of Kubernetes' PodGroups says something else than the template that it names.
        self.unlike_template: Callable[[KubernetesPodGroup], tuple[str, ...]] = lambda _: ()
        # Of each PodGroup, by uid and what it is about, what was remarked.
        self._remarked: dict[tuple[str, str], tuple[object, ...]] = {}

    @property
    def next_time(self) -> float | None:
        """When the next explanation is due; None if none is pending."""
        times = [each.next_time for each in self._waiting_to_be_told]
        times.append(next((since + ARRIVES_FOR for since in self._to_count.values()), None))
        times.append(0.0 if self._conditions_due else None)
        return min((moment for moment in times if moment is not None), default=None)

    def refused(self, refusal: Unschedulable, now: float) -> None:
        """A unit has no place; why is said soon."""
        if refusal.undecided:
            self._refused.drop(refusal.unit)
            self._arriving.put(refusal, now)
            self._stuck.put_anew(refusal, now)
        else:
            self._arriving.drop(refusal.unit)
            self._stuck.drop(refusal.unit)
            self._refused.put(refusal, now)

    def not_grouped(self, refusal: Unschedulable, now: float) -> None:
        """A pod waits for a pod grouper elsewhere; that is said if it takes long."""
        self._ungrouped.put(refusal, now)

    def not_bound(self, refusal: Unschedulable) -> None:
        """The API server does not take a unit's binds. Told at once: the next attempt, which may come soon, would withdraw it."""
        self._try(self._explain, refusal)

    def withdraw(self, unit: str) -> None:
        """What was to be said about a unit is no longer true."""
        for each in self._waiting_to_be_told:
            each.drop(unit)
        self._told_in_full.pop(unit, None)
        self._conditions_due.pop(unit, None)

    def withdraw_all(self) -> None:
        """Another instance leads, and says what there is to say."""
        for each in self._waiting_to_be_told:
            each.clear()
        self._told_in_full.clear()
        self._to_count.clear()
        self._conditions_due.clear()

    def placed(self, unit: str, pods: list[Pod]) -> None:
        """A unit has its place: what was to be said about it is no longer true."""
        self.withdraw(unit)
        self._remark(unit)
        for pod in pods:
            self.conditions.forget(pod.metadata.uid)

    async def explain_for(self, seconds: float, now: float, aside: SideThread) -> None:
        """Explain for a moment what is due, at least one refusal. Reasons are looked for `aside`, and that is charged to the pod's namespace."""
        end = time.perf_counter() + seconds
        for due, explain in (
            (self._refused, self._explain),
            (self._ungrouped, self._explain),
            (self._arriving, self._explain_arriving),
            (self._stuck, self._explain_stuck),
        ):
            while time.perf_counter() < end and (refusal := due.take(now)) is not None:
                must_look = self._sentences.must_look(refusal)
                told = await aside.run(partial(self._in_words, refusal, now)) if must_look else refusal
                if told is not None:
                    self._try(explain, told)
        while time.perf_counter() < end and (gang := self._due_to_count(now)):
            self._write_count(gang)
        while time.perf_counter() < end and (unit := next(iter(self._conditions_due), "")):
            self._write_conditions(unit)

    def _in_words(self, refusal: Unschedulable, now: float) -> Unschedulable | None:
        """A refusal with its reason in words; None if a bug of ours keeps it from being found."""
        began = time.perf_counter()
        try:
            return structs.replace(refusal, reason=self._sentences.of(refusal))
        except Exception:
            logger.exception("a refusal cannot be explained", extra={"unit": refusal.unit})
            return None
        finally:
            tenant = namespace_of(refusal.pods[0]) if refusal.pods else ""
            self._dispatcher.queue.tenants.charge(tenant, time.perf_counter() - began, now)

    @staticmethod
    def _try(explain: Callable[[Unschedulable], None], refusal: Unschedulable) -> None:
        """A bug in one explanation must not stop the scheduler."""
        try:
            explain(refusal)
        except Exception:
            logger.exception("a refusal cannot be explained", extra={"unit": refusal.unit})

    def count(self, gangs: Iterable[str], now: float) -> None:
        """Schedule a count for gangs without waiting pods whose pods changed; it is written soon."""
        for gang in gangs:
            self._to_count.setdefault(gang, now)

    def _due_to_count(self, now: float) -> str:
        gang, since = next(iter(self._to_count.items()), ("", now))
        if not gang or now < since + ARRIVES_FOR:
            return ""
        del self._to_count[gang]
        return gang

    def _write_count(self, gang: str) -> None:
        """Write the counts to the PodGroup; if pods wait again, the next refusal reports that."""
        written, counts = self._group_of(GANG + gang), self._dispatcher.roster.counts(gang)
        if written is None:
            return
        if not counts.members:
            self._gangs.has_nobody(written)
        elif counts.members == counts.scheduled:
            broken = self._dispatcher.gangs.why_not_whole(gang)
            left = self._dispatcher.gangs.who_is_left(gang)
            if broken:
                self._gangs.waits(written, broken, counts, invalid=False)
            else:
                # Who has ended and who was deleted look alike from here: their owner knows, and replaces those that it misses.
                self._gangs.stands(
                    written, counts, f"{left} are left, the others ended or were deleted" if left else ""
                )

    def complete(self, action: Complete) -> None:
        """Every pod that a gang needs has a node: that is written on its PodGroup."""
        written = self._group_of(GANG + action.gang)
        if written is not None:
            self._compare_with_template(written)
            self._to_count.pop(action.gang, None)
            self._gangs.complete(written, self._dispatcher.roster.counts(action.gang))

    def let_in(self, groups: Iterable[AnyPodGroup]) -> None:
        """Groups whose pods are created only after a scheduler has said that it knows of them."""
        for written in groups:
            self._gangs.waits(written, WAITS_FOR_PODS, NO_MEMBERS)

    def _explain(self, refusal: Unschedulable) -> None:
        text = self._sentences.of(refusal)
        logger.debug("no place", extra={"unit": refusal.unit, "pods": len(refusal.pods), "why": text})
        self._say(refusal, text)
        self._write_state(refusal, text)

    def _explain_arriving(self, refusal: Unschedulable) -> None:
        """Every pod that comes changes the numbers: pods are told them only when they stand still."""
        is_told = self._told_in_full.get(refusal.unit) == refusal.reason
        on_pods = "" if is_told else _without_numbers(refusal.reason)
        self._write_state(refusal, self._sentences.of(refusal), on_pods=on_pods)

    def _explain_stuck(self, refusal: Unschedulable) -> None:
        # It may be gone since it was refused.
        if self._dispatcher.queue.get(refusal.unit) is not None:
            self._told_in_full[refusal.unit] = refusal.reason
            if len(self._told_in_full) > MOST_REMEMBERED:
                self._told_in_full.pop(next(iter(self._told_in_full)))
            self._explain(refusal)

    def _write_state(self, refusal: Unschedulable, text: str, on_pods: str = "") -> None:
        """The status of the PodGroup, and the condition of every pod but those behind gates."""
        written = self._group_of(refusal.unit)
        if written is not None:
            self._remark(refusal.unit)
            self._compare_with_template(written)
            counts = self._dispatcher.roster.counts(refusal.unit.removeprefix(GANG))
            if refusal.beyond_need:
                self._gangs.stands(written, counts, f"{_more_wait(len(refusal.pods))}: {text}")
            else:
                self._gangs.waits(written, text, counts, invalid=refusal.invalid)
        reason: Reason = "SchedulerError" if refusal.invalid else "Unschedulable"
        said = _of_member(written, on_pods or text)
        self._conditions_due[refusal.unit] = ((pod, said, reason) for pod in _not_gated(refusal.pods))
        self._write_conditions(refusal.unit)

    def _write_conditions(self, unit: str) -> None:
        """The conditions of some pods of a unit; the others have their turn later."""
        due = self._conditions_due[unit]
        written = 0
        for pod, said, reason in islice(due, CONDITIONS_AT_ONCE):
            self.conditions.unschedulable(pod, said, reason)
            written += 1
        if written < CONDITIONS_AT_ONCE:
            del self._conditions_due[unit]

    def _say(self, refusal: Unschedulable, text: str) -> None:
        """Events on the PodGroup, and on the pod or the first members."""
        written = self._group_of(refusal.unit)
        if written is not None:
            self.events.record(_subject(written), "Warning", "FailedScheduling", "Scheduling", text)
            self._say_to_owner(written, refusal)
        for pod in _not_gated(refusal.pods)[:MEMBERS_WITH_EVENTS]:
            self.events.failed_scheduling(pod, _of_member(written, text))

    def _say_to_owner(self, written: AnyPodGroup, refusal: Unschedulable) -> None:
        """Report a missing level on the workload that asks for it by annotations, because its users do not look at the generated PodGroup. Said once."""
        problem = refusal.gang.problem if refusal.gang is not None else ""
        owner = next(iter(written.metadata.owner_references or ()), None)
        naming = naming_in(problem)
        if owner is None or naming is None:
            self._told_owners.pop(written.metadata.uid, None)
        elif self._told_owners.get(written.metadata.uid) != problem:
            self._told_owners[written.metadata.uid] = problem
            if len(self._told_owners) > MOST_REMEMBERED:
                self._told_owners.pop(next(iter(self._told_owners)))
            said = self._in_annotations(written, naming)
            where = said or f"its PodGroup {written.metadata.name} cannot be placed: {problem}"
            self._record_on_owner(written, owner, "InvalidGroup", where)

    def _record_on_owner(self, written: AnyPodGroup, owner: OwnerReference, reason: str, text: str) -> None:
        namespace = written.metadata.namespace or "default"
        subject = Subject(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
        self.events.record(subject, "Warning", reason, "Grouping", f"{owner.kind} {namespace}/{owner.name}: {text}")

    def _in_annotations(self, written: AnyPodGroup, naming: Naming) -> str:
        """The problem of a PodGroup's field, with the annotation that the field comes from; an empty text if that is not known."""
        key = self.where_asked(written, naming.field, naming.name) if naming.name else ""
        return f"{key}: {naming.problem}" if key else ""

    def _remark(self, unit: str) -> None:
        """What a PodGroup asks for that bayplan does not do."""
        written = self._group_of(unit)
        if written is not None:
            self._remark_once(written, "NotSupported", remarks_on(written))
        if isinstance(written, PodGroup):
            self._remark_levels(written)

    def _remark_levels(self, written: PodGroup) -> None:
        """Levels without effect: to the owner, by the annotation that names them, else on the PodGroup itself."""
        # Segments that are groups all name the same level.
        found = tuple(dict.fromkeys(redundant_levels(written.spec, self._dispatcher.trees.levels)))
        owner = next(iter(written.metadata.owner_references or ()), None)
        if self._is_new_remark(written, "levels", found):
            for naming in found:
                said = self._in_annotations(written, naming)
                if owner is not None and said:
                    self._record_on_owner(written, owner, "NotSupported", said)
                else:
                    text = f"{naming.field}: {naming.problem}"
                    self.events.record(_subject(written), "Warning", "NotSupported", "Reading", text)

    def _compare_with_template(self, written: AnyPodGroup) -> None:
        """Not as soon as it is placed: news about Workloads come by another watch, and may be later than the PodGroup."""
        if isinstance(written, KubernetesPodGroup):
            self._remark_once(written, "UnlikeTemplate", self.unlike_template(written))

    def _remark_once(self, written: AnyPodGroup, reason: str, remarks: tuple[str, ...]) -> None:
        if self._is_new_remark(written, reason, remarks):
            for remark in remarks:
                self.events.record(_subject(written), "Warning", reason, "Reading", remark)

    def _is_new_remark(self, written: AnyPodGroup, what: str, remarks: tuple[object, ...]) -> bool:
        """Whether something else was remarked about a PodGroup before, or nothing."""
        key = (written.metadata.uid, what)
        if self._remarked.get(key, ()) == remarks:
            return False
        self._remarked[key] = remarks
        if len(self._remarked) > MOST_REMEMBERED:
            self._remarked.pop(next(iter(self._remarked)))
        return True

    def _group_of(self, unit: str) -> AnyPodGroup | None:
        return self._dispatcher.roster.groups.get(unit.removeprefix(GANG)) if unit.startswith(GANG) else None

    def tell_problems(self, by_object: Mapping[str, str], noted: list[ObjectRemark]) -> None:
        """Problems with objects, each told once: in the log, on the node that a report is about, and on the pod."""
        now: dict[str, str] = {**by_object, **{str(problem.at): problem.text for problem in noted}}
        if now == self._told:
            return
        for where, text in now.items():
            if self._told.get(where) != text:
                logger.warning("an object cannot be taken at its word", extra={"object": where, "problem": text})
        for where, text in by_object.items():
            resource, _, name = where.partition(" ")
            if self._told.get(where) != text and resource in NODE_REPORTS:
                self._tell_node(name, text)
        for problem in noted:
            if self._told.get(str(problem.at)) != problem.text:
                kind, _, name = problem.at.subject.partition(" ")
                if kind in NODE_REPORTS:
                    self._tell_node(name, str(problem))
                self._tell_pod(problem)
        self._told = now

    def _tell_pod(self, problem: ObjectRemark) -> None:
        kind, _, key = problem.at.subject.partition(" ")
        pod = self._dispatcher.waiting.get(key) if kind == PODS.kind else None
        if pod is not None:
            metadata = pod.metadata
            subject = Subject(PODS.api_version, PODS.kind, metadata.namespace or "default", metadata.name, metadata.uid)
            self.events.record(subject, "Warning", "NotSupported", "Reading", f"{problem.at.field}: {problem.text}")

    def _tell_node(self, name: str, text: str) -> None:
        row = self._dispatcher.state.rows.get(name)
        node = None if row is None else self._dispatcher.state.nodes[row]
        if node is not None:
            subject = Subject(NODES.api_version, NODES.kind, "default", name, node.metadata.uid)
            self.events.record(subject, "Warning", "InvalidTopology", "Reading", text)


def _of_member(written: AnyPodGroup | None, text: str) -> str:
    """What is said about a gang, on one of its pods."""
    return text if written is None else f"gang {full_name(written.metadata)}: {text}"


def _not_gated(pods: tuple[Pod, ...]) -> list[Pod]:
    """Pods behind gates keep the condition with which the API server created them: autoscalers must not make room for them."""
    return [pod for pod in pods if not pod.spec.scheduling_gates]


def _more_wait(number: int) -> str:
    return "1 more waits" if number == 1 else f"{number} more wait"


def _without_numbers(reason: str) -> str:
    """`waits for pods`, from `waits for pods: 3 of 8 have arrived`: what stays true while they arrive."""
    return reason.partition(": ")[0]


def _subject(written: AnyPodGroup) -> Subject:
    resource, metadata = pod_groups()[type(written)], written.metadata
    return Subject(resource.api_version, resource.kind, metadata.namespace or "default", metadata.name, metadata.uid)
