"""Which domain comes first, and which is the tightest."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.compat.kueue.tas.counting import LevelCounts, Room
from bayplan.compat.kueue.tas.request import Policy
from bayplan.compat.kueue.tas.sharing import leader_first, ranked, tightest

# domain:            0  1  2  3  4
ALONE = Room(np.array([9, 8, 9, 3, 8]), np.array([2, 2, 3, 1, 2]))
BESIDE = Room(np.array([7, 8, 6, 0, 7]), np.array([2, 2, 2, 0, 1]))
LEVEL = LevelCounts(ALONE, BESIDE, np.array([True, True, True, False, True]), np.array([0, 0, 0, 5, 5]))


@pytest.mark.parametrize(
    "least_free_first, by_affinity, leader, expected",
    [
        pytest.param(False, False, False, [2, 1, 4, 0, 3], id="most slices, then least pods, then by name"),
        pytest.param(True, False, False, [3, 1, 4, 0, 2], id="least slices first"),
        pytest.param(False, True, False, [4, 3, 2, 1, 0], id="liked first"),
        pytest.param(False, False, True, [2, 0, 1, 4, 3], id="who takes the leader, by the room beside it"),
        pytest.param(False, True, True, [4, 2, 0, 1, 3], id="the leader before liking"),
    ],
)
def test_ranked(least_free_first: bool, by_affinity: bool, leader: bool, expected: list[int]) -> None:
    policy = Policy(least_free_first, by_affinity)
    for domains in (np.arange(5), np.arange(5)[::-1]):
        assert ranked(LEVEL, domains, policy, leader=leader).tolist() == expected


@pytest.mark.parametrize(
    "order, need, by_affinity, expected",
    [
        pytest.param([2, 1, 4, 0, 3], 2, False, 1, id="the first with the least that suffices"),
        pytest.param([2, 1, 4, 0, 3], 1, False, 3, id="smaller is tighter"),
        pytest.param([2, 1, 4, 0, 3], 4, False, 2, id="none suffices: the first"),
        pytest.param([4, 3, 2, 1, 0], 2, True, 4, id="only among the equally liked"),
        pytest.param([4, 3, 2, 1, 0], 3, True, 4, id="none of those suffices: the first"),
    ],
)
def test_tightest(order: list[int], need: int, by_affinity: bool, expected: int) -> None:
    policy = Policy(least_free_first=False, by_affinity=by_affinity)
    assert tightest(np.array(order), ALONE.slices, need, LEVEL, policy) == expected


@pytest.mark.parametrize(
    "need, expected",
    [
        pytest.param(9, [2, 1, 4, 0, 3], id="one slice to spare: the first that takes it"),
        pytest.param(10, [1, 2, 4, 0, 3], id="none to spare: where it costs nothing"),
        pytest.param(11, [2, 1, 4, 0, 3], id="it cannot be: as before"),
    ],
)
def test_leader_first(need: int, expected: list[int]) -> None:
    order = np.array([2, 1, 4, 0, 3])
    assert leader_first(order, ALONE.slices, BESIDE.slices, LEVEL.takes_leader, need).tolist() == expected
