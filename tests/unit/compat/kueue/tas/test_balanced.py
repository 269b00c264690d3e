"""Balanced placement: even shares, the fewest domains, the least to spare; and the knapsack behind it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bayplan.compat.kueue.tas import SliceLayer
from bayplan.compat.kueue.tas.balanced import entropy
from bayplan.compat.kueue.tas.counting import LevelCounts, Room
from bayplan.compat.kueue.tas.optimal_set import greedy, tightest_set
from bayplan.compat.kueue.tas.request import Policy
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, placed, pods, racks

BEST_FIT = Policy(least_free_first=False, by_affinity=False)


@pytest.mark.parametrize(
    "cpus, count, expected",
    [
        pytest.param({"b1/r1/x1": 8, "b1/r1/x2": 8}, 10, {"x1": 5, "x2": 5}, id="halves instead of 8 and 2"),
        pytest.param({"b1/r1/x1": 8, "b1/r1/x2": 8}, 11, {"x1": 6, "x2": 5}, id="the odd one goes to the first"),
        pytest.param({"b1/r1/x1": 8, "b1/r1/x2": 3}, 10, {"x1": 7, "x2": 3}, id="as even as the smallest allows"),
        pytest.param({"b1/r1/x1": 9, "b1/r1/x2": 6, "b1/r1/x3": 5}, 10, {"x2": 5, "x3": 5}, id="the least to spare"),
        pytest.param(
            {"b1/r1/x1": 9, "b1/r1/x2": 1, "b1/r2/x3": 6, "b1/r2/x4": 5},
            10,
            {"x3": 5, "x4": 5},
            id="the more even rack",
        ),
        pytest.param({"b1/r1/x1": 3, "b2/r1/x2": 3}, 6, {"x1": 3, "x2": 3}, id="no block holds all: filled in order"),
    ],
)
def test_preferred_rack(cpus: dict[str, int], count: int, expected: dict[str, int]) -> None:
    assert placed(racks(cpus), pods(count, preferred=RACK), balanced=True) == expected


def test_only_preferred_pods_are_balanced() -> None:
    cluster = racks({"b1/r1/x1": 8, "b1/r1/x2": 8})
    assert placed(cluster, pods(10, required=RACK), balanced=True) == {"x1": 8, "x2": 2}


def test_slices_are_balanced_whole() -> None:
    cluster = racks({"b1/r1/x1": 8, "b1/r1/x2": 8})
    found = placed(cluster, pods(12, preferred=RACK, slices=(SliceLayer(HOST, 4),)), balanced=True)
    assert found == {"x1": 8, "x2": 4}


def test_slices_on_the_preferred_level_are_balanced_there() -> None:
    cluster = racks({"b1/x1": 8, "b1/x2": 8, "b1/x3": 1}, (BLOCK, HOST))
    found = placed(cluster, pods(8, preferred=HOST, slices=(SliceLayer(HOST, 2),)), balanced=True)
    assert found == {"x1": 8}


def test_a_leader_sits_beside_an_even_share() -> None:
    cluster = racks({"b1/r1/x1": 6, "b1/r1/x2": 6})
    leader, workers = (
        pods(1, name="leader", group="g", preferred=RACK),
        pods(10, name="workers", group="g", preferred=RACK),
    )
    found = placed(cluster, leader, workers, balanced=True)
    assert found == {"leader": {"x1": 1}, "workers": {"x1": 5, "x2": 5}}


@pytest.mark.parametrize(
    "pods, bits", [([4, 4], 1.0), ([8], 0.0), ([], 0.0), ([0, 5, 0], 0.0), ([2, 2, 2, 2], 2.0), ([6, 2], 0.8113)]
)
def test_entropy(pods: list[int], bits: float) -> None:
    assert entropy(np.array(pods, dtype=np.int64)) == pytest.approx(bits, abs=1e-4)


def level(rooms: list[int], beside: list[int] | None = None) -> LevelCounts:
    alone = Room(np.array(rooms), np.array(rooms))
    room_beside = Room(np.array(beside), np.array(beside)) if beside else alone
    takes = np.array([bool(beside) and value > 0 for value in beside or rooms])
    return LevelCounts(alone, room_beside, takes, np.zeros(len(rooms), dtype=np.int64))


@pytest.mark.parametrize(
    "rooms, need, expected",
    [
        ([5, 4, 3], 7, [1, 2]),
        ([5, 4, 3], 8, [0, 2]),
        ([5, 4, 3], 12, [0, 1, 2]),
        ([5, 4, 3], 13, None),
        ([4, 4, 4], 4, [0]),
        ([9, 4, 4], 4, [1]),
        ([0, 0, 4], 4, [2]),
    ],
)
def test_the_tightest_set(rooms: list[int], need: int, expected: list[int] | None) -> None:
    found = tightest_set(level(rooms), np.arange(len(rooms)), need, 1, BEST_FIT, leader=False)
    assert (None if found is None else found.tolist()) == expected


def test_the_tightest_set_with_a_leader_takes_one_domain_that_hosts_it() -> None:
    found = tightest_set(level([5, 4, 3], [0, 3, 2]), np.arange(3), 7, 1, BEST_FIT, leader=True)
    assert found is not None
    assert found.tolist() == [0, 2]


def test_the_tightest_set_is_the_best_of_all_sets_of_its_size() -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        rooms = random.integers(0, 12, size=7)
        need = int(random.integers(1, max(2, rooms.sum())))
        here = level(rooms.tolist())
        found = tightest_set(here, np.arange(7), need, 1, BEST_FIT, leader=False)
        filled = greedy(here, np.arange(7), need, BEST_FIT, leader=False)
        if found is None or filled is None:
            assert rooms.sum() < need
            continue
        sums = [sum(rooms[list(chosen)]) for chosen in combinations(range(7), filled.domains)]
        assert len(found) == filled.domains
        assert rooms[found].sum() == min(total for total in sums if total >= need)


def test_a_knapsack_beyond_all_measure_is_left_alone() -> None:
    rooms = [100_000] * 2_000
    assert tightest_set(level(rooms), np.arange(2_000), 100_000_000, 1, BEST_FIT, leader=False) is None
