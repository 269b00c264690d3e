"""The merge by example: who decides, what wins, and what happens without agreement."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.engine.kubelet import Hint, admits, merge
from bayplan.engine.kubelet.masks import subsets
from bayplan.engine.kubelet.merge import ProviderHints, ResourceHints

TWO = (0, 1)


def hints(*masks: int, preferred: int = 0) -> list[Hint]:
    """The first `preferred` masks are preferred ones."""
    return [Hint(mask, index < preferred) for index, mask in enumerate(masks)]


@pytest.mark.parametrize(
    "told, providers, expected",
    [
        ("no preference: all zones", [None, {}], Hint(0b11, preferred=True)),
        ("one cares", [{"cpu": hints(0b10, preferred=1)}], Hint(0b10, preferred=True)),
        (
            "the lowest of the shared zones",
            [{"cpu": hints(0b01, 0b10, preferred=2)}, {"gpu": hints(0b01, 0b10, preferred=2)}],
            Hint(0b01, preferred=True),
        ),
        (
            "preferred but apart is not preferred; what both contain is left",
            [{"cpu": hints(0b01, 0b11, preferred=1)}, {"gpu": hints(0b10, 0b11, preferred=1)}],
            Hint(0b01, preferred=False),
        ),
        (
            "what cannot be satisfied spoils the preference and nothing else",
            [{"cpu": hints(0b10, preferred=1)}, {"gpu": []}],
            Hint(0b10, preferred=False),
        ),
        ("no preference for a resource", [{"cpu": hints(0b10, preferred=1), "gpu": None}], Hint(0b10, preferred=True)),
        (
            "nothing in common",
            [{"cpu": hints(0b01, preferred=1)}, {"gpu": hints(0b10, preferred=1)}],
            Hint(0b11, preferred=False),
        ),
    ],
)
def test_restricted_and_best_effort(told: str, providers: list[ProviderHints], expected: Hint) -> None:
    assert merge(TWO, Policy.BEST_EFFORT, providers) == expected, told
    assert merge(TWO, Policy.RESTRICTED, providers) == expected, told
    assert admits(Policy.BEST_EFFORT, expected)
    assert admits(Policy.RESTRICTED, expected) is expected.preferred


@pytest.mark.parametrize(
    "cpu, expected",
    [
        (hints(0b01, 0b11, preferred=1), Hint(0b01, preferred=True)),
        (hints(0b11, preferred=1), Hint(None, preferred=False)),
        (None, Hint(None, preferred=True)),
    ],
    ids=["one zone", "two zones are none", "no preference"],
)
def test_single_numa_node(cpu: ResourceHints, expected: Hint) -> None:
    assert merge(TWO, Policy.SINGLE_NUMA_NODE, [{"cpu": cpu}]) == expected


def test_policy_none_has_nothing_to_say() -> None:
    assert merge(TWO, Policy.NONE, [{"cpu": []}]) == Hint(None, preferred=False)
    assert admits(Policy.NONE, Hint(None, preferred=False))


def test_closest_zones_win_if_asked_for() -> None:
    distances = ((10, 40, 20), (40, 10, 40), (20, 40, 10))
    pairs = [{"cpu": hints(0b011, 0b101, 0b110, preferred=3)}]
    assert merge((0, 1, 2), Policy.RESTRICTED, pairs).mask == 0b011
    assert merge((0, 1, 2), Policy.RESTRICTED, pairs, distances).mask == 0b101


def test_gaps_in_zone_ids() -> None:
    zones = (0, 2, 5)
    apart = [{"cpu": hints(0b000101, 0b100100)}, {"gpu": hints(0b100001, 0b100100, preferred=1)}]
    assert merge(zones, Policy.BEST_EFFORT, apart) == Hint(0b100100, preferred=False)


def test_every_combination_of_twelve_zones_takes_no_time() -> None:
    """The kubelet would try 4095^4 combinations of hints here."""
    zones = tuple(range(12))
    anywhere = hints(*subsets(zones).masks)
    assert merge(zones, Policy.BEST_EFFORT, [dict.fromkeys("abcd", anywhere)]) == Hint(0b1, preferred=False)
