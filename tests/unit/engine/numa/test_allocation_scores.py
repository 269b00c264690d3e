"""LeastAllocated, MostAllocated and BalancedAllocation over zones: the arithmetic by hand, for
many nodes and for one.
"""

from __future__ import annotations

import pytest

from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import container, node, pod, simple_pod, topology, zone


def score(strategy: str, report: NodeResourceTopology, waiting: Pod, weights: list[Json] | None = None) -> int:
    """The node's score, asked together with another node and as the one that changed."""
    plugin = topology_match(read_arguments({"scoringStrategy": {"type": strategy, "resources": weights or []}}))
    state = cluster(report, topology(zone(0, {"cpu": 1}), name="other", policy="none"))
    asked = state.classes.of(waiting)
    together = int(plugin.scores(state, asked, slice(0, 2))[0])
    assert plugin.score(state, asked, 0) == together
    return together


POD = simple_pod({"cpu": 2, "memory": "1Gi"})
ONE_ZONE = topology(zone(0, {"cpu": 8, "memory": "10Gi"}))


@pytest.mark.parametrize(
    "strategy, expected",
    [
        pytest.param("LeastAllocated", 82, id="(75 + 90) / 2 stays free"),
        pytest.param("MostAllocated", 17, id="(25 + 10) / 2 is used"),
        pytest.param("BalancedAllocation", 98, id="shares of 0.25 and 0.1 differ little"),
    ],
)
def test_one_zone(strategy: str, expected: int) -> None:
    assert score(strategy, ONE_ZONE, POD) == expected


@pytest.mark.parametrize(
    "strategy, expected",
    [("LeastAllocated", 90), ("MostAllocated", 10)],
)
def test_weights_pull_the_mean(strategy: str, expected: int) -> None:
    """Memory counts a thousand times: its share is almost all there is."""
    weights = [{"name": "memory", "weight": 1000}, {"name": "cpu", "weight": 1}]
    assert abs(score(strategy, ONE_ZONE, POD, weights) - expected) <= 1


@pytest.mark.parametrize("strategy, expected", [("LeastAllocated", 70), ("MostAllocated", 15)])
def test_a_node_is_worth_its_worst_zone(strategy: str, expected: int) -> None:
    two = topology(zone(0, {"cpu": 4, "memory": "10Gi"}), zone(1, {"cpu": 10, "memory": "10Gi"}))
    assert score(strategy, two, POD) == expected


def test_a_zone_that_is_worth_nothing_is_passed_over() -> None:
    two = topology(zone(0, {"cpu": 1, "memory": "512Mi"}), zone(1, {"cpu": 8, "memory": "10Gi"}))
    assert score("LeastAllocated", two, POD) == 82


def test_no_zone_fits_at_all() -> None:
    assert score("LeastAllocated", topology(zone(0, {"cpu": 1, "memory": "512Mi"})), POD) == 0


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_only_single_numa_node_is_scored(policy: str) -> None:
    report = topology(zone(0, {"cpu": 8, "memory": "10Gi"}), policy=policy)
    assert score("LeastAllocated", report, POD) == 0


def test_pods_that_are_not_guaranteed_find_every_node_equally_good() -> None:
    assert score("LeastAllocated", ONE_ZONE, pod(container(requests={"cpu": 2}))) == 100


def test_at_container_scope_the_mean_over_containers_counts() -> None:
    waiting = pod(container({"cpu": 2, "memory": "1Gi"}, "a"), container({"cpu": 4, "memory": "5Gi"}, "b"))
    # a: (75 + 90) / 2 = 82, b: (50 + 50) / 2 = 50
    assert score("LeastAllocated", ONE_ZONE, waiting) == 66


def test_at_pod_scope_the_sum_counts() -> None:
    waiting = pod(container({"cpu": 2, "memory": "1Gi"}, "a"), container({"cpu": 4, "memory": "5Gi"}, "b"))
    report = topology(zone(0, {"cpu": 8, "memory": "10Gi"}), scope="pod")
    # 6 of 8 CPUs, 6 of 10 GiB: (25 + 40) / 2
    assert score("LeastAllocated", report, waiting) == 32


def test_a_fraction_of_a_cpu_counts_as_a_whole_one() -> None:
    """scheduler-plugins compares whole units, rounded up."""
    assert score("LeastAllocated", ONE_ZONE, simple_pod({"cpu": "1500m", "memory": "1Gi"})) == 82


def test_stale_data_is_worth_nothing() -> None:
    state = cluster(ONE_ZONE, nodes=[node("n1", {"cpu": 8})])
    state.set_fresh("n1", fresh=False)
    plugin = NodeResourceTopologyMatch()
    assert plugin.scores(state, state.classes.of(POD), slice(0, 1)).tolist() == [0]
    assert plugin.score(state, state.classes.of(POD), 0) == 0
