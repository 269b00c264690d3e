"""No worse than the rules of Kueue and KAI: random gangs that all three can express, placed in each style on the same
cluster.

Compared are, in this order: whether there is a place, preferred domains, domains of wider levels (narrow ones first),
mean distance between pods. Both other systems mean by "preferred" the lowest common domain, so a gang in their words
puts `closest` first; it is compared by the level that holds all of it before anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Path, distances_among
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, USUAL
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import GPU, node, simple_pod

LEVELS = ("zone", "block", "rack")
OTHERS = ("kueue", "kueue-best-fit", "kueue-least-free-capacity", "kueue-balanced", "kai")
CHUNKS = 4
SAME = 1e-9

Score = tuple[float, ...]


@dataclass(frozen=True)
class Case:
    scheduler: GangScheduler
    gang: Gang
    levels: tuple[str, ...]


def random_case(seed: int) -> Case:
    """4 to 40 nodes under one to three levels; one group, or several that each ask for a level."""
    random = Random(seed)
    levels = LEVELS[-random.randint(1, 3) :]
    state = ClusterState()
    for number in range(random.randint(4, 40)):
        labels = {level: str(random.randint(0, most)) for level, most in zip(levels, (1, 2, 3), strict=False)}
        gpus = random.choice((0, 1, 2, 2, 4, 4, 8))
        state.set_node(node(f"n{number}", {GPU: gpus, "cpu": 64, "pods": 110}, labels=labels))
    trees = Trees(state)
    trees.set("network", levels)
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    return Case(scheduler, Gang(f"ml/g{seed}", _whole(random, levels), "network"), levels)


def _whole(random: Random, levels: tuple[str, ...]) -> Group:
    size = random.choice((1, 1, 1, 2, 4))

    def pods(name: str, number: int) -> Group:
        return Group(name, tuple(simple_pod({GPU: size}, f"{name}{each}") for each in range(number)))

    if random.random() < 0.6:
        is_required, level = random.choice((True, False, False)), random.choice(levels)
        return _asking(pods("", random.randint(2, 24)), level, is_required=is_required)
    groups = [pods(f"g{number}-", random.randint(1, 6)) for number in range(random.randint(2, 5))]
    asking = (
        _asking(each, random.choice(levels), is_required=is_required)
        for each, is_required in [(group, random.choice((True, False))) for group in groups]
    )
    return Group(groups=tuple(asking))


def _asking(group: Group, level: str, *, is_required: bool) -> Group:
    return replace(group, required=level if is_required else None, preferred=None if is_required else level)


def score(case: Case, decision: GangDecision) -> Score:
    """Small is good: what every group that prefers a level needs in sum, then wider levels, then the mean distance of
    all pods.
    """
    preferred = 0
    wider = [0] * len(case.levels)
    for group in case.gang.root.every_group():
        if group.preferred is None:
            continue
        paths = [seat.path for seat in decision.seats if group is case.gang.root or seat.group == group.name]
        own = case.levels.index(group.preferred)
        preferred += len({path[: own + 1] for path in paths})
        for level in range(own):
            wider[level] += len({path[: level + 1] for path in paths})
    return (preferred, *reversed(wider), distances_among([seat.path for seat in decision.seats]).mean)


def common_level(paths: list[Path]) -> int:
    """How deep the lowest domain is that holds all pods."""
    return next((depth for depth in range(len(paths[0]), 0, -1) if len({path[:depth] for path in paths}) == 1), 0)


def worse(seed: int) -> Iterator[str]:
    """What another style does better."""
    case = random_case(seed)
    for objective in (USUAL, LOWEST_COMMON_DOMAIN):
        own = schedule_gang(case.scheduler, replace(case.gang, objective=objective))
        for style in OTHERS:
            other = schedule_gang(case.scheduler, replace(case.gang, style=style, objective=objective))
            if not other.placed or "cannot be expressed" in other.bound:
                continue
            name = f"seed {seed} {objective[0].value} {style}"
            if not own.placed:
                yield f"{name}: found nothing ({own.bound}), the other did"
                continue
            mine, theirs = score(case, own), score(case, other)
            if objective is LOWEST_COMMON_DOMAIN:
                lower = [-common_level([seat.path for seat in each.seats]) for each in (own, other)]
                mine, theirs = (lower[0], *mine), (lower[1], *theirs)
            if any(one > other_one + SAME for one, other_one in zip(mine, theirs, strict=True)) and mine > theirs:
                yield f"{name}: {mine} against {theirs}, {own.status.value} ({own.bound})"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_gang_is_placed_worse_than_by_kueue_or_kai(chunk: int, pytestconfig: pytest.Config) -> None:
    seeds = range(chunk, pytestconfig.getoption("--gangs"), CHUNKS)
    assert [line for seed in seeds for line in worse(seed)] == []
