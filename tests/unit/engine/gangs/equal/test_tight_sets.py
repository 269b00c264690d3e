"""Sets of domains with the least room in sum, against all subsets; and large ones, which are only guessed."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from bayplan.engine.gangs.equal.tight_sets import tightest_of_any_number, tightest_of_number


def best(room: list[int], pods: int, numbers: range) -> tuple[int, int]:
    """The least room of any set of so many domains that holds all pods, and the fewest domains that have it."""
    sets = (chosen for number in numbers for chosen in combinations(room, number))
    return min((sum(chosen), len(chosen)) for chosen in sets if sum(chosen) >= pods)


@pytest.mark.parametrize("seed", range(300))
def test_no_set_is_tighter(seed: int) -> None:
    random = Random(seed)
    room = [random.randint(0, 9) for _ in range(random.randint(1, 8))]
    pods = random.randint(1, max(sum(room), 1))
    room[0] += max(0, pods - sum(room))
    counts = np.array(room, dtype=np.int64)
    fewest = next(number for number in range(1, 9) if sum(sorted(room)[-number:]) >= pods)

    same = tightest_of_number(counts, pods, fewest)
    assert (same.room, same.proven) == (best(room, pods, range(fewest, fewest + 1))[0], True)
    assert (len(same), sum(room[each] for each in same.domains)) == (fewest, same.room)

    any_number = tightest_of_any_number(counts, pods, fewest)
    assert ((any_number.room, len(any_number)), any_number.proven) == (best(room, pods, range(1, 9)), True)
    assert sum(room[each] for each in any_number.domains) == any_number.room


def test_many_domains_of_few_sizes_are_not_proven_if_something_is_left_over() -> None:
    room = np.full(5_000, 10, dtype=np.int64)
    room[7] = 11
    found = tightest_of_number(room, 4_995, 500)
    assert (len(found), found.room, found.proven) == (500, 5_000, False)


def test_many_domains_that_are_alike_need_no_table() -> None:
    found = tightest_of_number(np.full(5_000, 10, dtype=np.int64), 4_995, 500)
    assert (len(found), found.room, found.proven) == (500, 5_000, True)


def test_many_domains_of_many_sizes_are_filled_to_the_last_slot() -> None:
    room = np.arange(5_000, dtype=np.int64) % 97 + 1
    found = tightest_of_number(room, 4_000, 42)
    assert (len(found), found.room, found.proven) == (42, 4_000, True)
