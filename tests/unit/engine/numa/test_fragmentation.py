"""Fragmentation: how much smaller the largest aligned pod is than it could be if what is free lay together."""

import math

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.fragmentation import aligned_amounts, fragmentation
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, node, topology, zone


def share(state: ClusterState, resource: str) -> float:
    amounts = aligned_amounts(state, resource, np.arange(state.columns.size))
    return float(fragmentation(amounts.largest.sum(), amounts.at_best.sum()))


def half(free: tuple[int, int], policy: str = "single-numa-node") -> ClusterState:
    """A node of two zones with 24 CPUs, of which 22 are for pods, and so many free."""
    return cluster(
        topology(
            *(zone(number, {"cpu": (24, 22, amount), GPU: 4}) for number, amount in enumerate(free)), policy=policy
        )
    )


@pytest.mark.parametrize(
    "free, expected",
    [
        ((22, 22), 0.0),  # idle
        ((0, 22), 0.0),  # one zone full, one empty: nothing better is possible
        ((11, 11), 0.5),  # 22 could lie in one zone
        ((16, 16), 1 - 16 / 22),  # together they would fill a zone
        ((3, 1), 0.25),
    ],
)
def test_it_is_what_lies_in_the_wrong_zone(free: tuple[int, int], expected: float) -> None:
    assert share(half(free), "cpu") == pytest.approx(expected)


@pytest.mark.parametrize("free", [(0, 0)])
def test_where_nothing_is_free_there_is_no_share(free: tuple[int, int]) -> None:
    assert math.isnan(share(half(free), "cpu"))


def test_where_nothing_is_aligned_or_known_there_is_no_share() -> None:
    assert math.isnan(share(half((11, 11), policy="none"), "cpu"))
    assert math.isnan(share(cluster(nodes=[node("n1", {"cpu": 16})]), "cpu"))


def test_several_nodes_count_by_their_size() -> None:
    split = topology(zone(0, {"cpu": (8, 8, 4)}), zone(1, {"cpu": (8, 8, 4)}), name="split")
    whole = topology(zone(0, {"cpu": 24}), name="whole")
    # 4 of 8 and 24 of 24 could be had in one zone.
    assert share(cluster(split, whole), "cpu") == pytest.approx(4 / 32)


@pytest.mark.parametrize("options, largest", [({}, 3000), ({"cpuManagerPolicyOptions": "full-pcpus-only=true"}, 2000)])
def test_cpus_come_whole_and_in_cores_where_the_kubelet_hands_out_cores(options: dict[str, str], largest: int) -> None:
    attributes = {"cpuManagerPolicy": "static", "bayplan.io/threads-per-core": "2", **options}
    state = cluster(topology(zone(0, {"cpu": (8, 8, "3500m")}), attributes=attributes))
    assert aligned_amounts(state, "cpu", np.arange(1)).largest[0] == largest


def test_no_zone_gives_more_than_the_node_has_left() -> None:
    report = topology(zone(0, {"cpu": 8}), zone(1, {"cpu": 8}))
    state = cluster(report, nodes=[node("n1", {"cpu": 5})])
    assert aligned_amounts(state, "cpu", np.arange(1)).largest[0] == 5000
