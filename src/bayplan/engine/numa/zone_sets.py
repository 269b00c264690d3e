"""Sets of zones as 0/1 matrices, so that "what does this set hold" is one matrix product for all nodes.

Tables exist for up to eight zones (255 sets); they depend on the hardware class alone and are computed once. Wider
nodes are searched set by set with bounds (`engine/numa/zone_sets.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations, islice
from math import comb

import numpy as np
from numpy.typing import NDArray

TABLE_ZONES = 8


@dataclass(frozen=True, slots=True)
class SubsetTable:
    """All sets of one size.

    Row i of `members` marks the zones of set i; the order of rows is the order of preference.
    """

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
    """Sets of `size` in the kubelet's order: by number; under `prefer-closest-numa-nodes`, by distance first."""
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


MOST_BRANCHES = 20_000
# Distances looked at while sets are compared, over all sizes: at most 50 ms for a node of 64 zones, and enough to
# compare all sets of any one size on 16 zones.
MOST_PAIRS = 2_000_000
# Distances gathered at once.
PAIRS_AT_ONCE = 1 << 16

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
    for size in range(_fewest_zones(left, amounts, list(zones)), len(distances) + 1):
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
    apart = np.array(distances)
    shortest = np.float32(255)
    for chosen in _combinations(len(distances), size):
        shortest = min(shortest, _averages(apart, chosen).min())
    return shortest


