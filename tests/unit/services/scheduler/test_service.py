"""A bug of ours in the middle of the scheduler: it is logged, and everybody else is placed all the same.

The service runs in virtual time on news that the test gives it. A client that takes everything stands in for the API
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Listed
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges import health
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.metrics import AttemptMetrics
from bayplan.services.scheduler import watching
from bayplan.services.scheduler.gang_status import GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.services import RecordingClient, in_virtual_time, now, scheduler_service

Prepare = Callable[[SchedulerService, pytest.MonkeyPatch], None]


def waiting_pod(name: str, *, gang: str = "", cpu: str = "1") -> Pod:
    labels = {"bayplan.io/pod-group": gang} if gang else {}
    spec = {"schedulerName": "bayplan", "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
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
        api = client.as_client()
        service = scheduler_service(
            api,
            Dispatcher({"bayplan": default_profile()}),
            EventRecorder(api, instance="test"),
            ConditionWriter(api),
            GangStatusWriter(api),
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

    monkeypatch.setattr(watching, "follow", lists)
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
        (fails_once(lambda service: service.watcher, "_listener"), "pod grouper failed to process watch event"),
        (fails_once(lambda service: service.dispatcher, "wake"), "scheduling iteration failed, retrying"),
        (
            fails_once(lambda service: service.dispatcher.gangs, "next_completion"),
            "scheduling iteration failed, retrying",
        ),
        (fails_once(lambda service: service.announcer, "explain_for"), "scheduling iteration failed, retrying"),
        (fails_once(lambda service: service.announcer, "placed"), "scheduling iteration failed, retrying"),
    ],
    ids=["listener", "wake", "gangs", "explain", "placed"],
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
        "scheduling iteration failed, retrying"
    ]


def test_a_gang_that_waits_for_its_pods_is_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []
    monkeypatch.setattr(AttemptMetrics, "pod", lambda _, result, *__: attempts.append(result))
    monkeypatch.setattr(AttemptMetrics, "gang", lambda _, result, *__: attempts.append(f"gang {result}"))
    pods = [waiting_pod("alone"), waiting_pod("member", gang="train")]
    assert placed_in_spite_of(lambda service, patch: None, monkeypatch, *pods) == ["alone"]
    assert attempts == ["scheduled"]


def seen_on(
    service_after: float, prepare: Prepare, look: Callable[[SchedulerService], Any], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What is to be seen on a service after some seconds of leading."""
    seen = []

    def look_later(service: SchedulerService, patch: pytest.MonkeyPatch) -> None:
        prepare(service, patch)
        asyncio.get_running_loop().call_later(service_after, lambda: seen.append(look(service)))

    placed_in_spite_of(look_later, monkeypatch, waiting_pod("a"), waiting_pod("odd", cpu="a lot"))
    return seen[0]


def always_fails(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STUCK_AFTER", 5.0)

    def wake(_: float) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(service.dispatcher, "wake", wake)


@pytest.mark.parametrize(
    "seconds, stuck", [(2.0, None), (8.0, "no decision for 8 s: every iteration fails, see the log")]
)
def test_whoever_may_restart_us_is_told_when_every_turn_fails(
    monkeypatch: pytest.MonkeyPatch, seconds: float, stuck: str | None
) -> None:
    assert seen_on(seconds, always_fails, lambda service: service.why_stuck(), monkeypatch) == stuck


def test_nobody_is_told_so_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_on(8.0, lambda *_: None, lambda service: service.why_stuck(), monkeypatch) is None


def test_a_waiting_pod_that_says_what_cannot_be_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_on(5.0, lambda *_: None, lambda service: service.invalid_pods, monkeypatch) == {"ml/odd"}


def test_with_v_the_log_says_who_went_where(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="bayplan.services.scheduler"):
        placed_in_spite_of(lambda *_: None, monkeypatch, waiting_pod("a"), waiting_pod("large", cpu="1000"))
    said = [(each.message, getattr(each, "pod", getattr(each, "unit", ""))) for each in caplog.records]
    assert {("binding pod", "ml/a"), ("bind ended", "ml/a"), ("unschedulable", "ml/large")} <= set(said)
    assert [each for each in caplog.records if "no node has enough cpu free" in getattr(each, "why", "")]


def test_time_alone_settles_promises_as_often_as_it_shall(monkeypatch: pytest.MonkeyPatch) -> None:
    resynced: list[float] = []

    def prepare(service: SchedulerService, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(service.dispatcher.reports, "resync_period", 1.0)
        patch.setattr(service.dispatcher, "resync", resynced.append)

    placed_in_spite_of(prepare, monkeypatch)
    assert len(resynced) >= 8
