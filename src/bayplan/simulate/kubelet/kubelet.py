"""A kubelet that admits pods on a machine that exists only on paper.

In come pods, one at a time: `admit`, later `start` and `remove`. Out goes for each an `Admission` with what the kubelet
would write into the pod's status, and at any time what is left (`free`) and who holds what (`pods`). Admission follows
the real one: the Topology Manager asks the Device, CPU and Memory Manager for hints, merges them, refuses or has the
containers served in their order, each manager in turn; the node-level predicate comes last. A pod refused on the way
leaves nothing behind.

The managers' rules are in `device_manager.py`, `cpu_manager.py` and `memory_manager.py`, the merge in
`topology_manager.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from bayplan.cluster.pods.request import PODS, ContainerRequest, PodRequest
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.simulate.kubelet.answer import Admission, AdmissionError, AdmittedPod, ContainerAllocation, FreeState
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.cpu_layout import cpu_layout
from bayplan.simulate.kubelet.cpu_manager import CpuManager
from bayplan.simulate.kubelet.device_manager import DeviceManager
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.kubelet.manager import Manager
from bayplan.simulate.kubelet.memory_manager import MemoryManager
from bayplan.simulate.kubelet.memory_zones import MemoryZones
from bayplan.simulate.kubelet.predicate import first_shortage
from bayplan.simulate.kubelet.start import check_startable, node_allocatable, resolved_reserved_cpus
from bayplan.simulate.kubelet.topology_manager import NO_AFFINITY, Hint, Hints, admits, merge
from bayplan.simulate.kubelet.versions import HINTS_ONLY_WHERE_DEVICES_ARE
from bayplan.simulate.kubelet.zone_sets import zone_ids, zone_sets_of


class VirtualKubelet:
    """One node's kubelet. Raises `CannotStart` where the real one would not start with this configuration."""

    def __init__(self, machine: Machine, configuration: KubeletConfiguration) -> None:
        check_startable(machine, configuration)
        self.machine = machine
        self.configuration = configuration
        layout = cpu_layout(machine.cpus)
        self.reserved_cpus = resolved_reserved_cpus(layout, configuration)
        self.allocatable = node_allocatable(machine, configuration)
        self._settings = settings = configuration.settings
        distances = tuple(zone.distances for zone in machine.zones)
        self._zones = zone_sets_of(tuple(zone.id for zone in machine.zones), distances if all(distances) else ())
        every_zone = settings.version < HINTS_ONLY_WHERE_DEVICES_ARE
        self._devices = DeviceManager(machine.devices, self._zones.ids if every_zone else ())
        self._cpus = CpuManager(layout, self.reserved_cpus, settings) if settings.cpu_static else None
        self._memory = (
            MemoryManager(MemoryZones(machine.zones, self._zones, configuration.reserved_memory), settings)
            if settings.memory_static
            else None
        )
        # Hints and allocations go in this order in the kubelet too.
        self._managers: list[Manager] = [each for each in (self._devices, self._cpus, self._memory) if each is not None]
        self._pods: dict[str, AdmittedPod] = {}
        self._used: dict[str, int] = {}

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods on the node by key, with what their containers hold now."""
        return MappingProxyType(self._pods)

    def admit(self, key: str, pod: PodRequest) -> Admission:
        """Let a pod in or refuse it for good; `key` names it in `start` and `remove`."""
        if key in self._pods:
            raise ValueError(f"pod {key} is on this node already")
        shortage = first_shortage(self.allocatable, self._used, pod)
        for manager in self._managers:
            manager.begin(key)
        attempt = _Attempt()
        try:
            self._serve(key, pod, attempt)
            attempt.container = ""
            if shortage is not None:
                shortage.refuse()
        except AdmissionError as refusal:
            for manager in self._managers:
                manager.release(key)
            return Admission(
                admitted=False,
                fits=shortage is None,
                reason=refusal.reason,
                message=refusal.message,
                stage=refusal.stage,
                container=attempt.container,
            )
        containers = self._allocations(key, pod, attempt.hints)
        self._pods[key] = AdmittedPod(pod, containers)
        self._count(pod, 1)
        return Admission(admitted=True, fits=True, containers=containers)

    def start(self, key: str) -> None:
        """All containers of a pod start in their order, so its init containers finish."""
        admitted = self._pods[key]
        if self._memory is not None:
            self._memory.init_containers_finished(key, admitted.request)
        blocks = self._memory.blocks_of(key) if self._memory is not None else {}
        containers = tuple(
            replace(container, memory=tuple(blocks.get(container.name, ()))) for container in admitted.containers
        )
        self._pods[key] = AdmittedPod(admitted.request, containers, started=True)

    def remove(self, key: str) -> None:
        """A pod has ended: everything it held is free."""
        admitted = self._pods.pop(key)
        for manager in self._managers:
            manager.release(key)
        self._count(admitted.request, -1)

    def free(self) -> FreeState:
        """What could be handed out now."""
        return FreeState(
            cpus=self._cpus.free if self._cpus is not None else None,
            memory=self._memory.free if self._memory is not None else None,
            devices=self._devices.free,
        )

    def _count(self, pod: PodRequest, times: int) -> None:
        for resource, amount in (*pod.total.items(), (PODS, 1)):
            self._used[resource] = self._used.get(resource, 0) + times * amount

    def _serve(self, key: str, pod: PodRequest, attempt: _Attempt) -> None:
        """What the Topology Manager does with a pod, by policy and scope."""
        if self._settings.policy is Policy.NONE:
            for container in pod.containers:
                self._allocate(key, pod, container, NO_AFFINITY, attempt)
        elif self._settings.scope is Scope.CONTAINER:
            for container in pod.containers:
                attempt.container = container.name
                asked = [manager.container_hints(pod, container) for manager in self._managers]
                self._allocate(key, pod, container, self._aligned(pod, asked), attempt)
        else:
            hint = self._aligned(pod, [manager.pod_hints(pod) for manager in self._managers])
            if self._settings.pod_level_managers and pod.pod_level is not None:
                for manager in self._managers:
                    manager.allocate_pod(key, pod, hint)
                attempt.hints = {container.name: hint for container in pod.containers}
            else:
                for container in pod.containers:
                    self._allocate(key, pod, container, hint, attempt)

    def _aligned(self, pod: PodRequest, asked: list[list[Hints]]) -> Hint:
        """One hint from those of all managers, or the refusal of a pod that cannot be aligned."""
        settings = self._settings
        hint = merge(settings.policy, self._zones, list(chain(*asked)), closest=settings.prefer_closest)
        if admits(settings.policy, hint):
            return hint
        if pod.pod_level is None or not settings.pod_level_managers:
            message = "Resources cannot be allocated with Topology locality"
        else:
            where = "under pod-scope" if settings.scope is Scope.POD else "with a container-level"
            message = f"Pod Scope pod with pod-level resources failed admission {where} topology manager"
        raise AdmissionError("topology", "TopologyAffinityError", message)

    def _allocate(self, key: str, pod: PodRequest, container: ContainerRequest, hint: Hint, attempt: _Attempt) -> None:
        attempt.container = container.name
        attempt.hints[container.name] = hint
        for manager in self._managers:
            manager.allocate(key, pod, container, hint)

    def _allocations(self, key: str, pod: PodRequest, hints: Mapping[str, Hint]) -> tuple[ContainerAllocation, ...]:
        cpus = self._cpus.cpus_of(key) if self._cpus is not None else {}
        memory = self._memory.blocks_of(key) if self._memory is not None else {}
        devices = self._devices.devices_of(key)
        allocations = []
        for name in (container.name for container in pod.containers):
            zones, preferred = hints[name]
            allocations.append(
                ContainerAllocation(
                    name=name,
                    zones=None if zones is None else zone_ids(zones),
                    preferred=preferred,
                    cpus=tuple(sorted(cpus.get(name, ()))),
                    memory=tuple(memory.get(name, ())),
                    devices=dict(devices.get(name, {})),
                )
            )
        return tuple(allocations)


@dataclass(slots=True)
class _Attempt:
    """How far an admission has come: the container at hand, and the hint of each container."""

    container: str = ""
    hints: dict[str, Hint] = field(default_factory=dict)
