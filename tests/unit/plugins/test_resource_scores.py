"""Scores by requested amounts, worked out by hand from kube-scheduler's formulas."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import NodeSelector, NodeSelectorTerm, SelectorRequirement
from bayplan.plugins.node_affinity import AddedAffinity, NodeAffinity
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.plugins.resource_scores import NodeResourcesBalancedAllocation, Strategy
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, Amounts, node, simple_pod

RISING, FALLING = ((0, 0), (100, 10)), ((0, 10), (50, 5), (100, 0))


def with_node(allocatable: Amounts, running: Amounts) -> ClusterState:
    state = cluster(nodes=[node("n1", allocatable)])
    state.set_pod(simple_pod(running, "runs", nodeName="n1"))
    return state


@pytest.mark.parametrize(
    "strategy, score",
    [
        # After the pod, cpu is used by 4 of 8, memory by 2 of 8 GiB, GPUs by 3 of 4.
        (Strategy("LeastAllocated", (("cpu", 1), ("memory", 3))), (50 + 3 * 75) // 4),
        (Strategy("MostAllocated", (("cpu", 1), ("memory", 3))), (50 + 3 * 25) // 4),
        (Strategy("MostAllocated", (("cpu", 1), (GPU, 1))), (50 + 75) // 2),
        (Strategy("RequestedToCapacityRatio", shape=RISING), 38),
        (Strategy("RequestedToCapacityRatio", shape=FALLING), 63),
        (Strategy("RequestedToCapacityRatio", (("cpu", 1), (GPU, 2)), RISING), 67),
        (Strategy("MostAllocated", (("cpu", 1), ("example.com/none", 9))), 50),
    ],
    ids=["least", "most", "with GPUs", "rising ratio", "falling ratio", "ratio of GPUs", "a resource of no node"],
)
def test_strategies_of_node_resources_fit(strategy: Strategy, score: int) -> None:
    state = with_node({"cpu": 8, "memory": "8Gi", GPU: 4}, {"cpu": 2, "memory": "1Gi", GPU: 2})
    asked = state.classes.of(simple_pod({"cpu": 2, "memory": "1Gi", GPU: 1}))
    plugin = NodeResourcesFit(strategy=strategy)
    assert plugin.score(state, asked, 0) == score
    assert plugin.scores(state, asked, slice(0, 1)).tolist() == [score]


@pytest.mark.parametrize(
    "running, waiting, score",
    [
        ({"cpu": 2, "memory": "2Gi"}, {"cpu": 2, "memory": "2Gi"}, 75),
        # Shares of 4/8 and 0/8 have a deviation of 25 in a hundred; 4/8 and 4/8 have none: 75 becomes 100.
        ({"cpu": 4, "memory": "0"}, {"cpu": "0", "memory": "4Gi"}, 50 + (50 + 25) // 2),
        ({"cpu": 2, "memory": "2Gi"}, {"cpu": 4, "memory": "0"}, 50 + (50 - 25) // 2),
    ],
    ids=["even before and after", "the balance improves", "the balance worsens"],
)
def test_balanced_allocation(running: Amounts, waiting: Amounts, score: int) -> None:
    state = with_node({"cpu": 8, "memory": "8Gi"}, running)
    asked = state.classes.of(simple_pod(waiting))
    assert NodeResourcesBalancedAllocation().scores(state, asked, slice(0, 1)).tolist() == [score]


def test_ignored_resources_are_not_checked() -> None:
    state = with_node({"cpu": 8}, {"cpu": 1})
    asked = state.classes.of(simple_pod({"cpu": 1, GPU: 1, "example.org/fpga": 1}))
    assert NodeResourcesFit(ignored=frozenset({GPU})).refusal(state, asked, 0)
    plugin = NodeResourcesFit(ignored=frozenset({GPU}), ignored_groups=frozenset({"example.org"}))
    assert plugin.refusal(state, asked, 0) == 0
    refused = plugin.refusals(state, asked, slice(0, 1))
    assert refused is None or not refused.any()


def test_added_affinity_holds_for_every_pod() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8}, labels={"pool": "a"}), node("n2", {"cpu": 8}, labels={"pool": "b"})])
    plugin = NodeAffinity(AddedAffinity(_only("pool", "b")))
    asked = state.classes.of(simple_pod({"cpu": 1}))
    assert plugin.applies(asked)
    assert plugin.refusals(state, asked, slice(0, 2)).tolist() == [2, 0]
    assert plugin.cause(asked, 2) == "node(s) didn't match scheduler-enforced node affinity"


def _only(key: str, value: str) -> NodeSelector:
    requirement = SelectorRequirement(key=key, operator="In", values=[value])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[requirement])])
