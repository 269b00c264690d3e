"""PodScheduled=False: written on changes, and never on a pod that was bound or replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from bayplan.kube.wire.core_v1 import Pod, PodCondition, PodSpec, PodStatus
from bayplan.services.edges.conditions import MAX_CONFLICTS, ConditionWriter
from tests.builders.services import RecordingClient, api_error, in_virtual_time, now, pod_named

POD = pod_named("train-0", version="7")


def with_condition(pod: Pod, message: str) -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return msgspec.structs.replace(pod, status=PodStatus(conditions=[condition]))


def write(client: RecordingClient, story: Callable[[ConditionWriter], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with ConditionWriter(client.as_client(), clock=now) as conditions:
            await story(conditions)

    in_virtual_time(tell())


def test_the_first_refusal_is_written_with_time_uid_and_version() -> None:
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


def test_a_repeated_refusal_is_not_written_even_after_a_restart() -> None:
    client = RecordingClient()

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")
        await asyncio.sleep(1)
        conditions.unschedulable(POD, "no room")
        conditions.unschedulable(with_condition(pod_named("seen-before-a-restart"), "no room"), "no room")

    write(client, story)
    assert len(client.sent) == 1


def test_a_new_message_keeps_the_transition_time() -> None:
    client = RecordingClient()
    waiting = with_condition(POD, "no room")

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(waiting, "no node")
        await asyncio.sleep(1)
        # The known pod still shows the first message; the last write counts.
        conditions.unschedulable(waiting, "no room")

    write(client, story)
    written = [body["status"]["conditions"][0] for body in client.bodies]
    assert [condition["message"] for condition in written] == ["no node", "no room"]
    assert all("lastTransitionTime" not in condition for condition in written)


def test_a_conflict_reads_the_pod_and_writes_again() -> None:
    answers = [api_error(409), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))
    client.pods["train-0"] = pod_named("train-0", version="8")

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")

    write(client, story)
    assert [body["metadata"]["resourceVersion"] for body in client.bodies] == ["7", "8"]


def test_a_bound_or_replaced_pod_gets_no_condition() -> None:
    bound = msgspec.structs.replace(pod_named("train-0", version="8"), spec=PodSpec(node_name="n1"))
    for successor in (bound, pod_named("train-0", uid="another")):
        client = RecordingClient(answer=lambda verb, name: api_error(409))
        client.pods["train-0"] = successor

        async def story(conditions: ConditionWriter) -> None:
            conditions.unschedulable(POD, "no room")

        write(client, story)
        assert len(client.sent) == 1


def test_a_forgotten_pod_gets_no_condition() -> None:
    client = RecordingClient()

    async def story(conditions: ConditionWriter) -> None:
        conditions.unschedulable(POD, "no room")
        conditions.forget(POD.metadata.uid)

    write(client, story)
    assert client.sent == []


def test_a_failed_write_is_repeated_with_the_next_refusal() -> None:
    answers = [api_error(404), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))

    async def story(conditions: ConditionWriter) -> None:
        for _ in range(2):
            conditions.unschedulable(POD, "no room")
            await asyncio.sleep(1)

    write(client, story)
    assert len(client.sent) == 2


def test_a_pod_that_kept_changing_is_written_with_the_next_refusal() -> None:
    answers = [*(api_error(409) for _ in range(MAX_CONFLICTS)), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))
    client.pods["train-0"] = POD

    async def story(conditions: ConditionWriter) -> None:
        for _ in range(2):
            conditions.unschedulable(POD, "no room")
            await asyncio.sleep(1)

    write(client, story)
    assert len(client.sent) == MAX_CONFLICTS + 1
