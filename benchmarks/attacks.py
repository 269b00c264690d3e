"""What one hostile object costs other tenants, on a real API server: `python -m benchmarks attacks`.

A scheduler of its own process leads over 1,000 nodes with reports. Pods of another tenant come every quarter of a
second, and each is timed from the API server's answer to its creation until a watch shows its node. Meanwhile the
attacker (`attack_objects.py`: 30 objects of a tenant, 15 of a node) creates its object, then ten of them at once. What
is printed is the worst delay of the other tenant's pods for each: at most 2 s is allowed, and 5 s under ten at once.
The longest turn of the scheduler's event loop is printed beside it, and its CPU time: on a busy machine a turn waits
for a CPU.

The first and the last line are the same without an attack: on a busy machine, that is what the rest compares with.
Large and many objects also load the API server. For attacks of many objects, and for those that are over their limit,
`for another scheduler` is the delay while the same pods are created with another `schedulerName`: the difference is the
scheduler's.

    BENCH_QUICK=1 python -m benchmarks attacks              # 100 nodes
    BENCH_ATTACKS=node/ python -m benchmarks attacks        # those whose name matches a regular expression, here all of
    nodes
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.client.watch import Changes, Listed, follow
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, POD_GROUPS, PODS, Resource
from benchmarks.attack_objects import BY_NODE, BY_TENANT, TENANT, Json, encoded
from benchmarks.clusters import node, topology
from benchmarks.measure import report
from benchmarks.scheduler_load import create_nodes, create_reports, node_name, several_at_once
from tests.builders.bodies import pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.running_scheduler import RunningScheduler, running_scheduler
from tests.kubernetes.workloads import CRDS

OTHER = "other"
EVERY = 0.25
# Seconds of the other tenant's pods before and after the attack, and how long one is waited for.
BEFORE, AFTER = 0.5, 3.0
MOST_PATIENCE = 60.0
# What the last attack left behind is not what the next one costs.
RESTS = 2.0
AT_ONCE = 10
MOST_ALONE, MOST_TOGETHER = 2.0, 5.0
RESOURCES: dict[str, Resource[Any]] = {"Pod": PODS, "Node": NODES, "PodGroup": POD_GROUPS}


# Attacks of so many objects are also measured for another scheduler, and this many are not created ten times.
MANY_OBJECTS, TOO_MANY_OBJECTS = 100, 5_000
NO_ATTACK = "nothing"


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds: the worst delay under one attack, under ten, and under one for another scheduler; the longest turn of
    the loop in five minutes, and its CPU time.
    """

    alone: float
    together: float | None
    elsewhere: float | None
    longest_turn: float
    longest_cpu: float

    def told(self) -> str:
        """The figures beside the first."""
        together = "" if self.together is None else f"; {self.together:.2f} s under ten"
        elsewhere = "" if self.elsewhere is None else f"; {self.elsewhere:.2f} s for another scheduler"
        return (
            f"s worst delay of others{together}{elsewhere}; longest turn {1e3 * self.longest_turn:.0f} ms, "
            f"{1e3 * self.longest_cpu:.0f} ms of CPU"
        )


def run() -> None:
    """Print the table."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench attacks: left out: {problem}")
        return
    wanted = os.environ.get("BENCH_ATTACKS", "")
    nodes = 100 if os.environ.get("BENCH_QUICK") else 1_000
    chosen = [name for name in (*BY_TENANT, *BY_NODE) if re.search(wanted, _shown(name))]
    with ControlPlane() as plane:
        for name, figures in attacked(plane, nodes, chosen):
            report(f"attacks {_shown(name)}", figures.alone, figures.told())
            if figures.alone > MOST_ALONE or (figures.together or 0.0) > MOST_TOGETHER:
                print(f"bench attacks {name}: more than {MOST_ALONE:g} s or {MOST_TOGETHER:g} s")


def _shown(name: str) -> str:
    if name == NO_ATTACK:
        return name
    return f"{'tenant' if name in BY_TENANT else 'node'}/{name}"


def attacked(plane: ControlPlane, nodes: int, names: Sequence[str]) -> Iterable[tuple[str, Figures]]:
    """Measure attacks one after another, on a control plane that has nothing yet."""
    for crd in CRDS:
        plane.apply(crd)
    create_nodes(plane.kubeconfig, nodes)
    create_reports(plane.kubeconfig, nodes)
    for namespace in (TENANT, OTHER):
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with running_scheduler(plane) as scheduler:
        scheduler.wait_until_leading()
        for name in (NO_ATTACK, *names, NO_ATTACK):
            attack = partial(_Attack, plane.kubeconfig, name)
            objects = attack().number_of_objects
            alone = _delay(attack(), 1)
            together = _delay(attack(), AT_ONCE) if 0 < objects < TOO_MANY_OBJECTS else None
            elsewhere = None
            if alone > MOST_ALONE or objects >= MANY_OBJECTS:
                elsewhere = _delay(attack(elsewhere=True), 1)
            elif together is not None and together > MOST_TOGETHER:
                elsewhere = _delay(attack(elsewhere=True), AT_ONCE)
            yield name, Figures(alone, together, elsewhere, longest_turn(scheduler), longest_turn(scheduler, "_cpu"))


def _delay(attack: _Attack, times: int) -> float:
    time.sleep(RESTS)
    return asyncio.run(attack.worst_delay(times))


def longest_turn(scheduler: RunningScheduler, of: str = "") -> float:
    """Of the scheduler's event loop in the last five minutes."""
    return scheduler.metric(f"bayplan_loop_longest_turn{of}_seconds")


