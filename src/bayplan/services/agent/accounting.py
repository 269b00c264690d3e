"""What a node has, what pods may use of it and what is left, zone by zone: the agent's arithmetic.

In comes all that is known at one moment (`Evidence`: the machine, the kubelet's configuration, what pods hold), out goes a `NodeAccount`. Rules:

* zones go by NUMA id; a zone without CPUs has memory and no `cpu`;
* a CPU is used if a container has it to itself: containers for which an old kubelet lists the shared pool have none;
* a device is one device, in however many zones it is, and is gone from all of them while it is held;
* a memory block that spans zones is taken once, from the lowest zone first, as the kubelet does it (only its sum means anything);
* the kubelet's state files know what finished init containers still hold, and count where they agree with what pods hold;
* what pods hold is never more than there is, and what names a zone or CPU that does not exist is left aside as a problem.

Nothing is read here. `report.py` writes the account down; `compat_nfd.py` and `compat_rte.py` count as other agents do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bayplan.cluster.inventory import FREE, USED, ListedDevice, cpu_list
from bayplan.cluster.pod_request import CPU, MEMORY
from bayplan.services.agent.kubelet_config import KubeletSetup, reserved_cpus_on
from bayplan.services.agent.pod_resources import (
    Allocatable,
    DeviceGroup,
    MemoryBlock,
    PodName,
    PodResources,
    cpus_of,
    without_cpus,
)
from bayplan.services.agent.state_files import CpuState, MemoryState
from bayplan.services.agent.sysfs import Hardware, HardwareZone

ALL_NODES = "*"

Holdings = dict[str, dict[int, int]]
"""Resource to zone id to amount; CPUs in milli, as `cluster/inventory.py` has it."""


class Amounts(NamedTuple):
    """One resource in one zone, CPUs in whole ones: all there is, what pods may use, what is left."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a node at one moment.

    Without `allocatable` nobody could ask the kubelet, and the machine less reservations is what pods may use. `pods` holds no pod that has
    ended; `ended` are UIDs of such pods, which the state files may still name.
    """

    hardware: Hardware
    setup: KubeletSetup | None = None
    allocatable: Allocatable | None = None
    pods: Sequence[PodResources] = ()
    shared_cpus: frozenset[int] = frozenset()
    cpu_state: CpuState | None = None
    memory_state: MemoryState | None = None
    ended: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ZoneAccount:
    """One zone. `memory_group` are the zones whose memory is used together with its own; None while nobody uses it."""

    id: int
    distances: Mapping[int, int]
    amounts: Mapping[str, Amounts]
    memory_group: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """Zones in ascending id; CPUs and devices by name; what each pod holds; and what could not be taken at its word."""

    zones: tuple[ZoneAccount, ...]
    free_cpus: frozenset[int]
    reserved_cpus: frozenset[int]
    devices: Mapping[str, tuple[ListedDevice, ...]]
    holdings: Mapping[PodName, Holdings]
    problems: tuple[str, ...] = ()


def account(evidence: Evidence, exclude: Collection[str] = ()) -> NodeAccount:
    """Count everything once; resources in `exclude` are left out of zones, lists and holdings."""
    hardware = evidence.hardware
    problems = _Problems(hardware)
    usable = _usable_cpus(evidence)
    pods = exclusive_pods(evidence)
    listed = frozenset(cpu for _, container in cpus_of(pods) for cpu in problems.known_cpus(container.cpus, "pods"))
    free = usable - listed - _cpus_in_notes(evidence, listed)
    devices = _devices(evidence.allocatable, pods, problems)
    blocks = [block for pod in pods for container in pod.containers for block in container.memory]
    noted = evidence.memory_state if _notes_cover(evidence, blocks) else None
    memory = _memory(evidence, noted, [problems.placed_block(block) for block in blocks])
    groups = _memory_groups(hardware, noted, blocks)
    zones = []
    for zone in hardware.zones:
        amounts: dict[str, Amounts] = {}
        if zone.cpus:
            amounts[CPU] = Amounts(len(zone.cpus), len(zone.cpus & usable), len(zone.cpus & free))
        amounts.update(memory.get(zone.id, {}))
        amounts.update(_device_amounts(zone.id, devices))
        kept = {name: each for name, each in amounts.items() if name not in exclude}
        zones.append(ZoneAccount(zone.id, zone.distances, kept, groups.get(zone.id)))
    in_zones = frozenset(cpu for zone in hardware.zones for cpu in zone.cpus)
    return NodeAccount(
        zones=tuple(zones),
        free_cpus=free,
        reserved_cpus=in_zones - usable,
        devices={name: tuple(each.listed for each in found) for name, found in devices.items() if name not in exclude},
        holdings={pod.key: _holdings(pod, hardware, devices, exclude) for pod in pods},
        problems=tuple(problems.found),
    )


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


# -- devices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Device:
    listed: ListedDevice
    allocatable: bool


def _devices(
    allocatable: Allocatable | None, pods: Iterable[PodResources], problems: _Problems
) -> dict[str, tuple[_Device, ...]]:
    """Every device by resource, in the order of ids. One that is held and not allocatable is broken, or its plugin is gone: it still counts."""
    offered = _zones_of_devices(allocatable.devices if allocatable else (), problems)
    used = _zones_of_devices(
        (group for pod in pods for container in pod.containers for group in container.devices), problems
    )
    return {
        resource: tuple(
            _Device(
                ListedDevice(
                    device,
                    tuple(sorted(offered.get(resource, {}).get(device) or used.get(resource, {}).get(device) or ())),
                    USED if device in used.get(resource, {}) else FREE,
                ),
                allocatable=device in offered.get(resource, {}),
            )
            for device in sorted({*offered.get(resource, {}), *used.get(resource, {})})
        )
        for resource in sorted({*offered, *used})
    }


def _zones_of_devices(groups: Iterable[DeviceGroup], problems: _Problems) -> dict[str, dict[str, set[int]]]:
    """Zones by resource and device; a device that is listed once per zone is one device."""
    found: dict[str, dict[str, set[int]]] = {}
    for group in groups:
        zones = problems.known_zones(group.zones, f"device {group.resource}")
        for device in group.ids:
            found.setdefault(group.resource, {}).setdefault(device, set()).update(zones)
    return found


def _device_amounts(zone: int, devices: Mapping[str, tuple[_Device, ...]]) -> dict[str, Amounts]:
    amounts = {}
    for resource, found in devices.items():
        here = [device for device in found if zone in device.listed.zones]
        if here:
            usable = [device for device in here if device.allocatable]
            amounts[resource] = Amounts(len(here), len(usable), sum(each.listed.state == FREE for each in usable))
    return amounts


# -- memory ------------------------------------------------------------------------------------------------------------


def _notes_cover(evidence: Evidence, blocks: Iterable[MemoryBlock]) -> bool:
    """True if the Memory Manager's state file is as new as the list of pods, and speaks of no pod that has ended."""
    notes = evidence.memory_state
    if notes is None or not notes.zones or not evidence.ended.isdisjoint(notes.entries):
        return False
    noted: dict[str, int] = {}
    for zone in notes.zones.values():
        for name, each in zone.amounts.items():
            noted[name] = noted.get(name, 0) + each.allocatable - each.free
    for block in blocks:
        noted[block.type] = noted.get(block.type, 0) - block.size
    return all(amount >= 0 for amount in noted.values())


