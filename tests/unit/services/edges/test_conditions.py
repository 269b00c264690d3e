"""PodScheduled=False: written when it says something new, and never onto a pod for which it is no longer true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from bayplan.kube.wire.core_v1 import Pod, PodCondition, PodSpec, PodStatus
from bayplan.services.edges.conditions import MOST_CONFLICTS, ConditionWriter
from tests.unit.services.edges.small_server import RecordingClient, in_virtual_time, now, pod_named, refusal

POD = pod_named("train-0", version="7")


def with_condition(pod: Pod, message: str) -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return msgspec.structs.replace(pod, status=PodStatus(conditions=[condition]))


def write(client: RecordingClient, story: Callable[[ConditionWriter], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with ConditionWriter(client.as_client(), clock=now) as conditions:
            await story(conditions)

    in_virtual_time(tell())


def test_the_first_no_is_written_with_its_time_and_for_this_very_pod() -> None:
    client = RecordingClient()

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")

    write(client, story)
    assert client.bodies == [
        {
            "metadata": {"uid": "uid-train-0", "resourceVersion": "7"},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no room",
                        "lastTransitionTime": "1970-01-01T00:00:00Z",
                    }
                ]
            },
        }
    ]


def test_the_same_no_again_is_not_written_whoever_remembers_it() -> None:
    client = RecordingClient()

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")
        await asyncio.sleep(1)
        conditions.unschedulable(POD, "no room")
        conditions.unschedulable(with_condition(pod_named("seen-before-a-restart"), "no room"), "no room")

    write(client, story)
    assert len(client.sent) == 1


def test_another_reason_is_written_and_the_time_of_the_change_stays() -> None:
    client = RecordingClient()
    waiting = with_condition(POD, "no room")

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(waiting, "no node")
        await asyncio.sleep(1)
        # The pod that the scheduler has still shows the first message; what was written last counts.
        conditions.unschedulable(waiting, "no room")

    write(client, story)
    written = [body["status"]["conditions"][0] for body in client.bodies]
    assert [condition["message"] for condition in written] == ["no node", "no room"]
    assert all("lastTransitionTime" not in condition for condition in written)


def test_a_pod_that_changed_meanwhile_is_read_and_written_again() -> None:
    answers = [refusal(409), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))
    client.pods["train-0"] = pod_named("train-0", version="8")

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")

    write(client, story)
    assert [body["metadata"]["resourceVersion"] for body in client.bodies] == ["7", "8"]


def test_a_pod_that_was_bound_or_replaced_meanwhile_is_left_alone() -> None:
    bound = msgspec.structs.replace(pod_named("train-0", version="8"), spec=PodSpec(node_name="n1"))
    for successor in (bound, pod_named("train-0", uid="another")):
        client = RecordingClient(answer=lambda verb, name: refusal(409))
        client.pods["train-0"] = successor

        async def story(conditions: ConditionWriter) -> None:
            conditions.unschedulable(POD, "no room")

        write(client, story)
        assert len(client.sent) == 1


def test_a_pod_that_is_about_to_be_bound_gets_no_condition() -> None:
    client = RecordingClient()

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")
        conditions.forget(POD.metadata.uid)

    write(client, story)
    assert client.sent == []


def test_what_could_not_be_written_is_written_with_the_next_no() -> None:
    answers = [refusal(404), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))

    async def story(conditions: ConditionWriter) -> None:
        for _ in range(2):
            conditions.unschedulable(POD, "no room")
            await asyncio.sleep(1)

    write(client, story)
    assert len(client.sent) == 2


def test_a_pod_that_kept_changing_is_told_with_the_next_no() -> None:
    answers = [*(refusal(409) for _ in range(MOST_CONFLICTS)), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))
    client.pods["train-0"] = POD

    async def story(conditions: ConditionWriter) -> None:
        for _ in range(2):
            conditions.unschedulable(POD, "no room")
            await asyncio.sleep(1)

    write(client, story)
    assert len(client.sent) == MOST_CONFLICTS + 1
