"""The Kubernetes client: CPU of decoding lists, and, where `make control-plane` has been, of lists, watches and binds
on a real API server.

`plain` is the least that any Python client does: aiohttp and json.loads, no types, no retries. CPU microseconds an
object or call of other libraries on the same kind of server (1.36.4 on 2 shared cores), measured once; they are not
dependencies:

                          list nodes   list pods   watch, an event   bind, 16 at once
    aiohttp + orjson             185          84               186                400
    lightkube                    326         191               323              1,071
    kubernetes (official)      1,034         832               995              1,358
    kubernetes_asyncio         1,240         737             1,085                771
    kr8s                       4,448           -                 -              2,688
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Self

import aiohttp

from bayplan.kube.client.access import Access, find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import decoder_of
from bayplan.kube.client.watch import Changes, Listed, follow
from bayplan.kube.resources import NODES, PODS, Resource
from benchmarks.measure import median_seconds, report
from benchmarks.wire_objects import as_served, wire_node, wire_pod
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs

PAGE = 500
SERVED_NODES = 500
SERVED_PODS = 2_000
AT_ONCE = 16
RUNS = 5


def run() -> None:
    """Print all figures of this group."""
    _decode(NODES, [as_served(wire_node(f"node-{index}"), kilobytes=16) for index in range(PAGE)])
    _decode(PODS, [as_served(wire_pod(f"pod-{index}"), kilobytes=5) for index in range(PAGE)])
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench client on a real API server: left out: {problem}")
        return
    with ControlPlane() as plane:
        asyncio.run(_on_a_real_server(plane))


def _decode(resource: Resource[Any], items: list[dict[str, Any]]) -> None:
    page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
    _microseconds(f"decode/{resource.plural}", median_seconds(partial(decoder_of(resource).page, page)) / len(items))
    _microseconds(f"decode/{resource.plural}/plain", median_seconds(partial(json.loads, page)) / len(items))


async def _on_a_real_server(plane: ControlPlane) -> None:
    access = find_access(str(plane.kubeconfig))
    async with KubeClient(access, connections=AT_ONCE) as client, _Plain(access) as plain:
        await _all([client.create(NODES, wire_node(f"node-{index}")) for index in range(SERVED_NODES)])
        before = (await client.list(PODS)).resource_version
        names = [f"pod-{index}" for index in range(SERVED_PODS)]
        await _all([client.create(PODS, wire_pod(name), "default") for name in names])
        for resource, count in ((NODES, SERVED_NODES), (PODS, SERVED_PODS)):
            _microseconds(f"list/{resource.plural}", await _cpu_seconds(client.list, resource) / count)
            _microseconds(f"list/{resource.plural}/plain", await _cpu_seconds(plain.list, resource) / count)
        async with _FromVersion(access, before) as follower:
            _microseconds("watch", await _cpu_seconds(_follow, follower) / SERVED_PODS)
        _microseconds("watch/plain", await _cpu_seconds(plain.watch, before) / SERVED_PODS)
        pods = (await client.list(PODS)).items
        half = SERVED_PODS // 2
        await _binds(
            "bind", [client.bind("default", pod.metadata.name, pod.metadata.uid, "node-1", {}) for pod in pods[:half]]
        )
        await _binds("bind/plain", [plain.bind(pod.metadata.name, pod.metadata.uid) for pod in pods[half:]])


async def _binds(name: str, binds: list[Coroutine[Any, Any, Any]]) -> None:
    cpu, wall = time.thread_time(), time.perf_counter()
    await _all(binds)
    _microseconds(name, (time.thread_time() - cpu) / len(binds))
    report(f"client {name}/rate", len(binds) / (time.perf_counter() - wall), "binds/s")


async def _all(requests: list[Coroutine[Any, Any, Any]]) -> None:
    """All of them, `AT_ONCE` at once."""
    waiting = iter(requests)

    async def one_after_the_other() -> None:
        for request in waiting:
            await request

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))


class _FromVersion(KubeClient):
    """A client whose list is empty and old: a follower is told everything since as changes."""

    def __init__(self, access: Access, version: str) -> None:
        super().__init__(access)
        self._version = version

    async def list(self, *_: object, **__: object) -> Listed[Any]:
        return Listed([], self._version, [])


async def _follow(client: KubeClient) -> None:
    seen = 0
    async with aclosing(follow(client, PODS)) as news:
        async for each in news:
            seen += len(each.changes) if isinstance(each, Changes) else 0
            if seen >= SERVED_PODS:
                return


class _Plain:
    """What one writes without a client."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __aenter__(self) -> Self:
        tls = (await self._access.credentials.current()).tls
        assert tls is not None
        connector = aiohttp.TCPConnector(ssl=tls, limit=AT_ONCE)
        self._session = aiohttp.ClientSession(self._access.server, connector=connector)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()

    async def list(self, resource: Resource[Any]) -> list[Any]:
        items: list[Any] = []
        query = {"limit": str(PAGE)}
        while True:
            async with self._session.get(resource.path(), params=query) as response:
                page = json.loads(await response.read())
            items += page["items"]
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return items

    async def watch(self, version: str) -> None:
        seen = 0
        query = {"watch": "true", "resourceVersion": version}
        async with self._session.get(PODS.path(), params=query) as response:
            async for line in response.content:
                json.loads(line)
                seen += 1
                if seen >= SERVED_PODS:
                    return

    async def bind(self, name: str, uid: str) -> None:
        body = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": "node-1"}}
        async with self._session.post(PODS.path("default", name, "binding"), json=body) as response:
            assert response.status == 201


async def _cpu_seconds(ask: Callable[..., Awaitable[object]], *arguments: object) -> float:
    """The median of this thread's CPU time over some runs."""
    times = []
    for _ in range(RUNS):
        before = time.thread_time()
        await ask(*arguments)
        times.append(time.thread_time() - before)
    return statistics.median(times)


def _microseconds(name: str, seconds: float) -> None:
    report(f"client {name}", seconds * 1e6, "us")
