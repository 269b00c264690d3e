"""Mode `Upstream` reads reports as scheduler-plugins does, in scores too: unknown words mean the default, and a report
without zones is a report.
"""

from __future__ import annotations

import pytest

from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from tests.builders.clusters import cluster
from tests.builders.objects import container, pod, topology, zone

TWO_ZONES = (zone(0, {"cpu": 4, "memory": "8Gi"}), zone(1, {"cpu": 4, "memory": "8Gi"}))
TWO_CONTAINERS = pod(container({"cpu": 3, "memory": "1Gi"}, "a"), container({"cpu": 3, "memory": "1Gi"}, "b"))


def score(report: NodeResourceTopology, strategy: str) -> int:
    plugin = topology_match(read_arguments({"filterMode": "Upstream", "scoringStrategy": {"type": strategy}}))
    state = cluster(report)
    everything = plugin.scores(state, state.classes.of(TWO_CONTAINERS), slice(0, 1))
    assert plugin.score(state, state.classes.of(TWO_CONTAINERS), 0) == everything[0]
    return int(everything[0])


@pytest.mark.parametrize("strategy", ["LeastNUMANodes", "LeastAllocated", "MostAllocated"])
def test_a_scope_that_no_kubelet_has_is_container(strategy: str) -> None:
    assert score(topology(*TWO_ZONES, scope="Pod"), strategy) == score(topology(*TWO_ZONES), strategy)
    assert score(topology(*TWO_ZONES, scope="Pod"), strategy) != score(topology(*TWO_ZONES, scope="pod"), strategy)


def test_a_policy_that_no_kubelet_has_is_none() -> None:
    assert score(topology(*TWO_ZONES, policy="odd"), "LeastNUMANodes") == score(topology(*TWO_ZONES), "LeastNUMANodes")
    assert score(topology(*TWO_ZONES, policy="odd"), "LeastAllocated") == 0


def test_without_zones_no_zone_is_needed() -> None:
    assert score(topology(), "LeastNUMANodes") == 100
