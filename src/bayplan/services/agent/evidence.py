"""Everything the agent knows about a node at one moment: `scanner.py` gathers it, `accounting.py` counts it.

Unknown zones and CPUs are ignored and reported as problems: device plugins invent NUMA ids, and lists may be older than
the machine. Evidence of a kubelet that is still starting (`not_started`) is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bayplan.cluster.reports.inventory import cpu_list
from bayplan.services.agent.sources.kubelet_config import KubeletSetup, reserved_cpus_on
from bayplan.services.agent.sources.pod_resources import Allocatable, MemoryBlock, PodResources
from bayplan.services.agent.sources.state_files import CpuState, DeviceState, MemoryState
from bayplan.services.agent.sources.sysfs import Hardware


class Amounts(NamedTuple):
    """One resource in one zone; CPUs are whole."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a node at one moment.

    Without `allocatable` the kubelet did not answer, and pods may use the machine minus its reservations. `pods` has
    no pods that ended. `ended` has UIDs of such pods, which state files may still name; `alive` has UIDs of others.
    """

    hardware: Hardware
    setup: KubeletSetup | None = None
    allocatable: Allocatable | None = None
    pods: Sequence[PodResources] = ()
    shared_cpus: frozenset[int] = frozenset()
    cpu_state: CpuState | None = None
    memory_state: MemoryState | None = None
    device_state: DeviceState | None = None
    alive: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


def not_started(evidence: Evidence) -> str | None:
    """Why the kubelet's answer cannot be counted yet, or None.

    The kubelet opens its socket before its managers start, and lists no CPUs and no memory until then. A node whose
    CPUs are all reserved lists none either.
    """
    if evidence.allocatable is None:
        return None
    settings = evidence.setup.settings if evidence.setup else None
    cpu_static = (
        settings.cpu_static if settings else evidence.cpu_state is not None and evidence.cpu_state.policy == "static"
    )
    memory_static = (
        settings.memory_static
        if settings
        else evidence.memory_state is not None and evidence.memory_state.policy == "Static"
    )
    reserved = reserved_cpus_on(evidence.hardware, evidence.setup) if evidence.setup else frozenset()
    if cpu_static and not evidence.allocatable.cpus and not reserved >= evidence.hardware.cpus.keys():
        return _NOT_STARTED.format(manager="CPU", policy="static", things="CPUs")
    if memory_static and not evidence.allocatable.memory:
        return _NOT_STARTED.format(manager="Memory", policy="Static", things="memory")
    return None


_NOT_STARTED = (
    "the kubelet has a {manager} Manager with policy {policy} and lists no allocatable {things}: "
    "it is starting, or was not restarted since its configuration changed"
)


class UnknownIds:
    """Collects problems with zones and CPUs that do not exist, each once."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._zones = cpu_list(hardware.zone_ids)
        self.found: list[str] = list(hardware.problems)

    def _report(self, text: str) -> None:
        if text not in self.found:
            self.found.append(text)

    def known_zones(self, zones: Iterable[int], about: str) -> list[int]:
        """The zones that exist; some device plugins use -1 for an unknown zone."""
        known = []
        for zone in zones:
            if zone in self._hardware.zone_ids:
                known.append(zone)
            elif zone >= 0:
                self._report(f"{about}: NUMA node {zone} does not exist (there are {self._zones}): ignored")
        return known

    def known_cpus(self, cpus: Iterable[int], about: str) -> list[int]:
        """The CPUs that exist and are online."""
        known = []
        for cpu in cpus:
            if cpu in self._hardware.cpus:
                known.append(cpu)
            else:
                self._report(f"{about}: CPU {cpu} is not online: ignored")
        return known

    def placed_block(self, block: MemoryBlock) -> MemoryBlock:
        """The block without unknown zones."""
        return MemoryBlock(block.type, block.size, tuple(self.known_zones(block.zones, block.type)))
