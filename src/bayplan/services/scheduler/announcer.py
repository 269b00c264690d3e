"""Tells users why their pods wait and what is wrong with their objects: events, conditions and the log.

Refusals come in faster than they can be put into words, and most are overtaken by the next attempt: a gang whose pods arrive one by one waits
for another number of them each time. So only the latest of each unit is kept, and it is explained after a moment, when there is
time. A problem with an object is told once, when it appears.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from bayplan.cluster.topology_report import Problem
from bayplan.kube.core_v1 import Pod
from bayplan.kube.resources import ALL_POD_GROUPS, NODE_RESOURCE_TOPOLOGIES, NODES, NUMATOPOLOGIES, PODS
from bayplan.scheduling.dialects.dialect import full_name
from bayplan.scheduling.dialects.table import AnyPodGroup, dialect_of
from bayplan.scheduling.dispatcher import Dispatcher
from bayplan.scheduling.gang_units import GANG
from bayplan.scheduling.todo import Complete, Refusal
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.scheduler.gang_writes import GangStatusWriter
from bayplan.services.scheduler.words import Sentences

logger = logging.getLogger(__name__)

NODE_REPORTS = (NODE_RESOURCE_TOPOLOGIES.kind, NUMATOPOLOGIES.kind)
# So long a refusal stands before it is told.
STANDS_FOR = 0.3


class Announcer:
    """Says what the dispatcher decided, to those whom it concerns."""

    def __init__(
        self, dispatcher: Dispatcher, events: EventRecorder, conditions: ConditionWriter, gangs: GangStatusWriter
    ) -> None:
        self.events = events
        self.conditions = conditions
        self._gangs = gangs
        self._dispatcher = dispatcher
        self._sentences = Sentences(dispatcher)
        # By unit, since when it has been refused and the latest refusal; the oldest first.
        self._refused: dict[str, tuple[float, Refusal]] = {}
        self._told: dict[str, str] = {}
        # Of each PodGroup, by uid, what it asks for and does not get.
        self._remarked: dict[str, tuple[str, ...]] = {}

    @property
    def next_time(self) -> float | None:
        """When the next explanation is due; None if nobody waits for one."""
        return next((since + STANDS_FOR for since, _ in self._refused.values()), None)

    def refused(self, refusal: Refusal, now: float) -> None:
        """A unit has no place; why is said soon."""
        since, _ = self._refused.get(refusal.unit, (now, None))
        self._refused[refusal.unit] = (since, refusal)

    def withdraw(self, unit: str) -> None:
        """What was to be said about a unit is no longer true."""
        self._refused.pop(unit, None)

    def placed(self, unit: str, pods: list[Pod]) -> None:
        """A unit has its place: what was to be said about it is no longer true."""
        self._refused.pop(unit, None)
        self._remark(unit)
        for pod in pods:
            self.conditions.forget(pod.metadata.uid)

    def explain_for(self, seconds: float, now: float) -> None:
        """Explain for a moment what is due, at least one refusal."""
        end = time.perf_counter() + seconds
        while (due := self.next_time) is not None and due <= now and time.perf_counter() < end:
            _, refusal = self._refused.pop(next(iter(self._refused)))
            try:
                self._explain(refusal)
            except Exception:
                # A bug in one explanation must not stop the scheduler.
                logger.exception("a refusal cannot be explained", extra={"unit": refusal.unit})

    def complete(self, todo: Complete) -> None:
        """Every pod that a gang needs has a node: that is written on its PodGroup."""
        written = self._group_of(GANG + todo.gang)
        if written is not None:
            self._gangs.complete(written, todo.running, self._members(GANG + todo.gang))

    def let_in(self, groups: Iterable[AnyPodGroup]) -> None:
        """Groups whose pods are created only after a scheduler has said that it knows of them."""
        for written in groups:
            self._gangs.waits(written, "waits for its pods", 0)

    def _explain(self, refusal: Refusal) -> None:
        text = self._sentences.of(refusal)
        written = self._group_of(refusal.unit)
        if written is not None:
            self._remark(refusal.unit)
            self._gangs.waits(written, text, self._members(refusal.unit), invalid=refusal.invalid)
            self.events.record(_subject(written), "Warning", "FailedScheduling", "Scheduling", text)
            text = f"gang {full_name(written.metadata)}: {text}"
        for pod in refusal.pods:
            self.events.failed_scheduling(pod, text)
            self.conditions.unschedulable(pod, text, "SchedulerError" if refusal.invalid else "Unschedulable")

    def _remark(self, unit: str) -> None:
        """What a PodGroup asks for that bayplan does not do is said once."""
        written = self._group_of(unit)
        if written is None:
            return
        remarks = dialect_of(written).remarks(written)
        if self._remarked.get(written.metadata.uid, ()) != remarks:
            self._remarked[written.metadata.uid] = remarks
            for remark in remarks:
                self.events.record(_subject(written), "Warning", "NotSupported", "Reading", remark)

    def _members(self, unit: str) -> int:
        roster, name = self._dispatcher.roster, unit.removeprefix(GANG)
        return len(roster.waiting(name)) + len(roster.running(name))

    def _group_of(self, unit: str) -> AnyPodGroup | None:
        return self._dispatcher.roster.groups.get(unit.removeprefix(GANG)) if unit.startswith(GANG) else None

    def tell_problems(self, by_object: Mapping[str, str], noted: list[Problem]) -> None:
        """Problems with objects, each told once: in the log, on the node that a report is about, and on the pod."""
        now: dict[str, str] = {**by_object, **{str(problem.at): problem.text for problem in noted}}
        if now == self._told:
            return
        for where, text in now.items():
            if self._told.get(where) != text:
                logger.warning("an object cannot be taken at its word", extra={"object": where, "problem": text})
        for problem in noted:
            if self._told.get(str(problem.at)) != problem.text:
                self._tell_node(problem)
                self._tell_pod(problem)
        self._told = now

    def _tell_pod(self, problem: Problem) -> None:
        kind, _, key = problem.at.subject.partition(" ")
        pod = self._dispatcher.waiting.get(key) if kind == PODS.kind else None
        if pod is not None:
            metadata = pod.metadata
            subject = Subject(PODS.api_version, PODS.kind, metadata.namespace or "default", metadata.name, metadata.uid)
            self.events.record(subject, "Warning", "NotSupported", "Reading", f"{problem.at.field}: {problem.text}")

    def _tell_node(self, problem: Problem) -> None:
        kind, _, name = problem.at.subject.partition(" ")
        row = self._dispatcher.state.rows.get(name) if kind in NODE_REPORTS else None
        node = None if row is None else self._dispatcher.state.nodes[row]
        if node is not None:
            subject = Subject(NODES.api_version, NODES.kind, "default", name, node.metadata.uid)
            self.events.record(subject, "Warning", "InvalidTopology", "Reading", f"{problem.at}: {problem.text}")


def _subject(written: AnyPodGroup) -> Subject:
    resource, metadata = ALL_POD_GROUPS[type(written)], written.metadata
    return Subject(resource.api_version, resource.kind, metadata.namespace or "default", metadata.name, metadata.uid)
