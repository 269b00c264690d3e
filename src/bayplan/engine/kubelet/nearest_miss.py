"""Why no zones satisfied all resources: which resource came closest to fitting, where, and how much was missing.

Called for rejected merges only. Zones are tried one by one under single-numa-node, otherwise in the smallest number
that could ever serve one of the resources: the others would have to agree at that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.engine.kubelet.cpu import CpuLedger, free_per_zone
from bayplan.engine.kubelet.devices import DeviceLedger, free_devices
from bayplan.engine.kubelet.masks import bits, subsets
from bayplan.engine.kubelet.memory import MemoryLedger, closed
from bayplan.engine.kubelet.node import NodeKnowledge
from bayplan.engine.kubelet.verdict import NearestMiss


@dataclass(frozen=True, slots=True)
class Need:
    """What one merge is about: devices by resource, whole CPUs, bytes by memory type."""

    devices: Mapping[str, int]
    cpus: int
    memory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Supply:
    """One resource by zone: the most there could be and what is free now, in the units of a pod's request.

    What is free in zones that are closed to this pod counts as nothing.
    """

    resource: str
    want: int
    in_total: Mapping[int, int]
    free: Mapping[int, int]
    closed: Callable[[int], bool] = lambda _mask: False

    def usable(self, mask: int) -> int:
        return 0 if self.closed(mask) else sum(self.free.get(zone, 0) for zone in bits(mask))

    def lacking(self, mask: int) -> float:
        """The missing share of the request."""
        return max(0.0, (self.want - self.usable(mask)) / self.want)


def nearest_miss(
    node: NodeKnowledge, ledgers: tuple[DeviceLedger, CpuLedger, MemoryLedger], need: Need
) -> NearestMiss | None:
    """The zone set that lacks least of those that could serve, and the resource that lacks most in it."""
    supplies = _supplies(node, ledgers, need)
    if not supplies:
        return None
    one_zone = node.settings.policy is Policy.SINGLE_NUMA_NODE
    size = 1 if one_zone else min(_fewest_zones(supply, len(node.zone_ids)) for supply in supplies)
    misses = [
        (lacking, mask)
        for mask in subsets(node.zone_ids).masks
        if mask.bit_count() == size and (lacking := sum(supply.lacking(mask) for supply in supplies)) > 0
    ]
    if not misses:
        return None
    _, mask = min(misses)
    worst = max(supplies, key=lambda supply: supply.lacking(mask))
    return NearestMiss(worst.resource, mask.bit_length() - 1 if size == 1 else None, worst.usable(mask), worst.want)


def _fewest_zones(supply: _Supply, most: int) -> int:
    found = 0
    for count, amount in enumerate(sorted(supply.in_total.values(), reverse=True), start=1):
        found += amount
        if found >= supply.want:
            return count
    return most


def _supplies(node: NodeKnowledge, ledgers: tuple[DeviceLedger, CpuLedger, MemoryLedger], need: Need) -> list[_Supply]:
    devices, cpus, memory = ledgers
    supplies = [
        _Supply(
            resource,
            want,
            _count_by_zone(device.zones for device in node.devices[resource]),
            _count_by_zone(device.zones for device in free_devices(node, devices, resource)),
        )
        for resource, want in need.devices.items()
        if want and any(device.zones for device in node.devices[resource])
    ]
    if need.cpus:
        free = free_per_zone(node.cpus, cpus.free | cpus.reusable)
        supplies.append(_Supply(CPU, need.cpus * 1000, _thousandfold(node.cpus.cpus_in_zone), _thousandfold(free)))
    supplies += [
        _Supply(
            name,
            want,
            {zone: of_zone.allocatable.get(name, 0) for zone, of_zone in node.memory.items()},
            {zone: memory.free.get((zone, name), 0) for zone in node.memory},
            partial(closed, memory),
        )
        for name, want in need.memory.items()
        if want
    ]
    return supplies


def _count_by_zone(zones: Iterable[int]) -> dict[int, int]:
    count: dict[int, int] = {}
    for mask in zones:
        for zone in bits(mask):
            count[zone] = count.get(zone, 0) + 1
    return count


def _thousandfold(amounts: Mapping[int, int]) -> dict[int, int]:
    return {zone: amount * 1000 for zone, amount in amounts.items()}
