"""Register virtual nodes and their Leases, and remove them at the end; `heartbeat.py` keeps them alive.

An existing virtual node is taken over, as a kubelet does after a restart. Other nodes are never touched: `NotOurs`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import LEASES, NODE_RESOURCE_TOPOLOGIES, NODES
from bayplan.kube.wire.core_v1 import Node
from bayplan.services.kubelets.heartbeat import create_lease
from bayplan.services.kubelets.model import OURS_LABEL
from bayplan.services.kubelets.objects import LEASE_NAMESPACE, node_body, node_labels, node_status
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds, SimulatedNode

AT_ONCE = 32
# On shutdown, give up after this many failed connections, or one request without an answer for this long.
PATIENCE = 3
NO_ANSWER_AFTER: Seconds = 10.0
GONE = 404
CONFLICT = 409

Progress = Callable[[int, int], None]
_Item = TypeVar("_Item")


class NotOurs(Exception):
    """A node of this name exists and belongs to another owner."""


class Registration:
    """The nodes of one fleet on the API server; `uids` has the registered ones."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Sequence[SimulatedNode],
        agents: Mapping[str, NodeAgent],
        *,
        heartbeat: Seconds,
        on_error: Callable[[str], None],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._agents = agents
        self._heartbeat = heartbeat
        self._on_error = on_error
        self.uids: dict[str, str] = {}

    async def register(self, progress: Progress) -> None:
        """Create all nodes with their Leases, or take them over. Raises the first failure."""
        await _each(self._nodes, self._register, progress)

    async def _register(self, node: SimulatedNode) -> None:
        body = node_body(self._agents[node.name], node, time.time())
        try:
            answer = await self._client.create(NODES, body)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            answer = await self._take_over(node)
        uid = msgspec.json.decode(answer, type=Node).metadata.uid
        self.uids[node.name] = uid
        await create_lease(self._client, node.name, uid, self._heartbeat)

    async def _take_over(self, node: SimulatedNode) -> bytes:
        """Update an existing node, as a kubelet does after a restart."""
        there = await self._client.get(NODES, node.name)
        if (there.metadata.labels or {}).get(OURS_LABEL) is None:
            raise NotOurs(
                f"node {node.name} exists without the label {OURS_LABEL} of virtual nodes: choose another --name-prefix"
            )
        await self._client.patch(NODES, node.name, {"metadata": {"labels": node_labels(node)}})
        status = {"status": node_status(self._agents[node.name], time.time())}
        return await self._client.patch(NODES, node.name, status, subresource="status")

    async def remove(self, progress: Progress) -> int:
        """Delete reports, Leases and nodes; returns the number of deleted nodes.

        Failures are reported. An API server that does not answer is given up soon.
        """
        removed = no_answer = 0

        async def remove_one(name: str) -> None:
            nonlocal removed, no_answer
            if no_answer >= PATIENCE:
                return
            try:
                await _gone(self._client.delete(NODE_RESOURCE_TOPOLOGIES, name))
                await _gone(self._client.delete(LEASES, name, LEASE_NAMESPACE))
                await _gone(self._client.delete(NODES, name, uid=self.uids[name]))
                removed += 1
            except Unreachable as trouble:
                no_answer += 1
                self._on_error(str(trouble))
            except TimeoutError:
                no_answer = PATIENCE
                self._on_error(f"the API server has not answered for {NO_ANSWER_AFTER:.0f} s")
            except ApiError as error:
                self._on_error(str(error))

        await _each(list(self.uids), remove_one, progress)
        return removed


async def _gone(deletion: Awaitable[None]) -> None:
    """Ignore that the object is gone or was replaced. Raises `TimeoutError` without an answer."""
    try:
        async with asyncio.timeout(NO_ANSWER_AFTER):
            await deletion
    except ApiError as error:
        if error.status not in (GONE, CONFLICT):
            raise


async def _each(things: Sequence[_Item], work: Callable[[_Item], Awaitable[None]], progress: Progress) -> None:
    """Process items concurrently. The first failure ends all, and is raised."""
    left = iter(things)
    done = 0

    async def worker() -> None:
        nonlocal done
        for thing in left:
            await work(thing)
            done += 1
            progress(done, len(things))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(things))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
