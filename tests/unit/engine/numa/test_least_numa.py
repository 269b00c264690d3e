"""LeastNUMANodes beyond the document's example: what counts as a zone in use, and what makes a node worth nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.engine.numa.least_numa import relative_width_scores, take_from_sets
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, Amounts, container, cpu_pod, node, pod, simple_pod, topology, zone

PLUGIN = topology_match(read_arguments({"scoringStrategy": {"type": "LeastNUMANodes"}}))
AS_UPSTREAM = topology_match(read_arguments({"scoringStrategy": {"type": "LeastNUMANodes"}, "filterMode": "Upstream"}))


def zones(*numbers: int, cpu: int = 4, far: int = 20) -> list[Json]:
    return [
        zone(number, {"cpu": cpu, "memory": "8Gi"}, {other: 10 if other == number else far for other in numbers})
        for number in numbers
    ]


def score(report: NodeResourceTopology, waiting: Pod, plugin: NodeResourceTopologyMatch = PLUGIN) -> int:
    state = cluster(report, nodes=[node("n1", {"cpu": 99, "memory": "99Gi", GPU: 9})])
    asked = state.classes.of(waiting)
    together = int(plugin.scores(state, asked, slice(0, 1))[0])
    assert plugin.score(state, asked, 0) == together
    return together


@pytest.mark.parametrize(
    "wanted, expected",
    [(4, 94), (5, 82), (9, 70), (13, 58), (17, 0)],
    ids=["one zone", "two", "three", "four", "more than all: worth nothing"],
)
def test_each_zone_costs_a_step(wanted: int, expected: int) -> None:
    assert score(topology(*zones(0, 1, 2, 3)), cpu_pod(wanted)) == expected


def test_the_step_follows_the_kubelets_limit_of_zones() -> None:
    roomy = topology(*zones(0, 1), attributes={"topologyManagerMaxNUMANodes": "2"})
    assert score(roomy, cpu_pod(5)) == 100 - 2 * 50 + 25


def test_a_limit_below_the_zones_needed_is_worth_nothing_instead_of_less() -> None:
    crowded = topology(*zones(0, 1, 2), attributes={"topologyManagerMaxNUMANodes": "2"})
    assert score(crowded, cpu_pod(9)) == 0


def test_pods_that_are_not_guaranteed_find_every_node_equally_good() -> None:
    assert score(topology(*zones(0)), pod(container(requests={"cpu": 2}))) == 100


@pytest.mark.parametrize(
    "extra, attributes",
    [
        pytest.param({GPU: 1}, {}, id="a device without NUMA zones"),
        pytest.param({"ephemeral-storage": "1Gi"}, {}, id="ephemeral storage"),
        pytest.param({"memory": "99Gi"}, {"memoryManagerPolicy": "None"}, id="memory that no manager pins"),
    ],
)
def test_a_resource_that_no_zone_aligns_does_not_void_the_score(extra: Amounts, attributes: dict[str, str]) -> None:
    waiting = simple_pod({"cpu": 5, "memory": "1Gi", **extra})
    assert score(topology(*zones(0, 1), attributes=attributes), waiting) == 82


def test_as_upstream_a_resource_that_no_zone_reports_makes_every_set_invalid() -> None:
    assert score(topology(*zones(0)), simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1}), AS_UPSTREAM) == 0


def test_a_zone_without_the_device_may_give_the_cpus() -> None:
    """The GPU is in zone 1, and five CPUs need both zones."""
    with_gpu = topology(
        zone(0, {"cpu": 4, "memory": "8Gi"}, {0: 10, 1: 20}),
        zone(1, {"cpu": 4, "memory": "8Gi", GPU: 1}, {0: 20, 1: 10}),
    )
    assert score(with_gpu, simple_pod({"cpu": 4, "memory": "1Gi", GPU: 1})) == 94
    assert score(with_gpu, simple_pod({"cpu": 5, "memory": "1Gi", GPU: 1})) == 82
    assert score(with_gpu, simple_pod({"cpu": 5, "memory": "1Gi", GPU: 1}), AS_UPSTREAM) == 0


def test_what_an_init_container_held_is_free_for_the_containers_after_it() -> None:
    waiting = pod(container({"cpu": 4, "memory": "1Gi"}), init=[container({"cpu": 4, "memory": "1Gi"}, "setup")])
    assert score(topology(*zones(0, 1)), waiting) == 94
    assert score(topology(*zones(0, cpu=4)), waiting) == 94, "there is no other zone"


def test_a_container_keeps_the_cpus_of_the_init_container_in_its_set() -> None:
    """The init container took zone 0, which holds no more than two CPUs; four need zone 0 and another."""
    report = topology(
        zone(0, {"cpu": 2, "memory": "8Gi"}, {0: 10, 1: 20}), zone(1, {"cpu": 4, "memory": "8Gi"}, {0: 20, 1: 10})
    )
    waiting = pod(container({"cpu": 4, "memory": "1Gi"}), init=[container({"cpu": 2, "memory": "1Gi"}, "setup")])
    assert score(report, waiting) == 82


def three_zones(attributes: dict[str, str]) -> NodeResourceTopology:
    """Zones 0 and 1 are far from each other, 0 and 2 are neighbours."""
    distances = {0: {0: 10, 1: 31, 2: 12}, 1: {0: 31, 1: 10, 2: 31}, 2: {0: 12, 1: 31, 2: 10}}
    return topology(*(zone(i, {"cpu": 4, "memory": "8Gi"}, distances[i]) for i in range(3)), attributes=attributes)


@pytest.mark.parametrize(
    "attributes, kubelet, upstream",
    [
        pytest.param({}, 76, 82, id="by number: zones 0 and 1, far apart"),
        pytest.param({"topologyManagerOptionPreferClosestNumaNodes": "true"}, 82, 82, id="by distance: zones 0 and 2"),
    ],
)
def test_only_a_kubelet_that_chooses_by_distance_picks_the_closest_zones(
    attributes: dict[str, str], kubelet: int, upstream: int
) -> None:
    assert score(three_zones(attributes), cpu_pod(6)) == kubelet
    assert score(three_zones(attributes), cpu_pod(6), AS_UPSTREAM) == upstream


def test_a_pod_that_is_not_pinned_may_use_all_zones() -> None:
    assert (
        score(
            topology(*zones(0, 1), attributes={"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}),
            cpu_pod(1),
        )
        == 76
    )


@pytest.mark.parametrize("count", [9, 20, 64])
@pytest.mark.parametrize("closest_first", ["false", "true"])
def test_more_zones_than_tables_hold_are_picked_in_the_kubelets_order(count: int, closest_first: str) -> None:
    """Neighbours are 12 apart, all others 31; zone 0 is full, so 1 and 2 are the lowest, and 2 and 3 the lowest
    neighbours.
    """

    def distance(here: int, there: int) -> int:
        return 10 if here == there else 12 if here // 2 == there // 2 else 31

    report = topology(
        *(
            zone(
                here,
                {"cpu": 4 if here else 0, "memory": "8Gi"},
                {there: distance(here, there) for there in range(count)},
            )
            for here in range(count)
        ),
        attributes={"topologyManagerOptionPreferClosestNumaNodes": closest_first},
    )
    assert score(report, cpu_pod(5)) == (82 if closest_first == "true" else 76)


def test_the_widest_container_decides_at_container_scope() -> None:
    waiting = pod(container({"cpu": 5, "memory": "1Gi"}, "wide"), container({"cpu": 1, "memory": "1Gi"}, "narrow"))
    assert score(topology(*zones(0, 1, 2)), waiting) == 82


def test_the_sum_decides_at_pod_scope() -> None:
    waiting = pod(container({"cpu": 4, "memory": "1Gi"}, "a"), container({"cpu": 4, "memory": "1Gi"}, "b"))
    assert score(topology(*zones(0, 1)), waiting) == 94
    assert score(topology(*zones(0, 1), scope="pod"), waiting) == 82


def test_sparse_ids_make_no_difference() -> None:
    assert score(topology(*zones(3, 17, 40)), cpu_pod(5)) == 82


@pytest.mark.parametrize("count", [9, 20, 64])
def test_more_zones_than_tables_hold(count: int) -> None:
    assert score(topology(*zones(*range(count))), cpu_pod(5)) == 82


def test_amounts_are_taken_lowest_zone_first() -> None:
    left = {"cpu": np.array([[3.0], [4.0], [5.0]])}
    before = left["cpu"]
    take_from_sets(left, {"cpu": 6}, np.array([0b101], dtype=np.uint64))
    assert left["cpu"][:, 0].tolist() == [0, 4, 2]
    assert before[:, 0].tolist() == [3, 4, 5], "the columns themselves stay as they are"


@pytest.mark.parametrize(
    "needed, weight, expected",
    [
        pytest.param([1, 2, 4], 10, [750, 500, 0], id="documented example"),
        pytest.param([1, 3], 10, [670, 0], id="quotient rounded down before subtraction"),
        pytest.param([0, 0], 3, [300, 300], id="no zones needed"),
    ],
)
def test_volcano_scores_are_relative_to_the_widest_node(needed: list[int], weight: int, expected: list[int]) -> None:
    assert relative_width_scores(np.array(needed), weight).tolist() == expected
