"""What a kubelet settles when it starts: whether it can start at all, which CPUs it keeps back, what the node can give.

In come a machine and a configuration. `check_startable` raises `CannotStart` with one sentence where the real kubelet
would exit, and where zones are so many that this one cannot go on; `resolved_reserved_cpus` and `node_allocatable` are
what it would report afterwards. `kubelet.py` begins with these.
"""

from __future__ import annotations

from functools import lru_cache

from bayplan.cluster.pods.request import CPU, MEMORY, PODS
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.simulate.kubelet.configuration import CannotStart, KubeletConfiguration, TooManyZones
from bayplan.simulate.kubelet.cpu_choice import NotEnoughCpus
from bayplan.simulate.kubelet.cpu_layout import CpuLayout, CpuSet, cpu_layout
from bayplan.simulate.kubelet.cpu_manager import choose
from bayplan.simulate.kubelet.cpu_options import ACROSS_ZONES, BY_SOCKET, EXCLUSIVE, KNOWN, CpuOptions, cpu_options
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.kubelet.memory_zones import allocatable_memory

FEWEST_MAX_NUMA_NODES = 8
# Managers that align go through all sets of zones: 65,535 sets of 16 zones, twice as many with each further one.
MOST_ZONES = 16


def check_startable(machine: Machine, configuration: KubeletConfiguration) -> None:
    """Raise `CannotStart` if this configuration does not work on this machine."""
    if not machine.online_cpus or not machine.zones:
        raise CannotStart("the machine has no CPUs or no zones")
    _check_topology_manager(machine, configuration)
    _check_reserved_cpus(machine, configuration)
    if configuration.settings.cpu_static:
        _check_cpu_options(machine, configuration)
    elif configuration.settings.cpu_options:
        options = ", ".join(sorted(configuration.settings.cpu_options))
        raise CannotStart(f"CPU Manager policy none takes no options, but {options} is set")
    _check_reserved_memory(machine, configuration)
    _check_zones_can_be_combined(machine, configuration)


