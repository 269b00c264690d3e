"""Heartbeats: every node once in each, whatever the API server does; nodes that others marked, deleted or created
again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, cast

import msgspec
import pytest

from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import LEASES, Resource
from bayplan.services.kubelets.fleet import Fleet
from bayplan.services.kubelets.heartbeat import Heartbeats, ObservedNode, turns
from bayplan.services.kubelets.model import OURS_LABEL, PublishTopology
from tests.builders.services import api_error, in_virtual_time, now
from tests.unit.services.kubelets.small_fleets import bound, fleet

PERIOD = 10.0


@pytest.mark.parametrize("nodes", [1, 3, 40, 5000])
def test_every_node_has_its_turn_once_in_a_heartbeat(nodes: int) -> None:
    names = [f"virtual-{number}" for number in range(nodes)]
    ticks = list(islice(turns(names, 1 / 40), 40 * 3))
    assert Counter(name for tick in ticks for name in tick) == dict.fromkeys(names, 3)
    assert max(map(len, ticks)) - min(map(len, ticks)) <= 1


class Server:
    """An API server that answers after `answers_in` seconds, and notes what was written."""

    def __init__(self, answers_in: Callable[[str], float] = lambda _: 0.0) -> None:
        self._answers_in = answers_in
        self.problem: ApiError | None = None
        self.renewals: Counter[str] = Counter()
        self.statuses: list[tuple[str, str]] = []
        self.allocatable: list[dict[str, str | None]] = []
        self.created: list[str] = []

    async def patch(self, resource: Resource[Any], name: str, body: Any, namespace: str = "", **_: Any) -> bytes:
        await asyncio.sleep(self._answers_in(name))
        if resource is LEASES:
            if self.problem is not None:
                raise self.problem
            self.renewals[name] += 1
        else:
            (ready,) = (each["status"] for each in body["status"]["conditions"] if each["type"] == "Ready")
            self.statuses.append((name, ready))
            self.allocatable.append(body["status"]["allocatable"])
        return b"{}"

    async def create(self, resource: Resource[Any], body: Any, namespace: str = "") -> bytes:
        self.created.append(body["metadata"]["name"])
        return b"{}"


def heartbeats(server: Server, kubelets: Fleet, troubles: list[str] | None = None) -> tuple[Heartbeats, dict[str, str]]:
    uids = {name: f"uid-{name}" for name in kubelets.agents}
    told = [] if troubles is None else troubles
    client = cast("KubeClient", server)
    return Heartbeats(client, kubelets.agents, uids, kubelets.reports, period=PERIOD, on_error=told.append), uids


def seen(
    name: str, *, ready: str = "True", uid: str = "", labels: Mapping[str, str] | None = None, **amounts: dict[str, str]
) -> ObservedNode:
    good = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [*({"type": kind, "status": "False"} for kind in good), {"type": "Ready", "status": ready}]
    known = {OURS_LABEL: "true"} if labels is None else labels
    metadata = {"name": name, "uid": uid or f"uid-{name}", "labels": known}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": conditions, **amounts}}, ObservedNode)


async def alive_for(seconds: float, beats: Heartbeats) -> None:
    work = asyncio.create_task(beats.keep_alive())
    await asyncio.sleep(seconds)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def test_a_slow_answer_delays_only_its_own_node() -> None:
    # Virtual-0 is answered after 35 s. When every tick waited for all answers, all nodes missed three heartbeats of
    # four.
    server = Server(lambda name: 35.0 if name == "virtual-0" else 0.0)
    beats, _ = heartbeats(server, fleet(4))
    in_virtual_time(alive_for(101.0, beats))
    assert server.renewals == {"virtual-0": 2, "virtual-1": 10, "virtual-2": 10, "virtual-3": 10}


def test_a_node_that_was_marked_not_ready_is_repaired_with_its_next_heartbeat() -> None:
    server = Server()
    beats, _ = heartbeats(server, fleet(2))

    async def story() -> None:
        work = asyncio.create_task(beats.keep_alive())
        beats.listed([seen("virtual-0"), seen("virtual-1")], now())
        await asyncio.sleep(15.0)
        beats.changed(seen("virtual-1", ready="Unknown"), now())
        assert server.statuses == []
        await asyncio.sleep(10.0)
        assert server.statuses == [("virtual-1", "True")]
        beats.changed(seen("virtual-1"), now())
        await asyncio.sleep(30.0)
        work.cancel()

    in_virtual_time(story())
    assert server.statuses == [("virtual-1", "True")]


@pytest.mark.parametrize(
    "capacity, allocatable, becomes",
    [
        ({"example.com/gauge": "5"}, {}, "5"),
        ({"example.com/gauge": "5"}, {"example.com/gauge": "4"}, "5"),
        ({}, {"example.com/gauge": "5"}, None),
    ],
)
def test_an_extended_resource_that_others_add_to_the_capacity_becomes_allocatable(
    capacity: dict[str, str], allocatable: dict[str, str], becomes: str | None
) -> None:
    server = Server()
    beats, _ = heartbeats(server, fleet(1))
    beats.listed([seen("virtual-0", capacity=capacity, allocatable=allocatable)], 0.0)
    in_virtual_time(alive_for(11.0, beats))
    (written,) = server.allocatable
    assert written["example.com/gauge"] == becomes
    assert written["cpu"] == "7000m"

    beats.changed(seen("virtual-0", capacity=capacity, allocatable=capacity), 20.0)
    in_virtual_time(alive_for(11.0, beats))
    assert len(server.allocatable) == 1


def test_a_deleted_node_gets_no_heartbeat_and_no_report_until_it_is_created_again() -> None:
    troubles: list[str] = []
    server, kubelets = Server(), fleet(2)
    beats, uids = heartbeats(server, kubelets, troubles)
    kubelets.reports.listed([], now=0.0)
    assert len(kubelets.due(0.0)) == 2
    beats.gone("virtual-0")
    # The garbage collector removes the report, pods come and go, the watch lists again: nothing is written.
    kubelets.reports.gone("virtual-0", now=1.0)
    kubelets.pod_changed(bound("a"), now=1.0)
    kubelets.reports.listed(["virtual-1"], now=2.0)
    assert not [write for write in kubelets.due(100.0) if isinstance(write, PublishTopology)]
    in_virtual_time(alive_for(11.0, beats))
    assert server.renewals == {"virtual-1": 1}
    assert troubles == ["node virtual-0 was deleted; it stays away until it is created again"]

    beats.changed(seen("virtual-0", uid="uid-new"), 200.0)
    assert uids["virtual-0"] == "uid-new"
    assert [write.node for write in kubelets.due(200.0) if isinstance(write, PublishTopology)] == ["virtual-0"]


def test_a_node_missing_from_a_list_was_deleted() -> None:
    beats, uids = heartbeats(Server(), fleet(2))
    beats.listed([seen("virtual-1")], 0.0)
    assert uids == {"virtual-1": "uid-virtual-1"}


def test_a_node_of_another_owner_is_left_alone() -> None:
    beats, uids = heartbeats(Server(), fleet(1))
    beats.gone("virtual-0")
    beats.changed(seen("virtual-0", uid="uid-new", labels={}), 0.0)
    beats.changed(seen("worker-0"), 0.0)
    assert uids == {}


def test_a_missing_lease_is_created_again() -> None:
    server = Server()
    server.problem = api_error(404)
    beats, _ = heartbeats(server, fleet(1))
    in_virtual_time(alive_for(11.0, beats))
    assert server.created == ["virtual-0"]
