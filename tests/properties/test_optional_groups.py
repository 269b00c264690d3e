"""As many groups start as some part of the gang allows: random small gangs against every way to leave groups out."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from bayplan.engine.budget import WORK_OF_A_DECISION, Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.plans import best_part
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import HOSTNAME, RACK, apart, app_pod, spread, together
from tests.builders.objects import node

CASES, CHUNKS = 600, 4
NO_RULE: Json = {}


def drawn_group(
    draw: random.Random, name: str, sizes: list[int], rule: Json, required: str | None, app: str = "train"
) -> Group:
    pods = tuple(app_pod(f"{name}-{number}", app, cpu=cpus, **rule) for number, cpus in enumerate(sizes))
    return Group(name, pods, required=required, apart="set" if required and draw.random() < 0.2 else None)


def asking(pods: tuple[Pod, ...], rule: Json) -> tuple[Pod, ...]:
    """The same pods with another rule."""
    return tuple(app_pod(each.metadata.name, "train", cpu=1, **rule) for each in pods)


def drawn_gang(draw: random.Random) -> Group:
    """Groups of one kind, or each of its own, with at most one rule among their pods; some ask for a chief."""
    rules = [spread("train", RACK), spread("train", RACK, skew=2), spread("train", HOSTNAME)]
    rule = draw.choice([*rules, *rules, apart("train", RACK), together("train", RACK), NO_RULE, NO_RULE])
    required = draw.choice([None, RACK, RACK, HOSTNAME])
    number, alike = draw.randint(2, 5), draw.random() < 0.5
    sizes = [1] * draw.randint(1, 3)
    groups = tuple(
        drawn_group(draw, f"g{at}", sizes if alike else [1] * draw.randint(1, 3), rule, required)
        for at in range(number)
    )
    if draw.random() < 0.3:
        rule = together("chief", draw.choice([RACK, HOSTNAME]))
        chief = drawn_group(draw, "chief", [draw.randint(1, 4)], NO_RULE, required, "chief")
        groups = (chief, *(replace(each, pods=asking(each.pods, rule)) for each in groups))
    own = tuple(app_pod(f"own-{at}", "train", **rule) for at in range(draw.choice([0, 0, 1])))
    return Group(pods=own, groups=groups, minimum_groups=draw.randint(1, number - 1))


def attempt_of(seed: int) -> GangAttempt:
    draw = random.Random(seed)
    nodes = [
        node(f"n{at}", {"cpu": draw.randint(1, 5)}, labels={RACK: draw.choice("abc"), HOSTNAME: f"n{at}"})
        for at in range(draw.randint(2, 5))
    ]
    scheduler = gang_scheduler(cluster(nodes=nodes), RACK)
    gang = Gang("default/gang", drawn_gang(draw), "network")
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    assert tree is not None
    budget = Budget(WORK_OF_A_DECISION, hard=True)
    return GangAttempt(scheduler, gang, gang.root, tree, budget, scheduler.relations(gang))


def most_groups(attempt: GangAttempt) -> int:
    """The number of groups in the largest part that fits, by trying them all; -1 if none does."""
    root = attempt.root
    for number in range(len(root.groups), (root.minimum_groups or 0) - 1, -1):
        for groups in combinations(root.groups, number):
            if attempt.place(Group(pods=root.pods, groups=groups)).status in FOUND:
                return number
    return -1


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_many_groups_start_as_any_part_allows(chunk: int) -> None:
    reduced = 0
    for seed in range(chunk, CASES, CHUNKS):
        if attempt_of(seed).relations.problem:
            continue
        outcome, most = best_part(attempt_of(seed)), most_groups(attempt_of(seed))
        assert (len(outcome.part.groups) if outcome.found else -1) == most, f"attempt_of({seed})"
        assert most == -1 or outcome.status is not Status.INFEASIBLE
        reduced += 0 < most < len(attempt_of(seed).root.groups)
    assert reduced > CASES // CHUNKS // 10
