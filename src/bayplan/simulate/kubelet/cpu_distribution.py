"""Which CPUs a container gets under `distribute-cpus-across-numa`: the same number from each of as few zones as
possible.

In come the free CPUs and how many are wanted, out go CPU ids. The smallest number of zones that can share the request
evenly is used; among equal choices the one that leaves the zones most alike. CPUs go in groups (whole cores under
`full-pcpus-only`). Inside a zone, and where no even split exists, `cpu_choice.py` chooses.

Kubelet v1.36.4 keeps its best combination of zones in memory that it goes on writing into, so what it uses in the end
may be another combination than the one it rated (kubernetes PR 141238). `_combinations` repeats that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bayplan.simulate.kubelet.cpu_choice import NotEnoughCpus, check_enough, packed, zones_in_order
from bayplan.simulate.kubelet.cpu_layout import CpuLayout, CpuSet


class _Split(NamedTuple):
    """Zones that give the same number of CPUs each, zones that give the rest, and how uneven it leaves the machine."""

    unevenness: float
    zones: Sequence[int]
    rest_zones: Sequence[int]


def distributed(
    layout: CpuLayout,
    free: CpuSet,
    wanted: int,
    *,
    group: int,
    spread: bool,
    by_socket: bool = False,
    within_reach: bool = False,
) -> CpuSet:
    """CPUs in groups of `group`, as evenly from several zones as it goes; packed if it does not go at all.

    `by_socket`: zones of one socket rather than any others. `within_reach`: no zone is asked for a larger share than
    the fullest can give.
    """
    if wanted < 1:
        return frozenset()
    if wanted % group == 0:
        check_enough(wanted, free)
        zones = zones_in_order(layout, free)
        left = {zone: len(layout.in_zone[zone] & free) for zone in zones}
        fewest, most = _zones_needed(layout, len(zones), -(-wanted // group), group)
        for size in range(fewest, most + 1):
            sockets = layout.sockets_of_zone if by_socket else None
            if split := _best_split(zones, left, size, wanted, group, sockets):
                each = wanted // size // group * group
                if within_reach:
                    each = min(each, *(left[zone] // group * group for zone in split.zones))
                return _taken(layout, free, wanted, group, split, each, spread=spread)
    return packed(layout, free, wanted, spread=spread, by_cache=False)


def _zones_needed(layout: CpuLayout, zones_with_free: int, groups: int, group: int) -> tuple[int, int]:
    all_groups = -(-len(layout.all) // group)
    groups_per_zone = -(-all_groups // len(layout.in_zone))
    return -(-groups // groups_per_zone), min(groups, zones_with_free)


def _best_split(
    zones: list[int],
    left: dict[int, int],
    size: int,
    wanted: int,
    group: int,
    sockets: Mapping[int, Mapping[int, CpuSet]] | None,
) -> _Split | None:
    """The most even split over `size` zones, or None if no combination can hold it.

    Given sockets, one of them if that can be.
    """
    best: _Split | None = None
    best_is_one_socket = False
    for slots in _combinations(zones, size):
        if best is not None and best.unevenness == 0 and (sockets is None or best_is_one_socket):
            break
        combination = slots[:size]
        each = wanted // size // group * group
        if sockets is not None:
            each = min(each, *(left[zone] // group * group for zone in combination))
        if any(left[zone] < each for zone in combination):
            continue
        if sum(left[zone] // group for zone in combination) * group < wanted:
            continue
        after = dict(left)
        for zone in combination:
            after[zone] -= each
        rest = wanted - each * size
        unevenness, rest_slots = _best_rest(combination, after, rest, group) if rest else (_deviation(after), [])
        is_better = unevenness < (math.inf if best is None else best.unevenness)
        is_one_socket = sockets is not None and len({each for zone in combination for each in sockets[zone]}) == 1
        if is_one_socket != best_is_one_socket:
            is_better = is_one_socket
        if is_better:
            best = _Split(unevenness, slots, rest_slots)
            best_is_one_socket = is_one_socket
    return best and _Split(best.unevenness, best.zones[:size], best.rest_zones)


def _best_rest(combination: Sequence[int], after: dict[int, int], rest: int, group: int) -> tuple[float, list[int]]:
    """From which zones of the combination the groups that do not divide evenly are best taken, in turns."""
    candidates = [zone for zone in combination if after[zone] >= group]
    least, best_slots, best_size = math.inf, [-1], 0
    for size in range(len(candidates), 0, -1):
        for slots in _combinations(candidates, size):
            then = dict(after)
            if not _hand_out_in_turns(slots[:size], then, rest, group):
                continue
            unevenness = _deviation(then)
            if unevenness < least:
                least, best_slots, best_size = unevenness, slots, size
    return least, best_slots[:best_size]


def _hand_out_in_turns(zones: Sequence[int], left: dict[int, int], rest: int, group: int) -> bool:
    """Take the rest from these zones, a group at a time; False if they do not have it.

    If zones have enough CPUs but no whole group, the real kubelet would loop endlessly (kubernetes PR 140730).
    """
    while rest > 0:
        before = rest
        for zone in zones:
            if rest > 0 and left[zone] >= group:
                left[zone] -= group
                rest -= group
        if rest == before:
            return False
    return True


def _taken(
    layout: CpuLayout, free: CpuSet, wanted: int, group: int, split: _Split, each: int, *, spread: bool
) -> CpuSet:
    """Carry a split out. The zones can differ from the rated ones, so they can lack what is asked of them."""
    taken: CpuSet = frozenset()

    def take(zone: int, cpus: int) -> CpuSet:
        try:
            return packed(layout, (free - taken) & layout.in_zone[zone], cpus, spread=spread, by_cache=False)
        except NotEnoughCpus:
            return frozenset()

    missing = wanted
    for zone in split.zones:
        chosen = take(zone, each)
        taken |= chosen
        missing -= len(chosen)
    rest = wanted - each * len(split.zones)
    while rest > 0:
        before = rest
        for zone in split.rest_zones:
            if rest > 0 and len((free - taken) & layout.in_zone[zone]) >= group:
                chosen = take(zone, group)
                taken |= chosen
                missing -= len(chosen)
                rest -= group
        if rest == before:
            break
    if missing:
        amount = "not enough" if missing > 0 else "too many"
        raise NotEnoughCpus(f"accounting error, {amount} CPUs allocated, remaining: {missing}")
    return taken


def _combinations(items: Sequence[int], size: int) -> Iterator[list[int]]:
    """All combinations in order, each in the first `size` places of a list that later ones may write into.

    A list has room for 1, 2, 4, 8, ... items; only when it is full, the next item goes into a new one.
    """

    def grow(slots: list[int], filled: int, start: int) -> Iterator[list[int]]:
        if filled == size:
            yield slots
            return
        for place in range(start, len(items) - (size - filled) + 1):
            target = slots if filled < len(slots) else slots + [-1] * max(filled, 1)
            target[filled] = items[place]
            yield from grow(target, filled + 1, place + 1)

    yield from grow([], 0, 0)


def _deviation(left: dict[int, int]) -> float:
    """The standard deviation of what is left, mean and result rounded to three decimals like the kubelet's."""
    mean = _rounded(sum(left.values()) / len(left))
    return _rounded(math.sqrt(sum((amount - mean) ** 2 for amount in left.values()) / len(left)))


def _rounded(number: float) -> float:
    """Three decimals, halves up."""
    thousandths = number * 1000
    whole = math.floor(thousandths)
    return (whole + 1 if thousandths - whole >= 0.5 else whole) / 1000
