"""Who is told what, and when: the latest refusal of a unit after a moment, problems with objects once."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from bayplan.cluster.remarks import ObjectRemark, Remarks
from bayplan.dialects.own.members import POD_GROUP
from bayplan.dialects.progress import MemberCounts
from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import Complete, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.late_room import EndedRoom
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import GangDecision
from bayplan.kube.errors import ObjectPath
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES
from bayplan.kube.wire import k8s_scheduling_v1beta1, volcano_scheduling_v1beta1
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod, SchedulingGate
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing import remarks as module
from bayplan.services.scheduler.announcing.announcer import (
    ARRIVING_FOR,
    CONDITIONS_PER_BATCH,
    MEMBERS_WITH_EVENTS,
    REFUSED_FOR,
    STUCK_FOR,
    UNGROUPED_FOR,
    Announcer,
)
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.announcing.remarks import PROBLEMS_PER_ITERATION, ObjectProblems
from tests.builders.numatopologies import policy_pod
from tests.builders.objects import simple_pod
from tests.builders.services import pod_named

A_WHILE = 10.0


@dataclass
class Heard:
    """Takes the place of events, conditions and the status of gangs, and notes what they were
    told, in one line each.
    """

    lines: list[str] = field(default_factory=list)

    def failed_scheduling(self, pod: Pod, note: str) -> None:
        self.lines.append(f"event {pod.metadata.name}: {note}")

    def record(self, subject: Subject, type_: str, reason: str, action: str, note: str) -> None:
        self.lines.append(f"event {subject.kind} {subject.name}, {reason}: {note}")

    def unschedulable(self, pod: Pod, message: str, reason: str) -> None:
        self.lines.append(f"condition {pod.metadata.name}, {reason}: {message}")

    def waits(self, written: AnyPodGroup, message: str, counts: MemberCounts, *, invalid: bool = False) -> None:
        state = "invalid" if invalid else "waits"
        self.lines.append(f"status {written.metadata.name}, {state} with {counts.members} members: {message}")

    def complete(self, written: AnyPodGroup, counts: MemberCounts) -> None:
        self.lines.append(f"status {written.metadata.name}, complete: {counts.scheduled} of {counts.members}")

    def still_complete(self, written: AnyPodGroup, counts: MemberCounts, message: str = "") -> None:
        self.lines.append(
            f"status {written.metadata.name}, still complete: {counts.scheduled} of {counts.members}. {message}"
        )

    def no_pods(self, written: AnyPodGroup) -> None:
        self.lines.append(f"status {written.metadata.name}, no pods")

    def forget(self, uid: str) -> None:
        self.lines.append(f"forget {uid}")


def announcer(profile: Profile | None = None, **options: Any) -> tuple[Announcer, Heard, Dispatcher]:
    heard = Heard()
    dispatcher = Dispatcher({"bayplan": profile or default_profile()})
    events, conditions = cast("EventRecorder", heard), cast("ConditionWriter", heard)
    made = Announcer(dispatcher, events, conditions, cast("GangStatusWriter", heard), **options)
    return made, heard, dispatcher


def refusal(unit: Unit, reason: str, *pods: str, **more: Any) -> Unschedulable:
    return Unschedulable(unit, tuple(pod_named(name) for name in pods), reason, **more)


def explain(announces: Announcer, now: float) -> None:
    asyncio.run(announces.explain_for(1.0, now, SideThread(threaded=False)))


def test_a_refusal_is_reported_after_a_moment() -> None:
    announces, heard, _ = announcer()
    announces.refused(refusal(PodUnit("ml/a"), "no room", "a"), 100.0)
    assert announces.next_time == 100.0 + REFUSED_FOR
    explain(announces, 100.0)
    assert heard.lines == []
    explain(announces, 100.0 + REFUSED_FOR)
    assert heard.lines == ["event a: no room", "condition a, Unschedulable: no room"]
    assert announces.next_time is None


def test_an_external_pod_grouper_has_a_moment_before_pods_report() -> None:
    announces, heard, _ = announcer()
    for name in "ab":
        announces.not_grouped(refusal(PodUnit(f"ml/{name}"), "waits for a pod grouper", name), 100.0)
    explain(announces, 101.0)
    announces.withdraw(PodUnit("ml/a"))
    assert (heard.lines, announces.next_time) == ([], 100.0 + UNGROUPED_FOR)
    explain(announces, 100.0 + UNGROUPED_FOR)
    assert heard.lines == [
        "event b: waits for a pod grouper",
        "condition b, Unschedulable: waits for a pod grouper",
    ]


def test_only_the_latest_refusal_of_a_unit_is_reported_without_more_delay() -> None:
    announces, heard, _ = announcer()
    for number in range(5):
        announces.refused(refusal(PodUnit("ml/a"), f"reason {number}", "a"), 100.0 + number * REFUSED_FOR / 10)
    explain(announces, 100.0 + REFUSED_FOR)
    assert heard.lines[0] == "event a: reason 4"
    assert len(heard.lines) == 2


def test_a_placed_unit_gets_no_report() -> None:
    announces, heard, _ = announcer()
    announces.refused(refusal(PodUnit("ml/a"), "no room", "a"), 100.0)
    announces.placed(PodUnit("ml/a"))
    announces.pod_placed(pod_named("a"))
    explain(announces, 100.0 + A_WHILE)
    assert heard.lines == ["forget uid-a"]


def test_a_gated_member_keeps_its_condition() -> None:
    announces, heard, _ = announcer()
    gated = pod_named("gated")
    spec = msgspec.structs.replace(gated.spec, scheduling_gates=[SchedulingGate(name="example.com/quota")])
    refused = Unschedulable(
        GangUnit("ml/train"),
        (msgspec.structs.replace(gated, spec=spec), pod_named("b")),
        "pod ml/gated waits for its gates",
    )
    announces.refused(refused, 100.0)
    explain(announces, 100.0 + A_WHILE)
    assert any(line.startswith("condition b, GangWaiting") for line in heard.lines)
    assert not any(line.startswith(("condition gated", "event gated")) for line in heard.lines)


def test_a_replica_that_no_longer_leads_reports_nothing() -> None:
    announces, heard, _ = announcer()
    announces.refused(refusal(PodUnit("ml/a"), "no room", "a"), 100.0)
    announces.refused(refusal(GangUnit("ml/train"), "waits for pods: 1 of 2", "b"), 100.0)
    announces.withdraw_all()
    assert announces.next_time is None
    explain(announces, 100.0 + A_WHILE)
    assert heard.lines == []


def test_an_invalid_object_is_a_scheduler_error() -> None:
    announces, heard, _ = announcer()
    announces.refused(refusal(PodUnit("ml/a"), "invalid quantity", "a", invalid=True), 100.0)
    explain(announces, 100.0 + A_WHILE)
    assert heard.lines[1] == "condition a, SchedulerError: invalid quantity"


def own_gang(dispatcher: Dispatcher, size: int) -> None:
    group = {"metadata": {"name": "train", "namespace": "ml", "uid": "g"}, "spec": {"size": size}}
    dispatcher.set_group(msgspec.convert(group, PodGroup), 0.0)


def member_named(name: str, node: str | None = None) -> Pod:
    """A member of that gang, on a node or not."""
    metadata = Metadata(name=name, namespace="ml", uid=f"uid-{name}", labels={POD_GROUP: "train"})
    member = simple_pod({"cpu": "4", "memory": "1Gi"}, schedulerName="bayplan", nodeName=node)
    return msgspec.structs.replace(member, metadata=metadata)


def no_room(*pods: str) -> Unschedulable:
    return refusal(GangUnit("ml/train"), "", *pods, gang=GangDecision("ml/train", Status.INFEASIBLE, "no rack is free"))


def test_a_gang_is_reported_on_its_pod_group_and_on_every_pod() -> None:
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 2)
    announces.refused(no_room("a", "b"), 100.0)
    explain(announces, 100.0 + A_WHILE)
    why = "the gang has no place (infeasible): no rack is free"
    assert heard.lines == [
        f"event PodGroup train, FailedScheduling: {why}",
        f"event a: gang ml/train: {why}",
        f"event b: gang ml/train: {why}",
        f"status train, waits with 0 members: {why}",
        f"condition a, Unschedulable: gang ml/train: {why}",
        f"condition b, Unschedulable: gang ml/train: {why}",
    ]


def test_an_unknown_level_is_reported_once_on_the_owner() -> None:
    announces, heard, dispatcher = announcer()
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    group = {"metadata": {"name": "train-j", "namespace": "ml", "uid": "g", "ownerReferences": [owner]}, "spec": {}}
    dispatcher.set_group(msgspec.convert(group, PodGroup), 0.0)
    problem = 'required: "example.com/rak" is not a level; the topology has example.com/rack, kubernetes.io/hostname'
    for why in (problem, problem, "the cluster has no nodes"):
        decision = GangDecision("ml/train-j", Status.INFEASIBLE, why, problem=why)
        announces.refused(refusal(GangUnit("ml/train-j"), "", "a", gang=decision), 100.0)
        explain(announces, 100.0 + A_WHILE)
    assert [line for line in heard.lines if "InvalidGroup" in line] == [
        f"event Job train, InvalidGroup: Job ml/train: its PodGroup train-j cannot be placed: {problem}"
    ]


def test_the_report_on_the_owner_names_its_annotation() -> None:
    announces, heard, dispatcher = announcer(where_asked=lambda _, field, value: f"annotation for {field} {value}")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    group = {"metadata": {"name": "train-j", "namespace": "ml", "uid": "g", "ownerReferences": [owner]}, "spec": {}}
    dispatcher.set_group(msgspec.convert(group, PodGroup), 0.0)
    for why in (
        'topology: "net" does not exist; known: network',
        'group "worker": segments: "rak" is not a level; the topology has rack',
        "topology: is missing; known: a, b",
    ):
        decision = GangDecision("ml/train-j", Status.INFEASIBLE, why, problem=why)
        announces.refused(refusal(GangUnit("ml/train-j"), "", "a", gang=decision), 100.0)
        explain(announces, 100.0 + A_WHILE)
    assert [line.partition("InvalidGroup: ")[2] for line in heard.lines if "InvalidGroup" in line] == [
        'Job ml/train: annotation for topology net: "net" does not exist; known: network',
        'Job ml/train: annotation for segments rak: "rak" is not a level; the topology has rack',
        "Job ml/train: its PodGroup train-j cannot be placed: topology: is missing; known: a, b",
    ]


@pytest.mark.parametrize("annotation", ["", 'metadata.annotations["example.com/likes"]'])
def test_a_level_without_effect_is_remarked_once_on_the_owner_or_on_the_group(annotation: str) -> None:
    announces, heard, dispatcher = announcer(where_asked=lambda *_: annotation)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    metadata = {"name": "train-j", "namespace": "ml", "uid": "g", "ownerReferences": [owner]}
    segments = [{"name": name, "size": 1, "required": "block"} for name in ("segment-0", "segment-1")]
    spec = {"topology": "network", "required": "rack", "groups": segments}
    dispatcher.set_levels("network", ("block", "rack"))
    dispatcher.set_group(msgspec.convert({"metadata": metadata, "spec": spec}, PodGroup), 0.0)
    for _ in range(2):
        announces.placed(GangUnit("ml/train-j"))
    why = '"block" has no effect: it is wider than rack, which is required already'
    about = (
        f"Job train, NotSupported: Job ml/train: {annotation}"
        if annotation
        else "PodGroup train-j, NotSupported: required"
    )
    assert [line for line in heard.lines if "NotSupported" in line] == [f"event {about}: {why}"]


def test_all_members_of_a_large_gang_have_conditions_and_a_few_have_events() -> None:
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 50)
    announces.refused(no_room(*(f"p{number}" for number in range(50))), 100.0)
    explain(announces, 100.0 + A_WHILE)
    assert sum(line.startswith("condition p") for line in heard.lines) == 50
    assert sum(line.startswith("event p") for line in heard.lines) == MEMBERS_WITH_EVENTS


class TestGangsThatArriveSlowly:
    SIZE = 20

    def arrive(self, announces: Announcer, dispatcher: Dispatcher, number: int, now: float) -> None:
        """One more pod, a decision, and the explanations that are due."""
        dispatcher.set_pod(member_named(f"p{number}"), now)
        refused = dispatcher.decide(now)
        assert isinstance(refused, Unschedulable)
        announces.refused(refused, now)
        explain(announces, now)

    def test_their_state_is_written_and_only_the_real_reason_is_an_event(self) -> None:
        announces, heard, dispatcher = announcer()
        own_gang(dispatcher, self.SIZE)
        for number in range(self.SIZE):
            self.arrive(announces, dispatcher, number, 100.0 + number)
        explain(announces, 100.0 + self.SIZE + A_WHILE)
        arriving = [line for line in heard.lines if "waits for pods" in line]
        assert not [line for line in arriving if line.startswith("event")]
        # In words that stay true, so that every pod is written to once.
        conditions = {line.partition(": ")[2] for line in arriving if line.startswith("condition")}
        assert conditions == {"gang ml/train: waits for pods"}
        assert sum(line.startswith("status") for line in arriving) <= self.SIZE / ARRIVING_FOR
        told = [line for line in heard.lines if line.startswith("event")]
        assert len(told) == 1 + MEMBERS_WITH_EVENTS
        assert all("no place" in line for line in told)

    def test_one_whose_pods_stay_away_gets_events(self) -> None:
        announces, heard, dispatcher = announcer()
        own_gang(dispatcher, self.SIZE)
        self.arrive(announces, dispatcher, 0, 100.0)
        explain(announces, 100.0 + ARRIVING_FOR)
        assert heard.lines == [
            f"status train, waits with 1 members: waits for pods: 1 of {self.SIZE} have arrived",
            "condition p0, GangWaiting: gang ml/train: waits for pods",
        ]
        assert announces.next_time == 100.0 + STUCK_FOR
        explain(announces, 100.0 + STUCK_FOR)
        assert heard.lines[2:] == [
            f"event PodGroup train, FailedScheduling: waits for pods: 1 of {self.SIZE} have arrived",
            f"event p0: gang ml/train: waits for pods: 1 of {self.SIZE} have arrived",
            f"status train, waits with 1 members: waits for pods: 1 of {self.SIZE} have arrived",
            f"condition p0, GangWaiting: gang ml/train: waits for pods: 1 of {self.SIZE} have arrived",
        ]

    def test_numbers_stay_in_conditions_while_nothing_changes(self) -> None:
        announces, heard, dispatcher = announcer()
        own_gang(dispatcher, self.SIZE)
        self.arrive(announces, dispatcher, 0, 100.0)
        explain(announces, 100.0 + STUCK_FOR)
        announces.refused(refusal(GangUnit("ml/train"), f"waits for pods: 1 of {self.SIZE} have arrived", "p0"), 200.0)
        explain(announces, 200.0 + ARRIVING_FOR)
        told = [line for line in heard.lines if line.startswith("condition")]
        assert told[-2:] == 2 * [
            f"condition p0, GangWaiting: gang ml/train: waits for pods: 1 of {self.SIZE} have arrived"
        ]
        self.arrive(announces, dispatcher, 1, 300.0)
        explain(announces, 300.0 + ARRIVING_FOR)
        assert heard.lines[-1] == "condition p1, GangWaiting: gang ml/train: waits for pods"

    def test_one_that_is_gone_meanwhile_gets_none(self) -> None:
        announces, heard, dispatcher = announcer()
        own_gang(dispatcher, self.SIZE)
        self.arrive(announces, dispatcher, 0, 100.0)
        explain(announces, 100.0 + ARRIVING_FOR)
        dispatcher.remove_pod("ml/p0", 103.0)
        assert dispatcher.decide(103.0) is None
        explain(announces, 100.0 + STUCK_FOR)
        assert not [line for line in heard.lines if line.startswith("event")]


def test_a_complete_gang_is_reported_on_its_pod_group() -> None:
    announces, heard, dispatcher = announcer()
    group = {"metadata": {"name": "train", "namespace": "ml", "uid": "g"}, "spec": {"minMember": 2}}
    dispatcher.set_group(msgspec.convert(group, volcano_scheduling_v1beta1.PodGroup), 0.0)
    announces.complete(Complete("volcano ml/train"))
    announces.complete(Complete("kueue ml/without-an-object"))
    assert heard.lines == ["status train, complete: 0 of 0"]


def test_kept_room_that_has_expired_is_reported_on_the_pod_group_if_it_exists() -> None:
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 4)
    announces.room_ended([EndedRoom("ml/train", 3, 300.0), EndedRoom("ml/gone", 1, 300.0)])
    assert heard.lines == [
        "event PodGroup train, RoomExpired: room for 3 members was kept for 300 s; others can take it now"
    ]


def test_a_gang_with_missing_pods_is_not_complete() -> None:
    """The pod had its node before it was in the gang, and came while the gang without pods was to be counted."""
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 4)
    dispatcher.set_pod(member_named("a", node="n1"), 0.0)
    announces.gangs.count(["ml/train"], 0.0)
    explain(announces, ARRIVING_FOR)
    assert heard.lines == ["status train, waits with 1 members: waits for pods: 1 of 4 have arrived"]


def test_a_gang_that_all_pods_left_has_no_pods() -> None:
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 2)
    dispatcher.set_pod(member_named("a"), 0.0)
    assert isinstance(dispatcher.decide(0.0), Unschedulable)
    without_label = msgspec.structs.replace(member_named("a").metadata, labels={})
    dispatcher.set_pod(msgspec.structs.replace(member_named("a"), metadata=without_label), 10.0)
    dispatcher.decide(10.0)
    announces.gangs.count(dispatcher.gangs.to_count(), 10.0)
    explain(announces, 10.0 + ARRIVING_FOR)
    assert heard.lines == ["status train, no pods"]


class TestACompleteGang:
    def running(self, names: str) -> tuple[Announcer, Heard, Dispatcher]:
        announces, heard, dispatcher = announcer()
        own_gang(dispatcher, len(names))
        for name in names:
            dispatcher.set_pod(member_named(name, node="n1"), 0.0)
        action = dispatcher.decide(0.0)
        assert isinstance(action, Complete)
        announces.complete(action)
        return announces, heard, dispatcher

    def later(self, announces: Announcer, dispatcher: Dispatcher, now: float) -> None:
        """What the scheduler does at every turn."""
        action = dispatcher.decide(now)
        if isinstance(action, Unschedulable):
            announces.refused(action, now)
        announces.gangs.count(dispatcher.gangs.to_count(), now)

    def test_that_loses_pods_is_counted_again_once_for_all_of_them(self) -> None:
        announces, heard, dispatcher = self.running("abc")
        for number, name in enumerate("ab"):
            dispatcher.remove_pod(f"ml/{name}", 100.0 + number)
            self.later(announces, dispatcher, 100.0 + number)
        assert announces.next_time == 100.0 + ARRIVING_FOR
        explain(announces, 100.0 + ARRIVING_FOR)
        assert heard.lines == [
            "status train, complete: 3 of 3",
            "status train, still complete: 1 of 1. 1 of 3 are left, the others ended or were deleted",
        ]
        assert announces.next_time is None

    def test_without_its_last_pod_has_no_pods(self) -> None:
        announces, heard, dispatcher = self.running("a")
        dispatcher.remove_pod("ml/a", 100.0)
        self.later(announces, dispatcher, 100.0)
        explain(announces, 100.0 + ARRIVING_FOR)
        assert heard.lines[1:] == ["status train, no pods"]

    def test_with_a_waiting_replacement_reports_the_reason(self) -> None:
        announces, heard, dispatcher = self.running("ab")
        dispatcher.remove_pod("ml/b", 100.0)
        self.later(announces, dispatcher, 100.0)
        dispatcher.set_pod(member_named("c"), 101.0)
        self.later(announces, dispatcher, 101.0)
        explain(announces, 100.0 + ARRIVING_FOR)
        (told,) = [line for line in heard.lines[1:] if line.startswith("status")]
        assert told.startswith("status train, waits with 2 members: the gang has no place")

    def test_is_counted_by_the_next_leader(self) -> None:
        announces, _, dispatcher = self.running("a")
        dispatcher.remove_pod("ml/a", 100.0)
        self.later(announces, dispatcher, 100.0)
        announces.withdraw_all()
        assert announces.next_time is None


def test_unsupported_fields_of_a_pod_group_are_reported_once() -> None:
    announces, heard, dispatcher = announcer()
    group = {"metadata": {"name": "train", "namespace": "ml", "uid": "g"}, "spec": {"queue": "research"}}
    dispatcher.set_group(msgspec.convert(group, volcano_scheduling_v1beta1.PodGroup), 0.0)
    for _ in range(2):
        announces.placed(GangUnit("volcano ml/train"))
    told = 'queue: "research" is kept, but bayplan has no queues or quotas'
    assert heard.lines == [f"event PodGroup train, NotSupported: {told}"]


def test_only_the_latest_reports_on_pod_groups_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    announces, heard, dispatcher = announcer()
    for name in ("a", "b", "c", "c", "a"):
        group = {"metadata": {"name": name, "namespace": "ml", "uid": name}, "spec": {"queue": "research"}}
        dispatcher.set_group(msgspec.convert(group, volcano_scheduling_v1beta1.PodGroup), 0.0)
        announces.placed(GangUnit(f"volcano ml/{name}"))
    assert [line.split()[2] for line in heard.lines] == ["a,", "b,", "c,", "a,"]


def test_differences_from_the_template_are_reported_once() -> None:
    differs = ("schedulingPolicy: is basic, but ...",)
    announces, heard, dispatcher = announcer(unlike_template=lambda _: differs)
    group = {"metadata": {"name": "train", "namespace": "ml", "uid": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    dispatcher.set_group(msgspec.convert(group, k8s_scheduling_v1beta1.PodGroup), 0.0)
    announces.placed(GangUnit("kubernetes ml/train"))
    assert heard.lines == []
    for _ in range(2):
        announces.complete(Complete("kubernetes ml/train"))
    told = "event PodGroup train, UnlikeTemplate: schedulingPolicy: is basic, but ..."
    assert [line for line in heard.lines if line.startswith("event")] == [told]


def test_a_gang_without_a_pod_group_is_reported_on_its_pods() -> None:
    announces, heard, _ = announcer()
    announces.refused(refusal(GangUnit("ml/train"), "waits for PodGroup ml/train, which does not exist", "a"), 100.0)
    explain(announces, 100.0 + A_WHILE)
    assert heard.lines == ["condition a, GangWaiting: waits for PodGroup ml/train, which does not exist"]


def test_a_failed_explanation_does_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    announces, heard, _ = announcer()
    announces.refused(Unschedulable(PodUnit("ml/a"), (), ""), 100.0)  # nothing to explain it by
    announces.refused(refusal(PodUnit("ml/b"), "no room", "b"), 100.0)
    explain(announces, 100.0 + A_WHILE)
    assert heard.lines[0] == "event b: no room"
    assert [record.message for record in caplog.records] == ["failed to explain refusal"]


def noted(remark: ObjectRemark) -> Remarks:
    remarks = Remarks()
    remarks.note(remark)
    return remarks


class TestProblemsWithObjects:
    def test_thousands_are_reported_some_at_a_time(self, caplog: pytest.LogCaptureFixture) -> None:
        announces, _, _ = announcer()
        problems = ObjectProblems()
        for number in range(PROBLEMS_PER_ITERATION + 1):
            problems.set(f"podgroups.bayplan.io ml/{number}", "unknown field")
        told = []
        for _ in range(3):
            told.append((problems.has_news, len(caplog.records)))
            announces.remarks.report(problems, Remarks())
        assert told == [(True, 0), (True, PROBLEMS_PER_ITERATION), (False, PROBLEMS_PER_ITERATION + 1)]

    def test_one_that_is_withdrawn_in_time_is_not_reported(self, caplog: pytest.LogCaptureFixture) -> None:
        announces, _, _ = announcer()
        problems = ObjectProblems()
        problems.set("nodes n1", "wrong")
        problems.withdraw("nodes n1")
        announces.remarks.report(problems, Remarks())
        assert (dict(problems), caplog.records) == ({}, [])

    def test_each_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        announces, _, _ = announcer()
        problems = ObjectProblems()
        with caplog.at_level(logging.WARNING):
            for where, problem in (
                ("nodes n1", "wrong"),
                ("nodes n1", "wrong"),
                ("nodes n2", "wrong, too"),
                ("nodes n1", "wrong in another way"),
            ):
                problems.set(where, problem)
                announces.remarks.report(problems, Remarks())
        told = [getattr(record, "problem", "") for record in caplog.records]
        assert told == ["wrong", "wrong, too", "wrong in another way"]

    def test_an_invalid_report_is_an_event_on_its_node(self) -> None:
        announces, heard, dispatcher = announcer()
        dispatcher.state.set_node(Node(metadata=Metadata(name="n1", uid="u")))
        at = ObjectPath("NodeResourceTopology n1").child("zones")
        for _ in range(2):
            announces.remarks.report(ObjectProblems(), noted(ObjectRemark(at, "no zones")))
        assert heard.lines == [
            "event Node n1, InvalidTopology: NodeResourceTopology n1: zones: no zones",
        ]

    def test_an_unreadable_report_is_an_event_on_its_node(self) -> None:
        announces, heard, dispatcher = announcer()
        dispatcher.state.set_node(Node(metadata=Metadata(name="n1", uid="u")))
        problems = ObjectProblems()
        problems.set(f"{NODE_RESOURCE_TOPOLOGIES} n1", "NodeResourceTopology n1: zones: expected an array")
        problems.set("pods n1", "x")
        announces.remarks.report(problems, Remarks())
        problems.set("nodes n2", "wrong")
        announces.remarks.report(problems, Remarks())
        assert heard.lines == [
            "event Node n1, InvalidTopology: NodeResourceTopology n1: zones: expected an array",
        ]

    def test_a_report_without_a_node_is_only_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        announces, heard, _ = announcer()
        remark = ObjectRemark(ObjectPath("NodeResourceTopology ghost"), "no zones")
        announces.remarks.report(ObjectProblems(), noted(remark))
        assert heard.lines == []
        assert len(caplog.records) == 1

    def test_problems_of_a_waiting_pod_are_events_on_it(self) -> None:
        announces, heard, dispatcher = announcer()
        dispatcher.set_pod(policy_pod("Restricted", 4, schedulerName="bayplan"), 0.0)
        announces.remarks.report(ObjectProblems(), dispatcher.state.remarks)
        where = 'metadata.annotations["volcano.sh/numa-topology-policy"]'
        assert heard.lines == [
            (
                f'event Pod pod, NotSupported: {where}: "Restricted" is no policy'
                " (expected none, best-effort, restricted, single-numa-node), and no node has it"
            )
        ]

    def test_a_pod_reports_that_its_profile_ignores_policies(self) -> None:
        usual = default_profile()
        others = tuple(plugin for plugin in usual.filters if plugin.name != "numa-aware")
        announces, heard, dispatcher = announcer(Profile("bayplan", others, usual.scores))
        dispatcher.set_pod(policy_pod("restricted", 4, schedulerName="bayplan"), 0.0)
        announces.remarks.report(ObjectProblems(), dispatcher.state.remarks)
        where = 'metadata.annotations["volcano.sh/numa-topology-policy"]'
        said = '"restricted" has no effect: profile bayplan disables the plugin numa-aware'
        assert heard.lines == [f"event Pod pod, NotSupported: {where}: {said}"]

    def test_another_pod_of_the_same_name_gets_its_own_event(self) -> None:
        announces, heard, dispatcher = announcer()
        for _ in range(2):
            dispatcher.set_pod(policy_pod("Restricted", 4, schedulerName="bayplan"), 0.0)
            announces.remarks.report(ObjectProblems(), dispatcher.state.remarks)
            announces.remarks.report(ObjectProblems(), dispatcher.state.remarks)
            dispatcher.remove_pod("default/pod", 1.0)
            announces.remarks.report(ObjectProblems(), dispatcher.state.remarks)
        assert [line.partition(":")[0] for line in heard.lines] == ["event Pod pod, NotSupported"] * 2


def test_ten_thousand_conditions_are_written_a_few_at_a_time() -> None:
    announces, heard, dispatcher = announcer()
    own_gang(dispatcher, 1000)
    announces.refused(no_room(*(f"p{number}" for number in range(1000))), 100.0)
    due = announces._refused.take(100.0 + REFUSED_FOR)
    assert due is not None
    announces._explain(due)
    assert sum(line.startswith("condition") for line in heard.lines) == CONDITIONS_PER_BATCH
    assert announces.next_time == 0.0
    explain(announces, 101.0)
    assert sum(line.startswith("condition") for line in heard.lines) == 1000
    assert announces.next_time is None


def test_conditions_of_a_unit_that_was_placed_meanwhile_are_not_written() -> None:
    announces, heard, _ = announcer()
    announces.not_bound(no_room(*(f"p{number}" for number in range(1000))))
    announces.placed(GangUnit("ml/train"))
    explain(announces, 101.0)
    assert sum(line.startswith("condition") for line in heard.lines) == CONDITIONS_PER_BATCH
