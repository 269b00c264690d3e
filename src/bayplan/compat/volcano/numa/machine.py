"""CPUs as a Numatopology object lists them: where each one sits, by the numbers that the node's kernel uses.

Core numbers are taken as written. On most hardware they repeat in every socket, so "core 0" may stand for several cores; Volcano
does not mind, and this module must not either. `cpu_picker.py` and `cpus.py` ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Cpus = frozenset[int]
NO_CPUS: Cpus = frozenset()


class CpuPlace(NamedTuple):
    """Where one logical CPU sits."""

    numa: int = 0
    socket: int = 0
    core: int = 0


NOWHERE = CpuPlace()
"""A CPU that the object does not describe: Go's zero value puts it on NUMA node 0."""


@dataclass(frozen=True)
class Machine:
    """All CPUs of a node by their numbers."""

    places: Mapping[int, CpuPlace]

    @cached_property
    def cpus(self) -> Cpus:
        """Every CPU."""
        return frozenset(self.places)

    @cached_property
    def numa_ids(self) -> tuple[int, ...]:
        """NUMA nodes that have a CPU, ascending."""
        return tuple(sorted({place.numa for place in self.places.values()}))

    @cached_property
    def sockets(self) -> Cpus:
        """Socket numbers."""
        return frozenset(place.socket for place in self.places.values())

    @cached_property
    def cpus_per_socket(self) -> int:
        """On average, rounded down."""
        return len(self.places) // max(len(self.sockets), 1)

    @cached_property
    def cpus_per_core(self) -> int:
        """On average, rounded down; a core is one number in one socket."""
        cores = {(place.socket, place.core) for place in self.places.values()}
        return len(self.places) // max(len(cores), 1)

    def numa_of(self, cpu: int) -> int:
        """The NUMA node of a CPU, 0 if unreported."""
        return self.places.get(cpu, NOWHERE).numa

    def in_numa(self, ids: Iterable[int]) -> Cpus:
        """CPUs of some NUMA nodes."""
        wanted = set(ids)
        return frozenset(cpu for cpu, place in self.places.items() if place.numa in wanted)

    def only(self, cpus: Iterable[int]) -> Machine:
        """The same machine reduced to some of its CPUs."""
        return Machine({cpu: self.places[cpu] for cpu in cpus if cpu in self.places})

    def in_socket(self, socket: int) -> Cpus:
        """CPUs of one socket."""
        return frozenset(cpu for cpu, place in self.places.items() if place.socket == socket)

    def in_core(self, core: int) -> Cpus:
        """CPUs that carry a core number, whichever socket they are in."""
        return frozenset(cpu for cpu, place in self.places.items() if place.core == core)

    def cores_of(self, socket: int) -> Cpus:
        """Core numbers of one socket."""
        return frozenset(place.core for place in self.places.values() if place.socket == socket)
