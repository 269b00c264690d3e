"""Nodes with more than eight zones: the same answers as a list of all sets would give, without making the list."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest

from bayplan.engine.numa import zone_sets
from bayplan.engine.numa.zone_sets import average_distance, closest_feasible_set, find_feasible_set


def by_listing(size: int, left: list[list[float]], amounts: list[float]) -> int:
    """The kubelet's way: all sets of a size in the order of their masks."""
    masks = sorted(sum(1 << zone for zone in chosen) for chosen in combinations(range(len(left[0])), size))
    for mask in masks:
        held = [sum(amount for zone, amount in enumerate(grid) if mask >> zone & 1) for grid in left]
        if all(have >= want for have, want in zip(held, amounts, strict=True)):
            return mask
    return 0


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_the_set_that_a_list_would(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(20):
        left = [random.integers(0, 5, 10).astype(np.float64) for _ in range(2)]
        size = int(random.integers(1, 6))
        amounts = [float(random.integers(1, 4 * size)) for _ in left]
        assert find_feasible_set(size, left, amounts) == by_listing(size, [list(grid) for grid in left], amounts)


@pytest.mark.parametrize(
    "free, size, wanted, zones",
    [
        pytest.param({0: 4, 63: 4}, 2, 8, {0, 63}, id="first and last of 64"),
        pytest.param({5: 4, 6: 4, 7: 4}, 2, 8, {5, 6}, id="lowest zones first"),
        pytest.param({5: 4, 6: 4}, 2, 9, set(), id="too little"),
        pytest.param({5: 4}, 2, 4, {0, 5}, id="a set of the size may hold more zones than needed"),
    ],
)
def test_64_zones(free: dict[int, float], size: int, wanted: float, zones: set[int]) -> None:
    grid = np.array([free.get(zone, 0.0) for zone in range(64)])
    assert find_feasible_set(size, [grid], [wanted]) == sum(1 << zone for zone in zones)


def distances(zones: int, near: set[frozenset[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(10 if one == other else 12 if frozenset({one, other}) in near else 20 for other in range(zones))
        for one in range(zones)
    )


class TestClosestSet:
    EVERY_ZONE = (1 << 10) - 1
    APART = distances(10, {frozenset({3, 8})})

    def test_the_narrowest_comes_first(self) -> None:
        left = [np.array([2.0, 2, 2, 9, 2, 2, 2, 2, 2, 2])]
        assert closest_feasible_set(self.APART, self.EVERY_ZONE, left, [5.0]) == (1 << 3, 1, True)

    def test_then_the_closest(self) -> None:
        assert closest_feasible_set(self.APART, self.EVERY_ZONE, [np.full(10, 2.0)], [4.0]) == (
            1 << 3 | 1 << 8,
            2,
            True,
        )

    def test_what_fits_but_is_not_the_closest_says_so(self) -> None:
        left = [np.array([2.0, 2, 2, 0, 2, 2, 2, 2, 2, 2])]
        assert closest_feasible_set(self.APART, self.EVERY_ZONE, left, [4.0]) == (0b11, 2, False)

    def test_zones_that_cannot_be_used_are_passed_over(self) -> None:
        without_zone_3 = self.EVERY_ZONE & ~(1 << 3)
        assert closest_feasible_set(self.APART, without_zone_3, [np.full(10, 2.0)], [4.0]) == (0b11, 2, False)

    def test_too_little_in_all_zones(self) -> None:
        assert closest_feasible_set(self.APART, self.EVERY_ZONE, [np.full(10, 2.0)], [21.0]) == (0, 0, False)

    def test_64_zones_with_more_sets_than_anyone_can_compare_still_get_one(self) -> None:
        bits, size, closest = closest_feasible_set(distances(64, set()), (1 << 64) - 1, [np.full(64, 1.0)], [32.0])
        assert (bits.bit_count(), size, closest) == (32, 32, False)

    @pytest.mark.parametrize("by_number", [False, True])
    @pytest.mark.parametrize("at_once", [1 << 5, 1 << 16])
    def test_it_is_the_set_that_a_list_would_give(
        self, monkeypatch: pytest.MonkeyPatch, at_once: int, by_number: bool
    ) -> None:
        monkeypatch.setattr(zone_sets, "PAIRS_AT_ONCE", at_once)
        random = np.random.default_rng(1)
        for _ in range(40):
            near = {frozenset((int(one), int(other))) for one, other in random.integers(0, 9, (12, 2))}
            apart, free = distances(9, near), random.integers(0, 5, 9).astype(np.float64)
            wanted, usable = float(random.integers(1, 14)), int(random.integers(1, 1 << 9))
            found = closest_feasible_set(apart, usable, [free], [wanted], by_number=by_number)
            assert found == closest_by_listing(apart, usable, free, wanted, by_number=by_number)

    @pytest.mark.parametrize("wanted", [40.0, 60.0, 100.0, 500.0])
    def test_a_node_of_64_zones_takes_a_moment_whatever_their_distances(self, wanted: float) -> None:
        """A node can report any machine: what it says must not stop the scheduler."""
        random = np.random.default_rng(2)
        apart = tuple(tuple(row) for row in random.integers(11, 200, (64, 64)).tolist())
        free = random.integers(15, 17, 64).astype(np.float64)
        before = time.thread_time()
        assert closest_feasible_set(apart, (1 << 64) - 1, [free], [wanted])[0]
        assert time.thread_time() - before < 0.2


def closest_by_listing(
    apart: tuple[tuple[int, ...], ...], usable: int, free: np.ndarray, wanted: float, *, by_number: bool
) -> tuple[int, int, bool]:
    for size in range(1, len(apart) + 1):
        every = [(average_distance(apart, chosen), chosen) for chosen in combinations(range(len(apart)), size)]
        fitting = [
            (average, sum(1 << zone for zone in chosen) if by_number else chosen, chosen)
            for average, chosen in every
            if all(usable >> zone & 1 for zone in chosen) and sum(free[list(chosen)]) >= wanted
        ]
        if fitting:
            average, _, chosen = min(fitting)
            shortest = min(np.float32(255), *(each for each, _ in every))
            return sum(1 << zone for zone in chosen), size, bool(average == shortest)
    return 0, 0, False
