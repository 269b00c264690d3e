"""A virtual kubelet reports itself as a node agent would: a Node object and a NodeResourceTopology.

The plain report has what agents publish today: capacity, allocatable and available per zone, distances, policy and
scope, and in a simulation the fingerprint of pods. The complete one adds what bayplan reads beyond that: manager
policies and options, memory groups, CPUs and devices by name and what each pod holds where
(`cluster/reports/inventory.py`). What it says about use is true at the moment it is made; how late it arrives is the
simulation's matter.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.cluster.reports import inventory
from bayplan.cluster.reports.fingerprint import ATTRIBUTE, fingerprint_of
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.reports.reported_settings import POD_LEVEL_GATE
from bayplan.cluster.reports.zone_reports import MEMORY_GROUP_ATTRIBUTE
from bayplan.kube.wire.core_v1 import (
    Container,
    Metadata,
    Node,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Pod,
    PodSpec,
    Taint,
)
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from bayplan.simulate.kubelet.answer import AdmittedPod, FreeState, MemoryBlock
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.machine import Machine, MachineZone
from bayplan.simulate.kubelet.pod_level import memory_of_pod

AGENTS = "kube-system"
Holdings = dict[str, dict[int, int]]
"""Resource to zone id to amount; CPUs in milli."""


class NodeAgent:
    """Speaks for one virtual kubelet under a node's name."""

    def __init__(
        self,
        name: str,
        kubelet: VirtualKubelet,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        *,
        unschedulable: bool = False,
    ) -> None:
        self.name = name
        self.kubelet = kubelet
        self.node = Node(
            metadata=Metadata(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
            spec=NodeSpec(unschedulable=unschedulable, taints=list(taints) or None),
            status=NodeStatus(
                allocatable={
                    resource: f"{amount}m" if resource == CPU else amount
                    for resource, amount in kubelet.allocatable.items()
                },
                node_info=NodeSystemInfo(kubelet_version=kubelet.configuration.settings.version.release),
            ),
        )
        # The agent is a pod of a DaemonSet, so that no node is ever without pods. It asks for nothing.
        own = Metadata(name=f"node-agent-{name}", namespace=AGENTS)
        self.pod = Pod(metadata=own, spec=PodSpec(containers=[Container(name="agent")], node_name=name))
        self._attributes = _settings(kubelet)
        self._more_attributes = _further_settings(kubelet)
        self._costs = _costs(kubelet.machine)
        self._cpus_by_zone = cpus_by_zone(kubelet.machine)
        self._zone_of_device = {
            (resource, device.id): device.zones
            for resource, devices in kubelet.machine.devices.items()
            for device in devices
        }

    def topology(self, *, complete: bool, at: float = 0.0, fingerprint: bool = False) -> NodeResourceTopology:
        """The node's report at this moment, which a complete one names.

        A plain one may have the `fingerprint` of the simulated node's pods.
        """
        free = self.kubelet.free()
        attributes = self._attributes
        if complete:
            moment = Attribute(name=inventory.MADE_AT, value=f"{at:.6f}")
            attributes = [*attributes, *self._more_attributes, *self._names(free), moment]
        elif fingerprint:
            attributes = [*attributes, self._fingerprint()]
        zones = [self._zone(zone, free, complete=complete) for zone in self.kubelet.machine.zones]
        return NodeResourceTopology(metadata=Metadata(name=self.name), attributes=attributes, zones=zones)

    def _fingerprint(self) -> Attribute:
        """Which pods a report shows that does not list them: all pods of the node, the agent's own among them."""
        names = [tuple(key.split("/", 1)) for key in (*self.kubelet.pods, f"{AGENTS}/{self.pod.metadata.name}")]
        return Attribute(name=ATTRIBUTE, value=fingerprint_of((namespace, name) for namespace, name in names))

    def holdings(self, key: str) -> Holdings:
        """What a pod holds in zones.

        Of memory that spans zones the kubelet keeps only the sum; it is shown in even shares.
        """
        held: Holdings = {}

        def add(resource: str, zone: int, amount: int) -> None:
            in_zones = held.setdefault(resource, {})
            in_zones[zone] = in_zones.get(zone, 0) + amount

        containers = self.kubelet.pods[key].containers
        cpus = self.kubelet.machine.cpus
        # Containers that follow an init container may use its CPUs and devices again, so each is counted once.
        for cpu in sorted({cpu for container in containers for cpu in container.cpus}):
            add(CPU, cpus[cpu].zone, 1000)
        for resource in self.kubelet.machine.devices:
            for device in sorted({name for each in containers for name in each.devices.get(resource, ())}):
                for zone in self._zone_of_device[resource, device]:
                    add(resource, zone, 1)
        for block in self._memory_of(self.kubelet.pods[key]):
            share, rest = divmod(block.size, len(block.zones))
            for position, zone in enumerate(block.zones):
                add(block.type, zone, share + (rest if position == 0 else 0))
        return held

    def _memory_of(self, pod: AdmittedPod) -> list[MemoryBlock]:
        """What a pod's containers hold; of a pod that is served as a whole, that whole, for their parts may overlap."""
        blocks = [block for container in pod.containers for block in container.memory]
        settings = self.kubelet.configuration.settings
        by_scope = settings.policy is not Policy.NONE and settings.scope is Scope.POD
        if not blocks or pod.request.pod_level is None or not by_scope:
            return blocks
        zones = blocks[0].zones
        return [MemoryBlock(name, amount, zones) for name, amount in memory_of_pod(pod.request).items()]

    def zones_by_container(self, key: str) -> dict[str, list[int]]:
        """The zones in which each container of a pod holds something; containers that hold nothing are left out."""
        found: dict[str, list[int]] = {}
        for container in self.kubelet.pods[key].containers:
            zones = {self.kubelet.machine.cpus[cpu].zone for cpu in container.cpus}
            zones.update(zone for block in container.memory for zone in block.zones)
            for resource, devices in container.devices.items():
                zones.update(zone for device in devices for zone in self._zone_of_device[resource, device])
            if zones:
                found[container.name] = sorted(zones)
        return found

    def _zone(self, zone: MachineZone, free: FreeState, *, complete: bool) -> Zone:
        group = self._memory_group(zone, free) if complete else None
        return Zone(
            name=f"node-{zone.id}",
            type="Node",
            costs=self._costs[zone.id],
            attributes=[Attribute(name=MEMORY_GROUP_ATTRIBUTE, value=group)] if group else None,
            resources=[
                ZoneResource(name=name, capacity=capacity, allocatable=allocatable, available=available)
                for name, (capacity, allocatable, available) in self._amounts(zone, free).items()
            ],
        )

    def _amounts(self, zone: MachineZone, free: FreeState) -> dict[str, tuple[int, int, int]]:
        """Capacity, allocatable and available of each resource in a zone; memory only where its manager runs."""
        kubelet = self.kubelet
        amounts: dict[str, tuple[int, int, int]] = {}
        here = self._cpus_by_zone.get(zone.id)
        if here:
            usable = here - kubelet.reserved_cpus
            amounts[CPU] = len(here), len(usable), len(usable if free.cpus is None else usable & free.cpus)
        if free.memory is not None:
            left = free.memory[zone.id].free
            reserved = kubelet.configuration.reserved_memory.get(zone.id, {})
            pages = sum(zone.huge_pages.values())
            usable_memory = zone.memory - pages - reserved.get(MEMORY, 0)
            amounts[MEMORY] = zone.memory, usable_memory, left[MEMORY]
            for name, size in zone.huge_pages.items():
                amounts[name] = size, size - reserved.get(name, 0), left[name]
        for resource, devices in kubelet.machine.devices.items():
            in_zone = [device for device in devices if zone.id in device.zones]
            if in_zone:
                healthy = sum(device.healthy for device in in_zone)
                idle = set(free.devices.get(resource, ()))
                amounts[resource] = len(in_zone), healthy, sum(device.id in idle for device in in_zone)
        return amounts

    def _memory_group(self, zone: MachineZone, free: FreeState) -> str | None:
        memory = free.memory[zone.id] if free.memory is not None else None
        if memory is None or not memory.assignments:
            return None
        return ",".join(str(member) for member in memory.group)

    def _names(self, free: FreeState) -> list[Attribute]:
        """CPUs and devices by name, and what each pod holds."""
        kubelet = self.kubelet
        usable = kubelet.machine.online_cpus - kubelet.reserved_cpus
        devices = {
            resource: [
                (device.id, device.zones, _state_of(device.id, device.healthy, free, resource)) for device in each
            ]
            for resource, each in kubelet.machine.devices.items()
        }
        pods = {key: self.holdings(key) for key in kubelet.pods}
        return [
            Attribute(name=inventory.FREE_CPUS, value=cpu_list(usable if free.cpus is None else free.cpus)),
            Attribute(name=inventory.DEVICES, value=msgspec.json.encode(devices).decode()),
            Attribute(name=inventory.PODS, value=msgspec.json.encode(pods).decode()),
        ]


def cpus_by_zone(machine: Machine) -> dict[int, frozenset[int]]:
    """The CPUs of every zone that has any."""
    found: dict[int, set[int]] = {}
    for cpu in machine.online_cpus:
        found.setdefault(machine.cpus[cpu].zone, set()).add(cpu)
    return {zone: frozenset(cpus) for zone, cpus in found.items()}


def _settings(kubelet: VirtualKubelet) -> list[Attribute]:
    """What agents publish today."""
    settings = kubelet.configuration.settings
    return [
        Attribute(name="topologyManagerPolicy", value=settings.policy.text),
        Attribute(name="topologyManagerScope", value=settings.scope.text),
    ]


def _further_settings(kubelet: VirtualKubelet) -> list[Attribute]:
    """What a verdict needs beyond that and does not change while the kubelet runs."""
    settings = kubelet.configuration.settings
    cpus = kubelet.machine.cpus
    layout = {
        "core": [cpu.core for cpu in cpus],
        "socket": [cpu.socket for cpu in cpus],
        "zone": [cpu.zone for cpu in cpus],
        "cache": [cpu.cache for cpu in cpus],
    }
    online = kubelet.machine.online_cpus
    threads = len(online) // len({cpus[cpu].core for cpu in online})
    values = {
        "topologyManagerMaxNUMANodes": str(settings.max_numa_nodes),
        "topologyManagerOptionPreferClosestNumaNodes": str(settings.prefer_closest).lower(),
        "cpuManagerPolicy": "static" if settings.cpu_static else "none",
        "cpuManagerPolicyOptions": ",".join(f"{name}=true" for name in sorted(settings.cpu_options)),
        "memoryManagerPolicy": "Static" if settings.memory_static else "None",
        inventory.CPUS: msgspec.json.encode(layout).decode(),
        inventory.RESERVED_CPUS: cpu_list(kubelet.reserved_cpus),
    }
    if settings.pod_level_managers:
        values["featureGates"] = f"{POD_LEVEL_GATE}=true"
    if threads in (1, 2, 4, 8):
        values["bayplan.io/threads-per-core"] = str(threads)
    return [Attribute(name=name, value=value) for name, value in values.items()]


def _costs(machine: Machine) -> dict[int, list[Cost]]:
    return {
        zone.id: [
            Cost(name=f"node-{other.id}", value=distance)
            for other, distance in zip(machine.zones, zone.distances, strict=True)
        ]
        for zone in machine.zones
    }


def _state_of(device: str, healthy: bool, free: FreeState, resource: str) -> str:  # noqa: FBT001 - a column of a table
    if not healthy:
        return inventory.UNHEALTHY
    return inventory.FREE if device in free.devices.get(resource, ()) else inventory.USED
