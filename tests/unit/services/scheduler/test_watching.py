"""When pods are listed again: a scheduler that begins to lead must see what the last leader bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Listed
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler import watching
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from tests.builders.services import RecordingClient, in_virtual_time, now, scheduler_service, watched_node

LISTING = 5.0  # seconds that the API server takes for the list of pods


def lists_of_pods(monkeypatch: pytest.MonkeyPatch, *, leads_after: float) -> tuple[list[str], float]:
    """How each list of pods ended, and how long the scheduler waited for the last one."""
    ends: list[str] = []

    async def lists(_: object, resource: Resource[Any], **__: object) -> AsyncIterator[Listed[Any]]:
        if resource == PODS:
            try:
                await asyncio.sleep(LISTING)
            except asyncio.CancelledError:
                ends.append("abandoned")
                raise
            ends.append("complete")
        yield Listed([watched_node("n1")] if resource == NODES else [], "1", [])
        await asyncio.sleep(3600)

    async def story() -> float:
        api = RecordingClient().as_client()
        service = scheduler_service(
            api,
            Dispatcher({"bayplan": default_profile()}),
            EventRecorder(api, instance="test"),
            ConditionWriter(api),
            GangStatusWriter(api),
            clock=now,
        )
        following = asyncio.create_task(service.follow())
        await asyncio.sleep(leads_after)
        began = now()
        await service.watcher.refresh_pods()
        assert list(service.watcher.intake.not_listed_yet()) == []
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return now() - began

    monkeypatch.setattr(watching, "follow", lists)
    return ends, in_virtual_time(story())


@pytest.mark.parametrize(
    "leads_after, ends",
    [
        (1.0, ["abandoned", "complete"]),
        (60.0, ["complete", "complete"]),
    ],
    ids=["during the first list", "as a standby"],
)
def test_pods_are_listed_once_after_leadership(
    monkeypatch: pytest.MonkeyPatch, leads_after: float, ends: list[str]
) -> None:
    listed, took = lists_of_pods(monkeypatch, leads_after=leads_after)
    assert listed == ends
    assert LISTING <= took < LISTING + 1
