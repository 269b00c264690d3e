"""Read the machine from sysfs: zones, CPUs, cores, sockets, caches, distances, memory and huge pages.

In comes /sys or a copy; out goes a `Hardware`. Zones go by NUMA **id**: ids have gaps. Zones without CPUs count,
offline CPUs do not, and masks of old kernels are understood. Contradictions are listed as problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bayplan.cluster.pods.request import MEMORY
from bayplan.cluster.reports.inventory import LARGEST_ZONE, MOST_CPUS, OFFLINE, CpuLayout, cpu_list
from bayplan.kube.quantity import NANO, Format, Quantity
from bayplan.services.agent.sources.sysfs_files import (
    SysfsError,
    folder_numbers,
    read_ids,
    read_mask,
    read_number,
    read_text,
)

UNKNOWN_DISTANCE = 255
HUGEPAGES = "hugepages-"
LAST_LEVEL_CACHE = 3


@dataclass(frozen=True, slots=True)
class OnlineCpu:
    """One online logical CPU. Core and cache are named after their lowest CPU.

    The kubelet does the same: the kernel's core numbers (`kernel_core`) repeat in every socket.
    """

    id: int
    core: int
    kernel_core: int
    socket: int
    cache: int
    zone: int | None


@dataclass(frozen=True, slots=True)
class HardwareZone:
    """One NUMA node. `memory` is in bytes and includes huge pages; `huge_pages` is in bytes by resource name."""

    id: int
    cpus: frozenset[int]
    memory: int
    huge_pages: Mapping[str, int]
    distances: Mapping[int, int]

    @property
    def capacity(self) -> dict[str, int]:
        """Bytes of memory and of each size of huge pages."""
        return {MEMORY: self.memory, **self.huge_pages}


@dataclass(frozen=True)
class Hardware:
    """Zones in ascending id, CPUs by id, and contradictions in sysfs."""

    zones: tuple[HardwareZone, ...]
    cpus: Mapping[int, OnlineCpu]
    offline_cpus: frozenset[int] = frozenset()
    kinds: Mapping[str, frozenset[int]] | None = None
    problems: tuple[str, ...] = ()

    @cached_property
    def zone_ids(self) -> frozenset[int]:
        """The ids of all zones."""
        return frozenset(zone.id for zone in self.zones)

    @cached_property
    def nameless_zones(self) -> frozenset[int]:
        """Zones with ids beyond the kubelet's range: reports have their amounts, but no names."""
        return frozenset(zone for zone in self.zone_ids if zone > LARGEST_ZONE)

    @cached_property
    def layout(self) -> CpuLayout | None:
        """CPUs as columns by id; None if an id is implausibly large."""
        in_zones = {number: cpu for number, cpu in self.cpus.items() if cpu.zone is not None}
        if not in_zones or max(in_zones) >= MOST_CPUS:
            return None
        places = [in_zones.get(number) for number in range(max(in_zones) + 1)]
        return CpuLayout(
            tuple(OFFLINE if cpu is None else cpu.core for cpu in places),
            tuple(OFFLINE if cpu is None else cpu.socket for cpu in places),
            tuple(OFFLINE if cpu is None or cpu.zone is None else cpu.zone for cpu in places),
            tuple(OFFLINE if cpu is None else cpu.cache for cpu in places),
        )


def read_hardware(root: Path) -> Hardware:
    """Read the machine under a sysfs root or its parent folder. Raises `SysfsError` if there is none."""
    root = root if (root / "devices").is_dir() or not (root / "sys").is_dir() else root / "sys"
    cpu_folder = root / "devices/system/cpu"
    present = folder_numbers(cpu_folder, "cpu")
    if not present:
        raise SysfsError(f"{cpu_folder} shows no CPU: must be what Linux shows under /sys/devices/system/cpu")
    online = _online_cpus(cpu_folder, present)
    problems: list[str] = []
    zones = _zones(root, online, problems)
    zone_of = {cpu: zone.id for zone in zones for cpu in zone.cpus}
    homeless = sorted(online - zone_of.keys())
    if homeless:
        problems.append(f"CPUs {cpu_list(homeless)} are online but in no online NUMA node: ignored")
    hardware = Hardware(
        zones=zones,
        cpus=_cpus(cpu_folder, online, zone_of),
        offline_cpus=frozenset(present) - online,
        kinds=_kinds(root, cpu_folder, online),
        problems=tuple(problems),
    )
    if not hardware.nameless_zones:
        return hardware
    ids = cpu_list(hardware.nameless_zones)
    nameless = f"NUMA ids {ids} are above {LARGEST_ZONE}: reporting amounts only, no CPU, device or pod by name"
    return replace(hardware, problems=(*problems, nameless))


def huge_pages_name(size_in_kib: int) -> str:
    """The resource name of a page size: `hugepages-2Mi`."""
    return f"{HUGEPAGES}{Quantity(size_in_kib * 1024 * NANO, Format.BINARY_SI)}"


# -- zones -----------------------------------------------------------------------------------------------------------


def _zones(root: Path, online: frozenset[int], problems: list[str]) -> tuple[HardwareZone, ...]:
    folder = root / "devices/system/node"
    present = folder_numbers(folder, "node")
    if not present:
        # A kernel without NUMA is one zone.
        return (_whole_machine(root, online),)
    listed = read_ids(folder / "online")
    ids = sorted(set(present) & listed) if listed else present
    if listed and len(ids) < len(listed):
        missing = cpu_list(listed - set(present))
        problems.append(f"NUMA nodes {missing} are online in {folder / 'online'} and have no folder: ignored")
    zones = []
    for zone_id in ids or present:
        node = folder / f"node{zone_id}"
        cpus = read_ids(node / "cpulist") or read_mask(node / "cpumap")
        memory = _meminfo(node / "meminfo")
        if memory is None:
            problems.append(f"{node / 'meminfo'} has no MemTotal: assuming no memory")
        zones.append(
            HardwareZone(
                id=zone_id,
                cpus=cpus & online,
                memory=memory or 0,
                huge_pages=_huge_pages(node / "hugepages"),
                distances=_distances(node / "distance", ids, read_ids(folder / "possible"), problems),
            )
        )
    return tuple(zones)


