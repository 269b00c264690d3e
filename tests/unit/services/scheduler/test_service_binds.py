"""Binds of the running service: who hears of a refusal and when, which units it holds up, and what is measured.

The service decides on a small cluster in virtual time, against a client that refuses the pods it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.actions import Assignment
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.binding import unit_binder as module
from bayplan.services.scheduler.service import SchedulerService, steady_clock
from tests.builders.services import api_error, in_virtual_time, now, scheduler_service
from tests.builders.units import dispatcher, on_node, pod, pod_group
from tests.unit.services.scheduler.announcing.test_announcer import Heard


@dataclass
class Refusing:
    """Takes binds within a second, but for those of the pods in `refused`."""

    refused: dict[str, ApiError] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    on_bind: Callable[[str, str], None] = lambda *_: None

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: object) -> None:
        self.sent.append(name)
        await asyncio.sleep(1.0)
        if name in self.refused:
            raise self.refused[name]
        self.on_bind(name, node)

    async def get(self, resource: object, name: str, namespace: str) -> Pod:
        return pod(name)


class Listening(Heard):
    """Also hears that a pod was scheduled, which is no news here."""

    def scheduled(self, pod: Pod, node: str, remark: str = "") -> None:
        """Nothing to note."""


def service_of(decides: Dispatcher, client: Refusing, heard: Listening) -> SchedulerService:
    events, conditions = cast("EventRecorder", heard), cast("ConditionWriter", heard)
    gangs = cast("GangStatusWriter", heard)
    made = scheduler_service(cast("KubeClient", client), decides, events, conditions, gangs, clock=now)
    made.leading = True
    return made


def gang_of(decides: Dispatcher, *names: str) -> None:
    decides.set_group(pod_group(len(names)), 0)
    for name in names:
        decides.set_pod(pod(name, 5, gang="train"), 0)


def test_a_permanent_refusal_is_reported_on_the_gang_at_once() -> None:
    decides, client, heard = (
        dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"}),
        Refusing({"b": api_error(403)}),
        Listening(),
    )

    async def story() -> None:
        service = service_of(decides, client, heard)
        gang_of(decides, "a", "b")
        await service.decide_for(1.0)
        await asyncio.sleep(1.5)

    in_virtual_time(story())
    told = [line for line in heard.lines if "binding" in line]
    assert told[0] == "event PodGroup train, FailedScheduling: binding of pod b failed: no"
    assert "status train, waits with 2 members: binding of pod b failed: no" in told
    assert "event b: gang ml/train: binding of pod b failed: no" in told
    assert client.sent == ["a", "b"]


def test_the_first_refusal_of_a_retried_member_is_reported_at_once() -> None:
    decides, client, heard = (
        dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"}),
        Refusing({"b": api_error(500)}),
        Listening(),
    )

    async def story() -> None:
        gang_of(decides, "a", "b")
        await service_of(decides, client, heard).decide_for(1.0)
        await asyncio.sleep(1.01)

    in_virtual_time(story())
    assert [line for line in heard.lines if line.startswith("event")] == ["event b: binding failed, retrying: no"]


def test_binds_that_wait_for_a_retry_are_not_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 1)
    decides, client = dispatcher("n1", "n2"), Refusing({"a": api_error(500)})

    async def story() -> None:
        service = service_of(decides, client, Listening())
        decides.set_pod(pod("a", 5), 0)
        decides.set_pod(pod("b", 5), 0)
        await service.decide_for(1.0)
        await asyncio.sleep(1.01)
        await service.decide_for(1.0)
        await asyncio.sleep(0.01)
        assert client.sent == ["a", "b"]

    in_virtual_time(story())


def test_a_bug_in_a_bind_frees_the_room_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decides, heard = dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"}), Listening()

    def annotations_of(assignment: Assignment, _: ClusterState) -> dict[str, str]:
        if assignment.pod.metadata.name == "b":
            raise ValueError("unforeseen of this")
        return {}

    monkeypatch.setattr(module, "annotations_of", annotations_of)

    async def story() -> None:
        service = service_of(decides, Refusing(), heard)
        gang_of(decides, "a", "b")
        await service.decide_for(1.0)
        await asyncio.sleep(30)
        assert not service._binder.in_flight

    in_virtual_time(story())
    assert list(decides.state.pods) == ["ml/a"]
    assert [record.message for record in caplog.records] == ["bind failed on an internal error"]
    assert any("binding of pod b failed: internal error: ValueError: unforeseen" in line for line in heard.lines)


def test_a_refused_pod_with_an_unreadable_answer_is_retried() -> None:
    class Garbled(Refusing):
        async def get(self, resource: object, name: str, namespace: str) -> Pod:
            raise msgspec.ValidationError("unforeseen of this")

    decides, client = dispatcher("n1"), Garbled({"a": api_error(403)})

    async def story() -> None:
        service = service_of(decides, client, Listening())
        decides.set_pod(pod("a", 5), 0)
        await service.decide_for(1.0)
        await asyncio.sleep(2)
        assert not decides.state.pods
        client.refused.clear()
        await service.decide_for(1.0)
        await asyncio.sleep(2)

    in_virtual_time(story())
    assert client.sent == ["a", "a"]
    assert list(decides.state.pods) == ["ml/a"]


def test_waiting_time_is_known_if_the_watch_outruns_the_answer() -> None:
    decides = dispatcher("n1")
    client = Refusing(on_bind=lambda name, node: decides.set_pod(on_node(pod(name), node), now()))

    async def story() -> str:
        service = service_of(decides, client, Listening())
        decides.set_pod(pod("a"), 0)
        await asyncio.sleep(4)
        await service.decide_for(1.0)
        await asyncio.sleep(2)
        return service._metrics.text().decode()

    text = in_virtual_time(story())
    assert 'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="1"} 5.0' in text
    assert 'bayplan_binds_total{result="bound"} 1.0' in text


def test_setting_the_wall_clock_back_changes_nothing() -> None:
    wall, passed = [1000.0], [5.0]
    clock = steady_clock(lambda: wall[0], lambda: passed[0])
    assert clock() == 1000.0
    wall[0], passed[0] = 400.0, 8.0
    assert clock() == 1003.0
