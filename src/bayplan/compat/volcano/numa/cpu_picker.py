"""Which CPUs Volcano takes: whole sockets, then whole cores, then single threads.

It began as the kubelet's picker (`engine/kubelet/cpu_assignment.py` has today's) and differs from it in three ways that are kept here:

* A socket counts as free if the *CPU of the same number* is free, and a core likewise; then whatever is free in it is taken, even if
  that is more than was asked for.
* A core is looked up by its number alone, so that on hardware with core numbers per socket one "core" reaches over sockets.
* The orders are chains of "or", no strict orders: what comes out depends on how it is sorted. Go sorts up to twelve entries by
  insertion, as is done here for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.compat.volcano.numa.machine import NO_CPUS, Cpus, Machine


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
