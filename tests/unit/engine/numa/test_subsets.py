"""Sets of zones: which ones there are, in which order, and how far apart their zones lie."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.engine.numa.zone_sets import average_distance, sets_by_distance, sets_of_size

# Zones 0 and 1 share a socket, 2 and 3 share the other.
TWO_SOCKETS = ((10, 12, 32, 32), (12, 10, 32, 32), (32, 32, 10, 12), (32, 32, 12, 10))
UNKNOWN = ((255, 255), (255, 255))


def zones_in(bits: np.ndarray) -> list[list[int]]:
    return [[zone for zone in range(64) if int(each) >> zone & 1] for each in bits]


def test_sets_come_lowest_zones_first() -> None:
    """The kubelet compares masks as integers: {1, 2} is 6 and comes before {0, 3}, which is 9."""
    table = sets_of_size(4, 2)
    assert zones_in(table.bits) == [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]


def test_members_and_bits_say_the_same() -> None:
    table = sets_of_size(5, 3)
    assert [np.nonzero(row)[0].tolist() for row in table.members] == zones_in(table.bits)


def test_close_sets_come_first_and_equal_ones_in_zone_order() -> None:
    table = sets_by_distance(TWO_SOCKETS, 2)
    assert zones_in(table.bits) == [[0, 1], [2, 3], [0, 2], [0, 3], [1, 2], [1, 3]]
    assert table.closest.tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    "zones, average",
    [((0,), 10), ((0, 1), 11), ((0, 2), 21), ((0, 1, 2, 3), 21.5)],
)
def test_the_average_counts_every_zone_with_itself(zones: tuple[int, ...], average: float) -> None:
    assert average_distance(TWO_SOCKETS, zones) == np.float32(average)


def test_unknown_distances_are_all_alike() -> None:
    assert sets_by_distance(UNKNOWN, 1).closest.tolist() == [True, True]


def test_above_unknown_nothing_is_the_closest() -> None:
    assert sets_by_distance(((300, 300), (300, 300)), 2).closest.tolist() == [False]
