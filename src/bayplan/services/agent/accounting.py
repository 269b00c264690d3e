"""What a node has, what pods may use of it and what is left, zone by zone: the agent's arithmetic.

In comes all that is known at one moment (`Evidence`: the machine, the kubelet's configuration, what pods hold), out goes a `NodeAccount`. Rules:

* zones go by NUMA id; a zone without CPUs has memory and no `cpu`;
* a CPU is used if a container has it to itself: containers for which an old kubelet lists the shared pool have none;
* a device is one device, in however many zones it is, and is gone from all of them while it is held;
* a memory block that spans zones is taken once, from the lowest zone first, as the kubelet does it (only its sum means anything);
* the kubelet's state files know what finished init containers still hold, and count where they agree with what pods hold;
* what pods hold is never more than there is, and what names a zone or CPU that does not exist is left aside as a problem.

Devices and memory are counted in `device_accounting.py` and `memory_accounting.py`. Nothing is read here. `report.py` writes the account down; `nfd.py` and `rte.py` count as other agents do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.inventory import ListedDevice
from bayplan.services.agent.device_accounting import device_amounts, devices_by_resource
from bayplan.services.agent.evidence import Amounts, Evidence, Oddities
from bayplan.services.agent.memory_accounting import memory_by_zone, memory_groups, notes_cover
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
    """One zone. `memory_group` are the zones whose memory is used together with its own; None while it is unused."""

    id: int
    distances: Mapping[int, int]
    amounts: Mapping[str, Amounts]
    memory_group: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """Zones in ascending id; CPUs and devices by name; what each pod holds; and which input was invalid.

    Resources whose devices all have no zone are not among the devices: a name without a zone is useless, and there may be thousands.
    `pods` are those that count, with only their exclusive CPUs.
    """

    zones: tuple[ZoneAccount, ...]
    free_cpus: frozenset[int]
    reserved_cpus: frozenset[int]
    devices: Mapping[str, tuple[ListedDevice, ...]]
    pods: tuple[PodResources, ...]
    holdings: Mapping[PodName, Holdings]
    problems: tuple[str, ...] = ()


def account(evidence: Evidence, exclude: Collection[str] = ()) -> NodeAccount:
    """Count everything once; resources in `exclude` are left out of zones, lists and holdings."""
    hardware = evidence.hardware
    oddities = Oddities(hardware)
    usable = _usable_cpus(evidence)
    pods = exclusive_pods(evidence)
    listed = frozenset(cpu for _, container in cpus_of(pods) for cpu in oddities.known_cpus(container.cpus, "pods"))
    free = usable - listed - _cpus_in_notes(evidence, listed)
    devices = devices_by_resource(evidence, pods, oddities)
    places = {(name, each.listed.id): each.listed.zones for name, found in devices.items() for each in found}
    blocks = [block for pod in pods for container in pod.containers for block in container.memory]
    noted = evidence.memory_state if notes_cover(evidence, blocks) else None
    memory = memory_by_zone(evidence, noted, [oddities.placed_block(block) for block in blocks])
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
        problems=tuple(oddities.found),
    )


def zones_of(container: ContainerResources, hardware: Hardware) -> frozenset[int]:
    """The zones in which a container holds something."""
    of_cpus = (hardware.cpus[cpu].zone for cpu in container.cpus if cpu in hardware.cpus)
    of_devices = (zone for group in container.devices for zone in group.zones)
    of_memory = (zone for block in container.memory for zone in block.zones)
    return hardware.zone_ids.intersection((*of_cpus, *of_devices, *of_memory))


def excluded_on(node: str, lists: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The resources that a configuration leaves out on a node: those of the node itself and those of all nodes."""
    return frozenset((*lists.get(ALL_NODES, ()), *lists.get(node, ())))


def exclusive_pods(evidence: Evidence) -> list[PodResources]:
    """The pods with no other CPUs than those that a container has to itself.

    Old kubelets list the whole shared pool for a container that has no CPU of its own. Reserved CPUs are in that pool and are never
    handed out, so who is listed with one of them shows the pool.
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
    """Whether any CPU is ever exclusive; the kubelet lists none as allocatable where its CPU Manager does nothing."""
    if evidence.allocatable is not None:
        return bool(evidence.allocatable.cpus)
    return evidence.setup is None or bool(evidence.setup.settings.cpu_static)


def _usable_cpus(evidence: Evidence) -> frozenset[int]:
    """CPUs in zones that pods may use."""
    in_zones = frozenset(cpu for zone in evidence.hardware.zones for cpu in zone.cpus)
    if evidence.allocatable is not None and evidence.allocatable.cpus:
        return in_zones & frozenset(evidence.allocatable.cpus)
    return in_zones - (reserved_cpus_on(evidence.hardware, evidence.setup) if evidence.setup else frozenset())


def _cpus_in_notes(evidence: Evidence, listed: frozenset[int]) -> frozenset[int]:
    """CPUs that the state file gives to containers, also to those that the kubelet does not list.

    A file that calls a CPU shared which a pod holds is older than the list, and says nothing about now.
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
    """What a pod holds in zones. Of memory that spans zones only the sum is known; it is shown in even shares."""
    held: Holdings = {}

    def add(resource: str, zone: int, amount: int) -> None:
        in_zones = held.setdefault(resource, {})
        in_zones[zone] = in_zones.get(zone, 0) + amount

    # Containers that follow an init container may use its CPUs and devices again, so each is counted once.
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
