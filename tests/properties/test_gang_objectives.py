"""Every order of goals on small random trees of equal pods, against a search that tries every way to put them on nodes.

No placement is better by the goals in their order, as far as the answer says that they are proven; members that run
already count as members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from random import Random

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree, build_tree, distance
from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import place_equal
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.objective import Goal, Objective, objective_of
from bayplan.engine.gangs.problem import WHOLE_TREE
from tests.builders.objects import node

CASES = 400
LEVELS = ("block", "rack")
NODE = len(LEVELS)
# Every goal first, every pair of goals in the middle of the others, and what users are likely to write.
NAMED = [[], *([goal.value] for goal in Goal), *([one.value, other.value] for one, other in permutations(Goal, 2))]
ORDERS = list(dict.fromkeys(objective_of(names) for names in NAMED))

Counts = tuple[int, ...]
Score = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Case:
    tree: Tree
    slots: Counts
    wish: EqualPods

    def domain(self, level: int, position: int) -> tuple[str, ...]:
        return () if level == WHOLE_TREE else self.tree.paths[NODE][position][: level + 1]

    def holds(self, level: int, domain: tuple[str, ...]) -> int:
        """How many pods fit into a domain in whole slices."""
        inside = [position for position in range(len(self.slots)) if self.domain(level, position) == domain]
        if level == NODE:
            pods = self.slots[inside[0]]
        else:
            pods = sum(self.holds(level + 1, inner) for inner in {self.domain(level + 1, at) for at in inside})
        for layer in self.wish.layers:
            if layer.level == level:
                segments = pods // layer.size
                pods = layer.size * (min(segments, 1) if layer.apart else segments)
        return pods

    def placements(self) -> Iterator[Counts]:
        """Every way to put all pods on nodes that is allowed."""
        for counts in _divisions(self.slots, self.wish.pods):
            if self._is_allowed(counts):
                yield counts

    def _is_allowed(self, counts: Counts) -> bool:
        at = [*(position for position, count in enumerate(counts) if count), *self.wish.running_at]
        if len({self.domain(self.wish.required, position) for position in at}) > 1:
            return False
        for layer in self.wish.layers:
            pods: dict[tuple[str, ...], int] = {}
            for position, count in enumerate(counts):
                here = self.domain(layer.level, position)
                pods[here] = pods.get(here, 0) + count
            if any(count % layer.size or (layer.apart and count > layer.size) for count in pods.values()):
                return False
        return True

    def score(self, counts: Counts, goals: Objective) -> Score:
        return tuple(self._by_goal(counts, goal) for goal in goals)

    def _by_goal(self, counts: Counts, goal: Goal) -> tuple[int, ...]:
        wish = self.wish
        new = [position for position, count in enumerate(counts) if count]
        if goal is Goal.FEWEST_DOMAINS:
            # The preferred level, then wider ones.
            levels = range(-1 if wish.preferred is None else wish.preferred, -1, -1)
            return tuple(len({self.domain(level, at) for at in (*new, *wish.running_at)}) for level in levels)
        if goal is Goal.MEAN_DISTANCE:
            members = [at for at, count in enumerate(counts) for _ in range(count)]
            return (sum(self._distance(*pair) for pair in combinations((*members, *wish.running_at), 2)),)
        if goal is Goal.FEWEST_NODES:
            return (len({*new, *wish.running_at}),)
        if goal is Goal.LEAST_LEFTOVER:
            level = max(wish.required, WHOLE_TREE if wish.preferred is None else wish.preferred)
            everybody = (*new, *wish.running_at) if level == wish.preferred else new
            touched = {self.domain(level, at) for at in everybody}
            return (sum(self.holds(level, domain) for domain in touched if level != WHOLE_TREE) - wish.pods,)
        return (max((self._distance(*pair) for pair in combinations((*new, *wish.running_at), 2)), default=0),)

    def _distance(self, one: int, other: int) -> int:
        return distance(self.tree.paths[NODE][one], self.tree.paths[NODE][other])


def _divisions(slots: Counts, pods: int) -> Iterator[Counts]:
    if not slots:
        if not pods:
            yield ()
        return
    for count in range(min(slots[0], pods) + 1):
        for rest in _divisions(slots[1:], pods - count):
            yield (count, *rest)


def random_case(seed: int, *, joins: bool = False) -> Case:
    random = Random(seed)
    state = ClusterState()
    for number in range(random.randint(2, 7)):
        labels = {level: random.choice("ab" if level == "block" else "xyz") for level in LEVELS}
        state.set_node(node(f"n{number}", labels=labels))
    tree = build_tree(state, "network", LEVELS)
    slots = tuple(random.choice((0, 1, 1, 2, 2, 3, 5)) for _ in range(tree.size))
    pods = 1 if joins else random.randint(1, 6)
    running_at: tuple[int, ...] = ()
    required = random.choice((WHOLE_TREE, WHOLE_TREE, 0, 1))
    preferred = random.choice((None, 0, 1, 1, NODE))
    if joins or random.random() < 0.25:
        near = random.randrange(tree.size)
        beside = [
            position
            for position in range(tree.size)
            if required == WHOLE_TREE or tree.domain_at[required][position] == tree.domain_at[required][near]
        ]
        running_at = tuple(random.choice(beside) for _ in range(random.randint(1, 3)))
    layers = () if running_at else _layers(random, pods)
    return Case(tree, slots, EqualPods(pods, required, preferred, layers, running_at=running_at))


def _layers(random: Random, pods: int) -> tuple[SegmentLayer, ...]:
    if random.random() < 0.6:
        return ()
    sizes = [size for size in (1, 2, 3) if pods % size == 0]
    return (SegmentLayer(random.choice((0, 1, NODE)), random.choice(sizes), apart=random.random() < 0.3),)


def check(case: Case, order: Objective, name: str) -> None:
    wish = EqualPods(
        case.wish.pods,
        case.wish.required,
        case.wish.preferred,
        case.wish.layers,
        running_at=case.wish.running_at,
        objective=order,
    )
    slots = np.array(case.slots, dtype=np.int64)
    if wish.required != WHOLE_TREE and wish.running_at:
        at = case.tree.domain_at[wish.required]
        slots = np.where(at == at[wish.running_at[0]], slots, 0)
    found = place_equal(case.tree, slots, wish)
    best = min((case.score(counts, order) for counts in case.placements()), default=None)
    if found.counts is None:
        assert best is None, f"{name}: there is a place"
        return
    counts = tuple(found.counts.tolist())
    assert best is not None, f"{name}: {counts} is not allowed"
    assert counts in case.placements(), f"{name}: {counts} is not allowed"
    proven = [goal for goal in order if goal not in found.unproven]
    assert case.score(counts, order)[: len(proven)] == best[: len(proven)], f"{name}: {counts} of {case}"
    assert not found.unproven, f"{name}: small gangs are compared by all goals"


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(goal.value for goal in order))
def test_nothing_is_better(order: Objective) -> None:
    for seed in range(CASES):
        check(random_case(seed), order, f"random_case({seed})")


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(goal.value for goal in order))
def test_a_pod_that_joins_stands_as_near_to_the_members_as_it_can(order: Objective) -> None:
    for seed in range(CASES):
        check(random_case(seed, joins=True), order, f"random_case({seed}, joins=True)")
