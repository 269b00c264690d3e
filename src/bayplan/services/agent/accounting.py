"""Capacity, allocatable and available amounts of a node, zone by zone. No I/O.

In comes `Evidence` (the machine, the kubelet's configuration, what pods hold); out goes a `NodeAccount` for
`report.py`.

* Zones go by NUMA id; a zone without CPUs has memory and no `cpu`.
* Only exclusive CPUs are used: an old kubelet lists the shared pool for containers without exclusive CPUs.
* A device in several zones is one device, and is gone from all of them while it is held.
* A memory block that spans zones is taken once, from the lowest zone first, as in the kubelet; only its sum counts.
* State files know what finished init containers still hold; they count if they agree with the listed pods.
* Unknown zones and CPUs are ignored and reported as problems.

Devices and memory are counted in `device_accounting.py` and `memory_accounting.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.inventory import ListedDevice
from bayplan.services.agent.device_accounting import device_amounts, devices_by_resource
from bayplan.services.agent.evidence import Amounts, Evidence, UnknownIds
from bayplan.services.agent.memory_accounting import is_current, memory_by_zone, memory_groups
from bayplan.services.agent.sources.kubelet_config import reserved_cpus_on
from bayplan.services.agent.sources.pod_resources import (
    ContainerResources,
    PodName,
    PodResources,
    cpus_of,
    without_cpus,
)
from bayplan.services.agent.sources.sysfs import Hardware

ALL_NODES = "*"

Holdings = dict[str, dict[int, int]]
"""Resource to zone id to amount; CPUs in milli, as `cluster/reports/inventory.py` has it."""


@dataclass(frozen=True, slots=True)
class ZoneAccount:
    """One zone. `memory_group` has the zones whose memory is used together with its own; None while unused."""

    id: int
    distances: Mapping[int, int]
    amounts: Mapping[str, Amounts]
    memory_group: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """Zones in ascending id, CPUs and devices by name, what each pod holds, and problems with the input.

    `devices` omits resources without any zone: there may be thousands. `pods` have only their exclusive CPUs.
    """

    zones: tuple[ZoneAccount, ...]
    free_cpus: frozenset[int]
    reserved_cpus: frozenset[int]
    devices: Mapping[str, tuple[ListedDevice, ...]]
    pods: tuple[PodResources, ...]
    holdings: Mapping[PodName, Holdings]
    problems: tuple[str, ...] = ()


def account(evidence: Evidence, exclude: Collection[str] = ()) -> NodeAccount:
    """Count everything; resources in `exclude` are omitted everywhere."""
    hardware = evidence.hardware
    unknown = UnknownIds(hardware)
    usable = _usable_cpus(evidence)
    pods = exclusive_pods(evidence)
    listed = frozenset(cpu for _, container in cpus_of(pods) for cpu in unknown.known_cpus(container.cpus, "pods"))
    free = usable - listed - _cpus_in_state(evidence, listed)
    devices = devices_by_resource(evidence, pods, unknown)
    places = {(name, each.listed.id): each.listed.zones for name, found in devices.items() for each in found}
    blocks = [block for pod in pods for container in pod.containers for block in container.memory]
    noted = evidence.memory_state if is_current(evidence, blocks) else None
    memory = memory_by_zone(evidence, noted, [unknown.placed_block(block) for block in blocks])
    groups = memory_groups(hardware, noted, blocks)
    zones = []
    for zone in hardware.zones:
        amounts: dict[str, Amounts] = {}
        if zone.cpus:
            amounts[CPU] = Amounts(len(zone.cpus), len(zone.cpus & usable), len(zone.cpus & free))
        amounts.update(memory.get(zone.id, {}))
        amounts.update(device_amounts(zone.id, devices))
        kept = {name: each for name, each in amounts.items() if name not in exclude}
        zones.append(ZoneAccount(zone.id, zone.distances, kept, groups.get(zone.id)))
    in_zones = frozenset(cpu for zone in hardware.zones for cpu in zone.cpus)
    return NodeAccount(
        zones=tuple(zones),
        free_cpus=free,
        reserved_cpus=in_zones - usable,
        devices={
            name: tuple(each.listed for each in found)
            for name, found in devices.items()
            if name not in exclude and any(each.listed.zones for each in found)
        },
        pods=tuple(pods),
        holdings={pod.key: _holdings(pod, hardware, places, exclude) for pod in pods},
        problems=tuple(unknown.found),
    )


def zones_of(container: ContainerResources, hardware: Hardware) -> frozenset[int]:
    """The zones in which a container holds something."""
    of_cpus = (hardware.cpus[cpu].zone for cpu in container.cpus if cpu in hardware.cpus)
    of_devices = (zone for group in container.devices for zone in group.zones)
    of_memory = (zone for block in container.memory for zone in block.zones)
    return hardware.zone_ids.intersection((*of_cpus, *of_devices, *of_memory))


def excluded_on(node: str, lists: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The resources that a configuration excludes on this node or on all nodes."""
    return frozenset((*lists.get(ALL_NODES, ()), *lists.get(node, ())))


