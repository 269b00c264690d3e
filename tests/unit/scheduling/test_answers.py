"""Answers repaired from the change logs are the answers that a fresh look would give, after
anything that can happen.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Rows, Scores, count
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from bayplan.scheduling.answers import NO_NODE, ClassAnswer, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.services.extender.profiles import zone_profile
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, Amounts, container, node, pod, simple_pod, topology, zone

PROFILES = {
    strategy: default_profile(topology_match(read_arguments({"scoringStrategy": {"type": strategy}})))
    for strategy in ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
}
PODS = [
    simple_pod({"cpu": 2, "memory": "1Gi"}),
    simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1}, nodeSelector={"disk": "ssd"}),
    pod(container(requests={"cpu": "300m"}), tolerations=[{"key": "t0", "operator": "Exists"}]),
    pod(container({"cpu": 1, "memory": "1Gi"}, "a"), container({"cpu": 2, "memory": "1Gi"}, "b")),
    pod(container({"cpu": 1, "memory": "1Gi"}, ports=[{"containerPort": 80, "hostPort": 80}])),
    pod(
        container(requests={"cpu": 1}),
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
                ]
            }
        },
    ),
]


class Weather:
    """A cluster to which things happen."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.dice = random.Random(seed)
        self.profile = profile
        self.state = ClusterState()
        self.answers = ClassAnswers(self.state)
        self.placed = 0
        for number in range(6):
            self.change_node(f"n{number}")
            self.report(f"n{number}")

    def change_node(self, name: str) -> None:
        taints: list[Json] = [
            {"key": f"t{number}", "effect": self.dice.choice(["NoSchedule", "PreferNoSchedule"])}
            for number in range(self.dice.choice([0, 0, 1, 3]))
        ]
        labels = {"disk": self.dice.choice(["ssd", "hdd"])} if self.dice.random() < 0.7 else {}
        room: Amounts = {"cpu": self.dice.choice([4, 16]), "memory": "32Gi", GPU: 4, "pods": self.dice.choice([4, 110])}
        self.state.set_node(node(name, room, labels=labels, taints=taints, unschedulable=self.dice.random() < 0.1))

    def report(self, name: str) -> None:
        zones = [
            zone(number, {"cpu": (8, 8, self.dice.randint(0, 8)), "memory": "16Gi", GPU: self.dice.randint(0, 2)})
            for number in self.dice.sample(range(6), self.dice.randint(1, 3))
        ]
        policy = self.dice.choice(["none", "best-effort", "restricted", "single-numa-node"])
        self.state.set_topology(
            topology(*zones, name=name, policy=policy, scope=self.dice.choice(["container", "pod"]))
        )

    def happen(self) -> None:
        name = self.dice.choice([*self.state.rows, "n99"]) if self.state.rows else "n99"
        match self.dice.randrange(9):
            case 0:
                self.change_node(name)
            case 1 if name in self.state.rows:
                self.report(name)
            case 2 if name in self.state.rows:
                self.state.set_fresh(name, fresh=self.dice.random() < 0.5)
            case 3:
                self.state.remove_topology(name)
            case 4 if self.dice.random() < 0.3:
                self.state.remove_node(name)
            case 5 if self.state.pods:
                self.state.remove_pod(self.dice.choice(sorted(self.state.pods)))
            case 6 if self.dice.random() < 0.3:
                self.change_node(f"n{self.dice.randrange(100)}")
            case _:
                self.try_to_place(self.dice.choice(PODS))

    def try_to_place(self, waiting: Pod) -> None:
        decision = schedule_one(self.state, waiting, self.profile, self.answers)
        if decision.placed:
            self.placed += 1
            pod_class = self.state.classes.of(waiting)
            self.state.assume(f"default/pod-{self.placed}", decision.row, pod_class, decision.charges)

    def check(self) -> None:
        for waiting in PODS:
            pod_class = self.state.classes.of(waiting)
            repaired = self.answers.for_class(pod_class, self.profile)
            fresh = ClassAnswer(self.state, pod_class, self.profile).refresh()
            assert repaired.blocked.tolist() == fresh.blocked.tolist()
            assert repaired.total_score.tolist() == fresh.total_score.tolist()


