"""A machine and its kubelet, rebuilt from what a node told about itself.

In come a Node and the report of its zones, out go the `Machine` and the `KubeletConfiguration` that would report the
same when idle. A report that lists its CPUs and devices (`cluster/reports/inventory.py`) is followed to the letter;
otherwise CPUs are numbered as Linux would, and what is capacity but not allocatable counts as reserved. `dump.py` asks
for one per node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bayplan.cluster.columns.hardware import hardware_of
from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY, PODS
from bayplan.cluster.reports.inventory import MOST_CPUS, OFFLINE, UNHEALTHY, Inventory
from bayplan.cluster.reports.kubelet_settings import Assumptions, KubeletSettings
from bayplan.cluster.reports.reported_settings import CPU_OPTIONS
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.zone_reports import ZoneAmounts
from bayplan.simulate.kubelet.configuration import MOST_PODS, CannotStart, KubeletConfiguration, TooManyZones
from bayplan.simulate.kubelet.machine import OFFLINE_CPU, Cpu, Machine, MachineDevice, MachineZone
from bayplan.simulate.kubelet.start import check_startable

MOST_DEVICES = 65_536
# A static Memory Manager wants something to be reserved. Added to each zone and reserved there, it changes nothing for
# pods.
RESERVED_AT_LEAST = 1
NOTHING = ZoneAmounts(0, 0, 0)
ODD = "what is reported would keep a kubelet from starting"
UNALIGNED = "taken as one zone without alignment"

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class RecordedMachine:
    """What was rebuilt, and what had to be assumed for it: texts that are alike for alike nodes."""

    machine: Machine
    kubelet: KubeletConfiguration
    assumed: tuple[str, ...] = ()


def machine_from_report(report: TopologyReport, allocatable: Amounts) -> RecordedMachine:
    """The machine behind a report; `allocatable` is what the Node says it can give to pods in all."""
    assumed: list[str] = []
    settings = _settings(report, assumed)
    report = _with_memory(report, allocatable, assumed)
    cpus, reserved_cpus = _cpus(report, settings)
    online = sum(cpu.online for cpu in cpus) * 1000
    reserved_cpu_milli = max(0, online - allocatable.get(CPU, online))
    if settings.cpu_static and not reserved_cpus and not reserved_cpu_milli:
        assumed.append("no reserved CPU is reported, which a static CPU Manager needs: taken as CPU 0")
        reserved_cpus = frozenset({0})
    zones = _zones(report)
    machine = Machine(zones, cpus, _devices(report, allocatable))
    kubelet = KubeletConfiguration(
        settings=settings,
        reserved_cpus=reserved_cpus,
        reserved_cpu_milli=reserved_cpu_milli,
        reserved_memory=_reserved_memory(report, zones, allocatable),
        most_pods=allocatable.get(PODS, MOST_PODS),
    )
    try:
        check_startable(machine, kubelet)
    except TooManyZones as error:
        return replace(machine_without_report(allocatable), assumed=(f"{UNALIGNED}: {error}",))
    except CannotStart as error:
        return replace(machine_without_report(allocatable), assumed=(f"{ODD}: {UNALIGNED} ({error})",))
    return RecordedMachine(machine, kubelet, tuple(assumed))


def machine_without_report(allocatable: Amounts) -> RecordedMachine:
    """One zone with everything the Node can give to pods, under a kubelet that aligns nothing."""
    count = min(max(1, -(-allocatable.get(CPU, 0) // 1000)), MOST_CPUS)
    huge_pages = {name: amount for name, amount in allocatable.items() if name.startswith(HUGEPAGES_PREFIX)}
    memory = allocatable.get(MEMORY, 0) + sum(huge_pages.values())
    cpus = tuple(Cpu(core=cpu, socket=0, zone=0, cache=0) for cpu in range(count))
    devices = {
        name: tuple(MachineDevice(f"{name}-{number:05}", ()) for number in range(min(amount, MOST_DEVICES)))
        for name, amount in allocatable.items()
        if _is_device(name)
    }
    return RecordedMachine(
        Machine((MachineZone(0, memory, huge_pages, (10,)),), cpus, devices),
        KubeletConfiguration(
            KubeletSettings(cpu_static=False, memory_static=False, threads_per_core=1),
            reserved_cpu_milli=max(0, count * 1000 - allocatable.get(CPU, 0)),
            most_pods=allocatable.get(PODS, MOST_PODS),
        ),
    )


def _settings(report: TopologyReport, assumed: list[str]) -> KubeletSettings:
    said = report.settings
    if said.cpu_static is None:
        assumed.append("cpuManagerPolicy is not reported: taken as static")
    if said.memory_static is None:
        # Agents read memory from the kubelet's own list of memory blocks, which it has only where the manager is
        # static.
        reports_memory = any(MEMORY in zone.resources for zone in report.zones)
        said = replace(said, memory_static=reports_memory)
        assumed.append(f"memoryManagerPolicy is not reported: taken as {'Static' if reports_memory else 'None'}")
    # A kubelet that runs on so many zones must have been allowed to.
    most = max(said.max_numa_nodes, len(report.zones))
    threads = report.inventory.cpus.threads_per_core if report.inventory else said.believed_threads_per_core
    settings = replace(said.resolved(Assumptions()), max_numa_nodes=most, threads_per_core=threads)
    known = settings.cpu_options & frozenset(CPU_OPTIONS) if settings.cpu_static else frozenset()
    return replace(settings, cpu_options=known)


def _cpus(report: TopologyReport, settings: KubeletSettings) -> tuple[tuple[Cpu, ...], frozenset[int]]:
    """Every CPU, and those that zones keep from pods."""
    if report.inventory is not None:
        return _listed_cpus(report.inventory)
    counts = tuple(
        (zone.id, min(zone.resources.get(CPU, NOTHING).capacity // 1000, MOST_CPUS)) for zone in report.zones
    )
    cpus = _numbered_cpus(counts, settings.believed_threads_per_core)
    reserved: set[int] = set()
    for zone in report.zones:
        amounts = zone.resources.get(CPU, NOTHING)
        of_zone = sorted((cpu.core, number) for number, cpu in enumerate(cpus) if cpu.zone == zone.id)
        missing = -(-max(0, amounts.capacity - amounts.allocatable) // 1000)
        reserved.update(number for _, number in of_zone[:missing])
    return cpus, frozenset(reserved)


def _listed_cpus(inventory: Inventory) -> tuple[tuple[Cpu, ...], frozenset[int]]:
    layout = inventory.cpus
    lowest_of_core: dict[int, int] = {}
    for cpu, core in enumerate(layout.core):
        lowest_of_core.setdefault(core, cpu)
    cpus = tuple(
        OFFLINE_CPU if zone == OFFLINE else Cpu(lowest_of_core[core], socket, zone, cache)
        for core, socket, zone, cache in zip(layout.core, layout.socket, layout.numa, layout.l3, strict=True)
    )
    return cpus, frozenset(cpu for cpu in range(len(cpus)) if inventory.reserved_cpus >> cpu & 1)


@lru_cache(maxsize=1024)  # nodes of one kind share their CPUs
def _numbered_cpus(zones: tuple[tuple[int, int], ...], threads: int) -> tuple[Cpu, ...]:
    """CPUs of zones given as (id, CPUs): the first threads of all cores, then the second ones.

    A zone is a socket and has one cache.
    """
    by_thread: list[list[Cpu]] = [[] for _ in range(threads)]
    core = 0
    for zone, count in zones:
        for first in range(0, count, threads):
            for of_thread in by_thread[: count - first]:
                of_thread.append(Cpu(core=core, socket=zone, zone=zone, cache=zone))
            core += 1
    return tuple(cpu for of_thread in by_thread for cpu in of_thread)


def _with_memory(report: TopologyReport, allocatable: Amounts, assumed: list[str]) -> TopologyReport:
    """Agents leave memory out where no Memory Manager runs; then what the Node has is shared out equally."""
    if any(MEMORY in zone.resources for zone in report.zones):
        return report
    assumed.append("memory is not reported by zone: taken as equal in all zones")
    share = allocatable.get(MEMORY, 0) // len(report.zones)
    memory = {MEMORY: ZoneAmounts(share, share, share)}
    return replace(report, zones=tuple(replace(zone, resources=zone.resources | memory) for zone in report.zones))


def _zones(report: TopologyReport) -> tuple[MachineZone, ...]:
    """Zones with all their memory."""
    zones = []
    for zone, distances in zip(report.zones, hardware_of(report).distances, strict=True):
        huge = {name: each.capacity for name, each in zone.resources.items() if name.startswith(HUGEPAGES_PREFIX)}
        memory = zone.resources.get(MEMORY, NOTHING)
        # Some agents count huge pages into the capacity of memory and some do not; allocatable memory never has them.
        all_bytes = max(memory.capacity, memory.allocatable + sum(huge.values()))
        zones.append(MachineZone(zone.id, all_bytes + RESERVED_AT_LEAST, huge, distances))
    return tuple(zones)


def _reserved_memory(
    report: TopologyReport, zones: tuple[MachineZone, ...], allocatable: Amounts
) -> dict[int, dict[str, int]]:
    """What zones keep from pods, and from the lowest zones on what only the Node keeps."""
    in_zones = sum(zone.resources.get(MEMORY, NOTHING).allocatable for zone in report.zones)
    beyond = max(0, in_zones - allocatable.get(MEMORY, in_zones))
    reserved: dict[int, dict[str, int]] = {}
    for zone, machine_zone in zip(report.zones, zones, strict=True):
        kept = {
            name: amounts.capacity - amounts.allocatable
            for name, amounts in zone.resources.items()
            if name.startswith(HUGEPAGES_PREFIX) and amounts.capacity > amounts.allocatable
        }
        for_pods = zone.resources.get(MEMORY, NOTHING).allocatable
        taken = min(beyond, for_pods)
        beyond -= taken
        kept[MEMORY] = machine_zone.memory - sum(machine_zone.huge_pages.values()) - for_pods + taken
        reserved[zone.id] = kept
    return reserved


def _devices(report: TopologyReport, allocatable: Amounts) -> dict[str, tuple[MachineDevice, ...]]:
    """Devices by zone; those that the Node has beyond its zones are in none."""
    devices: dict[str, tuple[MachineDevice, ...]] = {}
    if report.inventory is not None:
        devices = {
            name: tuple(MachineDevice(each.id, each.zones, each.state != UNHEALTHY) for each in listed)
            for name, listed in report.inventory.devices.items()
        }
    names = {name for zone in report.zones for name in zone.resources} | set(allocatable)
    for name in sorted(name for name in names - set(devices) if _is_device(name)):
        homes: list[tuple[tuple[int, ...], bool]] = []
        for zone in report.zones:
            amounts = zone.resources.get(name, NOTHING)
            healthy = [number < amounts.allocatable for number in range(min(amounts.capacity, MOST_DEVICES))]
            homes += [((zone.id,), each) for each in healthy]
        beyond = allocatable.get(name, 0) - sum(healthy for _, healthy in homes)
        homes += [((), True)] * min(beyond, MOST_DEVICES)
        devices[name] = tuple(
            MachineDevice(f"{name}-{number:05}", zones, healthy) for number, (zones, healthy) in enumerate(homes)
        )
    return devices


def _is_device(name: str) -> bool:
    """Names with a domain are handed out by device plugins; all others are the kubelet's own."""
    return "/" in name
