"""The status of gangs: written when it says something new, for this very PodGroup; that one was
complete stays written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bayplan.dialects.progress import MemberCounts, Phase, Progress
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import GangUnit
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    k8s_scheduling_v1alpha3,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    volcano_scheduling_v1beta1,
)
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.announcing.gang_status import GangProgress, GangStatusWriter
from tests.builders.gangs import group_object
from tests.builders.services import RecordingClient, api_error, in_virtual_time, now

Story = Callable[[GangStatusWriter], Awaitable[None]]

TWO_WAIT = MemberCounts(2)
TWO_RUN = MemberCounts(2, 2, 2)
ONE_RUNS = MemberCounts(1, 1, 1)
ONE_OF_TWO_RUNS = MemberCounts(2, 1, 1)


def group(struct: type[AnyPodGroup] = bayplan_v1alpha1.PodGroup, phase: str = "") -> Any:
    return group_object(struct, {}, "train", phase=phase, uid="g")


def written(story: Story, client: RecordingClient | None = None) -> list[dict[str, Any]]:
    client = client or RecordingClient()

    async def tell() -> None:
        async with GangStatusWriter(client.as_client(), clock=now) as gangs:
            await story(gangs)

    in_virtual_time(tell())
    return client.bodies


def test_the_whole_object_is_named_and_nothing_but_its_status_is_applied() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        gangs.complete(group(volcano_scheduling_v1beta1.PodGroup), TWO_RUN)

    (body,) = written(story)
    assert set(body) == {"apiVersion", "kind", "metadata", "status"}
    assert (body["apiVersion"], body["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert body["metadata"] == {"name": "train", "namespace": "ml", "uid": "g"}
    assert body["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    "version, condition", [("v1alpha2", "PodGroupScheduled"), ("v1beta1", "PodGroupInitiallyScheduled")]
)
def test_status_is_written_in_the_version_that_the_object_was_read_in(version: str, condition: str) -> None:
    api_version = f"scheduling.k8s.io/{version}"
    read = msgspec.structs.replace(group(k8s_scheduling_v1beta1.PodGroup), api_version=api_version)

    async def story(gangs: GangStatusWriter) -> None:
        gangs.complete(read, TWO_RUN)

    (body,) = written(story)
    assert (body["apiVersion"], [each["type"] for each in body["status"]["conditions"]]) == (api_version, [condition])


@pytest.mark.parametrize("scheduled, holds", [("a", "True"), ("", "False")])
def test_groups_inside_a_gang_have_a_status_of_their_own(scheduled: str, holds: str) -> None:
    """The pods of one have nodes; the other still waits."""
    dispatcher = Dispatcher({"bayplan": default_profile()})
    dispatcher.set_group(
        in_words(k8s_scheduling_v1alpha3.CompositePodGroup, "train", {"gang": {"minGroupCount": 2}}), 0
    )
    for name in ("a", "b"):
        policy = {"gang": {"minCount": 1}}
        dispatcher.set_group(in_words(k8s_scheduling_v1beta1.PodGroup, name, policy, parent="train"), 0)
        spec = {"schedulerName": "bayplan", "schedulingGroup": {"podGroupName": name}, "containers": []}
        placed = {"nodeName": "n1"} if name == scheduled else {}
        dispatcher.set_pod(
            msgspec.convert({"metadata": {"name": name, "namespace": "ml"}, "spec": spec | placed}, Pod), 0
        )

    async def story(gangs: GangStatusWriter) -> None:
        root = dispatcher.roster.groups["kubernetes-composite ml/train"]
        refusal = Unschedulable(GangUnit("kubernetes-composite ml/train"), (), "no room")
        GangProgress(dispatcher, gangs).refused(root, refusal, "no room")

    told = {body["metadata"]["name"]: body["status"]["conditions"][0] for body in written(story)}
    assert {name: (each["type"], each["status"]) for name, each in told.items()} == {
        "train": ("CompositePodGroupInitiallyScheduled", "False"),
        "a": ("PodGroupInitiallyScheduled", holds),
        "b": ("PodGroupInitiallyScheduled", "False"),
    }


def in_words(struct: type[AnyPodGroup], name: str, policy: dict[str, Any], parent: str | None = None) -> Any:
    spec = {"schedulingPolicy": policy, "parentCompositePodGroupName": parent}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"}, "spec": spec}, struct)


def test_a_message_is_written_once_and_a_new_one_does_not_restart_the_clock() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        for message in ("1 of 2 have arrived", "1 of 2 have arrived", "no room"):
            gangs.waits(group(), message, TWO_WAIT)
            await asyncio.sleep(10)

    bodies = written(story)
    assert [body["status"]["message"] for body in bodies] == ["1 of 2 have arrived", "no room"]
    assert {body["status"]["conditions"][0]["lastTransitionTime"] for body in bodies} == {"1970-01-01T00:00:00Z"}


def test_of_messages_that_follow_each_other_closely_the_last_is_written() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        for number in range(8):
            gangs.waits(group(), f"{number} of 8 have arrived", TWO_WAIT)

    assert [body["status"]["message"] for body in written(story)] == ["7 of 8 have arrived"]


def shown(bodies: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Phase and counts, as `kubectl get podgroups` shows them."""
    keys = ("members", "scheduled", "running")
    return [(body["status"]["phase"], " ".join(str(body["status"][key]) for key in keys)) for body in bodies]


