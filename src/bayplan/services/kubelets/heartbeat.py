"""Keep nodes alive: renew each Lease once per heartbeat, and repair the status of nodes that were marked NotReady.

In come the node's watch events (`listed`, `changed`, `gone`). As in a kubelet, a slow answer delays only its own node,
and a deleted node stays away: it gets no heartbeat and no report until it is created again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

import msgspec

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import LEASES, NODES, Resource
from bayplan.kube.wire.core_v1 import Metadata, PodCondition, WireStruct
from bayplan.services.kubelets.model import OURS_LABEL
from bayplan.services.kubelets.objects import (
    LEASE_NAMESPACE,
    is_as_written,
    lease_body,
    lease_renewal,
    node_status,
    others_resources,
)
from bayplan.services.kubelets.reports import FleetReports
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds

# A kubelet's Lease lasts four of its heartbeats.
HEARTBEATS_IN_A_LEASE = 4
LEASE_WITHOUT_HEARTBEAT: Seconds = 3600.0
# Heartbeats are spread over time, a few nodes in each tick.
TICK: Seconds = 0.25
GONE = 404
CONFLICT = 409


class _ObservedStatus(WireStruct, frozen=True):
    conditions: list[PodCondition] | None = None
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None


class ObservedNode(WireStruct, frozen=True):
    """A Node as the API server shows it, with what others may have changed."""

    metadata: Metadata = Metadata()
    status: _ObservedStatus = _ObservedStatus()


OBSERVED_NODES: Resource[ObservedNode] = Resource(
    NODES.api_version, NODES.plural, NODES.kind, ObservedNode, namespaced=False
)


async def create_lease(client: KubeClient, node: str, uid: str, heartbeat: Seconds) -> None:
    """Create a node's Lease, or take over the one that exists."""
    lease = lease_body(node, uid, heartbeat * HEARTBEATS_IN_A_LEASE or LEASE_WITHOUT_HEARTBEAT, time.time())
    try:
        await client.create(LEASES, lease, LEASE_NAMESPACE)
    except ApiError as error:
        if error.status != CONFLICT:
            raise
        await client.patch(LEASES, node, lease, LEASE_NAMESPACE, kind="merge")


class Heartbeats:
    """The heartbeats of a fleet. `uids` has the nodes that exist, and is kept up to date, as are `reports`."""

    def __init__(
        self,
        client: KubeClient,
        agents: Mapping[str, NodeAgent],
        uids: dict[str, str],
        reports: FleetReports,
        *,
        period: Seconds,
        on_error: Callable[[str], None],
    ) -> None:
        self._client = client
        self._agents = agents
        self._uids = uids
        self._reports = reports
        self._period = period
        self._on_error = on_error
        # Nodes whose status another component has changed.
        self._to_repair: set[str] = set()
        # Extended resources that others gave a node, as its allocatable is to show them; None takes one away.
        self._extended: dict[str, dict[str, str | None]] = {}
        # Nodes whose last heartbeat has not been answered.
        self._in_flight: set[str] = set()

    # -- events --------------------------------------------------------------------------------------------------------

    def listed(self, nodes: Iterable[ObservedNode], now: Seconds) -> None:
        """The API server has these virtual nodes; missing ones were deleted."""
        nodes = tuple(nodes)
        for name in self._uids.keys() - {node.metadata.name for node in nodes}:
            self.gone(name)
        for node in nodes:
            self.changed(node, now)

    def changed(self, node: ObservedNode, now: Seconds) -> None:
        """A virtual node was created or changed."""
        name, uid = node.metadata.name, node.metadata.uid
        if name not in self._agents or OURS_LABEL not in (node.metadata.labels or {}):
            return
        if self._uids.get(name) != uid:
            self._uids[name] = uid
            self._reports.node_created(name, now)
        self._extended[name] = _extended(self._agents[name], node.status)
        if is_as_written(node.status.conditions or ()) and not self._extended[name]:
            self._to_repair.discard(name)
        else:
            self._to_repair.add(name)

    def gone(self, name: str) -> None:
        """A node was deleted: its Lease and its report would only be garbage-collected."""
        if self._uids.pop(name, None) is not None:
            self._to_repair.discard(name)
            self._extended.pop(name, None)
            self._reports.node_deleted(name)
            self._on_error(f"node {name} was deleted; it stays away until it is created again")

    # -- time ----------------------------------------------------------------------------------------------------------

    async def keep_alive(self) -> None:
        """Send every node's heartbeat once per period, until cancelled; a tick does not wait for answers."""
        if self._period <= 0:
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.TaskGroup() as group:
            for tick, names in enumerate(turns(list(self._agents), TICK / self._period), 1):
                await asyncio.sleep(max(began + tick * TICK - clock(), 0.0))
                renewal = msgspec.json.encode(lease_renewal(time.time()))
                for name in names:
                    if name in self._uids and name not in self._in_flight:
                        self._in_flight.add(name)
                        group.create_task(self._beat(name, renewal))

    async def _beat(self, name: str, renewal: bytes) -> None:
        """Send one heartbeat. A lost one does no harm: the next one repeats it."""
        try:
            await self._renew(name, renewal)
            if name in self._to_repair:
                status = node_status(self._agents[name], time.time())
                status["allocatable"] |= self._extended.get(name, {})
                await self._client.patch(NODES, name, {"status": status}, subresource="status")
        except (ApiError, Unreachable) as problem:
            self._on_error(str(problem))
        finally:
            self._in_flight.discard(name)

    async def _renew(self, name: str, renewal: bytes) -> None:
        try:
            await self._client.patch(LEASES, name, renewal, LEASE_NAMESPACE, kind="merge")
        except ApiError as error:
            if error.status != GONE:
                raise
            uid = self._uids.get(name)
            if uid is not None:
                await create_lease(self._client, name, uid, self._period)


def _extended(agent: NodeAgent, status: _ObservedStatus) -> dict[str, str | None]:
    """What has to change in a node's allocatable for it to show the extended resources in its capacity, as a kubelet's
    next status does.
    """
    capacity = others_resources(agent, status.capacity or {})
    allocatable = others_resources(agent, status.allocatable or {})
    missing = {name: amount for name, amount in capacity.items() if allocatable.get(name) != amount}
    return {**missing, **dict.fromkeys(allocatable.keys() - capacity.keys())}


def turns(names: Sequence[str], share: float) -> Iterator[Sequence[str]]:
    """The names of each tick, endlessly: every name once in `1 / share` ticks, evenly spread."""
    done = 0
    for tick in count(1):
        until = int(tick * share * len(names))
        yield [names[turn % len(names)] for turn in range(done, until)]
        done = until
