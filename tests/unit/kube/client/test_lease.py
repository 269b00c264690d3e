"""Leader election in virtual time: a server that keeps one Lease as the API server does, and candidates whose clock is
a number.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from aiohttp import web

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.lease import LeaderElection, LeaseSettings, claim, micro_time, unique_identity
from bayplan.kube.wire.coordination_v1 import LeaseSpec
from tests.scripted_api_server import Answer, Json, ScriptedServer, asynchronous, drops, never, refusal, says

ALL = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PATH = f"{ALL}/bayplan"
NOW = "2026-01-31T12:00:00.000000Z"


class World:
    """A server with one Lease, and the time."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.time = 1000.0
        self.trouble: Answer | None = None  # what the server answers instead, if anything
        self.troubles: list[str] = []  # what candidates complained about
        self._version = 0

    def candidate(self, client: KubeClient, identity: str) -> LeaderElection:
        return LeaderElection(
            client,
            LeaseSettings("kube-system", "bayplan", identity),
            on_error=self.troubles.append,
            clock=lambda: self.time,
            wall_clock=lambda: datetime.fromtimestamp(self.time, UTC),
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    @property
    def holder(self) -> str | None:
        return self.lease["spec"].get("holderIdentity") if self.lease else None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.trouble is not None:
            return await self.trouble(request)
        body = json.loads(await request.read() or "null")
        if request.method == "POST":
            return await refusal(409, "AlreadyExists")(request) if self.lease else self._keep(body, 201)
        if self.lease is None:
            return await refusal(404, "NotFound")(request)
        if request.method == "PUT":
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return await refusal(409, "Conflict", "the object has been modified")(request)
            return self._keep(body, 200)
        return web.json_response(self.lease)

    def _keep(self, body: Json, status: int) -> web.StreamResponse:
        self._version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return web.json_response(self.lease, status=status)


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[World, KubeClient]]:
    world = World()
    async with ScriptedServer() as server, server.client() as client:
        for method, path in (("GET", PATH), ("PUT", PATH), ("POST", ALL)):
            server.answers(method, path, world.answer)
        yield world, client


async def until(condition: Callable[[], bool]) -> None:
    """Let the others work."""
    while not condition():  # noqa: ASYNC110 - what is awaited is a number
        await asyncio.sleep(0)


# ---------------------------------------------------------------------------------------------------------------------
# the rule


OTHERS = LeaseSpec(
    holder_identity="b", lease_duration_seconds=15, acquire_time="then", renew_time="then", lease_transitions=3
)
OURS = LeaseSpec(
    holder_identity="a", lease_duration_seconds=15, acquire_time="then", renew_time="then", lease_transitions=3
)
RELEASED = LeaseSpec(lease_duration_seconds=1, lease_transitions=3)


@pytest.mark.parametrize(
    "seen, seen_for, acquired, transitions",
    [
        pytest.param(None, 0, NOW, 0, id="never held"),
        pytest.param(OURS, 0, "then", 3, id="ours is renewed"),
        pytest.param(OURS, 99, "then", 3, id="ours ran out and no other replica took it"),
        pytest.param(OTHERS, 15, NOW, 4, id="another's ran out"),
        pytest.param(RELEASED, 0, NOW, 4, id="another released it"),
    ],
)
def test_when_the_lease_may_be_taken(seen: LeaseSpec | None, seen_for: float, acquired: str, transitions: int) -> None:
    spec = claim(seen, seen_for, LeaseSettings("kube-system", "bayplan", "a"), NOW)
    assert spec == LeaseSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time=acquired,
        renew_time=NOW,
        lease_transitions=transitions,
    )


def test_another_holders_lease_is_respected_until_its_duration_has_passed() -> None:
    assert (
        claim(OTHERS, 14.9, LeaseSettings("kube-system", "bayplan", "a", duration=4, renew_deadline=3, retry=1), NOW)
        is None
    )


def test_times_have_the_only_form_that_the_api_server_takes() -> None:
    assert micro_time(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00.000000Z"
    assert micro_time(datetime(2026, 1, 31, 12, 0, 0, 5, timezone(timedelta(hours=2)))) == "2026-01-31T10:00:00.000005Z"


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"identity": ""}, "identity is empty"),
        ({"duration": 0.5, "renew_deadline": 0.4}, "must be whole seconds, at least 1"),
        ({"duration": 10}, "duration 10 s must be longer than the renew deadline 10 s"),
        ({"renew_deadline": 2}, "renew deadline 2 s must be longer than 1.2 times the retry period 2 s"),
        ({"retry": 0}, "which must be positive"),
    ],
)
def test_times_that_cannot_work_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        LeaseSettings(**{"namespace": "kube-system", "name": "bayplan", "identity": "a", **settings})


def test_two_processes_of_one_host_have_different_identities() -> None:
    assert unique_identity() != unique_identity()


# ---------------------------------------------------------------------------------------------------------------------
# stories


@asynchronous
async def test_the_first_candidate_creates_the_lease_and_renews_it() -> None:
    async with a_world() as (world, client):
        a = world.candidate(client, "a")
        await a.acquire()
        assert world.lease is not None
        assert world.lease["spec"]["acquireTime"] == micro_time(datetime.fromtimestamp(1000, UTC))
        renewing = asyncio.create_task(a.renew_until_lost())
        await until(lambda: world.time >= 1100)
        renewing.cancel()
        assert a.leads
        assert world.lease["spec"]["leaseTransitions"] == 0
        assert world.lease["spec"]["acquireTime"] == micro_time(datetime.fromtimestamp(1000, UTC))
        assert client.counts["GET", 200] == 0  # a renewal is one request


