"""Sets of domains that hold a number of pods with the least total room: in a given number of domains, or in any.

Both are knapsacks. A cheap guess comes first: the largest domains, lowered to what is needed. If nothing is left over,
no table is needed. If the table would be too large, the answer is marked as unproven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.problem import Counts

# Larger tables take more than some 10 ms: as many steps of the bit table, as many bits in it, as many cells of the
# table of counts.
MOST_STEPS = 50_000
MOST_BITS = 1 << 26
MOST_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class TightSet:
    """Domains by their index, ascending; their room; whether it is proven that there is no tighter set."""

    domains: list[int]
    room: int
    proven: bool

    def __len__(self) -> int:
        return len(self.domains)


def tightest_domain(room: Counts, pods: int) -> int:
    """The domain with the least room that still holds all pods; the first of equals."""
    return int(np.where(room >= pods, room, np.iinfo(np.int64).max).argmin())


def tightest_of_number(room: Counts, pods: int, number: int) -> TightSet:
    """This number of domains with the least total room for all pods. Such a set exists, and none of fewer domains."""
    guess = _lowered(room, pods, number)
    if number == 1:
        return replace(guess, proven=True)
    useful = np.flatnonzero(room)
    steps = len(useful) * number
    if guess.proven or steps > MOST_STEPS or steps * pods > MOST_BITS:
        return guess
    # reachable[n] holds as bits the sums that n domains can have; one row per domain, to find the way back.
    reachable = [1] + [0] * number
    rows = [tuple(reachable)]
    for domain in useful:
        size = int(room[domain])
        for count in range(number, 0, -1):
            reachable[count] |= reachable[count - 1] << size
        rows.append(tuple(reachable))
    sums = reachable[number] >> pods
    least = total = pods + ((sums & -sums).bit_length() - 1)
    chosen = []
    count = number
    for row in range(len(useful), 0, -1):
        if count and not rows[row - 1][count] >> total & 1:
            chosen.append(int(useful[row - 1]))
            total -= int(room[useful[row - 1]])
            count -= 1
    return TightSet(chosen[::-1], least, proven=True)


def tightest_of_any_number(room: Counts, pods: int, fewest: int) -> TightSet:
    """The domains with the least room that hold all pods, as few as possible; no set has fewer than `fewest`."""
    guess = _lowered(room, pods, fewest)
    useful = np.flatnonzero(room)
    # A set without a domain that could be left out has less than the largest domain to spare.
    width = pods + int(room.max(initial=0))
    if guess.proven or len(useful) * width > MOST_CELLS:
        return guess
    no_way = np.int32(len(useful) + 1)
    needed: list[NDArray[np.int32]] = [np.full(width, no_way)]
    needed[0][0] = 0
    for domain in useful:
        size, before = int(room[domain]), needed[-1]
        after = before.copy()
        np.minimum(after[size:], before[: width - size] + 1, out=after[size:])
        needed.append(after)
    least = total = pods + int((needed[-1][pods:] < no_way).argmax())
    chosen = []
    for row in range(len(useful), 0, -1):
        if needed[row][total] != needed[row - 1][total]:
            chosen.append(int(useful[row - 1]))
            total -= int(room[useful[row - 1]])
    return TightSet(chosen[::-1], least, proven=True)


def roomiest_of_number(room: Counts, pods: int, number: int) -> TightSet:
    """This number of domains with the most total room: the largest."""
    largest = np.sort(np.argsort(-room, kind="stable")[:number])
    total = int(room[largest].sum())
    assert total >= pods
    return TightSet(largest.tolist(), total, proven=True)


def _lowered(room: Counts, pods: int, number: int) -> TightSet:
    """The largest domains, exchanged for smaller ones while all pods have room; proven if no sum is less.

    Among many domains, one of the wanted size nearly always exists: 3,125 racks take 0.3 ms, their table 7.
    """
    if number == 1:
        only = tightest_domain(room, pods)
        return TightSet([only], int(room[only]), proven=int(room[only]) == _bound(room, pods))
    order = (-room).argsort(kind="stable")
    chosen: list[int] = order[:number].tolist()
    left_over = int(room[chosen].sum()) - pods
    smaller = order[number:][::-1]
    sizes = room[smaller]
    taken: set[int] = set()
    for place in range(number - 1, -1, -1):
        if not left_over:
            break
        size = int(room[chosen[place]])
        at = int(sizes.searchsorted(max(size - left_over, 1)))
        while at in taken:
            at += 1
        if at < len(sizes) and sizes[at] < size:
            taken.add(at)
            left_over -= size - int(sizes[at])
            chosen[place] = int(smaller[at])
    return TightSet(sorted(chosen), pods + left_over, proven=left_over == 0 or pods + left_over == _bound(room, pods))


def _bound(room: Counts, pods: int) -> int:
    """A bound: the next multiple of the common divisor of all domains. Racks are often alike."""
    unit = int(np.gcd.reduce(room))
    return -(-pods // unit) * unit
