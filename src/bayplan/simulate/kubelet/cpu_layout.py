"""Where every CPU sits, in the forms in which CPUs are chosen: by zone, socket, core and cache, and one inside the
other.

In comes the tuple of `Cpu` of a machine, out goes a `CpuLayout` that never changes and that every kubelet on equal
hardware shares. `cpu_choice.py` and `cpu_manager.py` read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from bayplan.cluster.reports.inventory import OFFLINE
from bayplan.simulate.kubelet.machine import Cpu
from bayplan.simulate.kubelet.zone_sets import ZoneSet, zone_ids, zone_sets_of

CpuSet = frozenset[int]
Units = Mapping[int, CpuSet]


class CpuLayout:
    """The CPUs of a machine. The plain sizes are averages, as the kubelet computes them, whatever a single unit has.

    It is wide because each way to choose CPUs reads an index of its own.
    """

    def __init__(self, cpus: tuple[Cpu, ...]) -> None:
        self.cpus = cpus
        self.all: CpuSet = frozenset(number for number, cpu in enumerate(cpus) if cpu.online)
        core = [cpu.core for cpu in cpus]
        socket = [cpu.socket for cpu in cpus]
        zone = [cpu.zone for cpu in cpus]
        cache = [cpu.cache for cpu in cpus]
        self.in_core = _grouped(core)
        self.in_socket = _grouped(socket)
        self.in_zone = _grouped(zone)
        self.in_cache = _grouped(cache)
        self.sockets_of_zone = _nested(zone, socket)
        self.caches_of_zone = _nested(zone, cache)
        self.cores_of_zone = _nested(zone, core)
        self.zones_of_socket = _nested(socket, zone)
        self.cores_of_socket = _nested(socket, core)
        self.cpus_per_core = len(self.all) // len(self.in_core)
        self.cpus_per_socket = len(self.all) // len(self.in_socket)
        self.cpus_per_cache = len(self.all) // len(self.in_cache)
        self.zones_per_socket = len(self.in_zone) // len(self.in_socket)
        self.zone_sets = zone_sets_of(tuple(sorted(self.in_zone)))
        self._most_by_zones = self.zone_sets.most_by_size([len(self.in_zone[zone]) for zone in self.zone_sets.ids])

    def fewest_zones_for(self, cpus: int) -> int:
        """How many zones it takes if every CPU, reserved ones included, were free.

        All zones if even that is not enough.
        """
        enough = (size for size, most in enumerate(self._most_by_zones, start=1) if most >= cpus)
        return next(enough, len(self.in_zone))

    def count_by_zone(self, cpus: CpuSet) -> list[int]:
        """How many of these CPUs are in each zone that has CPUs, by ascending zone id."""
        return [len(cpus & self.in_zone[zone]) for zone in self.zone_sets.ids]

    def zones_of(self, cpus: Iterable[int]) -> ZoneSet:
        """The zones in which these CPUs are."""
        zones = 0
        for cpu in cpus:
            zones |= 1 << self.cpus[cpu].zone
        return zones

    def sockets_of(self, zones: ZoneSet) -> set[int]:
        """The sockets that these zones are part of."""
        return {socket for zone in zone_ids(zones) for socket in self.sockets_of_zone.get(zone, ())}

    def in_zones(self, zones: ZoneSet) -> CpuSet:
        """All CPUs of these zones."""
        return frozenset().union(*(self.in_zone.get(zone, frozenset()) for zone in zone_ids(zones)))

    def in_sockets(self, sockets: Iterable[int]) -> CpuSet:
        """All CPUs of these sockets."""
        return frozenset().union(*(self.in_socket[socket] for socket in sockets))

    def with_siblings(self, cpus: Iterable[int]) -> CpuSet:
        """All CPUs of the cores that these CPUs are part of."""
        return frozenset().union(*(self.in_core[core] for core in {self.cpus[cpu].core for cpu in cpus}))


def _grouped(unit_of: list[int]) -> dict[int, CpuSet]:
    members: dict[int, list[int]] = {}
    for cpu, unit in enumerate(unit_of):
        if unit != OFFLINE:
            members.setdefault(unit, []).append(cpu)
    return {unit: frozenset(members[unit]) for unit in sorted(members)}


def _nested(outer_of: list[int], inner_of: list[int]) -> dict[int, dict[int, CpuSet]]:
    """For each outer unit the inner units that touch it, each with the CPUs that are in both."""
    members: dict[int, dict[int, list[int]]] = {}
    for cpu, (outer, inner) in enumerate(zip(outer_of, inner_of, strict=True)):
        if outer != OFFLINE:
            members.setdefault(outer, {}).setdefault(inner, []).append(cpu)
    return {outer: {inner: frozenset(both) for inner, both in inners.items()} for outer, inners in members.items()}


@lru_cache(maxsize=256)
def cpu_layout(cpus: tuple[Cpu, ...]) -> CpuLayout:
    """The one layout of these CPUs."""
    return CpuLayout(cpus)
