"""How resource-topology-exporter counts, where that is not how things are: for recordings of it and for comparison.

It takes the place of a zone in sysfs for its id, counts a memory block in full in each of its zones and every CPU that
a container is listed with, and knows huge pages of 2Mi and 1Gi only. A reference container, if one is named, shows
which CPUs are shared. What is true is in `accounting.py`. Where the original ends itself (a gap among the ids of
zones), this goes on without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.cluster.reports.fingerprint import ANNOTATION, ATTRIBUTE, METHOD_ATTRIBUTE, fingerprint_of
from bayplan.services.agent.accounting import ZoneAccount
from bayplan.services.agent.evidence import Amounts
from bayplan.services.agent.sources.pod_resources import (
    Allocatable,
    ContainerResources,
    PodResources,
    shared_pool_of,
    without_cpus,
)

METHOD_ALL = "all"
_COUNTED_BY_SYSFS = (CPU, MEMORY, "hugepages-2Mi", "hugepages-1Gi")

MemoryCapacity = Mapping[int, Mapping[str, int]]
"""Bytes of memory and huge pages by zone, as sysfs has them."""


@dataclass(frozen=True, slots=True)
class ListedZone:
    """A zone as it stands in the list that agents make of sysfs; distances are in the order of that list."""

    id: int
    cpus: Collection[int]
    distances: Sequence[int]

    @property
    def costs(self) -> dict[int, int]:
        """Distances by place in the list, which agents take for ids."""
        return dict(enumerate(self.distances))


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look at a node comes to."""

    zones: tuple[ZoneAccount, ...]
    attributes: Mapping[str, str]
    annotations: Mapping[str, str]


def in_some_zone(zones: Iterable[int]) -> bool:
    """True if it is known where a thing is. Device plugins that do not know may say -1 instead of leaving zones out."""
    return any(zone >= 0 for zone in zones)


def holds_exclusively(pod: PodResources) -> bool:
    """True if a pod holds CPUs, or memory or devices that are in a zone."""
    return any(
        container.cpus
        or any(in_some_zone(block.zones) for block in container.memory)
        or any(group.ids and in_some_zone(group.zones) for group in container.devices)
        for container in pod.containers
    )


def scan(
    machine: Sequence[ListedZone],
    capacity: MemoryCapacity,
    allocatable: Allocatable,
    listed: Sequence[PodResources],
    *,
    excluded: Collection[str] = (),
    namespace: str = "",
    method: str | None = None,
    reference: tuple[str, str, str] | None = None,
) -> Scan:
    """Zones, attributes and annotations; no fingerprint without a `method`.

    An empty namespace stands for all of them.
    """
    shared = shared_pool_of(listed, *reference) if reference else frozenset()
    pods = without_cpus(listed, shared)
    zone_of = {cpu: zone.id for zone in machine for cpu in zone.cpus}
    whole = _counted([ContainerResources("", allocatable.cpus, allocatable.devices, allocatable.memory)], zone_of)
    watched = (pod for pod in pods if namespace in ("", pod.namespace))
    used = _counted((container for pod in watched for container in pod.containers), zone_of)
    by_id = {zone.id: zone for zone in machine}
    zones = []
    for index in range(len(machine)):
        zone = by_id.get(index, ListedZone(index, (), ()))
        amounts = {
            name: _amounts(name, amount, used.get(index, {}).get(name, 0), zone, capacity)
            for name, amount in whole.get(index, {CPU: 0}).items()
            if name not in excluded
        }
        zones.append(ZoneAccount(index, zone.costs, amounts))
    if method is None:
        return Scan(tuple(zones), {}, {})
    shown = (pod.key for pod in pods if method == METHOD_ALL or holds_exclusively(pod))
    sign = fingerprint_of(shown)
    return Scan(tuple(zones), {ATTRIBUTE: sign, METHOD_ATTRIBUTE: method}, {ANNOTATION: sign})


def _amounts(name: str, allocatable: int, used: int, zone: ListedZone, capacity: MemoryCapacity) -> Amounts:
    """Capacity is what sysfs shows, but never less than what the kubelet hands out."""
    whole = 0
    if name in _COUNTED_BY_SYSFS:
        whole = len(zone.cpus) if name == CPU else capacity.get(zone.id, {}).get(name, 0)
    return Amounts(max(whole, allocatable), allocatable, max(0, allocatable - used))


def _counted(containers: Iterable[ContainerResources], zone_of: Mapping[int, int]) -> dict[int, dict[str, int]]:
    """Amounts by zone and resource: a thing in several zones counts in full in each."""
    counts: dict[int, dict[str, int]] = {}

    def add(zone: int, resource: str, amount: int) -> None:
        of_zone = counts.setdefault(zone, {})
        of_zone[resource] = of_zone.get(resource, 0) + amount

    for container in containers:
        for cpu in container.cpus:
            if cpu in zone_of:
                add(zone_of[cpu], CPU, 1)
        for group in container.devices:
            for zone in group.zones:
                add(zone, group.resource, len(group.ids))
        for block in container.memory:
            for zone in block.zones if block.size else ():
                add(zone, block.type, block.size)
    return counts
