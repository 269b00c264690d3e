"""distribute-cpus-across-numa: four zones of four cores without siblings unless said otherwise; zone z has CPUs 4z to
4z+3.
"""

from __future__ import annotations

import pytest

from bayplan.simulate.kubelet.cpu_distribution import distributed
from bayplan.simulate.kubelet.cpu_layout import CpuLayout
from tests.unit.simulate.kubelet.nodes import machine

ALL = frozenset(range(16))


def by_zone(layout: CpuLayout, cpus: frozenset[int]) -> list[int]:
    return layout.count_by_zone(cpus)


@pytest.mark.parametrize(
    "used, wanted, per_zone",
    [
        (set(), 3, [3, 0, 0, 0]),  # one zone suffices
        (set(), 4, [4, 0, 0, 0]),
        (set(), 6, [3, 3, 0, 0]),
        (set(), 5, [3, 2, 0, 0]),  # the rest goes to one of them
        (set(), 9, [3, 3, 3, 0]),
        (set(), 16, [4, 4, 4, 4]),
        ({0, 1, 2}, 6, [0, 3, 3, 0]),  # two zones that have three each
        ({0, 1, 2, 4, 5}, 8, [0, 0, 4, 4]),
        ({0, 4, 8, 12}, 4, [2, 2, 0, 0]),  # no zone has four
    ],
)
def test_as_few_zones_as_can_share_evenly(used: set[int], wanted: int, per_zone: list[int]) -> None:
    layout = CpuLayout(machine(4, threads=1).cpus)
    assert by_zone(layout, distributed(layout, ALL - used, wanted, group=1, spread=False)) == per_zone


def test_where_no_even_split_exists_cpus_are_packed() -> None:
    layout = CpuLayout(machine(2, threads=1).cpus)
    free = frozenset({0, 4, 5, 6, 7})
    assert by_zone(layout, distributed(layout, free, 5, group=1, spread=False)) == [1, 4]


def test_whole_cores_go_together() -> None:
    layout = CpuLayout(machine(2, cores=3).cpus)  # CPU n and n + 6 are siblings
    assert distributed(layout, frozenset(range(12)), 8, group=2, spread=False) == {0, 6, 1, 7, 3, 9, 4, 10}


def test_an_amount_that_is_no_multiple_of_a_core_is_packed() -> None:
    layout = CpuLayout(machine(2, cores=2).cpus)
    assert by_zone(layout, distributed(layout, frozenset(range(8)), 5, group=2, spread=False)) == [4, 1]


def test_single_threads_left_in_every_zone_do_not_loop_endlessly() -> None:
    layout = CpuLayout(machine(4, cores=4).cpus)
    free = frozenset(range(32)) - {0, 4, 8, 12}  # one reserved thread in each zone
    got = distributed(layout, free, 22, group=2, spread=False)
    assert len(got) == 22


def test_four_zones_of_six_are_not_the_ones_that_were_rated_best() -> None:
    layout = CpuLayout(machine(6, cores=3, threads=1).cpus)
    got = distributed(layout, frozenset(range(1, 18)), 12, group=1, spread=False)
    assert by_zone(layout, got) == [0, 3, 3, 3, 0, 3]  # zones 1 to 4 came first of all equals
