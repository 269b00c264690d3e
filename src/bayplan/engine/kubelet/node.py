"""All that decides an admission on one node, frozen: zones, settings, CPUs, memory, devices and what of them is free.

With complete knowledge (a node agent, a simulated node, a recording) every field is filled exactly. A scheduler that
only sees a NodeResourceTopology knows counts per zone; `from_counts` builds a plausible node from those. `replay.py`
reads a `NodeKnowledge` and never changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bayplan.cluster.reports.inventory import FREE, MOST_CPUS, UNHEALTHY, CpuLayout, CpuSet, Inventory, ListedDevice
from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.engine.kubelet.masks import Distances, ZoneIds, mask_of

__all__ = [
    "CpuLayout",
    "CpuSet",
    "Device",
    "NodeKnowledge",
    "ZoneCounts",
    "ZoneMemory",
    "from_counts",
    "with_inventory",
]

# Counts above these (and above MOST_CPUS) are not spelled out one by one: no machine has them, but a broken report may.
MOST_DEVICES = 65_536


@dataclass(frozen=True, slots=True)
class ZoneMemory:
    """Memory of one zone by type (memory, hugepages-*).

    `group` is the mask of the zones it is used together with; a zone alone is its own group. `assignments` counts
    the allocations that touch it; at zero the group means nothing.
    """

    allocatable: Mapping[str, int]
    free: Mapping[str, int]
    group: int
    assignments: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a plugin. No zones means that the plugin does not say where it is."""

    id: str
    zones: int
    healthy: bool = True
    allocated: bool = False


@dataclass(frozen=True, slots=True)
class NodeKnowledge:
    """One node as the kubelet's managers see it. Sets of zones and CPUs are masks over their ids.

    `distances` has rows and columns by position in `zone_ids` and may be empty. `free_cpus` are those that can be
    handed out exclusively now. `devices` knows the plugins' resources; a resource not in it is none of the Device
    Manager's. `by_name` is False if CPUs or devices are made up from counts.
    """

    zone_ids: ZoneIds
    settings: KubeletSettings
    cpus: CpuLayout
    free_cpus: CpuSet
    reserved_cpus: CpuSet = 0
    memory: Mapping[int, ZoneMemory] = field(default_factory=dict)
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    distances: Distances = ()
    by_name: bool = True


@dataclass(frozen=True, slots=True)
class ZoneCounts:
    """What a topology report says about one zone: (all there is, available now) per resource.

    CPUs are whole CPUs, reserved ones included in the first number; None where the report has no CPUs for the zone.
    Memory's first number is what pods may use at most. `memory_group` are the zones its memory is used together with,
    if the node says so; a zone whose memory is used alone is its own group.
    """

    zone_id: int
    cpus: tuple[int, int] | None = None
    memory: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    devices: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    memory_group: tuple[int, ...] | None = None


def from_counts(
    zones: Iterable[ZoneCounts],
    settings: KubeletSettings,
    distances: Distances = (),
    *,
    devices_without_zone: Mapping[str, tuple[int, int]] | None = None,
    strict_memory_groups: bool = False,
) -> NodeKnowledge:
    """A node that has these counts: a socket per zone, devices that differ by number only.

    A resource that no zone reports does not matter for alignment; without CPUs or memory in any zone the respective
    manager counts as off. `devices_without_zone` are those of a reported resource whose plugin does not say where they
    are. Memory groups are rarely reported: without them none is assumed, or, with `strict_memory_groups`, every zone
    with memory in use counts as taken by an allocation of its own. Cores have the threads that the settings lead to
    believe.
    """
    ordered = sorted(zones, key=lambda zone: zone.zone_id)
    layout, free_cpus = _cpus_from_counts(ordered, settings.believed_threads_per_core)
    elsewhere = devices_without_zone or {}
    resources = {resource for zone in ordered for resource in zone.devices}
    return NodeKnowledge(
        zone_ids=tuple(zone.zone_id for zone in ordered),
        settings=replace(
            settings,
            cpu_static=bool(settings.cpu_static) and bool(layout.numa),
            memory_static=bool(settings.memory_static) and any(zone.memory for zone in ordered),
        ),
        cpus=layout,
        free_cpus=free_cpus,
        memory={zone.zone_id: _memory_from_counts(zone, strict_groups=strict_memory_groups) for zone in ordered},
        devices={
            resource: (*_devices_from_counts(ordered, resource), *_unplaced(resource, elsewhere.get(resource, (0, 0))))
            for resource in sorted(resources)
        },
        distances=distances,
        by_name=False,
    )


def with_inventory(node: NodeKnowledge, inventory: Inventory) -> NodeKnowledge:
    """The same node with its CPUs and devices as it lists them instead of made up from counts."""
    return replace(
        node,
        cpus=inventory.cpus,
        free_cpus=inventory.free_cpus,
        reserved_cpus=inventory.reserved_cpus,
        devices={
            resource: tuple(_listed(device) for device in devices) for resource, devices in inventory.devices.items()
        },
        by_name=inventory.devices.keys() >= node.devices.keys(),
    )


def _listed(device: ListedDevice) -> Device:
    healthy = device.state != UNHEALTHY
    return Device(device.id, mask_of(device.zones), healthy=healthy, allocated=healthy and device.state != FREE)


def _cpus_from_counts(zones: Sequence[ZoneCounts], threads: int) -> tuple[CpuLayout, CpuSet]:
    numa: list[int] = []
    core: list[int] = []
    free = 0
    for zone in zones:
        capacity, available = (min(number, MOST_CPUS) for number in zone.cpus or (0, 0))
        first = len(numa)
        free |= ((1 << min(capacity, available)) - 1) << first
        numa += [zone.zone_id] * capacity
        core += [first + cpu // threads * threads for cpu in range(capacity)]
    column = tuple(numa)
    return CpuLayout(core=tuple(core), socket=column, numa=column, l3=column), free


def _memory_from_counts(zone: ZoneCounts, *, strict_groups: bool) -> ZoneMemory:
    in_use = any(available < total for total, available in zone.memory.values())
    return ZoneMemory(
        allocatable={name: total for name, (total, _) in zone.memory.items()},
        free={name: available for name, (_, available) in zone.memory.items()},
        group=mask_of(zone.memory_group or [zone.zone_id]),
        assignments=1 if zone.memory_group or (strict_groups and in_use) else 0,
    )


def _devices_from_counts(zones: Sequence[ZoneCounts], resource: str) -> Iterable[Device]:
    for zone in zones:
        capacity, available = (min(number, MOST_DEVICES) for number in zone.devices.get(resource, (0, 0)))
        for number in range(capacity):
            name = f"{resource}-{zone.zone_id:03}-{number:03}"
            yield Device(name, mask_of([zone.zone_id]), allocated=number >= available)


def _unplaced(resource: str, counts: tuple[int, int]) -> Iterable[Device]:
    capacity, available = (min(number, MOST_DEVICES) for number in counts)
    for number in range(capacity):
        yield Device(f"{resource}-any-{number:03}", zones=0, allocated=number >= available)
