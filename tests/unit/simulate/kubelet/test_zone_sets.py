"""Sets of zones: which there are, what they hold together, which of two is better."""

import pytest

from bayplan.simulate.kubelet.zone_sets import ZoneSets, zone_ids, zone_set


def test_a_set_is_a_number_with_a_bit_for_each_zone() -> None:
    assert zone_set([0, 2, 5]) == 0b100101
    assert zone_ids(0b100101) == (0, 2, 5)


def test_all_sets_of_some_zones_come_smaller_ones_first() -> None:
    sets = ZoneSets((0, 2, 3))
    assert [zone_ids(each) for each in sets.sets] == [(0,), (2,), (3,), (0, 2), (0, 3), (2, 3), (0, 2, 3)]
    assert sets.sizes == (1, 1, 1, 2, 2, 2, 3)


def test_amounts_are_summed_over_every_set() -> None:
    assert ZoneSets((0, 1, 2)).sums([1, 10, 100]) == [1, 10, 100, 11, 101, 110, 111]


def test_the_most_that_some_zones_can_hold() -> None:
    assert ZoneSets((0, 1, 2)).most_by_size([4, 8, 2]) == (8, 12, 14)


@pytest.mark.parametrize(
    "closest, better, worse",
    [
        (False, [2], [0, 1]),  # fewer zones
        (False, [0, 2], [1, 2]),  # lower ids
        (True, [1, 2], [0, 2]),  # nearer
        (True, [0, 1], [1, 2]),  # equally near: lower ids
    ],
)
def test_the_better_of_two_sets(closest: bool, better: list[int], worse: list[int]) -> None:
    sets = ZoneSets((0, 1, 2), ((10, 12, 32), (12, 10, 12), (32, 12, 10)))
    ranks = [sets.rank(zone_set(ids), closest=closest) for ids in (better, worse)]
    assert ranks[0] < ranks[1]


def test_distances_go_by_place_where_zone_ids_have_gaps() -> None:
    sets = ZoneSets((0, 4, 9), ((10, 32, 12), (32, 10, 32), (12, 32, 10)))
    assert sets.rank(zone_set([0, 9]), closest=True) < sets.rank(zone_set([0, 4]), closest=True)
