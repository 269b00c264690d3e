"""First lists, page by page, and when pods are listed again: a scheduler that begins to lead must see what the last
leader bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler import watching
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.services import (
    BindingClient,
    added,
    in_virtual_time,
    listed,
    now,
    scheduler_service,
    watched_node,
    watched_pod,
)

LISTING = 5.0  # seconds that the API server takes for the list of pods


def service_of(client: BindingClient) -> SchedulerService:
    api = client.as_client()
    return scheduler_service(
        api,
        Dispatcher({"bayplan": default_profile()}),
        EventRecorder(api, instance="test"),
        ConditionWriter(api),
        GangStatusWriter(api),
        clock=now,
    )


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
        service = service_of(BindingClient())
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
    ended, took = lists_of_pods(monkeypatch, leads_after=leads_after)
    assert ended == ends
    assert LISTING <= took < LISTING + 1


# What comes, each after so many seconds.
Script = Sequence[tuple[float, Listed[Any] | Changes[Any]]]


class ScriptedLists:
    """What the lists of each resource bring; the last script is that of all further lists."""

    def __init__(self, scripts: dict[Resource[Any], list[Script]]) -> None:
        self._scripts = scripts
        self.by_page: list[bool] = []  # of the lists of pods

    async def follow(
        self, _: object, resource: Resource[Any], *, by_page: bool, **__: object
    ) -> AsyncIterator[Listed[Any] | Changes[Any]]:
        if resource == PODS:
            self.by_page.append(by_page)
        scripts = self._scripts.get(resource, [[(0.0, listed())]])
        for seconds, news in scripts.pop(0) if len(scripts) > 1 else scripts[0]:
            await asyncio.sleep(seconds)
            yield news
        await asyncio.sleep(3600)


N1, A = watched_node("n1"), watched_pod("a")


@pytest.mark.parametrize(
    "nodes, pods, known",
    [
        pytest.param([(0.0, added(N1)), (LISTING, listed(N1, delivered=1))], [(0.0, listed(A))], [], id="nodes"),
        pytest.param([(0.0, listed(N1))], [(0.0, added(A)), (LISTING, listed(A, delivered=1))], ["ml/a"], id="pods"),
    ],
)
def test_a_page_is_no_list_to_build_on(
    monkeypatch: pytest.MonkeyPatch,
    nodes: Script,
    pods: Script,
    known: list[str],
) -> None:
    """While a list has come in part, what builds on it is not applied, and nothing is decided."""
    monkeypatch.setattr(watching, "follow", ScriptedLists({NODES: [nodes], PODS: [pods]}).follow)

    async def story() -> None:
        client = BindingClient()
        service = service_of(client)
        tasks = [asyncio.create_task(service.follow()), asyncio.create_task(service.lead())]
        await asyncio.sleep(LISTING - 1)
        assert (list(service.dispatcher.waiting), client.bound) == (known, [])
        await asyncio.sleep(2 * LISTING)
        assert client.bound == ["a"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    in_virtual_time(story())


@pytest.mark.parametrize(
    "leads_at, by_page",
    [
        pytest.param([1.0], [True, True], id="during the first list"),
        pytest.param([60.0], [True, False], id="as a standby"),
        pytest.param([60.0, 61.0], [True, False, False], id="twice, the second time during the list"),
    ],
)
def test_pods_are_applied_by_page_until_they_were_listed_once(
    monkeypatch: pytest.MonkeyPatch, leads_at: list[float], by_page: list[bool]
) -> None:
    """Pages of a later list would be mixed with pods that are gone. Those of an abandoned first list are dropped."""
    gone, stays, new = (watched_pod(name) for name in ("gone", "stays", "new"))
    first: Script = [(0.0, added(gone, stays)), (LISTING, listed(gone, stays, delivered=2))]
    later: Script = [(LISTING, listed(stays, new))]
    lists = ScriptedLists({NODES: [[(0.0, listed(N1))]], PODS: [first, later]})
    monkeypatch.setattr(watching, "follow", lists.follow)

    async def story() -> list[str]:
        service = service_of(BindingClient())
        following = asyncio.create_task(service.follow())
        for moment in leads_at:
            await asyncio.sleep(moment - now())
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0 if moment != leads_at[-1] else None):
                    await service.watcher.refresh_pods()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return list(service.dispatcher.waiting)

    assert in_virtual_time(story()) == ["ml/stays", "ml/new"]
    assert lists.by_page == by_page