def started(body: dict[str, Any]) -> list[str]:
    """Since when a PodGroup says that its gang was complete."""
    conditions = body["status"]["conditions"]
    return [each["lastTransitionTime"] for each in conditions if each["type"] == "Started"]


def test_a_gang_that_loses_a_pod_and_gets_another_is_counted_all_the_time() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        gangs.waits(group(), "no room", TWO_WAIT)
        await asyncio.sleep(10)
        gangs.complete(group(), MemberCounts(2, 2))
        await asyncio.sleep(10)
        for tally in (TWO_RUN, TWO_RUN, ONE_RUNS):
            gangs.still_complete(group(), tally)
            await asyncio.sleep(10)
        gangs.waits(group(), "no room", ONE_OF_TWO_RUNS)
        await asyncio.sleep(10)
        gangs.still_complete(group(), TWO_RUN)
        await asyncio.sleep(10)
        gangs.no_pods(group())

    bodies = written(story)
    assert shown(bodies) == [
        ("Waiting", "2 0 0"),
        ("Scheduled", "2 2 0"),
        ("Scheduled", "2 2 2"),
        ("Scheduled", "1 1 1"),
        ("Degraded", "2 1 1"),
        ("Scheduled", "2 2 2"),
        ("Ended", "0 0 0"),
    ]
    assert bodies[4]["status"]["message"] == "1 of 2 pods have nodes: no room"
    assert [started(body) for body in bodies] == [[], *[["1970-01-01T00:00:10Z"]] * 5, []]


def test_that_a_gang_was_complete_is_known_from_its_pod_group_too() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        gangs.waits(group(phase="Scheduled"), "no room", ONE_OF_TWO_RUNS)

    (body,) = written(story)
    assert (body["status"]["phase"], len(started(body))) == ("Degraded", 1)


def test_a_gang_that_begins_anew_under_its_pod_group_is_complete_since_then() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        for _ in range(2):
            gangs.complete(group(), TWO_RUN)
            await asyncio.sleep(10)

    assert [started(body) for body in written(story)] == [["1970-01-01T00:00:00Z"], ["1970-01-01T00:00:10Z"]]


def test_extra_pods_that_wait_do_not_make_a_gang_incomplete() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        gangs.still_complete(group(phase="Scheduled"), MemberCounts(3, 2, 2), "1 more wait: no room")

    (body,) = written(story)
    assert (body["status"]["phase"], body["status"]["message"]) == (
        "Scheduled",
        "2 pods have nodes, 2 run; 1 more wait: no room",
    )


def test_after_a_restart_nothing_is_written_that_stands_there_already() -> None:
    async def first(gangs: GangStatusWriter) -> None:
        gangs.complete(group(), TWO_RUN)

    (body,) = written(first)

    async def second(gangs: GangStatusWriter) -> None:
        gangs.still_complete(msgspec.convert(body, bayplan_v1alpha1.PodGroup), TWO_RUN)

    assert written(second) == []


@pytest.mark.parametrize(
    "struct", [bayplan_v1alpha1.PodGroup, kai_scheduling_v2alpha2.PodGroup], ids=["bayplan", "KAI"]
)
def test_after_a_restart_a_gang_that_has_ended_does_not_wait(struct: type[Any]) -> None:
    ended = dialect_written_as(struct).status_of(Progress(Phase.ENDED, "no pods are left"))
    metadata = {"name": "train", "namespace": "ml", "uid": "g"}
    known = msgspec.convert({"metadata": metadata, "status": ended}, struct)

    async def next_one(gangs: GangStatusWriter) -> None:
        gangs.no_pods(known)

    assert written(next_one) == []


def test_one_pod_is_counted_as_one() -> None:
    async def one(gangs: GangStatusWriter) -> None:
        gangs.complete(group(), MemberCounts(1, 1, 1))

    (body,) = written(one)
    assert body["status"]["message"] == "1 pod has a node, 1 runs"


def test_a_pod_group_without_pods_gets_a_status_only_if_it_had_some() -> None:
    async def never(gangs: GangStatusWriter) -> None:
        gangs.no_pods(group())

    async def before_it_was_complete(gangs: GangStatusWriter) -> None:
        gangs.waits(group(), "1 of 2 have arrived", MemberCounts(1))
        await asyncio.sleep(10)
        gangs.no_pods(group())

    assert written(never) == []
    assert shown(written(before_it_was_complete)) == [("Waiting", "1 0 0"), ("Waiting", "0 0 0")]


def test_a_failed_write_is_logged_and_repeated_with_the_next_change(caplog: pytest.LogCaptureFixture) -> None:
    answers = [api_error(404), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))

    async def story(gangs: GangStatusWriter) -> None:
        for _ in range(2):
            gangs.waits(group(), "no room", TWO_WAIT)
            await asyncio.sleep(10)

    assert len(written(story, client)) == 2
    assert [record.message for record in caplog.records] == ["failed to write gang status"]