def _whole_machine(root: Path, online: frozenset[int]) -> HardwareZone:
    """Without NUMA nodes, memory is only in /proc, beside /sys."""
    memory = _meminfo(root.parent / "proc/meminfo") or 0
    return HardwareZone(0, online, memory, _huge_pages(root / "kernel/mm/hugepages"), {0: 10})


def _meminfo(file: Path) -> int | None:
    return total_memory(read_text(file) or "")


def total_memory(meminfo: str) -> int | None:
    """MemTotal in bytes; in the file of a zone, the line starts with `Node 0`."""
    for line in meminfo.splitlines():
        name, _, amount = line.partition(":")
        words = amount.split()
        if name.endswith("MemTotal") and words and words[0].isdecimal():
            return int(words[0]) * 1024
    return None


def _huge_pages(folder: Path) -> dict[str, int]:
    """Bytes by resource name, sizes ascending, without sizes that have no pages."""
    found = {}
    for size in folder_numbers(folder, HUGEPAGES, "kB"):
        pages = read_number(folder / f"{HUGEPAGES}{size}kB" / "nr_hugepages") or 0
        if pages > 0:
            found[huge_pages_name(size)] = pages * size * 1024
    return found


def _distances(file: Path, ids: Sequence[int], possible: frozenset[int], problems: list[str]) -> dict[int, int]:
    """Distances to online zones by id; some kernels list all possible zones."""
    values = [int(word) for word in (read_text(file) or "").split() if word.isdecimal()]
    others = list(ids) if len(values) == len(ids) else sorted(possible)
    if len(values) != len(others):
        problems.append(f"{file} has {len(values)} distances for {len(ids)} NUMA nodes: assuming unknown distances")
        return dict.fromkeys(ids, UNKNOWN_DISTANCE)
    return {zone: value for zone, value in zip(others, values, strict=True) if zone in ids}


# -- CPUs ------------------------------------------------------------------------------------------------------------


def _online_cpus(folder: Path, present: Sequence[int]) -> frozenset[int]:
    """Online CPUs; CPU 0 often has no file `online`, because it cannot go offline."""
    listed = read_ids(folder / "online")
    if listed:
        return listed & frozenset(present)
    return frozenset(cpu for cpu in present if read_number(folder / f"cpu{cpu}" / "online") != 0)


def _cpus(folder: Path, online: frozenset[int], zone_of: Mapping[int, int]) -> dict[int, OnlineCpu]:
    packages = {cpu: read_number(folder / f"cpu{cpu}/topology/physical_package_id") for cpu in sorted(online)}
    core_ids = {cpu: read_number(folder / f"cpu{cpu}/topology/core_id") for cpu in packages}
    lowest_of_package: dict[int | None, int] = {}
    for cpu, package in packages.items():
        lowest_of_package.setdefault(package, cpu)
    cpus = {}
    for cpu, package in packages.items():
        # AMD modules are siblings in sysfs but two cores; only the core ids differ.
        siblings = _siblings(folder / f"cpu{cpu}/topology") & online
        cache = _last_level_cache(folder / f"cpu{cpu}/cache") & online
        cpus[cpu] = OnlineCpu(
            id=cpu,
            core=min((other for other in siblings if core_ids[other] == core_ids[cpu]), default=cpu),
            kernel_core=max(core_ids[cpu] or 0, 0),
            # Firmware without packages reports -1; the kubelet sees one socket.
            socket=max(package or 0, 0),
            cache=min(cache, default=lowest_of_package[package]),
            zone=zone_of.get(cpu),
        )
    return cpus


def _siblings(topology: Path) -> frozenset[int]:
    """The threads of a CPU's core, including offline ones."""
    for name in ("core_cpus", "thread_siblings"):
        found = read_ids(topology / f"{name}_list") or read_mask(topology / name)
        if found:
            return found
    return frozenset()


def _last_level_cache(folder: Path) -> frozenset[int]:
    """The CPUs with the same last-level cache (the kubelet's uncore cache), if there is one."""
    for index in folder_numbers(folder, "index"):
        cache = folder / f"index{index}"
        if read_number(cache / "level") == LAST_LEVEL_CACHE:
            return read_ids(cache / "shared_cpu_list") or read_mask(cache / "shared_cpu_map")
    return frozenset()


def _kinds(root: Path, folder: Path, online: frozenset[int]) -> dict[str, frozenset[int]] | None:
    """Unequal cores by the kernel's kind (`cpu_core`, `cpu_atom`) or by strength; None if all are equal."""
    named = {file.parent.name: read_ids(file) & online for file in sorted((root / "devices").glob("cpu_*/cpus"))}
    if len(named) > 1:
        return named
    for name, file in (("cpu_capacity", "cpu_capacity"), ("cpu_base_frequency", "cpufreq/base_frequency")):
        by_strength: dict[int, set[int]] = {}
        for cpu in sorted(online):
            strength = read_number(folder / f"cpu{cpu}" / file)
            if strength is not None:
                by_strength.setdefault(strength, set()).add(cpu)
        if len(by_strength) > 1:
            return {f"{name}_{strength}": frozenset(cpus) for strength, cpus in sorted(by_strength.items())}
    return None