class _Attack:
    """One attack, and pods of another tenant meanwhile; `elsewhere` if its pods are for another scheduler."""

    def __init__(self, kubeconfig: Path, name: str, *, elsewhere: bool = False) -> None:
        self._access = find_access(str(kubeconfig))
        self._name = name
        self._elsewhere = elsewhere
        self._answered: dict[str, float] = {}
        self._bound: dict[str, float] = {}

    @property
    def number_of_objects(self) -> int:
        """The number of objects of one attack."""
        return len(self._bodies(0))

    async def worst_delay(self, times: int) -> float:
        """Seconds that the slowest of the other tenant's pods took while the attack came so many times at once."""
        async with KubeClient(self._access, connections=32) as client:
            watching = asyncio.create_task(self._watch(client))
            coming = asyncio.create_task(self._others_come(client))
            try:
                await asyncio.sleep(BEFORE)
                bodies = [body for number in range(times) for body in self._bodies(number)]
                with suppress(Unreachable):  # The API server itself is too busy with what it was given.
                    await several_at_once(lambda body: self._create(client, body), bodies)
                await asyncio.sleep(AFTER)
                coming.cancel()
                with suppress(asyncio.CancelledError):
                    await coming
                end = time.monotonic() + MOST_PATIENCE
                while self._answered.keys() - self._bound.keys() and time.monotonic() < end:  # noqa: ASYNC110 - the watch fills it
                    await asyncio.sleep(0.05)
            finally:
                watching.cancel()
                await self._clean_up(client)
        now = time.monotonic()
        return max(self._bound.get(name, now) - answered for name, answered in self._answered.items())

    def _bodies(self, number: int) -> list[Json]:
        if self._name == NO_ATTACK:
            return []
        if self._name in BY_TENANT:
            bodies = BY_TENANT[self._name](number)
            for body in bodies if self._elsewhere else ():
                if body["kind"] == PODS.kind:
                    body["spec"]["schedulerName"] = "another"
            return bodies
        return BY_NODE[self._name](node_name(number), number)

    async def _watch(self, client: KubeClient) -> None:
        async for news in follow(client, PODS, namespace=OTHER):
            now = time.monotonic()
            pods = [change.object for change in news.changes] if isinstance(news, Changes) else []
            for pod in news.items if isinstance(news, Listed) else pods:
                if pod.spec.node_name:
                    self._bound.setdefault(pod.metadata.name, now)

    async def _others_come(self, client: KubeClient) -> None:
        number = 0
        while True:
            name = f"other-{number}"
            number += 1
            with suppress(Unreachable):  # Too busy with the attack to answer: a delay that is not the scheduler's.
                await client.create(PODS, pod_body(name, OTHER, {"cpu": "10m", "memory": "1Mi"}), OTHER)
                self._answered[name] = time.monotonic()
            await asyncio.sleep(EVERY)

    async def _create(self, client: KubeClient, body: Json) -> None:
        """Create an object, or write what a node says about itself.

        One that the API server refuses is no attack, and an error.
        """
        kind, head = body["kind"], body["metadata"]
        if kind == NODE_RESOURCE_TOPOLOGIES.kind:
            patch = {"zones": body["zones"], "attributes": body.get("attributes", [])}
            await client.patch(NODE_RESOURCE_TOPOLOGIES, head["name"], patch, kind="merge")
        elif kind == NODES.kind and "status" in body:
            await client.patch(NODES, head["name"], body, kind="merge", subresource="status")
        elif kind == NODES.kind:
            await client.patch(NODES, head["name"], body, kind="merge")
        else:
            await client.create(RESOURCES[kind], encoded(body), TENANT)

    async def _clean_up(self, client: KubeClient) -> None:
        """Remove everything, and let the nodes be as they were."""
        everything: tuple[tuple[Resource[Any], str], ...] = ((POD_GROUPS, TENANT), (PODS, TENANT), (PODS, OTHER))
        for resource, namespace in everything:
            listed = await client.list(resource, namespace)
            names = [*(each.metadata.name for each in listed.items), *(each.name for each in listed.broken)]
            await several_at_once(partial(_delete, client, resource, namespace), names)
        if self._name in BY_NODE:
            for number in range(AT_ONCE):
                await _renew(client, node_name(number))


async def _delete(client: KubeClient, resource: Resource[Any], namespace: str | None, name: str) -> None:
    with suppress(ApiError):
        await client.delete(resource, name, namespace, grace=0)


async def _renew(client: KubeClient, name: str) -> None:
    """A node that is deleted and made again says nothing of what it said before."""
    both: tuple[tuple[Resource[Any], Json], ...] = (
        (NODES, node(name)),
        (NODE_RESOURCE_TOPOLOGIES, topology(name)),
    )
    for resource, body in both:
        await _delete(client, resource, None, name)
        await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
