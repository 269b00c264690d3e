"""Sets of zones as 0/1 matrices, so that "what does this set hold" is one matrix product for all nodes.

Tables exist for up to eight zones (255 sets); they depend on the hardware class alone and are computed once. Wider nodes
are searched set by set with bounds (`engine/numa/wide_nodes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

TABLE_ZONES = 8


@dataclass(frozen=True, slots=True)
class SubsetTable:
    """All sets of one size. Row i of `members` marks the zones of set i; the order of rows is the order of preference."""

    members: NDArray[np.float64]
    bits: NDArray[np.uint64]
    closest: NDArray[np.bool_]


@lru_cache(maxsize=256)
def sets_of_size(zones: int, size: int) -> SubsetTable:
    """Sets of `size` out of `zones` zones, lowest zone numbers first as the kubelet prefers them."""
    chosen = sorted(combinations(range(zones), size), key=lambda zones_: sum(1 << zone for zone in zones_))
    return _table(zones, chosen, [True] * len(chosen))


@lru_cache(maxsize=1024)
def sets_by_distance(distances: tuple[tuple[int, ...], ...], size: int) -> SubsetTable:
    """Sets of `size`, closest first, equal ones in the order of their zones; `closest` marks the shortest average.

    The average is taken over all ordered pairs including a zone with itself, in float32, and an average above 255
    (unknown) is never "closest": that is how scheduler-plugins computes it.
    """
    zones = len(distances)
    chosen = list(combinations(range(zones), size))
    averages = [average_distance(distances, zones_) for zones_ in chosen]
    shortest = min(np.float32(255), *averages)
    order = sorted(range(len(chosen)), key=lambda index: averages[index])
    return _table(zones, [chosen[index] for index in order], [bool(averages[index] == shortest) for index in order])


@lru_cache(maxsize=1024)
def sets_as_kubelet_prefers(distances: tuple[tuple[int, ...], ...], size: int, *, closest_first: bool) -> SubsetTable:
    """Sets of `size` in the kubelet's order: by number, or under `prefer-closest-numa-nodes` by distance and then by number."""
    table = sets_of_size(len(distances), size)
    averages = [average_distance(distances, tuple(np.nonzero(row)[0].tolist())) for row in table.members]
    shortest = min(np.float32(255), *averages)
    order = sorted(range(len(averages)), key=lambda index: averages[index] if closest_first else 0)
    closest = np.array([bool(averages[index] == shortest) for index in order], dtype=np.bool_)
    return SubsetTable(table.members[order], table.bits[order], closest)


def average_distance(distances: tuple[tuple[int, ...], ...], zones: tuple[int, ...]) -> np.float32:
    """Mean distance over all ordered pairs of `zones`, each zone with itself included."""
    total = sum(distances[here][there] for here in zones for there in zones)
    return np.float32(np.float32(total) / np.float32(len(zones) ** 2))


def _table(zones: int, chosen: list[tuple[int, ...]], closest: list[bool]) -> SubsetTable:
    members = np.zeros((len(chosen), zones))
    for index, zones_ in enumerate(chosen):
        members[index, list(zones_)] = 1
    bits = np.array([sum(1 << zone for zone in zones_) for zones_ in chosen], dtype=np.uint64)
    return SubsetTable(members, bits, np.array(closest, dtype=np.bool_))
