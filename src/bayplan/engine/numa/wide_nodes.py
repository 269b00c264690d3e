"""Nodes with more than eight zones: search sets of zones with bounds instead of a table of all of them.

2^64 sets cannot be listed. A set of a given size is built zone by zone, lowest first; a branch is cut as soon as the
largest amounts still open cannot reach what is wanted. After `MOST_BRANCHES` branches the search stops and answers "none",
which is the safe direction: a node is refused, never a pod lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.numa.subsets import average_distance

MOST_BRANCHES = 20_000
# Distances looked at while sets are compared, over all sizes.
MOST_PAIRS = 4_000_000

Distances = tuple[tuple[int, ...], ...]


def find_feasible_set(size: int, left: Sequence[NDArray[np.float64]], amounts: Sequence[float]) -> int:
    """Bits of the first set of `size` zones (in the kubelet's order) that holds every amount; 0 if none was found.

    `left[resource][zone]` is what is free. The kubelet prefers the set with the smaller integer value, so the highest
    zone is chosen first, as low as possible.
    """
    # best[resource][zone][k]: the most that k zones numbered below `zone` can hold.
    best = [_best_below(grid, size) for grid in left]
    zones = len(left[0])
    branches = 0

    def search(below: int, open_zones: int, missing: list[float]) -> int:
        nonlocal branches
        if open_zones == 0:
            return 0 if all(amount <= 0 for amount in missing) else -1
        for zone in range(open_zones - 1, below):
            branches += 1
            if branches > MOST_BRANCHES:
                return -1
            still = [amount - float(grid[zone]) for amount, grid in zip(missing, left, strict=True)]
            reachable = all(amount <= table[zone, open_zones - 1] for amount, table in zip(still, best, strict=True))
            if reachable:
                rest = search(zone, open_zones - 1, still)
                if rest >= 0:
                    return rest | (1 << zone)
        return -1

    return max(search(zones, size, [float(amount) for amount in amounts]), 0)


def _best_below(grid: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Entry [zone, k]: the sum of the k largest values among the zones numbered below `zone`."""
    table = np.zeros((len(grid) + 1, size + 1))
    for zone in range(1, len(grid) + 1):
        largest = np.sort(grid[:zone])[::-1][:size]
        sums = np.concatenate(([0.0], np.cumsum(largest)))
        table[zone, : len(sums)] = sums
        table[zone, len(sums) :] = -np.inf  # there are not that many zones
    table[0, 1:] = -np.inf
    return table


def lowest_feasible_set(
    distances: Distances, left: Sequence[NDArray[np.float64]], amounts: Sequence[float]
) -> tuple[int, int, bool]:
    """Narrowest, then lowest-numbered set: (bits, size, whether it is the closest of its size).

    Where a size has too many sets to compare, the set is not called the closest.
    """
    zones = range(len(distances))
    for size in range(_smallest_size(left, amounts, list(zones)), len(distances) + 1):
        bits = find_feasible_set(size, left, amounts)
        if bits:
            chosen = tuple(zone for zone in zones if bits >> zone & 1)
            return bits, size, average_distance(distances, chosen) == _shortest_average(distances, size)
    return 0, 0, False


@lru_cache(maxsize=1024)
def _shortest_average(distances: Distances, size: int) -> np.float32 | None:
    """The shortest average distance of any set of `size` zones; None if there are too many to compare."""
    if comb(len(distances), size) * size * size > MOST_PAIRS:
        return None
    averages = (average_distance(distances, chosen) for chosen in combinations(range(len(distances)), size))
    return min(np.float32(255), *averages)


def closest_feasible_set(
    distances: Distances,
    usable: int,
    left: Sequence[NDArray[np.float64]],
    amounts: Sequence[float],
    *,
    by_number: bool = False,
) -> tuple[int, int, bool]:
    """Narrowest, then closest set within the `usable` zones: (bits, size, whether it is the closest of its size).

    Of equally close sets scheduler-plugins takes the first in lexical order, the kubelet the lowest `by_number`. Sizes below the bound that the largest amounts allow are skipped. Sets are compared until
    `MOST_PAIRS` distances were looked at; after that the closest found is taken, or any that fits, and not called the closest.
    """
    zones = range(len(distances))
    pairs = 0
    open_zones = [zone for zone in zones if usable >> zone & 1]
    for size in range(_smallest_size(left, amounts, open_zones), len(open_zones) + 1):
        shortest = np.float32(255)
        best: tuple[np.float32, tuple[int, ...]] | None = None
        complete = True
        for chosen in combinations(zones, size):
            pairs += size * size
            if pairs > MOST_PAIRS:
                complete = False
                break
            average = average_distance(distances, chosen)
            shortest = min(shortest, average)
            if best is not None and (
                average > best[0] or (average == best[0] and not (by_number and chosen[::-1] < best[1][::-1]))
            ):
                continue
            inside = all(usable >> zone & 1 for zone in chosen)
            if inside and all(
                sum(float(grid[zone]) for zone in chosen) >= amount for grid, amount in zip(left, amounts, strict=True)
            ):
                best = (average, chosen)
        if best is None and not complete:
            bits = find_feasible_set(size, [_only(grid, usable) for grid in left], amounts)
            if bits:
                return bits, size, False
        elif best is not None:
            return sum(1 << zone for zone in best[1]), size, bool(complete and best[0] == shortest)
    return 0, 0, False


def _smallest_size(left: Sequence[NDArray[np.float64]], amounts: Sequence[float], open_zones: list[int]) -> int:
    """No set smaller than this can hold every amount."""
    smallest = 1
    for grid, amount in zip(left, amounts, strict=True):
        sums = np.cumsum(np.sort(grid[open_zones])[::-1])
        smallest = max(smallest, int(np.searchsorted(sums, amount)) + 1)
    return smallest


def _only(grid: NDArray[np.float64], usable: int) -> NDArray[np.float64]:
    return np.array([amount if usable >> zone & 1 else 0.0 for zone, amount in enumerate(grid)])
