"""No iteration of the event loop is long, whatever a tenant does: watches, binds and probes of all others wait for it.

The service runs in real time with its side thread, against a client that takes everything at once. What is measured is
the CPU time of the loop's own thread, which other work on the machine does not change.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar, cast

import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Changes
from bayplan.kube.resources import POD_GROUPS, PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.meta_v1 import Change
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.process import LoopMonitor, freeze_gc, tune_gc
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing.gang_status import COUNT_DELAY, GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.bodies import Json
from tests.builders.services import added, api_error, scheduler_service
from tests.builders.units import dispatcher, on_node, pod, pod_group

Thing = TypeVar("Thing")

MEMBERS = 10_000
NODES = 200
# What a watch brings at once.
BATCH = 50
MOST_CPU = 0.06


class Taking:
    """Takes every bind and every write at once."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.statuses: list[str] = []
        self.refuses = False

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: object) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            raise api_error(403, "Forbidden")
        self.bound.append((name, node))

    async def create(self, resource: object, body: Json, namespace: str) -> None:
        await asyncio.sleep(0)

    async def patch(self, resource: Resource[Any], name: str, body: Json, namespace: str, **how: object) -> None:
        await asyncio.sleep(0)
        if resource == POD_GROUPS:
            self.statuses.append(str(body["status"]))


class Story:
    """A running service; `ahead` moves its clock."""

    def __init__(self, decides: Dispatcher) -> None:
        self.client = Taking()
        self.ahead = 0.0
        self._decides = decides

    async def __aenter__(self) -> Self:
        client = cast("KubeClient", self.client)
        self._stack = AsyncExitStack()
        events = await self._stack.enter_async_context(EventRecorder(client, instance="x"))
        conditions = await self._stack.enter_async_context(ConditionWriter(client))
        gangs = await self._stack.enter_async_context(GangStatusWriter(client))
        self.service: SchedulerService = scheduler_service(
            client,
            self._decides,
            events,
            conditions,
            gangs,
            side_thread=SideThread(),
            clock=lambda: time.monotonic() + self.ahead,
        )
        self.service.leading = True
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def watch(self, resource: Resource[Any], news: Changes[Any]) -> None:
        """What a watch brings."""
        watcher = self.service.watcher
        await watcher._apply(watcher.intake.entry(resource), news)
        await self.service._iterate()
        await asyncio.sleep(0)

    async def until(self, done: Callable[[], bool]) -> None:
        """Go on until it is so; each round is an iteration of the loop."""
        while not done():
            await self.service._side_thread.idle()
            await self.service._iterate()
            await asyncio.sleep(0)


def batches(news: list[Thing]) -> list[list[Thing]]:
    return [news[first : first + BATCH] for first in range(0, len(news), BATCH)]


@pytest.fixture(autouse=True)
def _garbage_as_in_a_service() -> Iterator[None]:
    before = gc.get_threshold()
    tune_gc()
    freeze_gc()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def longest_iteration(story: Coroutine[Any, Any, None]) -> float:
    """Seconds of CPU time."""
    monitor = LoopMonitor()
    with asyncio.Runner(loop_factory=monitor.new_loop) as runner:
        runner.run(story)
    return monitor.longest_cpu(time.monotonic())


def rack(cpus: int) -> Dispatcher:
    names = [f"n{number}" for number in range(NODES)]
    return dispatcher(*names, cpus=cpus, racks=dict.fromkeys(names, "r1"))


def members() -> dict[str, Pod]:
    return {f"p{number}": pod(f"p{number}", gang="train") for number in range(MEMBERS)}


async def come(told: Story, pods: Iterable[Pod]) -> None:
    """The pods and their PodGroup."""
    for some in batches(list(pods)):
        await told.watch(PODS, added(*some))
    await told.watch(POD_GROUPS, added(pod_group(MEMBERS)))
    told.ahead += 60.0  # a large gang rests before it is queued again


def test_a_gang_of_ten_thousand_pods_is_bound_and_counted_in_short_iterations() -> None:
    decides, pods = rack(MEMBERS // NODES), members()

    async def story() -> None:
        async with Story(decides) as told:
            client = told.client
            await come(told, pods.values())
            await told.until(lambda: len(client.bound) == MEMBERS)
            for binds in batches(client.bound):
                await told.watch(PODS, added(*(on_node(pods[name], node) for name, node in binds)))
            told.ahead += 60.0
            await told.until(lambda: any(f"{MEMBERS} pods have nodes" in status for status in client.statuses))
            await told.watch(PODS, Changes([Change("DELETED", pods["p0"])], []))
            told.ahead += 60.0
            await told.until(lambda: not decides.gangs.next_time())
            told.ahead += COUNT_DELAY
            await told.until(lambda: "are left" in client.statuses[-1])

    assert longest_iteration(story()) < MOST_CPU


def test_ten_thousand_places_are_taken_back_in_short_iterations() -> None:
    decides, pods = rack(MEMBERS // NODES), members()

    async def story() -> None:
        async with Story(decides) as told:
            told.client.refuses = True
            await come(told, pods.values())
            await told.until(lambda: len(decides.state.pods) == MEMBERS)
            await told.until(lambda: not decides.state.pods)

    assert longest_iteration(story()) < MOST_CPU


def test_a_gang_of_ten_thousand_pods_is_refused_and_deleted_in_short_iterations() -> None:
    decides, pods = rack(2), members()

    async def story() -> None:
        async with Story(decides) as told:
            await come(told, pods.values())
            await told.until(lambda: "slots" in told.client.statuses[-1] if told.client.statuses else False)
            for size in (MEMBERS - 1, MEMBERS + 1):
                await told.watch(POD_GROUPS, added(pod_group(size)))
                told.ahead += 60.0
            await told.watch(PODS, Changes([Change("DELETED", each) for each in pods.values()], []))
            told.ahead += 60.0
            await told.until(lambda: not decides.waiting)

    assert longest_iteration(story()) < MOST_CPU
