"""scheduler-plugins KEP-119, "Topology Aware Scheduling": the filter and score algorithms, sentence by sentence.

The document's node has NUMA zones with amounts of their own; a pod must find one zone for each container. Both filter
modes are asked, because both descend from this algorithm: `Upstream` is scheduler-plugins today, `Kubelet` is ours.
"""

from __future__ import annotations

import pytest

from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from bayplan.scheduling.profile import default_profile
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide
from tests.builders.objects import GPU, container, node, pod, simple_pod, topology, zone

# 4 and 8 CPUs: 12 in sum, never more than 8 in one zone. One GPU in each.
WORKER = topology(
    zone(0, {"cpu": 4, "memory": "16Gi", GPU: 1}),
    zone(1, {"cpu": 8, "memory": "16Gi", GPU: 1}),
    name="worker",
)


def burstable(requests: Json) -> Json:
    return container(requests=requests, limits={name: requests[name] for name in requests if "/" in name})


def guaranteed(amounts: Json) -> Json:
    return container({"memory": "1Gi", **amounts})


@pytest.mark.parametrize("mode", ["Kubelet", "Upstream"])
@pytest.mark.parametrize(
    "waiting, fits",
    [
        pytest.param(pod(container()), True, id="BestEffort: return nil before anything is looked at"),
        pytest.param(pod(guaranteed({"cpu": 8})), True, id="a zone's quantity equals the request: numaQuantity >= 0"),
        pytest.param(pod(guaranteed({"cpu": 9})), False, id="Guaranteed CPUs that only the sum of zones holds"),
        pytest.param(pod(burstable({"cpu": 9})), True, id="cpu and not Guaranteed: cpu will flow"),
        pytest.param(pod(guaranteed({"cpu": 6, GPU: 1})), True, id="CPU and GPU bitmasks meet in zone 1"),
        pytest.param(pod(guaranteed({"cpu": 6, GPU: 2})), False, id="the GPU bitmask is empty"),
        pytest.param(pod(burstable({"cpu": 1, GPU: 2})), False, id="devices are counted whatever the QoS class"),
        pytest.param(pod(guaranteed({"cpu": 2, "example.com/fpga": 1})), False, id="a resource of no node"),
        pytest.param(pod(guaranteed({"cpu": 2, "example.com/fpga": 0})), True, id="zero of a resource of no node"),
        pytest.param(
            pod(container({"cpu": 4, "memory": "1Gi"}, "a"), container({"cpu": 8, "memory": "1Gi"}, "b")),
            True,
            id="each container finds a zone of its own",
        ),
        pytest.param(
            pod(container({"cpu": 4, "memory": "1Gi"}, "a"), container({"cpu": 9, "memory": "1Gi"}, "b")),
            False,
            id="one container that cannot be aligned: the pod cannot be aligned",
        ),
    ],
)
def test_filter_algorithm(waiting: Pod, fits: bool, mode: str) -> None:
    plugin = topology_match(read_arguments({"filterMode": mode}))
    assert decide(cluster(WORKER), waiting, default_profile(plugin)).placed is fits


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_other_policies_let_a_pod_span_zones(policy: str) -> None:
    roomy = topology(zone(0, {"cpu": 4}), zone(1, {"cpu": 8}), policy=policy)
    state = cluster(roomy, nodes=[node("n1", {"cpu": 12, "memory": "32Gi"})])
    assert decide(state, simple_pod({"cpu": 9, "memory": "1Gi"})).placed


def test_memory_that_is_not_provided_in_the_report_does_not_matter() -> None:
    """ "Until memory manager will not be merged and memory will not be provided in CRD"."""
    state = cluster(topology(zone(0, {"cpu": 4})), nodes=[node("n1", {"cpu": 4, "memory": "32Gi"})])
    assert decide(state, simple_pod({"cpu": 4, "memory": "24Gi"})).placed


def test_the_node_gets_the_score_of_its_worst_zone() -> None:
    """ "We'll choose a conservative strategy to assume Kubelet will choose the least optimal NUMA"."""
    state = cluster(
        topology(zone(0, {"cpu": 4, "memory": "10Gi"}), zone(1, {"cpu": 10, "memory": "10Gi"})),
    )
    least_allocated = NodeResourceTopologyMatch()
    asked = state.classes.of(simple_pod({"cpu": 2, "memory": "1Gi"}))
    # zone 0: cpu 50, memory 90 -> 70; zone 1: cpu 80, memory 90 -> 85
    assert least_allocated.scores(state, asked, slice(0, 1)).tolist() == [70]
