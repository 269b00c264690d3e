"""Leader election: acquiring, losing and handing over the lease."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from bayplan.config.service_settings import LeaderElectionSettings
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import PODS
from bayplan.services.edges.leader import HoldsLease, LeadershipLost, LeaseKeeper, lease_keeper, run_while_leading
from tests.builders.services import api_error, in_virtual_time
from tests.scripted_api_server import ScriptedServer, asynchronous, listing, says

SETTINGS = LeaderElectionSettings(
    enabled=True, lease_duration=15.0, renew_deadline=10.0, retry_period=2.0, name="bayplan", namespace="bayplan-system"
)


@dataclass
class LeaseServer:
    """An API server with one Lease."""

    lease: dict[str, Any] | None = None
    version: int = 0
    paths: set[str] = field(default_factory=set)

    @property
    def holder(self) -> str | None:
        holder: str | None = (self.lease or {}).get("spec", {}).get("holderIdentity")
        return holder

    async def request(self, verb: str, path: str) -> bytes:
        self.paths.add(path)
        if self.lease is None:
            raise api_error(404)
        return msgspec.json.encode(self.lease)

    async def create(self, resource: object, body: Any, namespace: str) -> bytes:
        return self._write(body)

    async def update(self, resource: object, name: str, body: Any, namespace: str) -> bytes:
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise api_error(409)
        return self._write(body)

    def _write(self, body: Any) -> bytes:
        self.version += 1
        self.lease = msgspec.json.decode(msgspec.json.encode(body))
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.json.encode(self.lease)

    def steal(self) -> None:
        assert self.lease is not None
        self.lease["spec"]["holderIdentity"] = "thief"
        self.version += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)


class Instance:
    """A replica that records its life."""

    def __init__(
        self, server: LeaseServer, name: str, story: list[str], settings: LeaderElectionSettings = SETTINGS
    ) -> None:
        self._server = server
        self._name = name
        self._story = story
        self._settings = settings

    def start(self, work: Callable[[HoldsLease], Any] | None = None) -> asyncio.Task[None]:
        return asyncio.create_task(
            run_while_leading(
                LeaseKeeper(cast("KubeClient", self._server)),
                self._settings,
                self._name,
                work or self._work,
                on_change=self._changed,
                finish=self._finish,
            )
        )

    async def _work(self, holds: HoldsLease) -> None:
        self._note("works")
        try:
            await asyncio.sleep(3600)
        finally:
            self._note("stops")

    async def _finish(self) -> None:
        await asyncio.sleep(5)
        self._note(f"finishes, {self._server.holder} holds the lease")

    def _changed(self, *, leads: bool) -> None:
        self._note("leads" if leads else "leads no more")

    def _note(self, what: str) -> None:
        self._story.append(f"{self._name} {what}")


def test_the_standby_takes_over_after_the_leader_has_finished() -> None:
    story: list[str] = []

    async def tell() -> None:
        server = LeaseServer()
        first, second = Instance(server, "a", story).start(), None
        await asyncio.sleep(1)
        second = Instance(server, "b", story).start()
        await asyncio.sleep(60)
        first.cancel()
        await asyncio.sleep(60)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert server.paths == {"/apis/coordination.k8s.io/v1/namespaces/bayplan-system/leases/bayplan"}

    in_virtual_time(tell())
    assert story == [
        "a leads",
        "a works",
        "a stops",
        "a finishes, a holds the lease",
        "a leads no more",
        "b leads",
        "b works",
        "b stops",
        "b finishes, b holds the lease",
        "b leads no more",
    ]


def test_a_lost_lease_stops_the_work_at_once() -> None:
    story: list[str] = []

    async def tell() -> None:
        server = LeaseServer()
        task = Instance(server, "a", story).start()
        await asyncio.sleep(10)
        server.steal()
        with pytest.raises(LeadershipLost, match='lease bayplan-system/bayplan: taken by "thief"'):
            await task
        assert server.holder == "thief"

    in_virtual_time(tell())
    assert story == ["a leads", "a works", "a leads no more", "a stops"]


def test_a_lease_lost_while_finishing_stops_that_too() -> None:
    story: list[str] = []

    async def tell() -> None:
        server = LeaseServer()
        task = Instance(server, "a", story).start()
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.sleep(1)
        server.steal()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(tell())
    assert story == ["a leads", "a works", "a stops", "a leads no more"]


def test_the_work_can_check_the_lease_at_any_moment() -> None:
    held: list[HoldsLease] = []

    async def work(holds: HoldsLease) -> None:
        held.append(holds)
        assert holds()
        await asyncio.sleep(3600)

    async def tell() -> None:
        server = LeaseServer()
        task = Instance(server, "a", []).start(work)
        await asyncio.sleep(1)
        server.steal()
        with pytest.raises(LeadershipLost):
            await task

    in_virtual_time(tell())
    assert not held[0]()


def test_a_failing_work_propagates_and_releases_the_lease() -> None:
    story: list[str] = []

    async def tell() -> None:
        server = LeaseServer()

        async def broken(holds: HoldsLease) -> None:
            raise KeyError("bug")

        with pytest.raises(KeyError):
            await Instance(server, "a", story).start(broken)
        assert server.holder is None

    in_virtual_time(tell())
    assert story == ["a leads", "a finishes, a holds the lease", "a leads no more"]


def test_without_leader_election_the_work_starts_at_once() -> None:
    story: list[str] = []

    async def tell() -> None:
        server = LeaseServer()
        alone = LeaderElectionSettings(False, 15.0, 10.0, 2.0, "bayplan", "kube-system")
        task = Instance(server, "a", story, alone).start()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert server.paths == set()

    in_virtual_time(tell())
    assert story == ["a leads", "a works", "a stops", "a finishes, None holds the lease", "a leads no more"]


@asynchronous
async def test_flow_control_of_other_requests_does_not_delay_the_lease() -> None:
    async with ScriptedServer() as server, server.client(qps=0.01, burst=1, connections=1) as busy:
        server.answers("GET", "/api/v1/pods", listing([], version="1"))
        server.answers("GET", "/lease", says({}))
        await busy.list(PODS)
        waiting = asyncio.create_task(busy.request("GET", "/lease"))
        async with lease_keeper(busy.access) as keeper, asyncio.timeout(5):
            for _ in range(20):
                await keeper.run(keeper.client.request("GET", "/lease"))
        assert not waiting.done()
        waiting.cancel()


BRIEF = LeaderElectionSettings(True, 1.0, 0.6, 0.1, "bayplan", "bayplan-system")


@contextmanager
def beside(server: LeaseServer) -> Iterator[LeaseKeeper]:
    """A keeper in its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield LeaseKeeper(cast("KubeClient", server), loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynchronous
async def test_a_decision_longer_than_the_lease_does_not_lose_it() -> None:
    held: list[bool] = []

    async def work(holds: HoldsLease) -> None:
        time.sleep(1.5)  # noqa: ASYNC251 - a decision that blocks the loop
        held.append(holds())

    server = LeaseServer()
    with beside(server) as keeper:
        await run_while_leading(keeper, BRIEF, "a", work, on_change=lambda *, leads: None)
    assert held == [True]
    assert server.version > 10  # renewed all the while, then released
    assert not server.holder


@asynchronous
async def test_a_stuck_leader_releases_the_lease_while_its_loop_is_blocked() -> None:
    began = time.monotonic()
    seen: list[tuple[str | None, bool]] = []
    server = LeaseServer()

    async def work(holds: HoldsLease) -> None:
        time.sleep(1.2)  # noqa: ASYNC251 - a decision that blocks the loop
        seen.append((server.holder, holds()))
        await asyncio.sleep(3600)

    def why_stuck() -> str | None:
        return "no decision for 60 s: one decision does not end" if time.monotonic() - began > 0.5 else None

    with beside(server) as keeper, pytest.raises(LeadershipLost, match="given up: no decision for 60 s"):
        await run_while_leading(keeper, BRIEF, "a", work, on_change=lambda *, leads: None, why_stuck=why_stuck)
    assert seen in ([(None, False)], [("", False)])


def test_changes_of_the_lease_holder_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def tell() -> None:
        server = LeaseServer()
        tasks = []
        for name in "ab":
            tasks.append(Instance(server, name, []).start())
            await asyncio.sleep(10)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with caplog.at_level(logging.INFO):
        in_virtual_time(tell())
    told = [f"{record.message} {getattr(record, 'holder', '')}".strip() for record in caplog.records]
    assert told[:4] == [
        "waiting for lease",
        "acquired lease a",
        "waiting for lease",
        "lease is held by another replica a",
    ]
    assert {getattr(record, "lease", "") for record in caplog.records} == {"bayplan-system/bayplan"}
