"""Sets of NUMA zones as integers, in the order in which the kubelet walks and compares them.

Bit i of a mask stands for the zone with id i, as in the kubelet, so gaps in the ids need no translation. Here live
the list of all subsets of a node's zones (size first, then lexicographic), sums over them, and the question which of
two masks is better. Hint providers (`cpu.py`, `memory.py`, `devices.py`) walk the list, `merge.py` compares.

The kubelet itself tries all 2^n subsets. That is fine up to `MOST_ZONES`. Above, only the smaller subsets are looked
at, size by size within `MOST_SUBSETS`; `Subsets.complete` then says that larger ones were left out, and a pod whose
answer depends on them is refused with that cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

ZoneIds = tuple[int, ...]
Distances = tuple[tuple[int, ...], ...]

MOST_ZONES = 12
MOST_SUBSETS = 2**MOST_ZONES - 1
# Kinds of machines whose sets are kept: those of 12 zones take up to 1 MB each, and a node can describe any machine.
KINDS_KEPT = 64


class Subsets(NamedTuple):
    """The non-empty subsets of some zones that are looked at; `complete` if these are all there are."""

    masks: tuple[int, ...]
    complete: bool


def mask_of(zone_ids: Iterable[int]) -> int:
    """The mask with exactly these zones."""
    mask = 0
    for zone in zone_ids:
        mask |= 1 << zone
    return mask


def zones_in(mask: int) -> tuple[int, ...]:
    """The zone ids of a mask, ascending. It works for sets of CPUs as well."""
    return tuple(bits(mask))


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@lru_cache(maxsize=KINDS_KEPT)
def subsets(zone_ids: ZoneIds) -> Subsets:
    """All subsets in the kubelet's order, or as many whole sizes of them as `MOST_SUBSETS` allows."""
    masks: list[int] = []
    for size in range(1, len(zone_ids) + 1):
        if len(masks) + comb(len(zone_ids), size) > MOST_SUBSETS:
            return Subsets(tuple(masks), complete=False)
        masks.extend(mask_of(chosen) for chosen in combinations(zone_ids, size))
    return Subsets(tuple(masks), complete=True)


def sums_over(masks: Iterable[int], amount_of_zone: Mapping[int, int]) -> dict[int, int]:
    """For every subset the sum of its zones' amounts. Needs the order of `subsets`: it builds on smaller subsets."""
    sums = {0: 0}
    for mask in masks:
        lowest = mask & -mask
        sums[mask] = sums[mask ^ lowest] + amount_of_zone.get(lowest.bit_length() - 1, 0)
    return sums


@lru_cache(maxsize=KINDS_KEPT)
def badness(zone_ids: ZoneIds, distances: Distances = ()) -> Callable[[int], tuple[float, ...]]:
    """The key by which masks are compared; the smallest is the best: fewer zones, then closer ones, then lower ids.

    Distances are given only where the option prefer-closest-numa-nodes is on.
    """
    if not distances:
        return lambda mask: (mask.bit_count(), mask)
    position = {zone: index for index, zone in enumerate(zone_ids)}
    known: dict[int, tuple[float, ...]] = {}

    def key(mask: int) -> tuple[float, ...]:
        if mask not in known:
            chosen = [position[zone] for zone in bits(mask)]
            # All ordered pairs, each zone's distance to itself included, in float64: that is the kubelet's average.
            apart = sum(distances[one][other] for one in chosen for other in chosen)
            known[mask] = (len(chosen), apart / float(len(chosen) ** 2), mask)
        return known[mask]

    return key
