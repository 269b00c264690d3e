"""The servers that `extender.py` measures, each in a process of its own: bayplan's extender, and one that lets
everything pass.

    python -m benchmarks.extender_servers bayplan|noop NODES

prints its port and serves until it is killed. The no-op extender is a plain aiohttp application that decodes with
msgspec and reads only what it sends back.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from aiohttp import web

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Listed
from bayplan.kube.wire.core_v1 import Node
from bayplan.kube.wire.extender_v1 import ExtenderFilterResult, ExtenderStruct, HostPriority, NamedNode, NodeList
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.process import freeze_gc, tune_gc
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.server import ExtenderVerbs
from bayplan.services.extender.service import ExtenderService, ExtenderSettings
from benchmarks.clusters import node, topology

MOST_BYTES = 256 << 20


class NoApiServer:
    """Accepts every bind at once."""

    async def bind(self, *_: object) -> None:
        """Bind a pod."""


class Asked(ExtenderStruct, frozen=True):
    """The nodes of a request."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None


_asked = msgspec.json.Decoder(Asked)
_named = msgspec.json.Decoder(NamedNode)


def bayplan_runner(nodes: int) -> web.ServerRunner:
    """bayplan's extender, which knows this many nodes of 8 zones and their reports."""
    service = ExtenderService(
        cast("KubeClient", NoApiServer()),
        {"default-scheduler": default_profile()},
        ExtenderSettings(),
        metrics=ExtenderMetrics(),
        clock=time.time,
    )
    objects: Mapping[str, list[Any]] = {
        "Node": [msgspec.convert(node(f"node-{number}"), Node) for number in range(nodes)],
        "NodeResourceTopology": [
            msgspec.convert(topology(f"node-{number}"), NodeResourceTopology) for number in range(nodes)
        ],
    }
    intake = service.watcher.intake
    for entry in intake.entries:
        intake.take(entry.resource, Listed(objects.get(entry.resource.kind, []), "1", []), time.time())
    service.listed.set()
    return web.ServerRunner(ExtenderVerbs(service, ExtenderMetrics(), most_bytes=MOST_BYTES).server())


def noop_runner() -> web.AppRunner:
    """All nodes pass, and all score 5."""

    async def filter_all(request: web.Request) -> web.Response:
        asked = _asked.decode(await request.read())
        result = ExtenderFilterResult(asked.nodes, asked.node_names)
        return web.Response(body=msgspec.json.encode(result), content_type="application/json")

    async def score_all(request: web.Request) -> web.Response:
        asked = _asked.decode(await request.read())
        names = asked.node_names
        if names is None:
            names = [_named.decode(each).metadata.name for each in (asked.nodes and asked.nodes.items) or ()]
        scores = [HostPriority(name, 5) for name in names]
        return web.Response(body=msgspec.json.encode(scores), content_type="application/json")

    async def bind(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b'{"Error":""}', content_type="application/json")

    application = web.Application(client_max_size=MOST_BYTES)
    application.add_routes(
        [web.post("/filter", filter_all), web.post("/prioritize", score_all), web.post("/bind", bind)]
    )
    return web.AppRunner(application, access_log=None)


async def _serve(kind: str, nodes: int) -> None:
    tune_gc()
    runner = noop_runner() if kind == "noop" else bayplan_runner(nodes)
    freeze_gc()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
