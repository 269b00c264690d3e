"""The hardware under a virtual kubelet: NUMA zones with their memory, every logical CPU, every device.

Nothing here changes and nothing is in use; `manager`-side state lives in the kubelet that runs on it. Machines come
from a text (`simulate/scenario/machine_text.py`), from a node's report, or from a recording in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bayplan.cluster.reports.inventory import OFFLINE


@dataclass(frozen=True, slots=True)
class MachineZone:
    """One NUMA zone.

    `memory` are all its bytes, huge pages included; `huge_pages` are bytes by resource name (`hugepages-1Gi`);
    `distances` go to the machine's zones in their order, its own included.
    """

    id: int
    memory: int
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cpu:
    """Where one logical CPU sits. A core is named by the lowest CPU id on it; `cache` is the last-level cache."""

    core: int
    socket: int
    zone: int
    cache: int

    @property
    def online(self) -> bool:
        """Whether there is a CPU with this id, and it can be used."""
        return self.zone != OFFLINE


OFFLINE_CPU = Cpu(OFFLINE, OFFLINE, OFFLINE, OFFLINE)


@dataclass(frozen=True, slots=True)
class MachineDevice:
    """One device of a device plugin. No zones: the plugin does not say where it is."""

    id: str
    zones: tuple[int, ...]
    healthy: bool = True


@dataclass(frozen=True)
class Machine:
    """Zones in ascending id, CPUs by id (the position in the tuple), devices by resource name.

    A zone without CPUs has memory only. An id whose CPU is offline has `OFFLINE_CPU`.
    """

    zones: tuple[MachineZone, ...]
    cpus: tuple[Cpu, ...]
    devices: Mapping[str, tuple[MachineDevice, ...]] = field(default_factory=dict)

    @cached_property
    def online_cpus(self) -> frozenset[int]:
        """The ids of the CPUs that can be used."""
        return frozenset(number for number, cpu in enumerate(self.cpus) if cpu.online)
