"""The merge of hints: one table per policy.

A hint list is written as preferred sets and other sets, a set by its zone ids.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.simulate.kubelet.topology_manager import DO_NOT_CARE, IMPOSSIBLE, Hint, Hints, admits, merge
from bayplan.simulate.kubelet.zone_sets import zone_set, zone_sets_of

Zones = tuple[int, ...]
TWO = zone_sets_of((0, 1))
FOUR = zone_sets_of((0, 1, 2, 3), ((10, 30, 30, 11), (30, 10, 30, 30), (30, 30, 10, 30), (11, 30, 30, 10)))


def hints(*preferred: Zones, others: tuple[Zones, ...] = ()) -> Hints:
    return Hints([zone_set(ids) for ids in preferred], [zone_set(ids) for ids in others])


def hint(zones: Zones | None, preferred: bool) -> Hint:
    return Hint(None if zones is None else zone_set(zones), preferred)


@pytest.mark.parametrize(
    "listed, expected",
    [
        ([], hint((0, 1), True)),
        ([DO_NOT_CARE], hint((0, 1), True)),
        ([hints((0,), (1,))], hint((0,), True)),
        ([hints((0,), (1,)), hints((1,), others=((0, 1),))], hint((1,), True)),
        ([hints((0,), (1,)), DO_NOT_CARE], hint((0,), True)),
        ([hints((0,)), hints((1,))], hint((0, 1), False)),  # nothing in common: all zones
        ([hints((0,)), hints((0, 1))], hint((0,), False)),  # preferred sets that differ are not preferred together
        ([hints((0,), others=((0, 1),)), hints((0, 1))], hint((0, 1), False)),
        ([hints((1,)), IMPOSSIBLE], hint((1,), False)),  # what cannot be had does not narrow the choice
        ([IMPOSSIBLE], hint((0, 1), False)),
    ],
)
def test_restricted_takes_what_all_prefer_else_what_is_left_in_common(listed: list[Hints], expected: Hint) -> None:
    assert merge(Policy.RESTRICTED, TWO, listed, closest=False) == expected
    assert merge(Policy.BEST_EFFORT, TWO, listed, closest=False) == expected


@pytest.mark.parametrize(
    "listed, expected",
    [
        ([hints((0,), (1,)), hints((1,), others=((0, 1),))], hint((1,), True)),
        ([hints((0, 1))], hint(None, False)),  # more than one zone
        ([hints((0,)), hints((1,))], hint(None, False)),
        ([IMPOSSIBLE], hint(None, False)),
        ([DO_NOT_CARE], hint(None, True)),  # all zones are no affinity
    ],
)
def test_single_numa_node_takes_one_zone_or_none(listed: list[Hints], expected: Hint) -> None:
    assert merge(Policy.SINGLE_NUMA_NODE, TWO, listed, closest=False) == expected


def test_on_one_zone_single_numa_node_has_no_affinity() -> None:
    assert merge(Policy.SINGLE_NUMA_NODE, zone_sets_of((0,)), [hints((0,))], closest=False) == hint(None, True)


def test_policy_none_looks_at_nothing() -> None:
    assert merge(Policy.NONE, TWO, [hints((1,))], closest=False) == hint(None, False)


def test_with_closest_the_nearer_pair_wins() -> None:
    pairs = hints((0, 1), (0, 3), (1, 2))
    assert merge(Policy.RESTRICTED, FOUR, [pairs], closest=False) == hint((0, 1), True)
    assert merge(Policy.RESTRICTED, FOUR, [pairs], closest=True) == hint((0, 3), True)


@pytest.mark.parametrize(
    "listed, expected",
    [
        ([hints((0, 1, 2)), hints((1, 2, 3), (0, 1, 2, 3))], (0, 1, 2)),  # three zones is what the wider one needs
        ([hints((0, 1, 2)), hints((1, 2, 3))], (1, 2)),  # not to be had: the largest below
        ([hints((0,)), hints(others=((0, 1), (0, 1, 2)))], (0,)),
        ([hints((0, 1), (2, 3)), hints((0,), (1,), (2,), (0, 1, 2))], (0, 1)),
    ],
)
def test_without_agreement_the_size_that_the_widest_needs_is_aimed_at(listed: list[Hints], expected: Zones) -> None:
    assert merge(Policy.BEST_EFFORT, FOUR, listed, closest=False) == hint(expected, False)


@pytest.mark.parametrize(
    "policy, admitted",
    [
        (Policy.NONE, True),
        (Policy.BEST_EFFORT, True),
        (Policy.RESTRICTED, False),
        (Policy.SINGLE_NUMA_NODE, False),
    ],
)
def test_who_admits_a_hint_that_is_not_preferred(policy: Policy, admitted: bool) -> None:
    assert admits(policy, hint((0,), False)) is admitted
    assert admits(policy, hint((0,), True))
