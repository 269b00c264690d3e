"""A profile asks filters in order and counts scores by weight; what cannot matter for a pod is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Rows
from bayplan.plugins.registry import DEFAULT_WEIGHTS, FILTER_ORDER
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.clusters import cluster, decide
from tests.builders.objects import node, pod, simple_pod, topology, zone

DEFAULT = default_profile()
PLUGINS = {plugin.name: plugin for plugin in DEFAULT.filters}
SCORES = {plugin.name: plugin for plugin, _ in DEFAULT.scores}


def test_the_default_has_every_plugin_in_order() -> None:
    assert tuple(plugin.name for plugin in DEFAULT.filters) == FILTER_ORDER
    assert {plugin.name: weight for plugin, weight in DEFAULT.scores} == {**DEFAULT_WEIGHTS, "LeastNUMANodes": 10}


TWO_ZONES = [zone(0, {"cpu": 6, "memory": "8Gi"}, {0: 10, 1: 20}), zone(1, {"cpu": 6, "memory": "8Gi"}, {0: 20, 1: 10})]
ONE_ZONE = [zone(0, {"cpu": 8, "memory": "8Gi"}, {0: 10, 1: 20}), zone(1, {"cpu": 1, "memory": "8Gi"}, {0: 20, 1: 10})]


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_the_default_prefers_fewer_zones_to_an_emptier_node(policy: str) -> None:
    state = cluster(
        topology(*TWO_ZONES, name="two-zones", policy=policy),
        topology(*ONE_ZONE, name="one-zone", policy=policy),
        nodes=[node("two-zones", {"cpu": 96, "memory": "96Gi"}), node("one-zone", {"cpu": 9, "memory": "16Gi"})],
    )
    assert decide(state, simple_pod({"cpu": 8, "memory": "1Gi"})).node == "one-zone"


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_the_default_prefers_closer_zones(policy: str) -> None:
    """Both nodes need two zones; those of the first are far from each other, and no pair of the second is closer than
    any other.
    """
    far = {0: {0: 10, 1: 40, 2: 12}, 1: {0: 40, 1: 10, 2: 40}, 2: {0: 12, 1: 40, 2: 10}}
    near = {here: {there: 10 if here == there else 12 for there in range(3)} for here in range(3)}
    state = cluster(
        *(
            topology(*(zone(i, {"cpu": 4, "memory": "8Gi"}, distances[i]) for i in range(3)), name=name, policy=policy)
            for name, distances in (("far", far), ("near", near))
        )
    )
    assert decide(state, simple_pod({"cpu": 6, "memory": "10Gi"})).node == "near"


def test_the_first_filter_that_refuses_is_named() -> None:
    taint = [{"key": "gpu", "effect": "NoSchedule"}]
    state = cluster(nodes=[node("n1", {"cpu": 1}, taints=taint, unschedulable=True)])
    asked = state.classes.of(simple_pod({"cpu": 2}))

    def named_by(*names: str) -> str:
        profile = Profile("-".join(names), tuple(PLUGINS[name] for name in names), ())
        answer = ClassAnswers(state).for_class(asked, profile)
        return profile.cause(asked, int(answer.blocked[0]))[0]

    assert named_by("NodeUnschedulable", "TaintToleration", "NodeResourcesFit") == "NodeUnschedulable"
    assert named_by("TaintToleration", "NodeUnschedulable", "NodeResourcesFit") == "TaintToleration"
    assert named_by("NodeResourcesFit") == "NodeResourcesFit"


def test_filters_that_only_look_at_nodes_are_asked_before_those_that_look_at_usage() -> None:
    """So that a placement never asks them again; the order within each kind is the profile's."""
    state = cluster(nodes=[node("n1", {"cpu": 1}, unschedulable=True)])
    asked = state.classes.of(simple_pod({"cpu": 2}))
    profile = Profile("mixed", (PLUGINS["NodeResourcesFit"], PLUGINS["NodeUnschedulable"]), ())
    answer = ClassAnswers(state).for_class(asked, profile)
    assert profile.cause(asked, int(answer.blocked[0])) == ("NodeUnschedulable", "node(s) were unschedulable")


def test_scores_are_summed_by_weight() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8, "memory": "10Gi"})])
    asked = state.classes.of(simple_pod({"cpu": 2, "memory": "1Gi"}))

    def score(**weights: int) -> int:
        profile = Profile(str(weights), (), tuple((SCORES[name], weight) for name, weight in weights.items()))
        return int(ClassAnswers(state).for_class(asked, profile).total_score[0])

    assert score(NodeResourcesFit=1) == 82
    assert score(NodeResourcesFit=10) == 820
    assert score(NodeResourcesFit=10, TaintToleration=2) == 820 + 200
    assert score(NodeResourcesFit=0) == 0


def test_plugins_that_cannot_matter_for_a_pod_are_not_asked() -> None:
    state = cluster()
    part = DEFAULT.for_class(state.classes.of(pod()))
    asked = {plugin.name for _, plugin in (*part.node_filters, *part.usage_filters)}
    assert asked == {"NodeUnschedulable", "TaintToleration", "NodeResourcesFit"}


@dataclass
class Remembering:
    """A score whose answers are its own arrays, as of a plugin that keeps or shares them."""

    answers: NDArray[np.integer[Any]]
    name: str = "Remembering"
    reads_usage: bool = False

    def applies_score(self, pod: PodClass) -> bool:
        return True

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Any:
        return self.answers[rows]

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        return int(self.answers[row])


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.int64])
def test_a_weight_leaves_the_scores_of_a_plugin_as_they_are(kind: type[np.integer[Any]]) -> None:
    state = cluster(nodes=[node(f"n{number}", {"cpu": 1}) for number in range(3)])
    plugin = Remembering(np.array([10, 90, 100], dtype=kind))
    of_class = Profile("weighted", (), ((plugin, 3),)).for_class(state.classes.of(simple_pod({"cpu": 1})))
    for _ in range(2):
        assert of_class.score_of_node(state, slice(0, 3)).tolist() == [30, 270, 300]
    assert plugin.answers.tolist() == [10, 90, 100]
