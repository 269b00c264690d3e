"""Which CPUs a container gets when more are free than it asks for: the kubelet's packed choice.

In come the free CPUs and how many are wanted, out go CPU ids. Whole zones and sockets are taken first, then (if asked
for) whole caches, then whole cores, then single CPUs; and at each level the fullest unit that still fits, so that large
holes stay large. `cpu_distribution.py` builds the even split over zones on top of it, `cpu_manager.py` calls both.

Where the kubelet compares with an average size or takes a unit as a whole although parts of it are in use, so does
this: on machines whose sockets differ in size it does hand out CPUs twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bayplan.simulate.kubelet.cpu_layout import CpuLayout, CpuSet, Units


class NotEnoughCpus(Exception):
    """There are fewer free CPUs than wanted, or they could not be handed out."""


def check_enough(wanted: int, free: CpuSet) -> None:
    """Raise `NotEnoughCpus` if there are fewer free CPUs than wanted."""
    if wanted > len(free):
        raise NotEnoughCpus(f"not enough cpus available to satisfy request: requested={wanted}, available={len(free)}")


def packed(layout: CpuLayout, free: CpuSet, wanted: int, *, spread: bool, by_cache: bool) -> CpuSet:
    """CPUs from as few units as possible.

    `spread` passes over whole cores, `by_cache` fills last-level caches first.
    """
    choice = _Choice(layout, free, wanted, spread=spread)
    if choice.done():
        return frozenset()
    check_enough(wanted, free)
    steps = [choice.take_zones, choice.take_sockets] if choice.zones_first else [choice.take_sockets, choice.take_zones]
    if by_cache:
        steps.append(choice.take_caches)
    if not spread:
        steps.append(choice.take_cores)
    steps.append(choice.take_single_cpus)
    for step in steps:
        step()
        if choice.done():
            return frozenset(choice.taken)
    raise NotEnoughCpus("failed to allocate cpus")


def zones_in_order(layout: CpuLayout, free: CpuSet) -> list[int]:
    """The zones with free CPUs in the order in which they are used up."""
    return list(_Choice(layout, free, 0, spread=False).zones())


class _Choice:
    """A choice under way: what is still free, what is taken, how many are missing."""

    def __init__(self, layout: CpuLayout, free: CpuSet, wanted: int, *, spread: bool) -> None:
        self.layout = layout
        self.free = set(free)
        self.taken: set[int] = set()
        self.missing = wanted
        self.spread = spread
        self.zones_first = len(layout.in_socket) >= len(layout.in_zone)

    def done(self) -> bool:
        return self.missing < 1

    def take(self, cpus: Collection[int]) -> None:
        self.taken.update(cpus)
        self.free.difference_update(cpus)
        self.missing -= len(cpus)

    def take_zones(self) -> None:
        zones = self.layout.in_zone
        whole = [zone for zone in self.zones() if zones[zone] <= self.free]
        self._take_whole(whole, zones)

    def take_sockets(self) -> None:
        sockets, size = self.layout.in_socket, self.layout.cpus_per_socket
        self._take_whole([socket for socket in self.sockets() if len(sockets[socket] & self.free) == size], sockets)

    def take_cores(self) -> None:
        cores, size = self.layout.in_core, self.layout.cpus_per_core
        self._take_whole([core for core in self.cores() if len(cores[core] & self.free) == size], cores)

    def _take_whole(self, whole: list[int], members: Units) -> None:
        for unit in whole:
            if self.missing >= len(members[unit]):
                self.take(members[unit])

    def take_single_cpus(self) -> None:
        for cpu in self._single_cpus():
            self.take((cpu,))
            if self.done():
                return

    def _single_cpus(self) -> list[int]:
        units, members = (self.sockets(), self.layout.in_socket) if self.spread else (self.cores(), self.layout.in_core)
        return [cpu for unit in units for cpu in sorted(members[unit] & self.free)]

    def take_caches(self) -> None:
        """Whole caches while a cache's worth is missing, and the rest from one cache that can give all of it."""
        caches = self.layout.in_cache
        for cache in list(self.caches()):
            if self.missing >= self.layout.cpus_per_cache:
                self._take_whole([each for each in self.caches() if caches[each] <= self.free], caches)
            if self.done():
                return
            self._take_rest_from_cache(cache)
            if self.done():
                return

    def _take_rest_from_cache(self, cache: int) -> None:
        """All that is missing, from the lowest cores of this cache with a free CPU; or nothing."""
        layout = self.layout
        in_cache = layout.in_cache[cache] & self.free
        cores = sorted({layout.cpus[cpu].core for cpu in in_cache})
        needed = -(-self.missing // layout.cpus_per_core)
        offered = sorted(cpu for core in cores[:needed] for cpu in layout.in_core[core] & self.free)
        # An odd number leaves a sibling of the last core over; the kubelet thinks of two threads a core here.
        if self.missing % 2 and layout.cpus_per_core > 1 and len(offered) > self.missing:
            offered.pop()
        if len(offered) == self.missing:
            self.take(offered)

    def zones(self) -> Iterator[int]:
        if self.zones_first:
            yield from self._fullest_first(self.layout.in_zone, self.layout.in_zone)
        else:
            for socket in self.sockets():
                yield from self._fullest_first(self.layout.zones_of_socket[socket], self.layout.in_zone)

    def sockets(self) -> Iterator[int]:
        if self.zones_first:
            for zone in self.zones():
                yield from self._fullest_first(self.layout.sockets_of_zone[zone], self.layout.in_socket)
        else:
            yield from self._fullest_first(self.layout.in_socket, self.layout.in_socket)

    def cores(self) -> Iterator[int]:
        if self.zones_first:
            for socket in self.sockets():
                yield from self._fullest_first(self.layout.cores_of_socket[socket], self.layout.in_core)
        else:
            for zone in self.zones():
                yield from self._fullest_first(self.layout.cores_of_zone[zone], self.layout.in_core)

    def caches(self) -> Iterator[int]:
        for zone in self.zones():
            yield from self._fullest_first(self.layout.caches_of_zone[zone], self.layout.in_cache)

    def _fullest_first(self, units: Units, members: Units) -> list[int]:
        """Of the units with a free CPU the one with the fewest free CPUs first, then by id."""
        free = self.free
        return [
            unit
            for _, unit in sorted(
                (len(members[unit] & free), unit) for unit, here in units.items() if not here.isdisjoint(free)
            )
        ]
