"""Which CPUs are taken: two sockets, two zones, four cores each, two threads; siblings are i and i+8."""

from __future__ import annotations

import pytest

from bayplan.engine.kubelet import CpuLayout
from bayplan.engine.kubelet.cpu_assignment import _combinations, take
from bayplan.engine.kubelet.masks import mask_of, zones_in

CPUS = range(16)
ZONE = tuple(cpu % 8 // 4 for cpu in CPUS)
LAYOUT = CpuLayout(core=tuple(cpu % 8 for cpu in CPUS), socket=ZONE, numa=ZONE, l3=tuple(cpu % 8 // 2 for cpu in CPUS))
ALL = mask_of(CPUS)


@pytest.mark.parametrize(
    "told, options, taken_before, count, expected",
    [
        ("whole cores, lowest first", (), (), 4, (0, 1, 8, 9)),
        ("a whole zone", (), (), 8, (0, 1, 2, 3, 8, 9, 10, 11)),
        ("the zone that is fuller already", (), (4,), 2, (5, 13)),
        ("one CPU mends a broken core", (), (4,), 1, (12,)),
        ("threads apart", ("distribute-cpus-across-cores",), (), 4, (0, 1, 2, 3)),
        ("five in each zone", ("distribute-cpus-across-numa",), (), 10, (0, 1, 2, 8, 9, 4, 5, 6, 12, 13)),
        ("one cache", ("prefer-align-cpus-by-uncorecache",), (0,), 4, (2, 3, 10, 11)),
        ("an odd number in a cache", ("prefer-align-cpus-by-uncorecache",), (), 3, (0, 1, 8)),
    ],
)
def test_take(
    *, told: str, options: tuple[str, ...], taken_before: tuple[int, ...], count: int, expected: tuple[int, ...]
) -> None:
    taken = take(LAYOUT, frozenset(options), ALL & ~mask_of(taken_before), count)
    assert zones_in(taken) == tuple(sorted(expected)), told


def test_a_cache_of_two_zones_is_as_full_as_it_is_in_both() -> None:
    """Cache 0 has one free CPU in zone 0 but four on the whole, so cache 1, with two, comes first."""
    zone, cache = (0, 0, 0, 0, 1, 1, 1, 1), (0, 1, 1, 1, 0, 0, 0, 2)
    layout = CpuLayout(core=tuple(range(8)), socket=zone, numa=zone, l3=cache)
    free = mask_of((0, 1, 2, 4, 5, 6, 7))
    assert zones_in(take(layout, frozenset({"prefer-align-cpus-by-uncorecache"}), free, 1)) == (1,)


def test_remembered_combinations_of_four_change_afterwards() -> None:
    """The defect of v1.36.4 that its CPU sets show: the fourth zone is overwritten by the next choice."""
    of_three, of_four = (list(_combinations(range(5), size)) for size in (3, 4))
    assert of_three[0].zones == [0, 1, 2]
    assert of_four[0].zones == [0, 1, 2, 4]
