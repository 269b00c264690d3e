"""Memory of the zones as the Memory Manager keeps it: bytes free and charged by type, groups of zones, assignments.

A zone serves either allocations of its own or those of exactly one group of zones, until nothing is assigned to it any
more. Inside a group the lowest zones are charged first and given back first, so only the sum over a group means
something. `memory_manager.py` decides who gets what and keeps these books through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

from bayplan.cluster.pods.request import MEMORY
from bayplan.simulate.kubelet.answer import MemoryBlock, ZoneMemoryState
from bayplan.simulate.kubelet.machine import MachineZone
from bayplan.simulate.kubelet.zone_sets import ZoneSet, ZoneSets, zone_ids

Amounts = Mapping[str, int]


class MemoryZones:
    """The books of one machine."""

    def __init__(self, zones: tuple[MachineZone, ...], sets: ZoneSets, reserved: Mapping[int, Amounts]) -> None:
        self.sets = sets
        self._allocatable = {zone.id: allocatable_memory(zone, reserved.get(zone.id, {})) for zone in zones}
        self._free = {zone: dict(amounts) for zone, amounts in self._allocatable.items()}
        self._charged = {zone.id: dict.fromkeys(self._free[zone.id], 0) for zone in zones}
        self._group: dict[int, ZoneSet] = {zone.id: 1 << zone.id for zone in zones}
        self._assignments = dict.fromkeys(self._free, 0)

    def fewest_zones_for(self, request: Amounts) -> int:
        """How many zones it takes on an empty machine; all of them if even that is not enough."""
        totals = [(self._totals[type_], amount) for type_, amount in request.items() if type_ in self._totals]
        if len(totals) == len(request):
            for place, size in enumerate(self.sets.sizes):
                if all(total[place] >= amount for total, amount in totals):
                    return size
        return len(self.sets.ids)

    @cached_property
    def _totals(self) -> dict[str, list[int]]:
        """What each zone set has of each type on an empty machine."""
        types = {type_ for amounts in self._allocatable.values() for type_ in amounts}
        return {type_: _shared_sums(self.sets, self._by_zone(self._allocatable, type_)) for type_ in types}

    def _by_zone(self, amounts: Mapping[int, Amounts], type_: str) -> tuple[int, ...]:
        return tuple(amounts[zone].get(type_, 0) for zone in self.sets.ids)

    def free_sums(self, type_: str) -> list[int]:
        """What each zone set has free of a type."""
        return self.sets.sums(self._by_zone(self._free, type_))

    def free_in(self, zones: ZoneSet, type_: str) -> int:
        """What these zones have free of a type together."""
        return sum(self._free[zone].get(type_, 0) for zone in zone_ids(zones) if zone in self._free)

    def may_be_used(self, zones: ZoneSet) -> bool:
        """Whether a new allocation may take exactly this set, by the rule of groups."""
        if zones.bit_count() == 1:
            return self._group[zones.bit_length() - 1] == zones
        return all(self._group[zone] == zones for zone in zone_ids(zones) if self._assignments[zone])

    def charge(self, type_: str, amount: int, zones: ZoneSet) -> None:
        """Assign an amount, possibly 0, to a set of zones."""
        for zone in zone_ids(zones):
            self._assignments[zone] += 1
            self._group[zone] = zones
            taken = min(amount, self._free[zone].get(type_, 0))
            if taken:
                self._free[zone][type_] -= taken
                self._charged[zone][type_] += taken
                amount -= taken

    def give_back(self, block: MemoryBlock) -> None:
        """Undo one assignment.

        The lowest zones are refunded first, regardless of which assignment was charged there.
        """
        amount = block.size
        for zone in block.zones:
            self._assignments[zone] -= 1
            if not self._assignments[zone]:
                self._group[zone] = 1 << zone
            returned = min(amount, self._charged[zone].get(block.type, 0))
            if returned:
                self._free[zone][block.type] += returned
                self._charged[zone][block.type] -= returned
                amount -= returned

    def state(self) -> dict[int, ZoneMemoryState]:
        """Everything, for showing."""
        return {
            zone: ZoneMemoryState(dict(free), zone_ids(self._group[zone]), self._assignments[zone])
            for zone, free in self._free.items()
        }


@lru_cache(maxsize=256)  # equal nodes share them
def _shared_sums(sets: ZoneSets, amounts: tuple[int, ...]) -> list[int]:
    return sets.sums(amounts)


def allocatable_memory(zone: MachineZone, reserved: Amounts) -> dict[str, int]:
    """Bytes by type that pods can have: without what is reserved, and huge pages are not memory."""
    amounts = {type_: amount - reserved.get(type_, 0) for type_, amount in zone.huge_pages.items()}
    amounts[MEMORY] = zone.memory - sum(zone.huge_pages.values()) - reserved.get(MEMORY, 0)
    return amounts
