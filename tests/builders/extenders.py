"""An extender with a few nodes behind its real HTTP server, and requests as kube-scheduler writes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import msgspec

from bayplan.cluster.state import pod_key
from bayplan.kube.client.client import KubeClient
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.server import serve_extender
from bayplan.services.extender.service import ExtenderService, ExtenderSettings
from bayplan.services.extender.tls import Token
from bayplan.services.scheduler.intake import WatchIntake
from tests.builders.bodies import Json
from tests.builders.clusters import summed
from tests.builders.objects import node
from tests.builders.services import api_error, listed

MOST_BYTES = 1 << 19


class BindingClient:
    """Records binds, and answers each with what `answer` raises."""

    def __init__(self, answer: Mapping[str, Exception] | None = None, pods: Iterable[Pod] = ()) -> None:
        self.binds: list[tuple[str, str, Mapping[str, str]]] = []
        self._answer = dict(answer or {})
        self._pods = {each.metadata.name: each for each in pods}

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        if name in self._answer:
            raise self._answer[name]
        self.binds.append((f"{namespace}/{name}", node, annotations))

    async def get(self, _resource: object, name: str, _namespace: str) -> Pod:
        if name not in self._pods:
            raise api_error(404)
        return self._pods[name]


@dataclass
class Extender:
    """A running extender; `post` sends a request and returns its status and body."""

    service: ExtenderService
    metrics: ExtenderMetrics
    client: BindingClient
    session: aiohttp.ClientSession
    url: str

    async def post(self, verb: str, body: object, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        async with self.session.post(f"{self.url}/{verb}", data=data, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text

    async def ask(self, verb: str, body: object) -> Any:
        status, answer = await self.post(verb, body)
        assert status == 200, answer
        return answer


def extender_service(
    *reports: NodeResourceTopology,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    client: BindingClient | None = None,
    settings: ExtenderSettings | None = None,
    is_listed: bool = True,
    profile: Profile | None = None,
) -> tuple[ExtenderService, ExtenderMetrics, BindingClient]:
    """An extender that knows these objects."""
    client, metrics = client or BindingClient(), ExtenderMetrics()
    service = ExtenderService(
        cast("KubeClient", client),
        {"default-scheduler": profile or default_profile()},
        settings or ExtenderSettings(wait_for_bind=0.0),
        metrics=metrics,
        clock=lambda: 1000.0,
    )
    given = list(nodes)
    known = {each.metadata.name for each in given}
    given += [node(each.metadata.name, summed(each)) for each in reports if each.metadata.name not in known]
    by_kind: dict[str, list[Any]] = {"Node": given, "NodeResourceTopology": list(reports), "Pod": list(pods)}
    if is_listed:
        intake: WatchIntake = service.watcher.intake
        for entry in intake.entries:
            intake.take(entry.resource, listed(*by_kind.get(entry.resource.kind, [])), 0.0)
        assert not intake.problems
    return service, metrics, client


@asynccontextmanager
async def running_extender(
    *reports: NodeResourceTopology, token: Token | None = None, **options: Any
) -> AsyncIterator[Extender]:
    """An extender behind its HTTP server on a free port."""
    service, metrics, client = extender_service(*reports, **options)
    async with (
        serve_extender("127.0.0.1:0", service, metrics, most_bytes=MOST_BYTES, token=token) as port,
        aiohttp.ClientSession() as session,
    ):
        yield Extender(service, metrics, client, session, f"http://127.0.0.1:{port}")


def wire_pod(pod: Pod, **metadata: Any) -> Json:
    """A pod as kube-scheduler sends it."""
    written = cast("Json", msgspec.to_builtins(pod))
    written["metadata"] |= {"uid": f"uid-{pod.metadata.name}", **metadata}
    return written


def asking(pod: Pod, *names: str) -> Json:
    """A request with node names (`nodeCacheCapable: true`)."""
    return {"Pod": wire_pod(pod), "Nodes": None, "NodeNames": list(names)}


def asking_with_objects(pod: Pod, *objects: Json) -> Json:
    """A request with whole nodes (`nodeCacheCapable: false`)."""
    return {"Pod": wire_pod(pod), "Nodes": {"metadata": {}, "items": list(objects)}, "NodeNames": None}


def binding(pod: Pod, on: str) -> Json:
    """The bind of a pod."""
    namespace, _, name = pod_key(pod).partition("/")
    return {"PodName": name, "PodNamespace": namespace, "PodUID": f"uid-{name}", "Node": on}
