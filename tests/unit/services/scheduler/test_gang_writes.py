"""The status of gangs: written when it says something new, for this very PodGroup, and never back from complete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from bayplan.kube import podgroup_v1alpha1, volcano_scheduling_v1beta1
from bayplan.kube.client import KubeClient
from bayplan.scheduling.dialects.table import AnyPodGroup
from bayplan.scheduling.todo import Release
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler.gang_writes import GangStatusWriter, release
from tests.unit.services.edges.small_server import RecordingClient, in_virtual_time, now, pod_named, refusal

Story = Callable[[GangStatusWriter], Awaitable[None]]


def group(struct: type[AnyPodGroup] = podgroup_v1alpha1.PodGroup, phase: str = "") -> Any:
    metadata = {"name": "train", "namespace": "ml", "uid": "g"}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, struct)


def written(story: Story, client: RecordingClient | None = None) -> list[dict[str, Any]]:
    client = client or RecordingClient()

    async def tell() -> None:
        async with GangStatusWriter(client.as_client(), clock=now) as gangs:
            await story(gangs)

    in_virtual_time(tell())
    return client.bodies


def test_the_whole_object_is_named_and_nothing_but_its_status_is_applied() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        gangs.complete(group(volcano_scheduling_v1beta1.PodGroup), 4, 4)

    (body,) = written(story)
    assert set(body) == {"apiVersion", "kind", "metadata", "status"}
    assert (body["apiVersion"], body["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert body["metadata"] == {"name": "train", "namespace": "ml", "uid": "g"}
    assert body["status"]["phase"] == "Running"


def test_a_message_is_written_once_and_a_new_one_does_not_restart_the_clock() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        for message in ("1 of 2 have arrived", "1 of 2 have arrived", "no room"):
            gangs.waits(group(), message, 2)
            await asyncio.sleep(10)

    bodies = written(story)
    assert [body["status"]["message"] for body in bodies] == ["1 of 2 have arrived", "no room"]
    assert {body["status"]["conditions"][0]["lastTransitionTime"] for body in bodies} == {"1970-01-01T00:00:00Z"}


def test_of_messages_that_follow_each_other_closely_the_last_is_written() -> None:
    async def story(gangs: GangStatusWriter) -> None:
        for number in range(8):
            gangs.waits(group(), f"{number} of 8 have arrived", 2)

    assert [body["status"]["message"] for body in written(story)] == ["7 of 8 have arrived"]


def test_a_gang_that_has_been_complete_stays_so() -> None:
    async def told_now(gangs: GangStatusWriter) -> None:
        gangs.complete(group(), 2, 2)
        await asyncio.sleep(1)
        gangs.waits(group(), "no room for a late member", 2)

    async def told_before(gangs: GangStatusWriter) -> None:
        gangs.waits(group(phase="Scheduled"), "no room for a late member", 2)

    assert [body["status"]["phase"] for body in written(told_now)] == ["Scheduled"]
    assert written(told_before) == []


def test_what_was_not_written_is_logged_and_tried_with_the_next_news(caplog: pytest.LogCaptureFixture) -> None:
    answers = [refusal(404), None]
    client = RecordingClient(answer=lambda verb, name: answers.pop(0))

    async def story(gangs: GangStatusWriter) -> None:
        for _ in range(2):
            gangs.waits(group(), "no room", 2)
            await asyncio.sleep(10)

    assert len(written(story, client)) == 2
    assert [record.message for record in caplog.records] == ["cannot write the status of a gang"]


def test_who_loses_the_lease_while_releasing_a_gang_deletes_nobody_more() -> None:
    deleted: list[str] = []

    class Deleting:
        async def delete(self, resource: object, name: str, namespace: str, *, uid: str) -> None:
            deleted.append(name)

    class Silent:
        def record(self, *what: object) -> None:
            """Events do not matter here."""

    async def story() -> None:
        todo = Release("ml/train", tuple(pod_named(name) for name in "abc"), "no room")
        await release(
            cast("KubeClient", Deleting()), cast("EventRecorder", Silent()), todo, holds_lease=lambda: len(deleted) < 2
        )

    in_virtual_time(story())
    assert deleted == ["a", "b"]
