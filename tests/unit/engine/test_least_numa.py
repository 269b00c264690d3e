"""LeastNUMANodes beyond the document's example: what counts as a zone in use, and what makes a node worth nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.engine.least_numa import take_from_sets
from bayplan.kube.core_v1 import Pod
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from tests.helpers import GPU, Json, cluster, container, node, pod, simple_pod, topology, zone

PLUGIN = NodeResourceTopologyMatch(read_arguments({"scoringStrategy": {"type": "LeastNUMANodes"}}))


def zones(*numbers: int, cpu: int = 4, far: int = 20) -> list[Json]:
    return [
        zone(number, {"cpu": cpu, "memory": "8Gi"}, {other: 10 if other == number else far for other in numbers})
        for number in numbers
    ]


def score(report: NodeResourceTopology, waiting: Pod) -> int:
    state = cluster(report, nodes=[node("n1", {"cpu": 99, "memory": "99Gi", GPU: 9})])
    asked = state.classes.of(waiting)
    together = int(PLUGIN.scores(state, asked, slice(0, 1))[0])
    assert PLUGIN.score(state, asked, 0) == together
    return together


def guaranteed(cpu: int) -> Pod:
    return simple_pod({"cpu": cpu, "memory": "1Gi"})


@pytest.mark.parametrize(
    "wanted, expected",
    [(4, 94), (5, 82), (9, 70), (13, 58), (17, 0)],
    ids=["one zone", "two", "three", "four", "more than all: worth nothing"],
)
def test_each_zone_costs_a_step(wanted: int, expected: int) -> None:
    assert score(topology(*zones(0, 1, 2, 3)), guaranteed(wanted)) == expected


def test_the_step_follows_the_kubelets_limit_of_zones() -> None:
    roomy = topology(*zones(0, 1), attributes={"topologyManagerMaxNUMANodes": "2"})
    assert score(roomy, guaranteed(5)) == 100 - 2 * 50 + 25


def test_a_limit_below_the_zones_needed_is_worth_nothing_instead_of_less() -> None:
    crowded = topology(*zones(0, 1, 2), attributes={"topologyManagerMaxNUMANodes": "2"})
    assert score(crowded, guaranteed(9)) == 0


def test_pods_that_are_not_guaranteed_find_every_node_equally_good() -> None:
    assert score(topology(*zones(0)), pod(container(requests={"cpu": 2}))) == 100


def test_a_resource_that_no_zone_reports_makes_every_set_invalid() -> None:
    assert score(topology(*zones(0)), simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1})) == 0


def test_a_zone_must_report_everything_that_is_asked_for() -> None:
    """Zone 0 has no GPU, so only zone 1 can be used although zone 0 has the CPUs."""
    with_gpu = topology(zone(0, {"cpu": 4, "memory": "8Gi"}), zone(1, {"cpu": 4, "memory": "8Gi", GPU: 1}))
    assert score(with_gpu, simple_pod({"cpu": 4, "memory": "1Gi", GPU: 1})) == 94
    assert score(with_gpu, simple_pod({"cpu": 5, "memory": "1Gi", GPU: 1})) == 0


def test_the_widest_container_decides_at_container_scope() -> None:
    waiting = pod(container({"cpu": 5, "memory": "1Gi"}, "wide"), container({"cpu": 1, "memory": "1Gi"}, "narrow"))
    assert score(topology(*zones(0, 1, 2)), waiting) == 82


def test_the_sum_decides_at_pod_scope() -> None:
    waiting = pod(container({"cpu": 4, "memory": "1Gi"}, "a"), container({"cpu": 4, "memory": "1Gi"}, "b"))
    assert score(topology(*zones(0, 1)), waiting) == 94
    assert score(topology(*zones(0, 1), scope="pod"), waiting) == 82


def test_sparse_ids_make_no_difference() -> None:
    assert score(topology(*zones(3, 17, 40)), guaranteed(5)) == 82


@pytest.mark.parametrize("count", [9, 20, 64])
def test_more_zones_than_tables_hold(count: int) -> None:
    assert score(topology(*zones(*range(count))), guaranteed(5)) == 82


def test_amounts_are_taken_lowest_zone_first() -> None:
    left = {"cpu": np.array([[3.0], [4.0], [5.0]])}
    before = left["cpu"]
    take_from_sets(left, {"cpu": 6}, np.array([0b101], dtype=np.uint64))
    assert left["cpu"][:, 0].tolist() == [0, 4, 2]
    assert before[:, 0].tolist() == [3, 4, 5], "the columns themselves stay as they are"
