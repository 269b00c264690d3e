"""Shared by the tests of services: virtual time, a client that records writes, and watch news.

In virtual time nothing sleeps: when the loop is idle, the clock jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.decoding import Broken, Changes, Listed
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod
from bayplan.kube.wire.meta_v1 import Change, Status
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.intake import Intake
from bayplan.services.scheduler.nominating import NominationWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.bodies import Json
from tests.builders.objects import simple_pod

Result = TypeVar("Result")


class _JumpingSelector(selectors.SelectSelector):
    """Lets the requested time pass at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "deadlock: every task waits, and no timer is set"
        self.now += timeout
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at second 0 and never sleeps."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_virtual_time(story: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(story)


def now() -> float:
    """Seconds since the story began."""
    return asyncio.get_running_loop().time()


def api_error(status: int, reason: str = "") -> ApiError:
    return ApiError("request", status, Status(code=status, reason=reason, message="no"))


@dataclass
class RecordingClient:
    """Records writes, or raises what `answer` returns for a verb and a name."""

    answer: Callable[[str, str], Exception | None] = lambda verb, name: None
    delay: float = 0.0
    sent: list[tuple[str, str, Json]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)

    async def create(self, resource: object, body: Json, namespace: str) -> bytes:
        return await self._take("create", str(body["metadata"]["name"]), body)

    async def patch(self, resource: object, name: str, body: Json, namespace: str, **how: str) -> bytes:
        return await self._take("patch", name, body)

    async def get(self, resource: object, name: str, namespace: str) -> Pod:
        return self.pods[name]

    async def _take(self, verb: str, name: str, body: Json) -> bytes:
        self.sent.append((verb, name, body))
        self.times.append(now())
        await asyncio.sleep(self.delay)
        problem = self.answer(verb, name)
        if problem is not None:
            raise problem
        return b"{}"

    @property
    def bodies(self) -> list[Json]:
        return [body for _, _, body in self.sent]

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.sent]

    def as_client(self) -> KubeClient:
        return cast("KubeClient", self)


class BindingClient(RecordingClient):
    """Accepts every bind."""

    async def bind(self, namespace: str, pod: str, *what: object) -> None:
        await self._take("bind", pod, {})

    @property
    def bound(self) -> list[str]:
        return [name for verb, name, _ in self.sent if verb == "bind"]


def scheduler_service(
    client: KubeClient,
    dispatcher: Dispatcher,
    events: EventRecorder,
    conditions: ConditionWriter,
    gangs: GangStatusWriter,
    **options: Any,
) -> SchedulerService:
    """A scheduler without a pod grouper, health endpoints and leader election."""
    announcer = Announcer(dispatcher, events, conditions, gangs)
    nominees = NominationWriter(client)
    return SchedulerService(
        client, dispatcher, Intake(dispatcher), announcer, nominees, metrics=SchedulerMetrics(), **options
    )


def watched_node(name: str, *, cpus: str = "8", version: str = "1") -> Node:
    """A Node as a watch shows it."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    status = {"allocatable": {"cpu": cpus, "memory": "32Gi", "pods": "110"}}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


def watched_pod(
    name: str, *, on: str | None = None, cpus: str = "1", gang: str = "", uid: str = "", version: str = "1", **more: Any
) -> Pod:
    """A Pod of namespace ml as a watch shows it; `gang` is its label, `more` has further metadata."""
    labels = {"bayplan.io/pod-group": gang} if gang else {}
    own = {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}", "resourceVersion": version, "labels": labels}
    container = {"name": "main", "resources": {"requests": {"cpu": cpus}}}
    spec = {"schedulerName": "bayplan", "nodeName": on, "containers": [container]}
    return msgspec.convert({"metadata": {**own, **more}, "spec": spec}, Pod)


def listed(*items: Any, broken: tuple[Broken, ...] = (), delivered: int = 0) -> Listed[Any]:
    return Listed(list(items), "100", list(broken), delivered)


def added(*items: Any) -> Changes[Any]:
    return Changes([Change("ADDED", item) for item in items], [])


def modified(*items: Any) -> Changes[Any]:
    return Changes([Change("MODIFIED", item) for item in items], [])


def deleted(*items: Any) -> Changes[Any]:
    return Changes([Change("DELETED", item) for item in items], [])


def numa_pod(cpus: str = "4", name: str = "a", **spec: Any) -> Pod:
    """A guaranteed pod of bayplan's with 1Gi of memory."""
    return simple_pod({"cpu": cpus, "memory": "1Gi"}, name, schedulerName="bayplan", **spec)


def pod_named(name: str, *, uid: str = "", version: str = "1") -> Pod:
    return Pod(metadata=Metadata(name=name, namespace="ml", uid=uid or f"uid-{name}", resource_version=version))
