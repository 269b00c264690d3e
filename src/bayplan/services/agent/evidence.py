"""What the agent knows about a node at one moment, before anything is counted, and what of it names things that do not exist.

`scanner.py` gathers an `Evidence`, `accounting.py` counts it. Whatever speaks of a zone or a CPU that the machine does not have is left aside and told
once in the account's problems: device plugins invent NUMA ids, and lists may be older than the machine. Evidence that contradicts itself as a whole
(`not_started`) is not counted at all.
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
    """One resource in one zone, CPUs in whole ones: all there is, what pods may use, what is left."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a node at one moment.

    Without `allocatable` the kubelet could not be asked, and pods may use the machine less its reservations. `pods` holds no pod that has
    ended; `ended` are UIDs of such pods, which the state files may still name, and `alive` UIDs of pods that have not ended, if known.
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
    """Why what the kubelet says cannot be counted yet: it opens its socket before its managers start, and until then lists nothing that they hand out.

    Counted, that would read as if no CPU and no memory were ever held. A node on which every CPU is reserved does list none.
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
    "the kubelet has a {manager} Manager with policy {policy} and lists no {things} that it could hand out: "
    "it is starting, or was not restarted since its configuration changed"
)


class Oddities:
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
