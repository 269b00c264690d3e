"""How nfd-topology-updater counts, where that is not how things are: for recordings of it and for comparison.

It looks at each pod that the kubelet lists in the API server first (`scan`) and gives up if one is missing, takes all
CPUs of a pod for exclusive if one of its containers has any, and takes a device that is in several zones from the last
of them only. As its neighbour (`rte.py`) it takes the place of a zone in sysfs for its id. What is true is in
`accounting.py`. Where the original ends itself (a resource that is excluded and in use), this goes on without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.request import CPU, PodRequest, effective_request, is_memory
from bayplan.cluster.reports.fingerprint import ATTRIBUTE, fingerprint_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.agent.accounting import ZoneAccount
from bayplan.services.agent.evidence import Amounts
from bayplan.services.agent.sources.pod_resources import Allocatable, ContainerResources, PodName, PodResources
from tests.conformance.node_agents.rte import ListedZone, MemoryCapacity

ALL_NAMESPACES = ("", "*")


class PodMissing(Exception):
    """The kubelet lists a pod that the API server does not know; nothing was counted."""


@dataclass(frozen=True, slots=True)
class AccountedResource:
    """One entry of a container's list: ids of CPUs or devices, or the size of one memory block; `zones` is None if
    unknown.
    """

    name: str
    data: tuple[str, ...]
    zones: tuple[int, ...] | None = None


AccountedPods = Mapping[PodName, Mapping[str, Sequence[AccountedResource]]]
"""Pods that count, their containers, and what those hold."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Which pods count, and what is published beside zones."""

    pods: AccountedPods
    attributes: Mapping[str, str]


def scan(
    listed: Sequence[PodResources], known: Mapping[PodName, Pod], namespace: str = "*", *, fingerprint: bool = True
) -> Scan:
    """Sort out what the kubelet lists; `known` are the pods of the API server."""
    accounted: dict[PodName, dict[str, list[AccountedResource]]] = {}
    for pod in listed:
        if pod.key not in known:
            raise PodMissing(f"pod {pod.namespace}/{pod.name} is listed by the kubelet and unknown to the API server")
        request = effective_request(known[pod.key])
        has_devices = any(container.devices for container in pod.containers)
        watched = namespace in ALL_NAMESPACES or namespace == pod.namespace
        if not watched or not (request.guaranteed or has_devices):
            continue
        pinned = _has_whole_cpus(request)
        containers = {each.name: _accounted(each, pinned=pinned) for each in pod.containers}
        containers = {name: resources for name, resources in containers.items() if resources}
        if containers:
            accounted[pod.key] = containers
    signed = fingerprint and bool(listed)
    return Scan(accounted, {ATTRIBUTE: fingerprint_of(pod.key for pod in listed)} if signed else {})


def _has_whole_cpus(request: PodRequest) -> bool:
    """Asked of the pod, not of each container."""
    return request.guaranteed and any(
        CPU in container.requests and container.requests[CPU] % 1000 == 0 for container in request.containers
    )


def _accounted(container: ContainerResources, *, pinned: bool) -> list[AccountedResource]:
    resources = []
    if pinned and container.cpus:
        resources.append(AccountedResource(CPU, tuple(str(cpu) for cpu in container.cpus)))
    resources += [AccountedResource(group.resource, group.ids, group.zones or None) for group in container.devices]
    resources += [
        AccountedResource(block.type, (str(block.size),), block.zones or None)
        for block in container.memory
        if block.size
    ]
    return resources


def aggregate(
    machine: Sequence[ListedZone],
    capacity: MemoryCapacity,
    allocatable: Allocatable,
    pods: AccountedPods,
    excluded: Collection[str] = (),
) -> tuple[ZoneAccount, ...]:
    """Zones, one for each place in the list of the machine's zones."""
    zone_of_cpu = {str(cpu): zone.id for zone in machine for cpu in zone.cpus}
    home = _homes(allocatable, zone_of_cpu)
    whole = _allocatable_by_zone(allocatable, zone_of_cpu)
    reserved = {zone.id: sum(str(cpu) not in home[CPU] for cpu in zone.cpus) for zone in machine}
    # A zone of which nothing can be had shows its CPUs even if they are excluded.
    totals = {
        index: {name: amount for name, amount in whole[index].items() if name not in excluded}
        if index in whole
        else {CPU: 0}
        for index in range(len(machine))
    }
    left = {index: dict(amounts) for index, amounts in totals.items()}
    for resource in (each for containers in pods.values() for held in containers.values() for each in held):
        if is_memory(resource.name):
            _take_memory(left, resource)
        else:
            for name in resource.data:
                zone = home.get(resource.name, {}).get(name)
                if zone is not None and resource.name in left.get(zone, {}):
                    left[zone][resource.name] -= 1
    costs = {zone.id: zone.costs for zone in machine}
    return tuple(
        ZoneAccount(
            index,
            costs.get(index, {}),
            {
                name: Amounts(_capacity(name, amount, index, capacity, reserved), amount, left[index][name])
                for name, amount in amounts.items()
            },
        )
        for index, amounts in totals.items()
    )


def _capacity(name: str, amount: int, zone: int, capacity: MemoryCapacity, reserved: Mapping[int, int]) -> int:
    if name == CPU:
        return amount + reserved.get(zone, 0)
    return capacity.get(zone, {}).get(name, amount) if is_memory(name) else amount


def _homes(allocatable: Allocatable, zone_of_cpu: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The zone of each CPU and device by its name; of several zones the last."""
    homes: dict[str, dict[str, int]] = {CPU: {}}
    for cpu in map(str, allocatable.cpus):
        if cpu in zone_of_cpu:
            homes[CPU][cpu] = zone_of_cpu[cpu]
    for group in allocatable.devices:
        of_resource = homes.setdefault(group.resource, {})
        for zone in group.zones:
            of_resource.update(dict.fromkeys(group.ids, zone))
    return homes


def _allocatable_by_zone(allocatable: Allocatable, zone_of_cpu: Mapping[str, int]) -> dict[int, dict[str, int]]:
    """A device or a memory block in several zones counts in full in each."""
    found: dict[int, dict[str, int]] = {}

    def add(zones: Iterable[int], resource: str, amount: int) -> None:
        for zone in zones:
            of_zone = found.setdefault(zone, {})
            of_zone[resource] = of_zone.get(resource, 0) + amount

    for cpu in map(str, allocatable.cpus):
        if cpu in zone_of_cpu:
            add((zone_of_cpu[cpu],), CPU, 1)
    for group in allocatable.devices:
        add(group.zones, group.resource, len(group.ids))
    for block in allocatable.memory:
        add(block.zones, block.type, block.size)
    return found


def _take_memory(left: dict[int, dict[str, int]], resource: AccountedResource) -> None:
    """From the zones in the order in which they are listed, as much as each of them has."""
    size = int(resource.data[0])
    for zone in resource.zones or ():
        if zone not in left:
            continue
        if resource.name not in left[zone]:
            return
        taken = min(size, left[zone][resource.name])
        left[zone][resource.name] -= taken
        size -= taken
