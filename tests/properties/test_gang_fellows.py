"""What members of a gang ask of each other is kept, and a "no" is right: random small clusters against every way to
place the gang.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from tests.builders.bodies import Json
from tests.builders.neighbourhoods import HOSTNAME, RACK, apart, app_pod, on, spread, together
from tests.builders.objects import node

CASES, CHUNKS = 1200, 4
POWER = "power"  # a label that is no level of the tree


@dataclass(frozen=True)
class Case:
    """A gang of equal pods with one CPU each, one rule among them, and what every node has."""

    state: ClusterState
    labels: Mapping[str, Mapping[str, str]]
    free: Mapping[str, int]
    running_at: Mapping[str, int]
    pods: tuple[Pod, ...]
    kind: str
    key: str
    skew: int
    required: str | None


def case(seed: int) -> Case:
    draw = random.Random(seed)
    names = [f"n{number}" for number in range(draw.randint(2, 6))]
    labels = {name: {HOSTNAME: name, RACK: draw.choice("abc"), POWER: draw.choice("xyz")} for name in names}
    for name in names:
        if draw.random() < 0.1:
            del labels[name][POWER]
    state = ClusterState()
    free, running_at = {}, {}
    for name in names:
        cpus = draw.randint(0, 3)
        state.set_node(node(name, {"cpu": cpus + 8}, labels=labels[name]))
        running_at[name] = draw.choice([0, 0, 0, 1, 2])
        for number in range(running_at[name]):
            state.set_pod(on(name, app_pod(f"old-{name}-{number}", "train")))
        state.set_pod(on(name, app_pod(f"filler-{name}", "filler", cpu=8 - running_at[name])))
        free[name] = cpus
    kind = draw.choice(["together", "apart", "evenly"])
    key = draw.choice([HOSTNAME, RACK, POWER])
    skew = draw.choice([1, 1, 2])
    rules: dict[str, Json] = {
        "together": together("train", key),
        "apart": apart("train", key),
        "evenly": spread("train", key, skew=skew),
    }
    pods = tuple(app_pod(f"train-{number}", "train", **rules[kind]) for number in range(draw.randint(2, 5)))
    return Case(state, labels, free, running_at, pods, kind, key, skew, draw.choice([None, None, RACK, HOSTNAME]))


def allowed(case: Case, nodes: Sequence[str]) -> bool:
    """True if the pods of the gang may stand on these nodes."""
    taken = Counter(nodes)
    if any(number > case.free[name] for name, number in taken.items()):
        return False
    if case.required is not None and len({case.labels[name][case.required] for name in nodes}) > 1:
        return False
    place = {name: labels.get(case.key) for name, labels in case.labels.items()}
    before = Counter(place[name] for name, number in case.running_at.items() for _ in range(number))
    members = Counter(place[name] for name in nodes)
    if case.kind == "apart":
        return all(value is None or before[value] + number <= 1 for value, number in members.items())
    if None in members:
        return False
    if case.kind == "together":
        del before[None]
        return all(before[value] for value in members) if before.total() else len(members) == 1
    counts = {value: before[value] + members[value] for value in place.values() if value is not None}
    return all(counts[value] - min(counts.values()) <= case.skew for value in members if value is not None)


def every_placement(case: Case) -> Iterator[tuple[str, ...]]:
    return combinations_with_replacement(sorted(case.free), len(case.pods))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_members_stand_as_they_ask_of_each_other_wherever_that_can_be(chunk: int) -> None:
    found = 0
    for seed in range(chunk, CASES, CHUNKS):
        drawn, name = case(seed), f"case({seed})"
        trees = Trees(drawn.state)
        trees.set("network", (RACK,))
        scheduler = GangScheduler(drawn.state, trees, default_profile(), ClassAnswers(drawn.state))
        gang = Gang("default/gang", Group(pods=drawn.pods, required=drawn.required), "network")
        decision = schedule_gang(scheduler, gang)
        if decision.placed:
            found += 1
            assert allowed(drawn, [seat.node for seat in decision.seats]), name
        else:
            assert decision.status is Status.INFEASIBLE, f"{name}: {decision.bound}"
            assert not any(allowed(drawn, nodes) for nodes in every_placement(drawn)), f"{name}: {decision.bound}"
    assert found > CASES // CHUNKS // 4
