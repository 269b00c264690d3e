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
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import HOSTNAME, RACK, REQUIRED, apart, app_pod, on, spread, together
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
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Case:
    state: ClusterState
    labels: Mapping[str, Mapping[str, str]]
    free: Mapping[str, int]
    before: tuple[Standing, ...]
    members: tuple[tuple[str, int, tuple[Term, ...]], ...]
    """Application, CPUs and terms of each."""
    required: str | None
    minimum: int | None
    segments: bool

    def pods(self) -> tuple[Pod, ...]:
        return tuple(
            app_pod(f"m-{at}", app, cpu=cpu, **fields_of(terms)) for at, (app, cpu, terms) in enumerate(self.members)
        )

    def place(self, standing: Standing, key: str) -> str | None:
        return self.labels[standing.node].get(key)

    def standing(self, nodes: Sequence[str]) -> tuple[Standing, ...]:
        seated = zip(self.members, nodes, strict=False)
        return tuple(Standing(app, at, terms) for (app, _, terms), at in seated)


def fields_of(terms: Sequence[Term]) -> Json:
    """The terms in a pod's spec; of affinity, each kind with all its terms."""
    affinity: Json = {}
    constraints: list[Json] = []
    for term in terms:
        fields = term.fields()
        constraints += fields.get("topologySpreadConstraints", [])
        for kind, asked in fields.get("affinity", {}).items():
            affinity.setdefault(kind, {}).setdefault(REQUIRED, []).extend(asked[REQUIRED])
    return {"affinity": affinity or None, "topologySpreadConstraints": constraints or None}


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
            terms = (drawn_term(draw, (APART,)),) if draw.random() < 0.5 else ()
            before.append(Standing(draw.choice((*APPS, "other")), name, terms))
            state.set_pod(on(name, app_pod(f"old-{name}-{number}", before[-1].app, **fields_of(terms))))
    kinds = (TOGETHER, APART, EVENLY)
    of_app: dict[str, tuple[Term, ...]] = {
        app: (drawn_term(draw, kinds, app),) if draw.random() < 0.7 else () for app in APPS
    }
    shared, own = draw.random() < 0.2, draw.random() < 0.3
    members = []
    for _ in range(draw.randint(2, 4)):
        app = draw.choice(APPS)
        asked = of_app[APPS[0] if shared else app]
        if own and draw.random() < 0.5:
            asked = tuple(drawn_term(draw, (TOGETHER, APART), app) for _ in range(draw.randint(0, 2)))
        members.append((app, draw.choice([1, 1, 2]), asked))
    size = len(members)
    minimum = draw.randint(1, size) if draw.random() < 0.2 else None
    segments = minimum is None and size % 2 == 0 and draw.random() < 0.2
    required = draw.choice([None, None, RACK])
    return Case(state, labels, free, tuple(before), tuple(members), required, minimum, segments)


def drawn_term(draw: random.Random, kinds: Sequence[str], app: str = "") -> Term:
    kind = draw.choice(kinds)
    return Term(kind, app if kind == EVENLY else draw.choice(APPS), draw.choice([HOSTNAME, RACK, POWER]))


def has_room(drawn: Case, nodes: Sequence[str]) -> bool:
    taken: Counter[str] = Counter()
    for (_, cpu, _), name in zip(drawn.members, nodes, strict=False):
        taken[name] += cpu
    racks = [drawn.labels[name][RACK] for name in nodes]
    if drawn.segments and racks[0::2] != racks[1::2]:
        return False
    in_one = drawn.required is None or len({drawn.labels[name][drawn.required] for name in nodes}) == 1
    return in_one and all(number <= drawn.free[name] for name, number in taken.items())


def keeps(drawn: Case, pod: Standing, others: Sequence[Standing]) -> bool:
    """True if the filters of kube-scheduler let a pod in beside others."""
    for other in others:
        for term in other.terms:
            here = drawn.place(pod, term.key)
            if term.kind == APART and term.about == pod.app and here and here == drawn.place(other, term.key):
                return False
    asked = [term for term in pod.terms if term.kind == TOGETHER]
    # One pod must satisfy all terms of affinity; pods on nodes without the label do not count.
    meant = [other for other in others if all(other.app == term.about for term in asked)]
    counted = [other for other in meant if any(drawn.place(other, term.key) for term in asked)]
    is_first = not counted and all(pod.app == term.about for term in asked)
    for term in asked:
        here = drawn.place(pod, term.key)
        if here is None or not (is_first or here in (drawn.place(other, term.key) for other in meant)):
            return False
    for term in pod.terms:
        here = drawn.place(pod, term.key)
        places = [drawn.place(other, term.key) for other in others if other.app == term.about]
        if term.kind == APART and here is not None and here in places:
            return False
        if term.kind == EVENLY:
            values = {labels.get(term.key) for labels in drawn.labels.values()} - {None}
            counts = {value: places.count(value) for value in values}
            if here is None or counts[here] + (pod.app == term.about) - min(counts.values()) > 1:
                return False
    return True


def are_kept(drawn: Case, nodes: Sequence[str]) -> bool:
    """True if each member passes beside all others; a spread constraint and affinity hold once all are placed."""
    members = drawn.standing(nodes)
    return all(keeps(drawn, pod, [*drawn.before, *members[:at], *members[at + 1 :]]) for at, pod in enumerate(members))


def passes_in_some_order(drawn: Case, nodes: Sequence[str]) -> bool:
    members = drawn.standing(nodes)
    return any(
        all(keeps(drawn, pod, [*drawn.before, *order[:at]]) for at, pod in enumerate(order))
        for order in permutations(members)
    )


def every_placement(drawn: Case) -> Iterator[tuple[str, ...]]:
    return (nodes for nodes in product(sorted(drawn.free), repeat=len(drawn.members)) if has_room(drawn, nodes))


def gang_of(drawn: Case) -> Gang:
    segments = (Segments(2, RACK),) if drawn.segments else ()
    root = Group(pods=drawn.pods(), required=drawn.required, minimum=drawn.minimum, segments=segments)
    return Gang("default/gang", root, "network")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_unlike_members_stand_as_they_ask_and_no_proof_is_wrong(chunk: int) -> None:
    found = refused = missed = 0
    for seed in range(chunk, CASES, CHUNKS):
        drawn = case(seed)
        decision = schedule_gang(gang_scheduler(drawn.state, RACK), gang_of(drawn))
        if decision.placed:
            found += 1
            on_node = {seat.pod: seat.node for seat in decision.seats}
            # Of an elastic gang, the first pods start.
            nodes = [on_node[f"default/m-{at}"] for at in range(len(on_node))]
            assert len(nodes) == len(drawn.members) or drawn.minimum is not None
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