def resolved_reserved_cpus(layout: CpuLayout, configuration: KubeletConfiguration) -> CpuSet:
    """The CPUs that the static CPU Manager never hands out; empty under policy none."""
    if not configuration.settings.cpu_static:
        return frozenset()
    if configuration.reserved_cpus:
        return configuration.reserved_cpus
    wanted = -(-configuration.reserved_cpu_milli // 1000)
    return _chosen_to_reserve(
        layout, cpu_options(configuration.settings.cpu_options, configuration.settings.version), wanted
    )


@lru_cache(maxsize=256)  # a cluster has a thousand equal nodes
def _chosen_to_reserve(layout: CpuLayout, options: CpuOptions, wanted: int) -> CpuSet:
    try:
        return choose(layout, options, layout.all, wanted)
    except NotEnoughCpus as error:
        raise CannotStart(f"{wanted} CPUs cannot be reserved: {error}") from None


def node_allocatable(machine: Machine, configuration: KubeletConfiguration) -> dict[str, int]:
    """What pods can have on this node in sum: milli-CPUs, bytes, pods and healthy devices."""
    kept_back = len(configuration.reserved_cpus) * 1000 or configuration.reserved_cpu_milli
    allocatable = {CPU: len(machine.online_cpus) * 1000 - kept_back, MEMORY: 0, PODS: configuration.most_pods}
    for zone in machine.zones:
        for type_, amount in allocatable_memory(zone, configuration.reserved_memory.get(zone.id, {})).items():
            allocatable[type_] = allocatable.get(type_, 0) + amount
    for resource, devices in machine.devices.items():
        allocatable[resource] = sum(device.healthy for device in devices)
    return allocatable


def _check_topology_manager(machine: Machine, configuration: KubeletConfiguration) -> None:
    settings = configuration.settings
    if settings.max_numa_nodes < FEWEST_MAX_NUMA_NODES:
        raise CannotStart(
            f"max-allowable-numa-nodes is {settings.max_numa_nodes}: must be at least {FEWEST_MAX_NUMA_NODES}"
        )
    if settings.policy is not Policy.NONE and len(machine.zones) > settings.max_numa_nodes:
        raise CannotStart(
            f"Topology Manager policy {settings.policy.text} is not supported on {len(machine.zones)} zones: "
            f"max-allowable-numa-nodes is {settings.max_numa_nodes}"
        )


def _check_reserved_cpus(machine: Machine, configuration: KubeletConfiguration) -> None:
    online = machine.online_cpus
    unknown = sorted(configuration.reserved_cpus - online)
    if unknown:
        raise CannotStart(f"reserved CPU {unknown[0]} does not exist: the machine has {cpu_list(online)}")
    if not 0 <= configuration.reserved_cpu_milli <= len(online) * 1000:
        raise CannotStart(
            f"{configuration.reserved_cpu_milli}m CPUs are reserved: must be between 0 and the machine's {len(online)}"
        )
    if configuration.settings.cpu_static and not configuration.reserved_cpus and not configuration.reserved_cpu_milli:
        raise CannotStart("CPU Manager policy static needs at least one reserved CPU, and none is reserved")


def _check_cpu_options(machine: Machine, configuration: KubeletConfiguration) -> None:
    settings = configuration.settings
    unknown = sorted(settings.cpu_options - KNOWN)
    if unknown:
        raise CannotStart(f"unknown CPU Manager option {unknown[0]}: must be one of {', '.join(sorted(KNOWN))}")
    for one, other in EXCLUSIVE:
        if one in settings.cpu_options and other in settings.cpu_options:
            raise CannotStart(f"CPU Manager options {one} and {other} cannot be used at the same time")
    if BY_SOCKET in settings.cpu_options:
        layout = cpu_layout(machine.cpus)
        if settings.policy is Policy.SINGLE_NUMA_NODE:
            raise CannotStart(
                f"CPU Manager option {BY_SOCKET} does not go with Topology Manager policy {settings.policy.text}"
            )
        if len(layout.in_socket) > len(layout.in_zone):
            raise CannotStart(
                f"CPU Manager option {BY_SOCKET} does not go with more sockets ({len(layout.in_socket)}) "
                f"than zones with CPUs ({len(layout.in_zone)})"
            )


def _check_reserved_memory(machine: Machine, configuration: KubeletConfiguration) -> None:
    zones = {zone.id: zone for zone in machine.zones}
    for zone_id, reserved in configuration.reserved_memory.items():
        if zone_id not in zones:
            listed = ", ".join(map(str, zones))
            raise CannotStart(f"memory is reserved in zone {zone_id}, which does not exist: the machine has {listed}")
        left = allocatable_memory(zones[zone_id], reserved)
        for type_, amount in reserved.items():
            if type_ not in left:
                raise CannotStart(f"{type_} is reserved in zone {zone_id}, which has none")
            if amount < 0 or left[type_] < 0:
                raise CannotStart(
                    f"{amount} bytes of {type_} are reserved in zone {zone_id}: "
                    f"must be between 0 and the {left[type_] + amount} it has"
                )
    in_sum = sum(reserved.get(MEMORY, 0) for reserved in configuration.reserved_memory.values())
    if configuration.settings.memory_static and not in_sum:
        raise CannotStart("Memory Manager policy Static needs reserved memory, and none is reserved")


def _check_zones_can_be_combined(machine: Machine, configuration: KubeletConfiguration) -> None:
    """Reject more zones than can be combined.

    If nothing is aligned, no sets of zones are needed, and any number is fine.
    """
    settings = configuration.settings
    across_zones = settings.cpu_static and ACROSS_ZONES in settings.cpu_options
    combines = settings.policy is not Policy.NONE or settings.memory_static or across_zones
    if combines and len(machine.zones) > MOST_ZONES:
        raise TooManyZones(
            f"{len(machine.zones)} zones are more than this simulator can align, whatever a real "
            "kubelet does: must be at most "
            f"{MOST_ZONES}, or topologyManagerPolicy none without memoryManagerPolicy Static and {ACROSS_ZONES}"
        )
