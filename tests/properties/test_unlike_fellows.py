"""Members with unlike labels and terms, beside pods that match them too: places keep the terms, and a "no" is right.

Random small clusters, against every way to place the gang. kube-scheduler places pods one after another, so a "no" is
wrong if some order of the members passes its filters.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import HOSTNAME, RACK, apart, app_pod, on, spread, together
from tests.builders.objects import node

CASES, CHUNKS = 1600, 4
POWER = "power"  # a label that is no level of the tree
APPS = ("a", "b")
TOGETHER, APART, EVENLY = "together", "apart", "evenly"


@dataclass(frozen=True)
class Term:
    """What pods of an application ask for, about which application, and by which label."""

    kind: str
    about: str
    key: str

    def fields(self) -> Json:
        if self.kind == EVENLY:
            return spread(self.about, self.key)
        return together(self.about, self.key) if self.kind == TOGETHER else apart(self.about, self.key)


@dataclass(frozen=True)
class Standing:
    """A pod on a node, or a member on one of the nodes that it may get."""

    app: str
    node: str
    term: Term | None


@dataclass(frozen=True)
class Case:
    state: ClusterState
    labels: Mapping[str, Mapping[str, str]]
    free: Mapping[str, int]
    before: tuple[Standing, ...]
    members: tuple[tuple[str, int, Term | None], ...]
    """Application, CPUs and term of each."""
    required: str | None

    def pods(self) -> tuple[Pod, ...]:
        return tuple(
            app_pod(f"m-{at}", app, cpu=cpu, **(term.fields() if term else {}))
            for at, (app, cpu, term) in enumerate(self.members)
        )

    def place(self, standing: Standing, key: str) -> str | None:
        return self.labels[standing.node].get(key)

    def standing(self, nodes: Sequence[str]) -> tuple[Standing, ...]:
        return tuple(Standing(app, at, term) for (app, _, term), at in zip(self.members, nodes, strict=True))


def case(seed: int) -> Case:
    draw = random.Random(seed)
    names = [f"n{number}" for number in range(draw.randint(2, 4))]
    labels = {name: {HOSTNAME: name, RACK: draw.choice("xy"), POWER: draw.choice("pq")} for name in names}
    for name in names:
        if draw.random() < 0.1:
            del labels[name][POWER]
    state = ClusterState()
    free: dict[str, int] = {}
    before: list[Standing] = []
    for name in names:
        free[name] = draw.randint(0, 4)
        state.set_node(node(name, {"cpu": 8}, labels=labels[name]))
        running = draw.choice([0, 0, 1])
        state.set_pod(on(name, app_pod(f"filler-{name}", "filler", cpu=8 - free[name] - running)))
        for number in range(running):
            term = drawn_term(draw, (APART,)) if draw.random() < 0.5 else None
            before.append(Standing(draw.choice((*APPS, "other")), name, term))
            fields = term.fields() if term else {}
            state.set_pod(on(name, app_pod(f"old-{name}-{number}", before[-1].app, **fields)))
    terms = {app: drawn_term(draw, (TOGETHER, APART, EVENLY), app) for app in APPS if draw.random() < 0.7}
    members = []
    for _ in range(draw.randint(2, 4)):
        app = draw.choice(APPS)
        members.append((app, draw.choice([1, 1, 2]), terms.get(app)))
    return Case(state, labels, free, tuple(before), tuple(members), draw.choice([None, None, RACK]))


def drawn_term(draw: random.Random, kinds: Sequence[str], app: str = "") -> Term:
    kind = draw.choice(kinds)
    return Term(kind, app if kind == EVENLY else draw.choice(APPS), draw.choice([HOSTNAME, RACK, POWER]))


def has_room(drawn: Case, nodes: Sequence[str]) -> bool:
    taken: Counter[str] = Counter()
    for (_, cpu, _), name in zip(drawn.members, nodes, strict=True):
        taken[name] += cpu
    in_one = drawn.required is None or len({drawn.labels[name][drawn.required] for name in nodes}) == 1
    return in_one and all(number <= drawn.free[name] for name, number in taken.items())


def keeps(drawn: Case, pod: Standing, others: Sequence[Standing]) -> bool:
    """True if a filter of kube-scheduler lets a pod in beside others."""
    for other in others:
        term = other.term
        if term and term.kind == APART and term.about == pod.app:
            here = drawn.place(pod, term.key)
            if here is not None and here == drawn.place(other, term.key):
                return False
    term = pod.term
    if term is None:
        return True
    here = drawn.place(pod, term.key)
    places = (drawn.place(other, term.key) for other in others if other.app == term.about)
    meant = [place for place in places if place is not None]  # pods on nodes without the label do not count
    if term.kind == APART:
        return here is None or here not in meant
    if here is None:
        return False
    if term.kind == TOGETHER:
        return here in meant or (not meant and pod.app == term.about)
    counts = {value: meant.count(value) for name in drawn.labels if (value := drawn.labels[name].get(term.key))}
    return counts[here] + 1 - min(counts.values()) <= 1


def are_kept(drawn: Case, nodes: Sequence[str]) -> bool:
    """True if each member passes beside all others; a spread constraint and affinity hold once all are placed."""
    members = drawn.standing(nodes)
    for at, member in enumerate(members):
        pod, others = member, [*drawn.before, *members[:at], *members[at + 1 :]]
        if pod.term is not None and pod.term.kind == EVENLY:
            key = pod.term.key
            here = drawn.place(pod, key)
            meant = [drawn.place(each, key) for each in (*others, pod) if each.app == pod.term.about]
            counts = [meant.count(value) for name in drawn.labels if (value := drawn.labels[name].get(key))]
            if here is None or meant.count(here) - min(counts) > 1:
                return False
            pod = Standing(pod.app, pod.node, None)
        if not keeps(drawn, pod, others):
            return False
    return True


def passes_in_some_order(drawn: Case, nodes: Sequence[str]) -> bool:
    members = drawn.standing(nodes)
    return any(
        all(keeps(drawn, pod, [*drawn.before, *order[:at]]) for at, pod in enumerate(order))
        for order in permutations(members)
    )


def every_placement(drawn: Case) -> Iterator[tuple[str, ...]]:
    return (nodes for nodes in product(sorted(drawn.free), repeat=len(drawn.members)) if has_room(drawn, nodes))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_unlike_members_stand_as_they_ask_and_no_proof_is_wrong(chunk: int) -> None:
    found = refused = missed = 0
    for seed in range(chunk, CASES, CHUNKS):
        drawn = case(seed)
        gang = Gang("default/gang", Group(pods=drawn.pods(), required=drawn.required), "network")
        decision = schedule_gang(gang_scheduler(drawn.state, RACK), gang)
        if decision.placed:
            found += 1
            on_node = {seat.pod: seat.node for seat in decision.seats}
            nodes = [on_node[f"default/m-{at}"] for at in range(len(drawn.members))]
            assert has_room(drawn, nodes), f"case({seed})"
            assert are_kept(drawn, nodes), f"case({seed}): {nodes}"
        elif decision.status is Status.INFEASIBLE and not decision.problem:
            refused += 1
            possible = next((nodes for nodes in every_placement(drawn) if passes_in_some_order(drawn, nodes)), None)
            assert possible is None, f"case({seed}): {possible}; {decision.bound}"
        elif not decision.problem:
            missed += any(passes_in_some_order(drawn, nodes) for nodes in every_placement(drawn))
    cases = CASES // CHUNKS
    assert found > cases // 4
    assert refused > cases // 10
    assert missed < cases // 20