def closest_feasible_set(
    distances: Distances,
    usable: int,
    left: Sequence[NDArray[np.float64]],
    amounts: Sequence[float],
    *,
    by_number: bool = False,
) -> tuple[int, int, bool]:
    """Narrowest, then closest set within the `usable` zones: (bits, size, whether it is the closest of its size).

    Of equally close sets scheduler-plugins takes the first in lexical order, the kubelet the lowest `by_number`. Sizes
    below the bound that the largest amounts allow are skipped. Sets are compared until `MOST_PAIRS` distances were
    looked at; after that the closest found is taken, or any that fits, and not called the closest.
    """
    zones, apart = len(distances), np.array(distances)
    pairs = MOST_PAIRS
    is_open = np.array([bool(usable >> zone & 1) for zone in range(zones)])
    for size in range(_fewest_zones(left, amounts, np.nonzero(is_open)[0].tolist()), int(is_open.sum()) + 1):
        shortest = np.float32(255)
        best: tuple[np.float32, int] | None = None
        compared = min(comb(zones, size), pairs // (size * size))
        complete = compared == comb(zones, size)
        pairs = pairs - compared * size * size if complete else 0
        for chosen in _combinations(zones, size, compared):
            averages = _averages(apart, chosen)
            shortest = min(shortest, averages.min())
            fits = is_open[chosen].all(axis=1)
            for grid, amount in zip(left, amounts, strict=True):
                fits &= grid[chosen].sum(axis=1) >= amount
            if fits.any():
                average = averages[fits].min()
                closest = _bits(chosen[fits & (averages == average)])
                found = average, int(closest.min() if by_number else closest[0])
                if best is None or average < best[0] or (by_number and found < best):
                    best = found
        if best is None and not complete:
            bits = find_feasible_set(size, [_only(grid, usable) for grid in left], amounts)
            if bits:
                return bits, size, False
        elif best is not None:
            return best[1], size, bool(complete and best[0] == shortest)
    return 0, 0, False


def _combinations(zones: int, size: int, most: int | None = None) -> Iterator[NDArray[np.int64]]:
    """Sets of `size` zones in lexical order, one per line, in blocks."""
    chosen = islice(combinations(range(zones), size), most)
    at_once = max(PAIRS_AT_ONCE // (size * size), 1)
    while len(flat := np.fromiter(chain.from_iterable(islice(chosen, at_once)), dtype=np.int64)):
        yield flat.reshape(-1, size)


def _averages(apart: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """`average_distance` of each set."""
    totals = apart[chosen[:, :, np.newaxis], chosen[:, np.newaxis, :]].sum(axis=(1, 2))
    averages: NDArray[np.float32] = totals.astype(np.float32) / np.float32(chosen.shape[1] ** 2)
    return averages


def _bits(chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
    bits: NDArray[np.uint64] = np.bitwise_or.reduce(np.uint64(1) << chosen.astype(np.uint64), axis=1)
    return bits


def _fewest_zones(left: Sequence[NDArray[np.float64]], amounts: Sequence[float], open_zones: list[int]) -> int:
    """No set smaller than this can hold every amount."""
    smallest = 1
    for grid, amount in zip(left, amounts, strict=True):
        sums = np.cumsum(np.sort(grid[open_zones])[::-1])
        smallest = max(smallest, int(np.searchsorted(sums, amount)) + 1)
    return smallest


def _only(grid: NDArray[np.float64], usable: int) -> NDArray[np.float64]:
    return np.array([amount if usable >> zone & 1 else 0.0 for zone, amount in enumerate(grid)])


ZoneGrid = NDArray[np.float64]
PerNode = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ManagerQuestion:
    """What one manager is asked: for each resource what is left [zone, node] and the amount per node.

    An amount of 0 means that the node does not align the resource. What could be is in `reach` [k, node], the most that
    k + 1 zones have in total, if the question is about one resource; else in `totals` [zone, node] of each.
    """

    left: list[ZoneGrid]
    amounts: list[PerNode]
    reach: ZoneGrid | None = None
    totals: list[ZoneGrid] = field(default_factory=list)


def sets_for_all(questions: list[ManagerQuestion]) -> NDArray[np.uint64]:
    """Per node the set of zones that is smallest for every question and free for all of them, as bits; 0 if none is."""
    sizes = _common_smallest_size(questions)
    bits = np.zeros(len(sizes), dtype=np.uint64)
    left = [grid for question in questions for grid in question.left]
    amounts = [amount for question in questions for amount in question.amounts]
    for size in np.unique(sizes[sizes > 1]):
        chosen = np.nonzero(sizes == size)[0]
        here = slice(None) if len(chosen) == len(sizes) else chosen
        bits[here] = _first_set_that_holds(
            int(size), [grid[:, here] for grid in left], [amount[here] for amount in amounts]
        )
    return bits


def _common_smallest_size(questions: list[ManagerQuestion]) -> NDArray[np.int64]:
    """The number of zones whose totals answer a question, if it is the same for every question; else 0."""
    common = np.zeros(len(questions[0].amounts[0]), dtype=np.int64)
    agree = np.ones(len(common), dtype=np.bool_)
    for question in questions:
        size = _smallest_size(question)
        matters = np.logical_or.reduce([amount > 0 for amount in question.amounts])
        agree &= ~matters | ((size > 0) & ((common == 0) | (common == size)))
        common = np.where(matters, size, common)
    return np.where(agree, common, 0)


def _smallest_size(question: ManagerQuestion) -> NDArray[np.int64]:
    """How many zones it takes by totals; 0 if all of them are not enough."""
    if question.reach is not None:
        reached = question.reach >= question.amounts[0]
        return np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, 0)
    zones, nodes = question.totals[0].shape
    smallest = np.zeros(nodes, dtype=np.int64)
    for size in range(1, zones + 1):
        unanswered = np.nonzero(smallest == 0)[0]
        if not len(unanswered):
            break
        held = _first_set_that_holds(
            size, [grid[:, unanswered] for grid in question.totals], [want[unanswered] for want in question.amounts]
        )
        smallest[unanswered[held != 0]] = size
    return smallest


def _first_set_that_holds(size: int, grids: list[ZoneGrid], amounts: list[PerNode]) -> NDArray[np.uint64]:
    """For each node the preferred set of `size` zones that holds every amount, as bits; 0 if there is none."""
    zones, nodes = grids[0].shape
    if zones > TABLE_ZONES:
        wide = [
            find_feasible_set(size, [grid[:, node] for grid in grids], [float(amount[node]) for amount in amounts])
            for node in range(nodes)
        ]
        return np.array(wide, dtype=np.uint64)
    table = sets_of_size(zones, size)
    holds = np.ones((len(table.bits), nodes), dtype=np.bool_)
    for grid, amount in zip(grids, amounts, strict=True):
        holds &= table.members @ grid >= amount
    return np.where(holds.any(axis=0), table.bits[holds.argmax(axis=0)], np.uint64(0))
