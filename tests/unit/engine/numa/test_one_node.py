"""One node in plain Python: the lowest zone that holds everything, and the worst zone's score."""

from __future__ import annotations

import pytest

from bayplan.engine.numa.one_node import lowest_zone_that_holds, worst_zone_score
from tests.builders.clusters import cluster
from tests.builders.objects import GI, topology, zone

STATE = cluster(
    topology(
        zone(0, {"cpu": 2, "memory": "8Gi"}), zone(3, {"cpu": 8, "memory": "2Gi"}), zone(7, {"cpu": 8, "memory": "8Gi"})
    )
)
CPU, MEMORY = (STATE.columns.resource_index[name] for name in ("cpu", "memory"))


@pytest.mark.parametrize(
    "wants, position",
    [
        ([(CPU, 2000)], 0),
        ([(CPU, 4000)], 1),
        ([(CPU, 4000), (MEMORY, 4 * GI)], 2),
        ([(CPU, 9000)], None),
        ([], 0),
    ],
    ids=["first zone", "second zone", "the only one with both", "none", "nothing wanted"],
)
def test_lowest_zone_that_holds(wants: list[tuple[int, int]], position: int | None) -> None:
    assert lowest_zone_that_holds(STATE.columns, wants, 0) == position


@pytest.mark.parametrize(
    "free, wanted, least, most",
    [(8, 2, 75, 25), (3, 1, 66, 33), (8, 8, 0, 100), (8, 9, 0, 0), (0, 0, 0, 0), (8, 0, 100, 0)],
    ids=["a quarter", "rounded down", "all", "too much", "nothing there", "nothing wanted"],
)
def test_the_share_that_stays_free_or_is_used(free: int, wanted: int, least: int, most: int) -> None:
    columns = cluster(topology(zone(0, {"cpu": free}))).columns
    amounts = {"cpu": wanted * 1000}
    assert worst_zone_score(columns, amounts, 0, {}, most_allocated=False) == least
    assert worst_zone_score(columns, amounts, 0, {}, most_allocated=True) == most


def test_the_worst_zone_decides_unless_it_is_worth_nothing() -> None:
    # zone 0: too few CPUs, memory 87 -> 43; zone 3: (50 + 50) / 2; zone 7: (50 + 87) / 2
    assert worst_zone_score(STATE.columns, {"cpu": 4000, "memory": GI}, 0, {}, most_allocated=False) == 43
    assert worst_zone_score(STATE.columns, {"cpu": 4000}, 0, {}, most_allocated=False) == 50