def exclusive_pods(evidence: Evidence) -> list[PodResources]:
    """The pods with only their exclusive CPUs.

    Old kubelets list the shared pool for containers without exclusive CPUs. Reserved CPUs are always shared, so a
    container that is listed with one of them reveals the pool.
    """
    if not _hands_out_cpus(evidence):
        everything = frozenset(cpu for _, container in cpus_of(evidence.pods) for cpu in container.cpus)
        return without_cpus(evidence.pods, everything)
    shared = evidence.shared_cpus
    if evidence.allocatable is not None:
        handed_out = frozenset(evidence.allocatable.cpus)
        reserved = evidence.hardware.cpus.keys() - handed_out
        for _, container in cpus_of(evidence.pods):
            if not reserved.isdisjoint(container.cpus):
                shared |= frozenset(container.cpus)
    return without_cpus(evidence.pods, shared)


# -- CPUs ------------------------------------------------------------------------------------------------------------


def _hands_out_cpus(evidence: Evidence) -> bool:
    """Whether CPUs can be exclusive; without a static CPU Manager, the kubelet lists none as allocatable."""
    if evidence.allocatable is not None:
        return bool(evidence.allocatable.cpus)
    return evidence.setup is None or bool(evidence.setup.settings.cpu_static)


def _usable_cpus(evidence: Evidence) -> frozenset[int]:
    """CPUs in zones that pods may use."""
    in_zones = frozenset(cpu for zone in evidence.hardware.zones for cpu in zone.cpus)
    if evidence.allocatable is not None and evidence.allocatable.cpus:
        return in_zones & frozenset(evidence.allocatable.cpus)
    return in_zones - (reserved_cpus_on(evidence.hardware, evidence.setup) if evidence.setup else frozenset())


def _cpus_in_state(evidence: Evidence, listed: frozenset[int]) -> frozenset[int]:
    """CPUs of all containers in the state file, including those that the kubelet does not list.

    A file with a held CPU among the shared ones is older than the list, and is ignored.
    """
    notes = evidence.cpu_state
    if notes is None or not _hands_out_cpus(evidence) or not notes.shared_cpus.isdisjoint(listed):
        return frozenset()
    return frozenset(
        cpu
        for uid, containers in notes.entries.items()
        if uid not in evidence.ended
        for cpus in containers.values()
        for cpu in cpus
    )


# -- pods --------------------------------------------------------------------------------------------------------------


def _holdings(
    pod: PodResources, hardware: Hardware, places: Mapping[tuple[str, str], tuple[int, ...]], exclude: Collection[str]
) -> Holdings:
    """What a pod holds in zones. Memory that spans zones is shown in equal shares: only its sum is known."""
    held: Holdings = {}

    def add(resource: str, zone: int, amount: int) -> None:
        in_zones = held.setdefault(resource, {})
        in_zones[zone] = in_zones.get(zone, 0) + amount

    # App containers may reuse an init container's CPUs and devices, so each is counted once.
    for cpu in sorted({cpu for container in pod.containers for cpu in container.cpus}):
        zone = hardware.cpus[cpu].zone if cpu in hardware.cpus else None
        if zone is not None:
            add(CPU, zone, 1000)
    names = {(group.resource, name) for each in pod.containers for group in each.devices for name in group.ids}
    for resource, name in sorted(names):
        for zone in places[resource, name]:
            add(resource, zone, 1)
    for block in (block for container in pod.containers for block in container.memory if block.size):
        zones = sorted(zone for zone in block.zones if zone in hardware.zone_ids)
        for position, zone in enumerate(zones):
            share, rest = divmod(block.size, len(zones))
            add(block.type, zone, share + (rest if position == 0 else 0))
    return {resource: in_zones for resource, in_zones in held.items() if resource not in exclude}
