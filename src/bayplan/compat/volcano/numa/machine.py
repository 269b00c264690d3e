"""CPUs as a Numatopology object lists them: where each one sits, by the numbers that the node's kernel uses.

Core numbers are taken as written. On most hardware they repeat in every socket, so "core 0" may stand for several
cores; Volcano does not mind, and this module must not either. `predicate.py` and `nodes.py` ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def take_cpus(machine: Machine, available: Cpus, count: int) -> Cpus | None:
    """CPUs for a request, at least `count` of those available; None if there are too few."""
    if count < 1:
        return NO_CPUS
    picking = _Picking(machine, available, count)
    if count > len(picking.left.cpus):
        return None
    picking.take_each(picking.open_sockets, picking.in_socket, machine.cpus_per_socket)
    picking.take_each(picking.open_cores, picking.in_core, machine.cpus_per_core)
    picking.take_each(picking.single_cpus, lambda cpu: frozenset({cpu}), 1)
    return picking.taken if picking.missing < 1 else None


class _Picking:
    """What is taken and what is left while one request is served."""

    def __init__(self, machine: Machine, available: Cpus, count: int) -> None:
        self.machine = machine
        self.left = machine.only(available)
        self.missing = count
        self.taken: Cpus = NO_CPUS

    def take_each(self, units: Callable[[], list[int]], cpus_in: Callable[[int], Cpus], least: int) -> None:
        """Take one unit after the other, as long as at least `least` CPUs are missing."""
        if self.missing < max(least, 1):
            return
        for unit in units():
            found = cpus_in(unit)
            self.taken |= found
            self.left = self.left.only(self.left.cpus - found)
            self.missing -= len(found)
            if self.missing < max(least, 1):
                return

    def in_socket(self, socket: int) -> Cpus:
        return self.left.in_socket(socket)

    def in_core(self, core: int) -> Cpus:
        return self.left.in_core(core)

    def open_sockets(self) -> list[int]:
        return sorted(self.left.sockets & self.left.cpus)

    def open_cores(self) -> list[int]:
        def cores(socket: int) -> Cpus:
            return self.left.cores_of(socket) & self.left.cpus

        def before(one: int, other: int) -> bool:
            return len(cores(one)) < len(cores(other)) or one < other

        return [
            core for socket in _sorted_as_go_does(sorted(self.left.sockets), before) for core in sorted(cores(socket))
        ]

    def single_cpus(self) -> list[int]:
        cores = sorted({place.core for place in self.left.places.values()})
        socket_of = {core: self.machine.places[min(self.machine.in_core(core))].socket for core in cores}
        taken_in = {socket: len(self.machine.in_socket(socket) & self.taken) for socket in socket_of.values()}
        left_in = {socket: len(self.left.in_socket(socket)) for socket in socket_of.values()}
        threads = {core: self.left.in_core(core) for core in cores}

        def before(one: int, other: int) -> bool:
            here, there = socket_of[one], socket_of[other]
            return (
                taken_in[here] > taken_in[there]
                or left_in[here] < left_in[there]
                or len(threads[one]) < len(threads[other])
                or here < there
                or one < other
            )

        return [cpu for core in _sorted_as_go_does(cores, before) for cpu in sorted(threads[core])]


def _sorted_as_go_does(entries: list[int], before: Callable[[int, int], bool]) -> list[int]:
    """Insertion sort: with an order that contradicts itself, the way of sorting is part of the answer."""
    ordered = list(entries)
    for start in range(1, len(ordered)):
        at = start
        while at > 0 and before(ordered[at], ordered[at - 1]):
            ordered[at - 1], ordered[at] = ordered[at], ordered[at - 1]
            at -= 1
    return ordered
