"""A bug inside the scheduler is logged, and other pods are still placed.

The service runs in virtual time, on lists of the test, with a client that accepts everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import PodUnit
from bayplan.kube.client.decoding import Listed
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges import health
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.metrics import AttemptMetrics
from bayplan.services.scheduler import watching
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.services import BindingClient, in_virtual_time, now, scheduler_service, watched_node, watched_pod

Prepare = Callable[[SchedulerService, pytest.MonkeyPatch], None]


def placed_despite(prepare: Prepare, monkeypatch: pytest.MonkeyPatch, *pods: Pod) -> list[str]:
    """The pods bound within ten seconds on one large node."""
    there: dict[Resource[Any], list[Any]] = {NODES: [watched_node("n1", cpus="64")], PODS: list(pods)}

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


def failing_once(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails once."""
    calls = iter([True])

    def fails(*arguments: object) -> object:
        if next(calls, False):
            raise RuntimeError("a bug")
        return real(*arguments)

    return fails


def fails_once(where: Callable[[SchedulerService], object], method: str) -> Prepare:
    def prepare(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(where(service), method, failing_once(getattr(where(service), method)))

    return prepare


@pytest.mark.parametrize(
    "bug, told",
    [
        (fails_once(lambda service: service.watcher, "_listener"), "listener failed to process watch event"),
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
def test_a_bug_that_happens_once_costs_a_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bug: Prepare, told: str
) -> None:
    assert placed_despite(bug, monkeypatch, watched_pod("a"), watched_pod("b")) == ["a", "b"]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [(record.message, str(cast("Any", record.exc_info)[1])) for record in errors] == [(told, "a bug")]


def test_a_gang_that_cannot_be_queued_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def prepare(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
        def waiting(gang: str) -> list[Pod]:
            raise RuntimeError(f"a bug with {gang}")

        monkeypatch.setattr(service.dispatcher.roster, "waiting", waiting)

    assert placed_despite(prepare, monkeypatch, watched_pod("member", gang="gang"), watched_pod("a")) == ["a"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "scheduling iteration failed, retrying"
    ]


def test_a_gang_that_waits_for_its_pods_is_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []
    monkeypatch.setattr(AttemptMetrics, "pod", lambda _, result, *__: attempts.append(result))
    monkeypatch.setattr(AttemptMetrics, "gang", lambda _, result, *__: attempts.append(f"gang {result}"))
    pods = [watched_pod("alone"), watched_pod("member", gang="train")]
    assert placed_despite(lambda service, patch: None, monkeypatch, *pods) == ["alone"]
    assert attempts == ["scheduled"]


def seen_on(
    service_after: float, prepare: Prepare, look: Callable[[SchedulerService], Any], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What `look` returns after some seconds of leading."""
    seen = []

    def look_later(service: SchedulerService, patch: pytest.MonkeyPatch) -> None:
        prepare(service, patch)
        asyncio.get_running_loop().call_later(service_after, lambda: seen.append(look(service)))

    placed_despite(look_later, monkeypatch, watched_pod("a"), watched_pod("odd", cpus="a lot"))
    return seen[0]


def always_fails(service: SchedulerService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STUCK_AFTER", 5.0)

    def wake(_: float) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(service.dispatcher, "wake", wake)


@pytest.mark.parametrize(
    "seconds, stuck", [(2.0, None), (8.0, "no decision for 8 s: every iteration fails, see the log")]
)
def test_why_stuck_reports_failing_iterations(
    monkeypatch: pytest.MonkeyPatch, seconds: float, stuck: str | None
) -> None:
    assert seen_on(seconds, always_fails, lambda service: service.why_stuck(), monkeypatch) == stuck


def test_why_stuck_is_none_while_iterations_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_on(8.0, lambda *_: None, lambda service: service.why_stuck(), monkeypatch) is None


def test_waiting_pods_with_invalid_specs_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_on(5.0, lambda *_: None, lambda service: service.invalid_pods, monkeypatch) == {PodUnit("ml/odd")}


def test_the_debug_log_has_every_placement(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="bayplan.services.scheduler"):
        placed_despite(lambda *_: None, monkeypatch, watched_pod("a"), watched_pod("large", cpus="1000"))
    said = [(each.message, getattr(each, "pod", getattr(each, "unit", ""))) for each in caplog.records]
    assert {("binding pod", "ml/a"), ("bind ended", "ml/a"), ("unschedulable", "ml/large")} <= set(said)
    assert [each for each in caplog.records if "no node has cpu 1000: the largest has " in getattr(each, "why", "")]


def test_promises_are_resynced_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    resynced: list[float] = []

    def prepare(service: SchedulerService, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(service.dispatcher.reports, "resync_period", 1.0)
        patch.setattr(service.dispatcher, "resync", resynced.append)

    placed_despite(prepare, monkeypatch)
    assert len(resynced) >= 8
