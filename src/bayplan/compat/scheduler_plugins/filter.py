"""What scheduler-plugins' NodeResourceTopologyMatch answers: its filter, reproduced for all nodes at once.

Only nodes with policy `single-numa-node` are ever refused. Each container (or the pod) must find one zone that reports
every requested resource in sufficient amount; the lowest such zone is charged before the next container is judged. Init
containers and sidecars are judged against everything that is free and are never charged. Known differences from the
kubelet are kept on purpose: this is the answer for users who need the old one (`filterMode: Upstream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_INVALID, TOPOLOGY_STALE, Columns
from bayplan.cluster.columns.resource_kinds import asks_for_devices, is_host_level, is_numa_affine
from bayplan.cluster.pods.request import CPU, MEMORY, PODS, PodRequest, QoS, Role
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.engine.numa.rows import Codes, Mask, Rows, among, count, reads_report

# Every node is taken to offer these, whatever its status says.
ALWAYS_OFFERED = frozenset({CPU, MEMORY, PODS, "ephemeral-storage"})


class UpstreamVerdict(IntEnum):
    """Why the plugin refuses a node; 0 if it does not."""

    PASSES = 0
    DATA_INVALID = 1
    INIT_CONTAINER = 2
    SIDECAR_CONTAINER = 3
    CONTAINER = 4
    POD = 5


_VERDICT_OF_ROLE = {
    Role.INIT: UpstreamVerdict.INIT_CONTAINER,
    Role.SIDECAR: UpstreamVerdict.SIDECAR_CONTAINER,
    Role.APP: UpstreamVerdict.CONTAINER,
}


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """A verdict per node and, for each step that charges, the position of the zone it would use."""

    codes: Codes
    zones: NDArray[np.intp]


def upstream_verdicts(columns: Columns, request: PodRequest, rows: Rows) -> Codes:
    """One `UpstreamVerdict` per node in `rows`."""
    codes = np.zeros(count(rows), dtype=np.uint8)
    if request.qos is QoS.BEST_EFFORT and not asks_for_devices(request):
        return codes
    topology = columns.topology[rows]
    judged = reads_report(topology) & (columns.upstream_policy[rows] == Policy.SINGLE_NUMA_NODE)
    by_pod = columns.upstream_scope[rows] == Scope.POD
    for chosen, align in ((judged & by_pod, align_pod), (judged & ~by_pod, align_containers)):
        if chosen.all():
            codes = align(columns, request, rows).codes
        elif chosen.any():
            codes[chosen] = align(columns, request, among(rows, chosen)).codes
    codes[(topology == TOPOLOGY_INVALID) | (topology == TOPOLOGY_STALE)] = UpstreamVerdict.DATA_INVALID
    return codes


def align_pod(columns: Columns, request: PodRequest, rows: Rows) -> UpstreamAnswer:
    """Pod scope: the pod's sum must come out of one zone."""
    fits = ZonesLeft(columns, rows, guaranteed=request.guaranteed).zones_for(request.largest_or_sum)
    codes = np.where(fits.any(axis=0), UpstreamVerdict.PASSES, UpstreamVerdict.POD).astype(np.uint8)
    return UpstreamAnswer(codes, fits.argmax(axis=0)[np.newaxis])


def align_containers(columns: Columns, request: PodRequest, rows: Rows) -> UpstreamAnswer:
    """Container scope: each container in turn; only application containers reduce what the next one sees."""
    left = ZonesLeft(columns, rows, guaranteed=request.guaranteed)
    codes = np.zeros(count(rows), dtype=np.uint8)
    zones = []
    for container in request.containers:
        fits = left.zones_for(container.requests)
        refused = ~fits.any(axis=0) & (codes == UpstreamVerdict.PASSES)
        codes[refused] = _VERDICT_OF_ROLE[container.role]
        if container.role is Role.APP:
            zone = fits.argmax(axis=0)
            zones.append(zone)
            left.charge(container.requests, zone, codes == UpstreamVerdict.PASSES)
    return UpstreamAnswer(codes, np.array(zones, dtype=np.intp).reshape(len(zones), len(codes)))


class ZonesLeft:
    """What is free per zone while the containers of one pod are judged."""

    def __init__(self, columns: Columns, rows: Rows, *, guaranteed: bool) -> None:
        self._columns = columns
        self._rows = rows
        self._guaranteed = guaranteed
        self._left: dict[int, NDArray[np.float64]] = {}
        self._bits = np.arange(columns.zone_available.shape[1], dtype=np.uint64)[:, np.newaxis]

    def zones_for(self, amounts: Mapping[str, int]) -> Mask:
        """fits[zone, node] for one set of amounts; all true where nothing constrains the choice."""
        zones = self._columns.zone_available.shape[1]
        fits = np.ones((zones, count(self._rows)), dtype=np.bool_)
        for name, amount in amounts.items():
            if not amount:
                continue
            index = self._columns.resource_index.get(name)
            if index is None:
                # No node offers it and no zone reports it.
                fits &= name in ALWAYS_OFFERED and is_host_level(name)
                continue
            reported = self._reported(index)
            enough = reported if not self._compares(name) else reported & (self.left_of(index) >= amount)
            if is_host_level(name):
                enough = enough | ~reported.any(axis=0)
            if name not in ALWAYS_OFFERED:
                enough = enough & self._columns.offered[index][self._rows]
            fits &= enough
        return fits

    def charge(self, amounts: Mapping[str, int], zone: NDArray[np.intp], where: Mask) -> None:
        """Subtract amounts from the chosen zone of each node."""
        nodes = np.nonzero(where)[0]
        for name, amount in amounts.items():
            index = self._columns.resource_index.get(name)
            if not amount or index is None or not self._compares(name):
                continue
            reported = self._reported(index)[zone[nodes], nodes]
            left = self.left_of(index).copy()
            left[zone[nodes], nodes] -= np.where(reported, float(amount), 0.0)
            self._left[index] = left

    def _compares(self, name: str) -> bool:
        """Pods that are not Guaranteed share CPUs and memory, so only their devices are counted."""
        return self._guaranteed or not is_numa_affine(name)

    def left_of(self, index: int) -> NDArray[np.float64]:
        """What is left of a resource: [zone, node]."""
        left = self._left.get(index)
        return self._columns.zone_available[index][:, self._rows] if left is None else left

    def _reported(self, index: int) -> Mask:
        bits = self._columns.zone_reported[index][self._rows]
        reported: Mask = np.equal((bits >> self._bits) & np.uint64(1), 1)
        return reported
