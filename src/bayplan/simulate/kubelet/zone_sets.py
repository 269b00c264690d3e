"""Sets of zones, which the kubelet calls masks: all of them for one machine, with what is needed to compare and to add
up.

A zone set is a whole number whose bit i stands for the zone with id i, because the kubelet itself breaks ties by that
number. In come zone ids and distances, out goes a `ZoneSets` that every kubelet on equal hardware shares. All three
managers walk through it for their hints, and `topology_manager.py` asks it which of two sets is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

ZoneSet = int


def zone_set(ids: Iterable[int]) -> ZoneSet:
    """The set of these zones."""
    zones = 0
    for zone in ids:
        zones |= 1 << zone
    return zones


@lru_cache(maxsize=65_536)
def zone_ids(zones: ZoneSet) -> tuple[int, ...]:
    """The ids in a set, ascending."""
    return tuple(zone for zone in range(zones.bit_length()) if zones >> zone & 1)


class ZoneSets:
    """Every non-empty set of some zones, smaller sets first, and their sizes in the same order."""

    def __init__(self, ids: tuple[int, ...], distances: tuple[tuple[int, ...], ...] = ()) -> None:
        self.ids = ids
        self.all = zone_set(ids)
        self._distances = distances

    @cached_property
    def _additions(self) -> tuple[tuple[int, int], ...]:
        """How each set arises from a smaller one: the place of that one (0: nothing) and of the zone that joins."""
        additions: list[tuple[int, int]] = []
        newest = [(0, -1)]
        for _ in self.ids:
            grown = []
            for place, last in newest:
                for zone in range(last + 1, len(self.ids)):
                    additions.append((place, zone))
                    grown.append((len(additions), zone))
            newest = grown
        return tuple(additions)

    @cached_property
    def sets(self) -> tuple[ZoneSet, ...]:
        """The sets themselves."""
        return tuple(self.sums([1 << zone for zone in self.ids]))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many zones each set has."""
        return tuple(self.sums([1] * len(self.ids)))

    def sums(self, amounts: Sequence[int]) -> list[int]:
        """For each set the sum of its zones' amounts; `amounts` go by the zones in ascending id."""
        sums = [0]
        for place, zone in self._additions:
            sums.append(sums[place] + amounts[zone])
        del sums[0]
        return sums

    def most_by_size(self, amounts: Sequence[int]) -> tuple[int, ...]:
        """The most that one zone, two zones, three zones, ... can hold together."""
        falling = sorted(amounts, reverse=True)
        return tuple(sum(falling[: size + 1]) for size in range(len(falling)))

    @cached_property
    def _average_distances(self) -> dict[ZoneSet, float]:
        places = {zone: place for place, zone in enumerate(self.ids)}
        averages = {}
        for zones in self.sets:
            rows = [places[zone] for zone in zone_ids(zones)]
            averages[zones] = sum(self._distances[one][other] for one in rows for other in rows) / len(rows) ** 2
        return averages

    def rank(self, zones: ZoneSet, *, closest: bool) -> tuple[int, float, int]:
        """Of two sets the one with the lower rank is better: fewer zones, then nearer ones, then lower ids."""
        distance = self._average_distances[zones] if closest and self._distances else 0.0
        return zones.bit_count(), distance, zones


@lru_cache(maxsize=1024)
def zone_sets_of(ids: tuple[int, ...], distances: tuple[tuple[int, ...], ...] = ()) -> ZoneSets:
    """The one table of sets for these zones."""
    return ZoneSets(ids, distances)
