"""What the agent knows about a node at one moment, before anything is counted, and what of it names things that do not exist.

`scanner.py` gathers an `Evidence`, `accounting.py` counts it. Whatever speaks of a zone or a CPU that the machine does not have is left aside and told
once in the account's problems: device plugins invent NUMA ids, and lists may be older than the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bayplan.cluster.inventory import cpu_list
from bayplan.services.agent.kubelet_config import KubeletSetup
from bayplan.services.agent.pod_resources import Allocatable, MemoryBlock, PodResources
from bayplan.services.agent.state_files import CpuState, DeviceState, MemoryState
from bayplan.services.agent.sysfs import Hardware


class Amounts(NamedTuple):
    """One resource in one zone, CPUs in whole ones: all there is, what pods may use, what is left."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a node at one moment.

    Without `allocatable` nobody could ask the kubelet, and the machine less reservations is what pods may use. `pods` holds no pod that has
    ended; `ended` are UIDs of such pods, which the state files may still name, and `alive` UIDs of pods that have not, if anybody knows.
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
