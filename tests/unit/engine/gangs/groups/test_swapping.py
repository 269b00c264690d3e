"""Things into bins by swaps: full bins, bins that are closed or do not suit, and questions that are too large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups import swapping
from bayplan.engine.gangs.groups.swapping import Places, Swaps


def swaps(sizes: Sequence[int], rooms: Sequence[int], closed: Sequence[tuple[int, int]] = ()) -> Swaps:
    """Things of these sizes and bins with so much room; `closed` are things and the bins that they cannot take."""
    shut = np.zeros((len(sizes), len(rooms)), dtype=np.bool_)
    for thing, place in closed:
        shut[thing, place] = True
    return Swaps(np.array(sizes, dtype=np.float64)[:, None], np.array(rooms, dtype=np.float64)[:, None], sizes, shut)


def anywhere(_bin: int, _things: Places) -> bool:
    return True


def sums(sizes: Sequence[int], rooms: Sequence[int], at: Places) -> list[int]:
    return [sum(sizes[thing] for thing in (at == place).nonzero()[0]) for place in range(len(rooms))]


@pytest.mark.parametrize(
    "sizes, rooms",
    [
        ([3, 2], [2, 3]),
        # Largest first, the tightest bin: 5 and 4 leave 1 and 2, and nothing holds the last 3.
        ([5, 4, 3, 3, 3], [6, 12]),
        ([7, 6, 5, 5, 4, 4, 3, 2], [12, 12, 12]),
        ([9, 8, 7, 7, 6, 5, 4, 4, 3, 3, 2, 2], [20, 20, 20]),
    ],
)
def test_bins_are_filled_to_the_last_unit(sizes: list[int], rooms: list[int]) -> None:
    at = swaps(sizes, rooms).search(Budget(), 200, anywhere)
    assert at is not None
    assert all(taken <= room for taken, room in zip(sums(sizes, rooms, at), rooms, strict=True))


def test_closed_bins_stay_empty() -> None:
    at = swaps([2, 2, 1], [4, 2], closed=[(0, 0), (1, 1)]).search(Budget(), 50, anywhere)
    assert at is not None
    assert at.tolist()[:2] == [1, 0]


def test_bins_that_do_not_suit_change() -> None:
    def not_together(_bin: int, things: Places) -> bool:
        return not {0, 1} <= set(things.tolist())

    sizes, rooms = [2, 2, 1, 1, 1, 1], [4, 4]
    at = swaps(sizes, rooms).search(Budget(), 50, not_together)
    assert at is not None
    assert at[0] != at[1]
    assert sums(sizes, rooms, at) == rooms


def test_what_has_no_place_is_given_up() -> None:
    assert swaps([2, 2, 2], [3, 3]).search(Budget(), 100, anywhere) is None
    assert swaps([1, 1], [1, 1]).search(Budget(), 100, lambda place, things: not len(things)) is None


def test_the_same_question_has_the_same_answer() -> None:
    sizes, rooms = [9, 8, 7, 7, 6, 5, 4, 4, 3, 3, 2, 2], [20, 20, 20]
    one, other = (swaps(sizes, rooms).search(Budget(), 200, anywhere) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.tolist() == other.tolist()


def test_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(1_000)
    assert swaps([2, 2, 2], [3, 3]).search(budget, 1_000_000, anywhere) is None
    assert budget.is_spent
    monkeypatch.setattr(swapping, "MOST_BINS_OF_THINGS", 5)
    untouched = Budget()
    assert swaps([1, 1, 1], [3, 3]).search(untouched, 100, anywhere) is None
    assert untouched.spent == 0