def _memory(
    evidence: Evidence, noted: MemoryState | None, held: Sequence[MemoryBlock]
) -> dict[int, dict[str, Amounts]]:
    """Memory and huge pages by zone: nothing where no Memory Manager runs, because then nobody has memory in a zone."""
    allocatable = _allocatable_memory(evidence)
    available = {zone: dict(amounts) for zone, amounts in allocatable.items()}
    if noted is not None:
        for zone, notes in noted.zones.items():
            for name, each in notes.amounts.items():
                if name in available.get(zone, {}):
                    available[zone][name] = min(each.free, available[zone][name])
    else:
        # Zones that are used together are used by nobody else, so the order of blocks does not matter.
        for block in held:
            _take(available, block)
    capacity = {zone.id: zone.capacity for zone in evidence.hardware.zones}
    return {
        zone: {
            name: Amounts(max(capacity[zone].get(name, 0), amount), amount, available[zone][name])
            for name, amount in amounts.items()
            if amount or capacity[zone].get(name)
        }
        for zone, amounts in allocatable.items()
    }


def _allocatable_memory(evidence: Evidence) -> dict[int, dict[str, int]]:
    hardware = evidence.hardware
    if evidence.allocatable is not None:
        ids = hardware.zone_ids
        found: dict[int, dict[str, int]] = {}
        for block in evidence.allocatable.memory:
            zones = sorted(zone for zone in block.zones if zone in ids)
            for position, zone in enumerate(zones):
                # The kubelet lists one zone per block. If it ever lists several, the block is still there only once.
                share = block.size // len(zones) + (block.size % len(zones) if position == 0 else 0)
                of_zone = found.setdefault(zone, {})
                of_zone[block.type] = of_zone.get(block.type, 0) + share
        return found
    if evidence.memory_state is not None and evidence.memory_state.zones:
        return {
            zone: {name: each.allocatable for name, each in noted.amounts.items()}
            for zone, noted in evidence.memory_state.zones.items()
            if zone in hardware.zone_ids
        }
    reserved = evidence.setup.reserved_memory if evidence.setup else {}
    return {zone.id: _less_reserved(zone, reserved.get(zone.id, {})) for zone in hardware.zones}


