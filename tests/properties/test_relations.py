"""What pods on nodes mean for a newcomer, counted and kept, equals what a slow and plain reading of the rules says, at
any moment of any story.

A story places, changes and removes pods, nodes and namespaces at random; after each step a newcomer is judged both
ways.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.plugins.inter_pod_affinity import InterPodAffinity
from bayplan.plugins.pod_topology_spread import PodTopologySpread
from bayplan.scheduling.answers import NOT_USABLE, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.scheduling.relations import answer_for, incoming_pod
from tests.properties.naive_relations import (
    HOSTNAME,
    PREFERRED,
    REQUIRED,
    Everything,
    Json,
    affinity_refusals,
    affinity_scores,
    causes,
    soft_taint_penalties,
    spread_refusals,
    spread_scores,
)

STEPS = 12
ZONE, RACK = "zone", "rack"
NAMESPACES = ("shop", "lab", "ops")


class Story:
    """The same cluster twice: as objects, and as bayplan's state."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Everything()
        self.state = ClusterState()
        self.named = 0
        for number in range(self.random.randint(1, 6)):
            self.set_node(f"n{number}")

    def step(self) -> None:
        match self.random.choices(
            ["place", "assume", "relabel", "terminate", "remove", "node", "no node", "namespace", "no namespace"],
            [8, 4, 2, 1, 3, 2, 1, 1, 1],
        )[0]:
            case "place" if self.world.nodes:
                self.place(self.new_pod(), self.some(self.world.nodes))
            case "assume" if self.world.nodes:
                written, where = self.new_pod(), self.some(self.world.nodes)
                self.world.pods[key_of(written)] = (where, written)
                newcomer = msgspec.convert(written, Pod)
                self.state.assume(pod_key(newcomer), self.state.rows[where], self.state.classes.of(newcomer), ())
                self.state.pod_placed(pod_key(newcomer), newcomer)
            case "relabel" if self.placed():
                where, pod = self.world.pods[self.some(self.placed())]
                self.place({**pod, "metadata": {**pod["metadata"], "labels": self.labels()}}, where)
            case "terminate" if self.placed():
                where, pod = self.world.pods[self.some(self.placed())]
                metadata = {**pod["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
                self.place({**pod, "metadata": metadata}, where)
            case "remove" if self.world.pods:
                gone = self.some(self.world.pods)
                del self.world.pods[gone]
                self.state.remove_pod(gone)
            case "node":
                self.set_node(f"n{self.random.randint(0, 6)}")
            case "no node" if self.world.nodes:
                gone = self.some(self.world.nodes)
                # Pods that were only assumed are forgotten with their node; bound ones return with it.
                for key, (where, _) in list(self.world.pods.items()):
                    if where == gone and key not in self.state.bound:
                        del self.world.pods[key]
                del self.world.nodes[gone]
                self.state.remove_node(gone)
            case "namespace":
                name, labels = self.some(NAMESPACES), {"team": self.random.choice("ab")}
                self.world.namespaces[name] = labels
                self.state.neighbours.set_namespace(name, labels)
            case "no namespace":
                name = self.some(NAMESPACES)
                self.world.namespaces.pop(name, None)
                self.state.neighbours.remove_namespace(name)

    def placed(self) -> list[str]:
        return [key for key, (where, _) in self.world.pods.items() if where in self.world.nodes]

    def some(self, things: Any) -> str:
        return str(self.random.choice(sorted(things)))

    def maybe(self, value: Any, chance: float = 0.5) -> Any:
        return value if self.random.random() < chance else None

    def set_node(self, name: str) -> None:
        labels = {HOSTNAME: name, ZONE: self.random.choice("xy"), RACK: self.random.choice("123")}
        kept = {key: value for key, value in labels.items() if self.random.random() < 0.8}
        taints = self.maybe([{"key": "gpu", "effect": self.random.choice(["NoSchedule", "PreferNoSchedule"])}], 0.3)
        written = {
            "metadata": {"name": name, "labels": kept},
            "spec": {"taints": taints},
            "status": {"allocatable": {"pods": 100, "cpu": 64}},
        }
        self.world.nodes[name] = written
        self.state.set_node(msgspec.convert(written, Node))

    def place(self, written: Json, where: str) -> None:
        self.world.pods[key_of(written)] = (where, written)
        self.state.set_pod(msgspec.convert({**written, "spec": {**written["spec"], "nodeName": where}}, Pod))

    def labels(self) -> dict[str, str]:
        labels = {"app": self.random.choice("ab"), "tier": self.random.choice("pq")}
        return {key: value for key, value in labels.items() if self.random.random() < 0.8}

    def new_pod(self) -> Json:
        self.named += 1
        affinity = {
            "podAffinity": self.maybe(self.affinity(), 0.4),
            "podAntiAffinity": self.maybe(self.affinity(), 0.4),
        }
        spec = {
            "containers": [{"name": "main"}],
            "affinity": self.maybe(affinity, 0.7),
            "topologySpreadConstraints": self.maybe(self.constraints()),
            "nodeSelector": self.maybe({ZONE: self.random.choice("xy")}, 0.2),
            "tolerations": self.maybe([{"key": "gpu", "operator": "Exists"}], 0.3),
        }
        metadata = {"name": f"p{self.named}", "namespace": self.some(NAMESPACES), "labels": self.labels()}
        return {"metadata": metadata, "spec": spec}

    def affinity(self) -> Json:
        wishes = [
            {"weight": self.random.choice([1, 30, 100]), "podAffinityTerm": self.term()}
            for _ in range(self.random.randint(0, 2))
        ]
        required = [self.term() for _ in range(self.random.choices([0, 1, 2], [4, 3, 1])[0])]
        return {REQUIRED: required, PREFERRED: wishes}

    def term(self) -> Json:
        selector = self.maybe(self.selector(), 0.9)
        keys = self.random.sample(["app", "tier"], 2)
        return {
            "topologyKey": self.random.choice([HOSTNAME, ZONE, RACK]),
            "labelSelector": selector,
            "namespaces": self.maybe([self.some(NAMESPACES)], 0.2),
            "namespaceSelector": self.maybe(self.random.choice([{}, {"matchLabels": {"team": "a"}}]), 0.2),
            "matchLabelKeys": keys[:1] if selector is not None and self.random.random() < 0.1 else None,
            "mismatchLabelKeys": keys[1:] if selector is not None and self.random.random() < 0.1 else None,
        }

    def selector(self) -> Json:
        key, values = self.random.choice([("app", ["a"]), ("app", ["a", "b"]), ("tier", ["p"])])
        operator = self.random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        expression = {"key": key, "operator": operator, "values": values if operator in ("In", "NotIn") else None}
        return {
            "matchLabels": self.maybe({"app": self.random.choice("ab")}, 0.4),
            "matchExpressions": self.maybe([expression], 0.4),
        }

    def constraints(self) -> list[Json]:
        found = {}
        for _ in range(self.random.randint(1, 3)):
            selector, required = self.maybe(self.selector(), 0.9), self.random.random() < 0.5
            action = "DoNotSchedule" if required else "ScheduleAnyway"
            rule = {
                "topologyKey": self.random.choice([HOSTNAME, ZONE, RACK]),
                "whenUnsatisfiable": action,
                "maxSkew": self.random.randint(1, 3),
                "labelSelector": selector,
                "minDomains": self.random.choice([None, 1, 2, 3]) if required else None,
                "matchLabelKeys": ["tier"] if selector is not None and self.random.random() < 0.2 else None,
            }
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if self.random.random() < 0.4:
                    rule[policy] = self.random.choice(["Honor", "Ignore"])
            found[rule["topologyKey"], action] = rule
        return list(found.values())


def key_of(written: Json) -> str:
    return f"{written['metadata']['namespace']}/{written['metadata']['name']}"


def refused_by(plugin: InterPodAffinity | PodTopologySpread, state: ClusterState, pod: Pod) -> dict[str, str]:
    pod_class = state.classes.of(pod)
    newcomer = incoming_pod(state, pod, pod_class)
    codes = None if newcomer is None else plugin.refusals_of(state, newcomer)
    if codes is None:
        return {}
    return {name: plugin.cause(pod_class, int(codes[row])) for name, row in state.rows.items() if codes[row]}


def scores_by(
    plugin: InterPodAffinity | PodTopologySpread, state: ClusterState, pod: Pod, nodes: list[str]
) -> dict[str, int]:
    newcomer = incoming_pod(state, pod, state.classes.of(pod))
    rows = np.array([state.rows[name] for name in nodes], dtype=np.intp)
    scores = None if newcomer is None else plugin.scores_of(state, newcomer, rows)
    return dict.fromkeys(nodes, 0) if scores is None else dict(zip(nodes, scores.tolist(), strict=True))


def judged_alike(story: Story) -> None:
    world, state = story.world, story.state
    written = story.new_pod()
    pod = msgspec.convert(written, Pod)
    assert refused_by(InterPodAffinity(), state, pod) == affinity_refusals(world, written)
    assert refused_by(PodTopologySpread(), state, pod) == spread_refusals(world, written)
    nodes = [name for name in sorted(world.nodes) if story.random.random() < 0.7]
    if nodes:
        hard, ignore = story.random.choice([0, 1, 50]), story.random.random() < 0.3
        found = scores_by(InterPodAffinity(hard, ignore), state, pod, nodes)
        assert found == affinity_scores(world, written, nodes, hard_weight=hard, ignore_others=ignore)
        assert scores_by(PodTopologySpread(), state, pod, nodes) == spread_scores(world, written, nodes)


def test_at_every_step_of_any_story() -> None:
    @settings(max_examples=250)
    @given(seed=st.integers(0, 2**32))
    def holds(seed: int) -> None:
        story = Story(seed)
        for _ in range(STEPS):
            story.step()
            judged_alike(story)

    holds()


def test_a_decision_rests_on_all_of_it() -> None:
    profile = default_profile()

    @settings(max_examples=100)
    @given(seed=st.integers(0, 2**32))
    def holds(seed: int) -> None:
        story = Story(seed)
        world, state, answers = story.world, story.state, ClassAnswers(story.state)
        for _ in range(STEPS):
            story.step()
            written = story.new_pod()
            pod = msgspec.convert(written, Pod)
            decision = schedule_one(state, pod, profile, answers)
            alone = without_relations(state, pod, profile)
            refused = {**affinity_refusals(world, written), **spread_refusals(world, written)}
            open_nodes = [name for name in sorted(alone) if name not in refused]
            assert decision.placed == bool(open_nodes)
            if decision.placed:
                near, even = affinity_scores(world, written, open_nodes), spread_scores(world, written, open_nodes)
                soft = soft_taint_penalties(world, written, open_nodes)
                totals = {name: alone[name] + 2 * near[name] + 2 * even[name] - 3 * soft[name] for name in open_nodes}
                assert decision.score == max(totals.values()) == totals[decision.node or ""]
                assume(state, decision, pod)
                world.pods[decision.pod] = (decision.node or "", written)
            else:
                assert decision.shortfall is not None
                counted = {each.cause: len(each.nodes) for each in decision.shortfall.causes}
                of_pods = causes({name: cause for name, cause in refused.items() if name in alone})
                assert of_pods == {cause: counted.get(cause, 0) for cause in of_pods}

    holds()


def without_relations(state: ClusterState, pod: Pod, profile: Profile) -> dict[str, int]:
    """Scores of the nodes that every other filter leaves."""
    pod_class = state.classes.of(pod)
    answer = ClassAnswers(state).for_class(pod_class, profile)
    return {
        name: int(answer.total_score[row]) for name, row in state.rows.items() if answer.total_score[row] != NOT_USABLE
    }


def test_a_copy_judges_alike() -> None:
    profile = default_profile()

    @settings(max_examples=50)
    @given(seed=st.integers(0, 2**32))
    def holds(seed: int) -> None:
        story = Story(seed)
        for _ in range(STEPS):
            story.step()
        pod = msgspec.convert(story.new_pod(), Pod)
        copied = story.state.copy()
        ranks = [
            answer_for(state, pod, state.classes.of(pod), profile, ClassAnswers(state)).total_score.tolist()
            for state in (story.state, copied)
        ]
        assert ranks[0] == ranks[1]

    holds()
