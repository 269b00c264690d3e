"""Which CPUs are taken: two zones of four cores with two threads each; CPU n and n + 8 are siblings; zone 1 begins at
CPU 4.
"""

from __future__ import annotations

import pytest

from bayplan.simulate.kubelet.cpu_choice import NotEnoughCpus, packed
from bayplan.simulate.kubelet.cpu_layout import CpuLayout
from bayplan.simulate.kubelet.machine import Cpu
from tests.unit.simulate.kubelet.nodes import machine

LAYOUT = CpuLayout(machine(cores_per_cache=2).cpus)
ALL = frozenset(range(16))


def taken(free: set[int] | frozenset[int], wanted: int, *, spread: bool = False, by_cache: bool = False) -> list[int]:
    return sorted(packed(LAYOUT, frozenset(free), wanted, spread=spread, by_cache=by_cache))


@pytest.mark.parametrize(
    "used, wanted, expected",
    [
        (set(), 0, []),
        (set(), 1, [0]),
        (set(), 2, [0, 8]),  # a whole core
        (set(), 3, [0, 1, 8]),
        (set(), 8, [0, 1, 2, 3, 8, 9, 10, 11]),  # a whole zone
        (set(), 10, [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]),
        ({4}, 2, [5, 13]),  # the fuller zone first, but a whole core of it
        ({4}, 1, [12]),  # a core that is broken already, for a single CPU
        ({4}, 8, [0, 1, 2, 3, 8, 9, 10, 11]),  # a whole zone beats a fuller one
        ({0, 1, 2, 3}, 4, [4, 5, 12, 13]),  # no whole core left in zone 0
    ],
)
def test_whole_units_first_and_fuller_ones_before_emptier_ones(
    used: set[int], wanted: int, expected: list[int]
) -> None:
    assert taken(ALL - used, wanted) == expected


def test_spread_passes_over_whole_cores() -> None:
    assert taken(ALL, 3, spread=True) == [0, 1, 2]


@pytest.mark.parametrize(
    "used, wanted, without, by_cache",
    [
        ({0}, 4, [1, 2, 9, 10], [2, 3, 10, 11]),  # cores 0 and 1 share a cache, cores 2 and 3 another one
        ({0, 8, 2, 10}, 4, [1, 3, 9, 11], [4, 5, 12, 13]),
        (set(), 3, [0, 1, 8], [0, 1, 8]),
        ({0, 8, 2, 10}, 2, [1, 9], [1, 9]),
    ],
)
def test_by_cache_takes_a_whole_cache_or_one_that_has_it_all(
    used: set[int], wanted: int, without: list[int], by_cache: list[int]
) -> None:
    assert taken(ALL - used, wanted) == without
    assert taken(ALL - used, wanted, by_cache=True) == by_cache


def test_too_few_free_cpus() -> None:
    with pytest.raises(NotEnoughCpus, match="requested=3, available=2"):
        taken({0, 1}, 3)


def test_sockets_of_different_size_may_be_taken_though_partly_in_use() -> None:
    lopsided = CpuLayout(tuple(Cpu(cpu, 0 if cpu < 2 else 1, 0, 0) for cpu in range(8)))
    free = frozenset(range(8)) - {2, 3}  # four of socket 1's six are free, as many as an average socket has
    assert packed(lopsided, free, 6, spread=False, by_cache=False) == frozenset({2, 3, 4, 5, 6, 7})
