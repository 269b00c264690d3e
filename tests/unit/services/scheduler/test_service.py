"""A bug of ours in the middle of the scheduler: it is logged, and everybody else is placed all the same.

The service runs in virtual time on news that the test gives it. A client that takes everything stands in for the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest

from bayplan.kube.core_v1 import Node, Pod
from bayplan.kube.decoding import Listed
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.scheduling.dispatcher import Dispatcher
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.scheduler import service as module
from bayplan.services.scheduler.gang_writes import GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.unit.services.edges.small_server import RecordingClient, in_virtual_time, now

Prepare = Callable[[SchedulerService, pytest.MonkeyPatch], None]


def waiting_pod(name: str, *, gang: str = "") -> Pod:
    labels = {"bayplan.io/pod-group": gang} if gang else {}
    spec = {"schedulerName": "bayplan", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ml", "uid": name, "labels": labels}, "spec": spec}, Pod
    )


class BindingClient(RecordingClient):
    """Binds whatever it is asked to."""

    async def bind(self, namespace: str, pod: str, *what: object) -> None:
        await self._take("bind", pod, {})

    @property
    def bound(self) -> list[str]:
        return [name for verb, name, _ in self.sent if verb == "bind"]


def placed_in_spite_of(prepare: Prepare, monkeypatch: pytest.MonkeyPatch, *pods: Pod) -> list[str]:
    """Who is bound within ten seconds on one large node."""
    node = {"metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": {"cpu": "64", "pods": "110"}}}
    there: dict[Resource[Any], list[Any]] = {NODES: [msgspec.convert(node, Node)], PODS: list(pods)}

    async def lists(_: object, resource: Resource[Any], **__: object) -> AsyncIterator[Listed[Any]]:
        yield Listed(there.get(resource, []), "1", [])
        await asyncio.sleep(3600)

    async def story() -> list[str]:
        client = BindingClient()
        service = SchedulerService(
            client.as_client(),
            Dispatcher({"bayplan": default_profile()}),
            events=EventRecorder(client.as_client(), instance="test"),
            conditions=ConditionWriter(client.as_client()),
            gangs=GangStatusWriter(client.as_client()),
            metrics=SchedulerMetrics(),
            clock=now,
        )
        prepare(service, monkeypatch)
        tasks = [asyncio.create_task(service.follow()), asyncio.create_task(service.lead())]
        await asyncio.sleep(10)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []
        return sorted(client.bound)

    monkeypatch.setattr(module, "follow", lists)
    return in_virtual_time(story())


def the_first_time(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails once."""
    calls = iter([True])

    def fails(*arguments: object) -> object:
        if next(calls, False):
            raise RuntimeError("a bug")
        return real(*arguments)

    return fails


def fails_once(where: Callable[[SchedulerService], object], method: str) -> Prepare:
    def prepare(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(where(service), method, the_first_time(getattr(where(service), method)))

    return prepare


@pytest.mark.parametrize(
    "bug, told",
    [
        (fails_once(lambda service: service, "also_tell"), "somebody else cannot take news over"),
        (fails_once(lambda service: service.dispatcher, "wake"), "a turn failed, the next one follows"),
        (fails_once(lambda service: service.dispatcher.gangs, "to_tell"), "a turn failed, the next one follows"),
        (fails_once(lambda service: service.announcer, "explain_for"), "a turn failed, the next one follows"),
        (fails_once(lambda service: service.announcer, "placed"), "a turn failed, the next one follows"),
    ],
    ids=["also tell", "wake", "gangs", "explain", "placed"],
)
def test_one_that_does_not_come_again_costs_a_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bug: Prepare, told: str
) -> None:
    assert placed_in_spite_of(bug, monkeypatch, waiting_pod("a"), waiting_pod("b")) == ["a", "b"]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [(record.message, str(cast("Any", record.exc_info)[1])) for record in errors] == [(told, "a bug")]


def test_a_gang_that_cannot_even_be_queued_keeps_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def prepare(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
        def waiting(gang: str) -> list[Pod]:
            raise RuntimeError(f"a bug with {gang}")

        monkeypatch.setattr(service.dispatcher.roster, "waiting", waiting)

    assert placed_in_spite_of(prepare, monkeypatch, waiting_pod("member", gang="gang"), waiting_pod("a")) == ["a"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "a turn failed, the next one follows"
    ]


def test_a_gang_that_waits_for_its_pods_is_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []
    monkeypatch.setattr(SchedulerMetrics, "attempt", lambda _, result, *__: attempts.append(result))
    monkeypatch.setattr(SchedulerMetrics, "gang_attempt", lambda _, result, *__: attempts.append(f"gang {result}"))
    pods = [waiting_pod("alone"), waiting_pod("member", gang="train")]
    assert placed_in_spite_of(lambda service, patch: None, monkeypatch, *pods) == ["alone"]
    assert attempts == ["scheduled"]