@asynchronous
async def test_a_standby_takes_over_from_a_silent_leader_which_notices() -> None:
    async with a_world() as (world, client):
        a, b = world.candidate(client, "a"), world.candidate(client, "b")
        await a.acquire()
        started = world.time
        await b.acquire()
        assert 15 <= world.time - started <= 15 + 2 * 2.2
        assert (world.holder, b.leader) == ("b", "b")
        assert not a.leads  # by its own clock, before it asked the API server
        assert await a.renew_until_lost() in (
            'lease kube-system/bayplan: taken by "b"',
            "lease kube-system/bayplan: could not be renewed for 10 s",
        )


@asynchronous
async def test_a_released_lease_is_taken_at_the_next_look() -> None:
    async with a_world() as (world, client):
        a, b = world.candidate(client, "a"), world.candidate(client, "b")
        await a.acquire()
        await a.release()
        assert not a.leads
        assert world.holder is None
        before = world.time
        await b.acquire()
        assert world.time == before
        assert world.lease is not None
        assert world.lease["spec"]["leaseTransitions"] == 1


@asynchronous
async def test_who_does_not_hold_the_lease_releases_nothing() -> None:
    async with a_world() as (world, client):
        a, b = world.candidate(client, "a"), world.candidate(client, "b")
        await a.acquire()
        await b.release()
        assert world.holder == "a"
        world.lease["spec"]["holderIdentity"] = "b"  # type: ignore[index]
        await a.release()
        assert world.holder == "b"


@pytest.mark.parametrize("trouble", [drops(), refusal(500, "InternalError", "etcd is away"), refusal(403, "Forbidden")])
@asynchronous
async def test_a_leader_that_cannot_renew_gives_up_before_a_standby_may_take_over(trouble: Answer) -> None:
    async with a_world() as (world, client):
        a = world.candidate(client, "a")
        await a.acquire()
        world.trouble = trouble
        lost = await a.renew_until_lost()
        assert lost == "lease kube-system/bayplan: could not be renewed for 10 s"
        assert 10 <= world.time - 1000 < 15
        assert not a.leads
        assert world.troubles


@asynchronous
async def test_trouble_that_passes_in_time_costs_nothing() -> None:
    async with a_world() as (world, client):
        a = world.candidate(client, "a")
        await a.acquire()
        world.trouble = refusal(500)
        renewing = asyncio.create_task(a.renew_until_lost())
        await until(lambda: world.time >= 1006)
        world.trouble = None
        await until(lambda: world.time >= 1060)
        assert a.leads
        assert not renewing.done()
        renewing.cancel()


@asynchronous
async def test_a_touched_lease_is_a_conflict_but_no_loss() -> None:
    async with a_world() as (world, client):
        a = world.candidate(client, "a")
        await a.acquire()
        assert world.lease is not None
        world.lease["metadata"] |= {"resourceVersion": "77", "labels": {"team": "platform"}}
        world.lease["spec"]["strategy"] = "OldestEmulationVersion"
        renewing = asyncio.create_task(a.renew_until_lost())
        await until(lambda: client.counts["PUT", 200] >= 2)
        renewing.cancel()
        assert client.counts["PUT", 409] == 1
        assert world.lease["metadata"]["labels"] == {"team": "platform"}
        assert world.lease["spec"]["strategy"] == "OldestEmulationVersion"


@asynchronous
async def test_a_release_without_an_answer_is_told_in_words() -> None:
    troubles: list[str] = []
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", PATH, refusal(404, "NotFound"), never())
        server.answers("POST", ALL, says({"spec": {"holderIdentity": "a"}}, 201))
        settings = LeaseSettings("kube-system", "bayplan", "a", duration=1, renew_deadline=0.1, retry=0.01)
        a = LeaderElection(client, settings, on_error=troubles.append)
        await a.acquire()
        await a.release()
    assert troubles == ["lease kube-system/bayplan: not released: no answer within 0.1 s"]


@asynchronous
async def test_a_deleted_lease_is_created_again() -> None:
    async with a_world() as (world, client):
        a = world.candidate(client, "a")
        await a.acquire()
        world.lease = None
        renewing = asyncio.create_task(a.renew_until_lost())
        await until(lambda: world.holder is not None)
        renewing.cancel()
        assert a.leads


@asynchronous
async def test_of_many_candidates_one_leads_after_the_first_look() -> None:
    async with a_world() as (world, client):
        looked: set[int] = set()
        candidates = []
        for index in range(8):

            async def wait_for_ever(_: float, index: int = index) -> None:
                looked.add(index)
                await asyncio.Event().wait()

            settings = LeaseSettings("kube-system", "bayplan", f"c{index}")
            candidates.append(LeaderElection(client, settings, sleep=wait_for_ever))
        tasks = [asyncio.create_task(candidate.acquire()) for candidate in candidates]
        await until(lambda: len(looked) == 7)
        assert [candidate.settings.identity for candidate in candidates if candidate.leads] == [world.holder]
        for task in tasks:
            task.cancel()
