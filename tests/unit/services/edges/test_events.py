"""Events: content, series of repetitions, and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from bayplan.services.edges.events import WARNING_BURST, EventRecorder, Subject, event_name, shortened
from tests.builders.services import RecordingClient, api_error, in_virtual_time, now, pod_named

POD = pod_named("train-0")
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


def record(client: RecordingClient, story: Callable[[EventRecorder], Awaitable[None]]) -> EventRecorder:
    async def tell() -> EventRecorder:
        async with EventRecorder(
            client.as_client(),
            instance="bayplan-0",
            clock=now,
            wall_clock=lambda: datetime.fromtimestamp(now(), tz=UTC),
        ) as events:
            await story(events)
        return events

    return in_virtual_time(tell())


def test_a_bound_pod_gets_the_event_of_kube_scheduler() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        events.scheduled(POD, "n1")

    record(client, story)
    (body,) = client.bodies
    assert body.pop("metadata")["name"].startswith("train-0.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "1970-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned ml/train-0 to n1",
        "reportingController": "bayplan",
        "reportingInstance": "bayplan-0",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ml",
            "name": "train-0",
            "uid": "uid-train-0",
        },
    }


def test_repetitions_are_counted_on_the_first_event_at_most_once_a_minute() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        for _ in range(10):
            events.failed_scheduling(POD, NO_ROOM)
            await asyncio.sleep(20)

    record(client, story)
    created, *patched = client.sent
    assert created[0] == "create"
    assert {(verb, name) for verb, name, _ in patched} == {("patch", created[1])}
    assert [body["series"]["count"] for _, _, body in patched] == [4, 7, 10]


def test_a_single_repetition_is_written_too() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        events.failed_scheduling(POD, NO_ROOM)
        await asyncio.sleep(5)
        events.failed_scheduling(POD, NO_ROOM)
        await asyncio.sleep(100)
        assert client.verbs == ["create", "patch"]
        assert client.bodies[1] == {"series": {"count": 2, "lastObservedTime": "1970-01-01T00:00:05.000000Z"}}

    record(client, story)


def test_a_repetition_after_six_minutes_is_a_new_event() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        events.failed_scheduling(POD, NO_ROOM)
        await asyncio.sleep(400)
        events.failed_scheduling(POD, NO_ROOM)

    record(client, story)
    assert client.verbs == ["create", "create"]


def test_closing_writes_the_last_count() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        events.failed_scheduling(POD, NO_ROOM)
        await asyncio.sleep(1)
        events.failed_scheduling(POD, NO_ROOM)
        events.failed_scheduling(POD, NO_ROOM)

    record(client, story)
    assert client.bodies[-1]["series"]["count"] == 3


def test_an_expired_event_is_created_again_with_its_count() -> None:
    client = RecordingClient(answer=lambda verb, name: api_error(404) if verb == "patch" else None)

    async def story(events: EventRecorder) -> None:
        events.failed_scheduling(POD, NO_ROOM)
        await asyncio.sleep(61)
        events.failed_scheduling(POD, NO_ROOM)

    record(client, story)
    assert client.verbs == ["create", "patch", "create"]
    assert client.bodies[-1]["series"]["count"] == 2


def test_an_event_that_already_exists_is_no_failure() -> None:
    client = RecordingClient(answer=lambda verb, name: api_error(409, "AlreadyExists"))

    async def story(events: EventRecorder) -> None:
        events.failed_scheduling(POD, NO_ROOM)

    assert record(client, story).outbox.failed == 0


def test_different_warnings_about_one_pod_are_limited() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        for number in range(100):
            events.failed_scheduling(POD, f"0/{number} nodes are available")
        events.failed_scheduling(pod_named("other"), NO_ROOM)
        await asyncio.sleep(301)
        events.failed_scheduling(POD, "one more after five minutes")

    events = record(client, story)
    assert len(client.sent) == WARNING_BURST + 2
    assert events.outbox.dropped == 100 - WARNING_BURST


def test_warnings_overtake_normal_events() -> None:
    client = RecordingClient()

    async def story(events: EventRecorder) -> None:
        for number in range(5):
            events.scheduled(pod_named(f"p{number}"), "n1")
        events.record(
            Subject("bayplan.io/v1alpha1", "PodGroup", "ml", "train", "u"), "Warning", "Waits", "Scheduling", ""
        )

    record(client, story)
    first_of_each_worker = [body["reason"] for body in client.bodies[:2]]
    assert "Waits" in first_of_each_worker


@pytest.mark.parametrize(
    "note, shown",
    [("short", "short"), ("x" * 2000, "x" * 1021 + "..."), ("é" * 1000, "é" * 510 + "...")],
    ids=["short", "long", "long in bytes"],
)
def test_notes_are_cut_to_the_limit(note: str, shown: str) -> None:
    assert shortened(note) == shown
    assert len(shortened(note).encode()) <= 1024


def test_event_names_are_unique_even_for_the_longest_pod_names() -> None:
    names = {event_name("p" * 253, 1767225600.0, number) for number in range(3)}
    assert len(names) == 3
    assert {len(name) for name in names} == {253}


def test_setting_the_wall_clock_back_does_not_suppress_events() -> None:
    client = RecordingClient()
    day = 86_400.0

    async def tell() -> None:
        wall = day
        async with EventRecorder(
            client.as_client(), instance="x", clock=now, wall_clock=lambda: datetime.fromtimestamp(wall, tz=UTC)
        ) as events:
            events.failed_scheduling(POD, NO_ROOM)
            await asyncio.sleep(1)
            wall = 0.0
            await asyncio.sleep(7 * 60)
            events.failed_scheduling(POD, NO_ROOM)
            for number in range(2 * WARNING_BURST):
                events.failed_scheduling(POD, f"another reason, number {number}")
                await asyncio.sleep(300)

    in_virtual_time(tell())
    created = [body for verb, _, body in client.sent if verb == "create"]
    assert len(created) == 2 + 2 * WARNING_BURST
    assert created[1]["eventTime"] == "1970-01-01T00:00:00.000000Z"
