"""scheduler-plugins KEP-454, "LeastNUMANodes": the two formulas and the worked example of two nodes, 82 and 94."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.pods.request import CPU
from bayplan.engine.numa.least_numa import narrowest_sets, normalized_score, take_from_sets
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from tests.builders.clusters import cluster
from tests.builders.objects import Amounts, container, node, pod, topology, zone

LEAST_NUMA_NODES = topology_match(read_arguments({"scoringStrategy": {"type": "LeastNUMANodes"}}))
EVERYTHING: Amounts = {"cpu": 64, "memory": "64Gi"}


def example_node(name: str, cpus_in_node_0: int, cpus_in_node_1: int) -> NodeResourceTopology:
    """A table row and the distance table of the document: zones report nothing but CPUs."""
    return topology(
        zone(0, {"cpu": cpus_in_node_0}, distances={0: 10, 1: 20}),
        zone(1, {"cpu": cpus_in_node_1}, distances={0: 20, 1: 10}),
        name=name,
        policy="best-effort",
    )


# The pod consists of 2 containers each asking for 3 cpus.
TWO_TIMES_THREE = pod(container({"cpu": 3, "memory": "1Gi"}, "first"), container({"cpu": 3, "memory": "1Gi"}, "second"))


@pytest.mark.parametrize(
    "numa_nodes, min_distance, score",
    [
        pytest.param(0, False, 100, id="only non NUMA resources: MaxNodeScore"),
        pytest.param(2, False, 76, id="100 - 2 * 12 + 0"),
        pytest.param(2, True, 82, id="100 - 2 * 12 + 12 / 2"),
        pytest.param(1, True, 94, id="100 - 1 * 12 + 12 / 2"),
        pytest.param(8, False, 4, id="all eight zones"),
    ],
)
def test_normalizing_the_score(numa_nodes: int, min_distance: bool, score: int) -> None:
    found = normalized_score(np.array([numa_nodes]), np.array([min_distance]), np.array([8]))
    assert found.tolist() == [score]


def test_node_1_scores_82_and_node_2_scores_94() -> None:
    state = cluster(
        example_node("Node 1", 2, 4),
        example_node("Node 2", 8, 8),
        nodes=[node("Node 1", EVERYTHING), node("Node 2", EVERYTHING)],
    )
    scores = LEAST_NUMA_NODES.scores(state, state.classes.of(TWO_TIMES_THREE), slice(0, 2))
    assert dict(zip(state.names, scores.tolist(), strict=True)) == {"Node 1": 82, "Node 2": 94}


@pytest.mark.parametrize(
    "cpus, steps",
    [
        # (bits of the set, its width, closest) and what is left in node 0 and node 1 afterwards
        pytest.param((2, 4), [(0b10, 1, True, [2, 1]), (0b11, 2, True, [0, 0])], id="Node 1"),
        pytest.param((8, 8), [(0b01, 1, True, [5, 8]), (0b01, 1, True, [2, 8])], id="Node 2"),
    ],
)
def test_container_by_container(cpus: tuple[int, int], steps: list[tuple[int, int, bool, list[int]]]) -> None:
    state = cluster(example_node("n1", *cpus), nodes=[node("n1", EVERYTHING)])
    hardware = state.hardware_classes[state.columns.hardware_class[0]]
    index = state.columns.resource_index[CPU]
    left = {CPU: state.columns.zone_available[index][:, :1]}
    reported = {CPU: state.columns.zone_reported[index][:1]}
    seen = []
    for _ in steps:
        sets = narrowest_sets(hardware, left, reported, {CPU: 3000}, guaranteed=True)
        take_from_sets(left, {CPU: 3000}, sets.bits)
        cpus_left = [int(amount) // 1000 for amount in left[CPU][:, 0]]
        seen.append((int(sets.bits[0]), int(sets.width[0]), bool(sets.closest[0]), cpus_left))
    assert seen == steps


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_nodes_of_every_policy_are_scored(policy: str) -> None:
    """`LeastNUMANodes` strategy can score nodes running all TopologyManager policies."""
    state = cluster(topology(zone(0, {"cpu": 8, "memory": "8Gi"}, distances={0: 10}), policy=policy))
    asked = state.classes.of(pod(container({"cpu": 3, "memory": "1Gi"})))
    assert LEAST_NUMA_NODES.scores(state, asked, slice(0, 1)).tolist() == [94]


def test_the_smallest_average_distance_is_favoured() -> None:
    """Zones 0 and 1 are far apart, 0 and 2 are close: the pair (0, 2) is taken, and counts as the closest."""
    far, close = 31, 12
    state = cluster(
        topology(
            zone(0, {"cpu": 4}, distances={0: 10, 1: far, 2: close}),
            zone(1, {"cpu": 4}, distances={0: far, 1: 10, 2: far}),
            zone(2, {"cpu": 4}, distances={0: close, 1: far, 2: 10}),
        )
    )
    index = state.columns.resource_index[CPU]
    sets = narrowest_sets(
        state.hardware_classes[state.columns.hardware_class[0]],
        {CPU: state.columns.zone_available[index][:, :1]},
        {CPU: state.columns.zone_reported[index][:1]},
        {CPU: 6000},
        guaranteed=True,
    )
    assert (int(sets.bits[0]), bool(sets.closest[0])) == (0b101, True)