@pytest.mark.parametrize("strategy", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_repaired_answers_equal_fresh_ones(strategy: str, seed: int) -> None:
    weather = Weather(seed, PROFILES[strategy])
    for _ in range(60):
        for _ in range(weather.dice.randint(1, 3)):
            weather.happen()
        weather.check()
    assert weather.placed > 5, "a story in which nothing is placed would prove little"


def test_a_row_without_a_node_is_neither_usable_nor_refused() -> None:
    state = cluster(nodes=[node("a", {"cpu": 8, "memory": "8Gi"}), node("b", {"cpu": 8, "memory": "8Gi"})])
    answers = ClassAnswers(state)
    asked = state.classes.of(PODS[0])
    answers.for_class(asked, PROFILES["LeastAllocated"])
    state.remove_node("a")
    answer = answers.for_class(asked, PROFILES["LeastAllocated"])
    assert answer.blocked.tolist() == [NO_NODE, 0]
    assert answer.total_score[0] == -1


def test_nothing_is_asked_again_while_nothing_changes() -> None:
    state = cluster(nodes=[node("a", {"cpu": 8, "memory": "8Gi"})])
    answers = ClassAnswers(state)
    asked = state.classes.of(PODS[0])
    first = answers.for_class(asked, PROFILES["LeastAllocated"])
    first.total_score[0] = 12345
    assert answers.for_class(asked, PROFILES["LeastAllocated"]).total_score[0] == 12345


def test_a_reader_that_slept_through_many_changes_reads_everything() -> None:
    """65,536 changes are remembered; after more than twice that, the answer is worked out from nothing."""
    state = cluster(nodes=[node(f"n{number}", {"cpu": 8, "memory": "8Gi"}) for number in range(100)])
    answers = ClassAnswers(state)
    asked = state.classes.of(PODS[0])
    answers.for_class(asked, PROFILES["LeastAllocated"])
    state.set_node(node("n7", {"cpu": 1}))
    for _ in range(140_000):
        state.node_log.append(3)
    fresh = ClassAnswer(state, asked, PROFILES["LeastAllocated"]).refresh()
    assert np.array_equal(answers.for_class(asked, PROFILES["LeastAllocated"]).total_score, fresh.total_score)
    assert fresh.total_score[state.rows["n7"]] == -1


def test_profiles_keep_their_answers_apart() -> None:
    state = cluster(nodes=[node("a", {"cpu": 8, "memory": "8Gi"}, unschedulable=True)])
    answers = ClassAnswers(state)
    asked = state.classes.of(PODS[0])
    lenient = Profile("lenient", PROFILES["LeastAllocated"].filters[1:], ())
    assert answers.for_class(asked, PROFILES["LeastAllocated"]).blocked.tolist() != [0]
    assert answers.for_class(asked, lenient).blocked.tolist() == [0]


def test_what_is_assumed_and_forgotten_leaves_the_answers_as_they_were() -> None:
    state = cluster(topology(zone(0, {"cpu": 8, "memory": "8Gi"})))
    answers = ClassAnswers(state)
    profile = PROFILES["LeastAllocated"]
    before = answers.for_class(state.classes.of(PODS[0]), profile).total_score.copy()
    assume(state, schedule_one(state, PODS[0], profile, answers), PODS[0])
    during = answers.for_class(state.classes.of(PODS[0]), profile).total_score.copy()
    state.forget("default/pod")
    after = answers.for_class(state.classes.of(PODS[0]), profile).total_score
    assert before.tolist() == after.tolist() != during.tolist()


def test_only_nodes_that_the_numa_filter_refuses_count_as_refused_for_their_zones() -> None:
    # The NUMA filter comes first in an extender's profile: its position is then the code of a node that passes.
    profile = zone_profile(default_profile())
    reports = [topology(zone(0, {"cpu": cpus, "memory": "8Gi"}), name=f"n{cpus}") for cpus in (8, 2, 9)]
    state = cluster(*reports)
    answers = ClassAnswers(state)
    refused = answers.rows_refused_for_zones(state.classes.of(simple_pod({"cpu": 4, "memory": "1Gi"})), profile)
    assert list(refused) == [1]


class FailsOnce:
    """A score that raises when it is asked for the first time."""

    name = "FailsOnce"
    reads_usage = False
    asked = 0

    def applies_score(self, pod: PodClass) -> bool:
        return True

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        self.asked += 1
        if self.asked == 1:
            raise KeyError("boop")
        return np.full(count(rows), 50, dtype=np.int32)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        return 50


def test_after_a_failed_score_the_next_decision_asks_again() -> None:
    """In half an answer every node would look usable, also those that filters refuse."""
    state = cluster(nodes=[node("small", {"cpu": 1}), node("large", {"cpu": 8, "memory": "8Gi", "pods": 10})])
    profile = Profile("fails", default_profile().filters, ((FailsOnce(), 1),))
    answers = ClassAnswers(state)
    with pytest.raises(KeyError):
        schedule_one(state, PODS[0], profile, answers)
    assert schedule_one(state, PODS[0], profile, answers).node == "large"
