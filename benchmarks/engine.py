"""One new pod class against every node: the filter under each policy, and the four scores, at growing sizes.

Targets on two shared cores at 5,000 nodes x 8 zones x 6 resources: filter 0.3 ms, LeastAllocated 0.6 ms, LeastNUMANodes
4 ms.
"""

from __future__ import annotations

from functools import partial

from bayplan.cluster.pods.pod_class import pod_class_of
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.plugins.node_resource_topology_args import decode_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from benchmarks.clusters import cluster, pod, pod_of_containers
from benchmarks.measure import bytes_of_arrays, milliseconds, report

SIZES = (1_000, 5_000, 20_000, 100_000)
EVERY_POLICY = (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT, Policy.NONE)

PODS = {
    "6-resources": pod("six", cpu=4, memory="8Gi", hugepages_1Gi="2Gi", hugepages_2Mi="512Mi", gpu=1, nic=2),
    "3-resources": pod("three", cpu=4, memory="8Gi", gpu=1),
    "2-containers": pod_of_containers(
        "two", {"cpu": 4, "memory": "8Gi", "gpu": 1}, {"cpu": 2, "memory": "4Gi", "nic": 1}
    ),
    "larger-than-a-zone": pod("large", cpu=24, memory="100Gi", gpu=3),
}


def run() -> None:
    """Print all figures of this group."""
    for size in SIZES:
        _filters(size)
    for size in SIZES:
        _scores(size)


def _filters(size: int) -> None:
    plugin = NodeResourceTopologyMatch()
    everything = slice(0, size)
    for label, policies in (
        ("single-numa-node", (Policy.SINGLE_NUMA_NODE,)),
        ("restricted", (Policy.RESTRICTED,)),
        ("mixed-policies", EVERY_POLICY),
    ):
        state = cluster(size, policies)
        if label == "single-numa-node":
            report(f"memory-of-columns/{size}", bytes_of_arrays(state.columns) / size, "bytes/node")
        for name, asked in PODS.items():
            if label == "mixed-policies" and name in ("2-containers", "larger-than-a-zone"):
                continue
            milliseconds(
                f"filter/{label}/{name}/{size}", partial(plugin.refusals, state, pod_class_of(asked), everything)
            )


def _scores(size: int) -> None:
    state = cluster(size)
    everything = slice(0, size)
    for strategy in ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"):
        plugin = NodeResourceTopologyMatch(decode_arguments({"scoringStrategy": {"type": strategy}}))
        for name in ("6-resources", "larger-than-a-zone") if strategy == "LeastNUMANodes" else ("6-resources",):
            asked = pod_class_of(PODS[name])
            milliseconds(f"score/{strategy}/{name}/{size}", partial(plugin.scores, state, asked, everything))
