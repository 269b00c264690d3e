"""Scores on the extender's scale keep the order of ranks, and profiles keep only what kube-scheduler lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayplan.config.configuration import ConfigurationError
from bayplan.scheduling.answers import NOT_USABLE, PREFERRED
from bayplan.scheduling.profile import default_profile
from bayplan.services.extender.profiles import largest_score, profile_for, zone_profile
from bayplan.services.extender.scores import steps_of


@pytest.mark.parametrize(
    "ranks, spread, scores",
    [
        ([], False, []),
        ([0, 600, 1200], False, [0, 5, 10]),
        ([NOT_USABLE, 1200], False, [0, 10]),
        ([NOT_USABLE, NOT_USABLE], True, [0, 0]),
        ([1000, 1050, 1100], False, [8, 9, 9]),
        ([1000, 1050, 1100], True, [0, 5, 10]),
        ([700, 700], True, [0, 0]),
        ([1200, PREFERRED, PREFERRED + 1200], False, [0, 1, 10]),
        ([PREFERRED, PREFERRED + 1200], False, [0, 10]),
    ],
)
def test_ranks_become_ten_steps(ranks: list[int], spread: bool, scores: list[int]) -> None:
    assert steps_of(np.array(ranks, dtype=np.int64), 1200, spread=spread).tolist() == scores


def test_a_profile_keeps_the_plugins_that_kube_scheduler_does_not_have() -> None:
    profile = zone_profile(default_profile())
    assert [plugin.name for plugin in profile.filters] == ["NodeResourceTopologyMatch", "numa-aware", "NUMAZoneLimit"]
    assert [(plugin.name, weight) for plugin, weight in profile.scores] == [
        ("LeastNUMANodes", 10),
        ("NodeResourceTopologyMatch", 2),
    ]
    assert largest_score(profile) == 1200


def test_a_profile_without_any_of_them_is_refused() -> None:
    usual = default_profile()
    others = replace(usual, filters=usual.filters[:1])
    with pytest.raises(ConfigurationError, match="profile bayplan: no filter for NUMA zones is enabled"):
        zone_profile(others)


def test_pods_of_other_schedulers_get_the_first_profile() -> None:
    first, second = replace(default_profile(), name="first"), replace(default_profile(), name="second")
    profiles = {"first": first, "second": second}
    assert [profile_for(profiles, name) for name in ("second", "other", None)] == [second, first, first]
