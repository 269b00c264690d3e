"""Which CPUs exactly: the static CPU Manager's choice of n CPUs out of those available.

In comes the layout, the available CPUs and a number; out goes the set that the kubelet would take. `take` packs: whole
zones and sockets first, then whole caches, cores and single CPUs, at every level the fullest unit that still has room.
With distribute-cpus-across-numa it spreads evenly over as few zones as will do and packs inside each (on more than
`MOST_ZONES` zones it packs, too, because finding the evenest zones takes exponential time). `cpu.py` asks; nothing here
knows about pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, sqrt

from bayplan.cluster.reports.kubelet_version import NEWEST, KubeletVersion
from bayplan.engine.kubelet.masks import MOST_ZONES, bits
from bayplan.engine.kubelet.node import CpuLayout, CpuSet
from bayplan.engine.kubelet.verdict import unexpected
from bayplan.engine.kubelet.versions import RULES, Rules

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
ALIGN_BY_SOCKET = "align-by-socket"
PREFER_UNCORE_CACHE = "prefer-align-cpus-by-uncorecache"


def take(
    layout: CpuLayout, options: frozenset[str], available: CpuSet, count: int, version: KubeletVersion = NEWEST
) -> CpuSet:
    """The `count` CPUs that a container gets; the caller has checked that there are enough."""
    if DISTRIBUTE_ACROSS_NUMA in options and count > 0:
        return _take_distributed(layout, options, available, count, RULES[version])
    return _take_packed(layout, options, available, count)


# --- packed


@dataclass(slots=True)
class _Packing:
    """CPUs being collected: those available, the number still needed, and those taken."""

    layout: CpuLayout
    available: CpuSet
    needed: int
    taken: CpuSet = 0

    def claim(self, cpus: CpuSet) -> None:
        self.taken |= cpus
        self.available &= ~cpus
        self.needed -= cpus.bit_count()


def _take_packed(layout: CpuLayout, options: frozenset[str], available: CpuSet, count: int) -> CpuSet:
    if count > available.bit_count():
        return 0
    packing = _Packing(layout, available, count)
    levels = [_claim_whole_zones, _claim_whole_sockets]
    if not _zones_hold_sockets(layout):
        levels.reverse()
    if PREFER_UNCORE_CACHE in options:
        levels.append(_claim_caches)
    if DISTRIBUTE_ACROSS_CORES in options:
        levels.append(_claim_single_cpus_across_cores)
    else:
        levels += [_claim_whole_cores, _claim_single_cpus]
    for claim in levels:
        if packing.needed > 0:
            claim(packing)
    return packing.taken


def _zones_hold_sockets(layout: CpuLayout) -> bool:
    return len(layout.by_socket) >= len(layout.by_zone)


def _fullest_first(units: Mapping[int, CpuSet], available: CpuSet) -> list[int]:
    """Units with available CPUs, those with the fewest first, then by id."""
    left = [((cpus & available).bit_count(), unit) for unit, cpus in units.items() if cpus & available]
    return [unit for _, unit in sorted(left)]


def _nested(outer: Sequence[CpuSet], units: Mapping[int, CpuSet], available: CpuSet) -> list[int]:
    """Units in the order of the larger units around them, inside each the fullest first.

    A unit that lies in several larger ones is as full as it is on the whole.
    """
    order = _fullest_first(units, available)
    return [unit for around in outer for unit in order if units[unit] & available & around]


def _zones_in_order(layout: CpuLayout, available: CpuSet) -> list[int]:
    if _zones_hold_sockets(layout):
        return _fullest_first(layout.by_zone, available)
    sockets = [layout.by_socket[socket] for socket in _fullest_first(layout.by_socket, available)]
    return _nested(sockets, layout.by_zone, available)


def _sockets_in_order(layout: CpuLayout, available: CpuSet) -> list[int]:
    if not _zones_hold_sockets(layout):
        return _fullest_first(layout.by_socket, available)
    zones = [layout.by_zone[zone] for zone in _fullest_first(layout.by_zone, available)]
    return _nested(zones, layout.by_socket, available)


def _cores_in_order(layout: CpuLayout, available: CpuSet) -> list[int]:
    """Cores lie directly below the smaller of zone and socket."""
    if _zones_hold_sockets(layout):
        around = [layout.by_socket[socket] for socket in _sockets_in_order(layout, available)]
    else:
        around = [layout.by_zone[zone] for zone in _zones_in_order(layout, available)]
    return _nested(around, layout.by_core, available)


def _caches_in_order(layout: CpuLayout, available: CpuSet) -> list[int]:
    zones = [layout.by_zone[zone] for zone in _zones_in_order(layout, available)]
    return _nested(zones, layout.by_l3, available)


def _claim_whole(packing: _Packing, order: list[int], units: Mapping[int, CpuSet], size: Callable[[int], int]) -> None:
    """Take every free unit that is not larger than needed. `size` is that of a whole unit."""
    free = [unit for unit in order if (units[unit] & packing.available).bit_count() == size(unit)]
    for unit in free:
        if packing.needed >= units[unit].bit_count():
            packing.claim(units[unit])


def _claim_whole_zones(packing: _Packing) -> None:
    layout = packing.layout
    _claim_whole(packing, _zones_in_order(layout, packing.available), layout.by_zone, layout.cpus_in_zone.__getitem__)


def _claim_whole_sockets(packing: _Packing) -> None:
    layout = packing.layout
    order = _sockets_in_order(layout, packing.available)
    _claim_whole(packing, order, layout.by_socket, lambda _: layout.cpus_per_socket)


def _claim_whole_cores(packing: _Packing) -> None:
    layout = packing.layout
    order = _cores_in_order(layout, packing.available)
    _claim_whole(packing, order, layout.by_core, lambda _: layout.threads_per_core)


def _claim_caches(packing: _Packing) -> None:
    """Whole caches while at least an average one is needed, else a cache that can hold all that is left."""
    layout = packing.layout
    for cache in _caches_in_order(layout, packing.available):
        if packing.needed >= layout.cpus_per_l3:
            order = _caches_in_order(layout, packing.available)
            _claim_whole(packing, order, layout.by_l3, lambda unit: layout.by_l3[unit].bit_count())
        if packing.needed > 0:
            _claim_rest_within(packing, layout.by_l3[cache])
        if packing.needed <= 0:
            return


def _claim_rest_within(packing: _Packing, cache: CpuSet) -> None:
    layout = packing.layout
    cores_needed = -(-packing.needed // layout.threads_per_core)
    cores = sorted({layout.core[cpu] for cpu in bits(packing.available & cache)})[:cores_needed]
    cpus = 0
    for core in cores:
        cpus |= layout.by_core[core] & packing.available
    if packing.needed % 2 and layout.threads_per_core > 1 and cpus.bit_count() > packing.needed:
        cpus ^= 1 << (cpus.bit_length() - 1)  # an odd number leaves the last sibling of the last core
    if cpus.bit_count() == packing.needed:
        packing.claim(cpus)


def _claim_single_cpus(packing: _Packing) -> None:
    layout = packing.layout
    order = _cores_in_order(layout, packing.available)
    _claim_one_by_one(packing, [cpu for core in order for cpu in bits(layout.by_core[core] & packing.available)])


def _claim_single_cpus_across_cores(packing: _Packing) -> None:
    layout = packing.layout
    order = _sockets_in_order(layout, packing.available)
    _claim_one_by_one(packing, [cpu for socket in order for cpu in bits(layout.by_socket[socket] & packing.available)])


def _claim_one_by_one(packing: _Packing, order: Sequence[int]) -> None:
    for cpu in order:
        if packing.needed <= 0:
            return
        packing.claim(1 << cpu)


# --- distributed across zones


@dataclass(slots=True)
class _Combination:
    """A chosen set of zones, read from a buffer that later choices may still write to (see `_combinations`)."""

    buffer: list[int]
    length: int

    @property
    def zones(self) -> list[int]:
        return self.buffer[: self.length]


def _take_distributed(
    layout: CpuLayout, options: frozenset[str], available: CpuSet, count: int, rules: Rules
) -> CpuSet:
    group = layout.threads_per_core if FULL_PCPUS_ONLY in options else 1
    zones = _zones_in_order(layout, available)
    if count % group == 0 and len(zones) <= MOST_ZONES:
        groups_needed = count // group
        groups_per_zone = ceil(ceil(sum(layout.cpus_in_zone.values()) / group) / len(layout.by_zone))
        fewest = ceil(groups_needed / groups_per_zone)
        free = {zone: (layout.by_zone[zone] & available).bit_count() for zone in zones}
        by_socket = rules.distributes_within_sockets and ALIGN_BY_SOCKET in options
        sockets_of = layout.sockets_of_zone if by_socket else None
        for size in range(fewest, min(groups_needed, len(zones)) + 1):
            chosen = _most_balanced(zones, free, size, count, group, sockets_of)
            if chosen is not None:
                most = min(free[zone] // group * group for zone in chosen[0])
                return _take_evenly(
                    _Packing(layout, available, count),
                    options,
                    group,
                    *chosen,
                    most_each=most if rules.distributes_within_sockets else count,
                )
    return _take_packed(layout, options, available, count)


def _most_balanced(
    zones: Sequence[int],
    free: Mapping[int, int],
    size: int,
    count: int,
    group: int,
    sockets_of: Mapping[int, frozenset[int]] | None,
) -> tuple[list[int], list[int]] | None:
    """The zones to share evenly and those that take the remainder, so that what stays free differs least.

    With `sockets_of`, zones of one socket come before all others, and a zone that lacks an even share gives what it
    has.
    """
    best: tuple[float, _Combination, _Combination] | None = None
    best_in_one_socket = False
    nowhere = _Combination([], 0)
    even = count // size // group * group
    for combination in _combinations(zones, size):
        if best is not None and best[0] == 0 and (sockets_of is None or best_in_one_socket):
            break
        chosen = combination.zones
        share = even if sockets_of is None else min(even, *(free[zone] // group * group for zone in chosen))
        if sum(free[zone] // group for zone in chosen) * group < count or any(free[zone] < share for zone in chosen):
            continue
        left = {zone: free[zone] - (share if zone in chosen else 0) for zone in zones}
        remainder = count - share * size
        found: tuple[float, _Combination] | None = (_deviation(left.values()), nowhere)
        if remainder:
            found = _best_for_remainder([zone for zone in chosen if left[zone] >= group], left, remainder, group)
        balance, taking_rest = found or (inf, nowhere)
        in_one_socket = sockets_of is not None and len(frozenset().union(*(sockets_of[zone] for zone in chosen))) <= 1
        better = balance < (inf if best is None else best[0])
        if in_one_socket != best_in_one_socket:
            better = in_one_socket
        if better:
            best, best_in_one_socket = (balance, combination, taking_rest), in_one_socket
    return None if best is None else (best[1].zones, best[2].zones)


def _best_for_remainder(
    zones: Sequence[int], left: Mapping[int, int], remainder: int, group: int
) -> tuple[float, _Combination] | None:
    best: tuple[float, _Combination] | None = None
    for size in range(len(zones), 0, -1):
        for subset in _combinations(zones, size):
            after = _after_striping(subset.zones, left, remainder, group)
            if after is None:
                continue
            balance = _deviation(after.values())
            if best is None or balance < best[0]:
                best = (balance, subset)
    return best


def _after_striping(zones: Sequence[int], left: Mapping[int, int], remainder: int, group: int) -> dict[int, int] | None:
    """What stays free when the remainder is dealt out round by round; None if it cannot be dealt out in groups.

    Where reservations split cores, v1.36.4 deals forever here (kubernetes PR 140730); such a choice is passed over.
    """
    after = dict(left)
    while remainder > 0:
        open_zones = [zone for zone in zones if after[zone] >= group]
        if not open_zones:
            return None
        for zone in open_zones[: -(-remainder // group)]:
            after[zone] -= group
            remainder -= group
    return after


def _take_evenly(
    packing: _Packing,
    options: frozenset[str],
    group: int,
    sharing: Sequence[int],
    taking_rest: Sequence[int],
    *,
    most_each: int,
) -> CpuSet:
    """Take an even share in each zone, then deal out the remainder group by group."""
    layout = packing.layout

    def claim_in(zone: int, count: int) -> int:
        cpus = _take_packed(layout, options, packing.available & layout.by_zone[zone], count)
        packing.claim(cpus)
        return cpus.bit_count()

    share = min(packing.needed // len(sharing) // group * group, most_each)
    remainder = packing.needed - share * len(sharing)
    for zone in sharing:
        claim_in(zone, share)
    while remainder > 0:
        dealt = 0
        for zone in taking_rest:
            if dealt < remainder:
                dealt += claim_in(zone, group)
        if dealt == 0:
            break
        remainder -= dealt
    if packing.needed > 0:
        # Only where zones were swapped behind the choice's back, see `_combinations`.
        raise unexpected(f"accounting error, not enough CPUs allocated, remaining: {packing.needed}")
    return packing.taken


def _combinations(items: Sequence[int], size: int) -> Iterator[_Combination]:
    """All combinations in lexicographic order, sharing memory the way kubelet v1.36.4 does.

    Its slices grow to capacities 1, 2, 4, 8, ... While there is capacity left, the next choice of the last item
    overwrites the previous one, so a combination that was remembered as the best changes afterwards (kubernetes PR
    141238).
    """

    def extend(chosen: _Combination, start: int) -> Iterator[_Combination]:
        if chosen.length == size:
            yield chosen
            return
        for index in range(start, len(items) - (size - chosen.length) + 1):
            full = chosen.length & (chosen.length - 1) == 0
            buffer = chosen.buffer[: chosen.length] if full else chosen.buffer
            if len(buffer) > chosen.length:
                buffer[chosen.length] = items[index]
            else:
                buffer.append(items[index])
            yield from extend(_Combination(buffer, chosen.length + 1), index + 1)

    return extend(_Combination([], 0), 0)


def _deviation(values: Iterable[int]) -> float:
    """Standard deviation in thousandths: differences below that do not count."""
    amounts = list(values)
    mean = sum(amounts) / len(amounts)
    exact = sqrt(sum((amount - mean) ** 2 for amount in amounts) / len(amounts))
    return floor(exact * 1000 + 0.5) / 1000
