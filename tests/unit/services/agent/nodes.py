"""A machine of two zones with eight CPUs each, and short ways to say what its kubelet tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.services.agent.accounting import NodeAccount
from bayplan.services.agent.sources.pod_resources import (
    Allocatable,
    ContainerResources,
    DeviceGroup,
    MemoryBlock,
    PodResources,
)
from bayplan.services.agent.sources.sysfs import Hardware, HardwareZone, OnlineCpu

GI = 1 << 30
DISTANCES = {True: 10, False: 21}


def machine(zones: Mapping[int, Iterable[int]], memory: int = 16 * GI, huge_pages: int = 0) -> Hardware:
    """CPUs by zone id; each CPU is a core, each zone a socket with one cache."""
    by_zone = {zone: frozenset(cpus) for zone, cpus in zones.items()}
    pages = {"hugepages-2Mi": huge_pages} if huge_pages else {}
    return Hardware(
        zones=tuple(
            HardwareZone(zone, cpus, memory, pages, {other: DISTANCES[other == zone] for other in by_zone})
            for zone, cpus in sorted(by_zone.items())
        ),
        cpus={
            cpu: OnlineCpu(cpu, core=cpu, kernel_core=cpu, socket=zone, cache=min(cpus), zone=zone)
            for zone, cpus in by_zone.items()
            for cpu in cpus
        },
    )


TWO_ZONES = machine({0: range(8), 1: range(8, 16)})
# CPUs 0 and 8 are reserved; 2 GiB of each zone's memory are.
OFFERED = Allocatable(
    cpus=(*range(1, 8), *range(9, 16)),
    devices=(DeviceGroup("vendor.com/gpu", ("gpu0", "gpu1"), (0,)), DeviceGroup("vendor.com/gpu", ("gpu2",), (1,))),
    memory=(MemoryBlock("memory", 14 * GI, (0,)), MemoryBlock("memory", 14 * GI, (1,))),
)


def pod(name: str, *containers: ContainerResources) -> PodResources:
    """A pod in the namespace default."""
    return PodResources("default", name, containers)


def container(
    *cpus: int,
    gpus: Mapping[str, tuple[int, ...]] | None = None,
    memory: Iterable[MemoryBlock] = (),
    name: str = "main",
) -> ContainerResources:
    """A container with CPUs, GPUs (zones by id) and memory."""
    devices = tuple(DeviceGroup("vendor.com/gpu", (gpu,), zones) for gpu, zones in (gpus or {}).items())
    return ContainerResources(name, cpus, devices, tuple(memory))


def memory(size: int, *zones: int, type_: str = "memory") -> MemoryBlock:
    """A block of memory."""
    return MemoryBlock(type_, size, zones)


def available(account: NodeAccount, resource: str) -> dict[int, int]:
    """What is left of a resource, by zone."""
    return {zone.id: zone.amounts[resource].available for zone in account.zones if resource in zone.amounts}
