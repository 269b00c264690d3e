"""Laws of every answer, on random clusters: all pods are placed, no leaf holds more than it has, what was required
holds.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bayplan.compat.kueue.tas import PodSet, SliceLayer, TopologyRequest
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, placed, pods, racks

LEVELS = (BLOCK, RACK, HOST)


def random_cluster(dice: random.Random) -> dict[str, int]:
    hosts = [f"b{dice.randrange(2)}/r{dice.randrange(3)}/x{index}" for index in range(dice.randint(1, 12))]
    return {host: dice.randint(0, 6) for host in hosts}


def random_pod_sets(dice: random.Random) -> list[PodSet]:
    size = dice.choice((1, 1, 2, 3))
    slices = (SliceLayer(HOST, size),) if size > 1 else ()
    wish = {dice.choice(("required", "preferred")): dice.choice(LEVELS), "slices": slices}
    workers = pods(size * dice.randint(1, 6), name="workers", group="g", **wish)
    return [workers, pods(1, name="leader", group="g", **wish)] if dice.random() < 0.5 else [workers]


@pytest.mark.parametrize("settings", [{}, {"balanced": True}])
def test_answers_are_whole_and_fit(settings: dict[str, bool]) -> None:
    dice = random.Random(11)
    answers = 0
    for _ in range(300):
        cluster, pod_sets = random_cluster(dice), random_pod_sets(dice)
        found = placed(racks(cluster), *pod_sets, **settings)
        shares = found if len(pod_sets) > 1 else {"workers": found}
        if isinstance(shares["workers"], str):
            continue
        answers += 1
        used: Counter[str] = sum((Counter(share) for share in shares.values()), Counter())
        place_of = {path.rpartition("/")[2]: path for path in cluster}
        assert {name: sum(share.values()) for name, share in shares.items()} == {
            each.name: each.count for each in pod_sets
        }
        assert all(count <= cluster[place_of[host]] for host, count in used.items())
        request = pod_sets[0].topology
        assert request is not None
        assert_kept(request, shares["workers"], [place_of[host] for host in used])
    assert answers > 50


def assert_kept(request: TopologyRequest, workers: dict[str, int], paths: list[str]) -> None:
    if request.required is not None:
        depth = LEVELS.index(request.required) + 1
        assert len({tuple(path.split("/")[:depth]) for path in paths}) == 1
    for layer in request.slices:
        assert all(count % layer.size == 0 for count in workers.values())