def _less_reserved(zone: HardwareZone, reserved: Mapping[str, int]) -> dict[str, int]:
    """Memory that is not in huge pages and not reserved, and huge pages that are not reserved."""
    whole = {MEMORY: zone.memory - sum(zone.huge_pages.values()), **zone.huge_pages}
    return {name: max(0, amount - reserved.get(name, 0)) for name, amount in whole.items()}


def _take(available: dict[int, dict[str, int]], block: MemoryBlock) -> None:
    left = block.size
    for zone in sorted(block.zones):
        taken = min(left, available.get(zone, {}).get(block.type, 0))
        if taken:
            available[zone][block.type] -= taken
            left -= taken


def _memory_groups(
    hardware: Hardware, noted: MemoryState | None, blocks: Iterable[MemoryBlock]
) -> dict[int, tuple[int, ...]]:
    """Of zones whose memory somebody holds: which zones are held together."""
    if noted is not None:
        return {zone: notes.group for zone, notes in noted.zones.items() if notes.assignments}
    groups: dict[int, tuple[int, ...]] = {}
    for block in blocks:
        group = tuple(sorted(zone for zone in block.zones if zone in hardware.zone_ids))
        if block.size:
            groups.update(dict.fromkeys(group, group))
    return groups


# -- pods --------------------------------------------------------------------------------------------------------------


def _holdings(
    pod: PodResources, hardware: Hardware, devices: Mapping[str, tuple[_Device, ...]], exclude: Collection[str]
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
    for resource, found in devices.items():
        for device in found:
            if (resource, device.listed.id) in names:
                for zone in device.listed.zones:
                    add(resource, zone, 1)
    for block in (block for container in pod.containers for block in container.memory if block.size):
        zones = sorted(zone for zone in block.zones if zone in hardware.zone_ids)
        for position, zone in enumerate(zones):
            share, rest = divmod(block.size, len(zones))
            add(block.type, zone, share + (rest if position == 0 else 0))
    return {resource: in_zones for resource, in_zones in held.items() if resource not in exclude}


class _Problems:
    """What was said about zones and CPUs that do not exist, each thing once."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._zones = cpu_list(hardware.zone_ids)
        self.found: list[str] = list(hardware.problems)

    def _tell(self, text: str) -> None:
        if text not in self.found:
            self.found.append(text)

    def known_zones(self, zones: Iterable[int], what: str) -> list[int]:
        """Those that exist; -1 is how some device plugins say that they do not know."""
        known = []
        for zone in zones:
            if zone in self._hardware.zone_ids:
                known.append(zone)
            elif zone >= 0:
                self._tell(f"{what}: NUMA node {zone} does not exist (there are {self._zones}): left aside")
        return known

    def known_cpus(self, cpus: Iterable[int], whose: str) -> list[int]:
        """Those that exist and are online."""
        known = []
        for cpu in cpus:
            if cpu in self._hardware.cpus:
                known.append(cpu)
            else:
                self._tell(f"{whose}: CPU {cpu} is not online: left aside")
        return known

    def placed_block(self, block: MemoryBlock) -> MemoryBlock:
        """The block in zones that exist."""
        return MemoryBlock(block.type, block.size, tuple(self.known_zones(block.zones, block.type)))
