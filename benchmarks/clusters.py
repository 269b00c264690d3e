"""Clusters for measuring: 8 zones and 6 NUMA resources a node, half full at random, always the same for a size.

The columns are filled in bulk, because reading a hundred thousand objects is another measurement; one node's report is
read the ordinary way and stands for all of them, so every node has the same hardware and only the free amounts differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

ZONES = 8
GIB = 2**30
# Total per zone; CPUs in milli-CPUs.
ZONE_TOTALS = {
    "cpu": 16_000,
    "memory": 64 * GIB,
    "hugepages-1Gi": 8 * GIB,
    "hugepages-2Mi": 2 * GIB,
    "vendor.com/gpu": 2,
    "vendor.com/nic": 8,
}
# How finely amounts are taken.
ZONE_STEPS = {
    "cpu": 1000,
    "memory": GIB,
    "hugepages-1Gi": GIB,
    "hugepages-2Mi": GIB // 8,
    "vendor.com/gpu": 1,
    "vendor.com/nic": 1,
}
EVERYWHERE = slice(None)


def cluster(nodes: int, policies: Sequence[Policy] = (Policy.SINGLE_NUMA_NODE,), *, seed: int = 1) -> ClusterState:
    """A half-full cluster whose nodes take the given policies in turn."""
    columns = Columns(rows=nodes, zones=ZONES, resources=len(ZONE_TOTALS) + 2)
    state = ClusterState(columns=columns)
    state.set_node(msgspec.convert(node("node-0"), Node))
    state.set_topology(msgspec.convert(topology("node-0"), NodeResourceTopology))
    columns.size = nodes
    for value in vars(columns).values():
        if isinstance(value, np.ndarray):
            value[..., 1:] = value[..., :1]
    state.names = [f"node-{row}" for row in range(nodes)]
    state.rows = {name: row for row, name in enumerate(state.names)}
    state.nodes[:] = state.nodes * nodes
    state.reports[:] = state.reports * nodes
    random = np.random.default_rng(seed)
    for name, total in ZONE_TOTALS.items():
        step = ZONE_STEPS[name]
        index = columns.resource_index[name]
        free = random.integers(0, total // step + 1, size=(ZONES, nodes)) * float(step)
        columns.zone_available[index] = free
        columns.zone_available_sum[index] = free.sum(axis=0)
        columns.free[index] = free.sum(axis=0)
    columns.policy[:] = columns.upstream_policy[:] = np.resize(np.array(policies, dtype=np.int8), nodes)
    columns.scope[:] = columns.upstream_scope[:] = Scope.CONTAINER
    columns.recount()
    return state


def pod(name: str, **amounts: str | int) -> Pod:
    """A Guaranteed pod with one container."""
    return pod_of_containers(name, amounts)


def pod_of_containers(name: str, *containers: dict[str, str | int]) -> Pod:
    """A Guaranteed pod; keys use `_` for the characters a Python name cannot have."""
    spelled = {"hugepages_1Gi": "hugepages-1Gi", "hugepages_2Mi": "hugepages-2Mi"}
    spelled |= {"gpu": "vendor.com/gpu", "nic": "vendor.com/nic"}
    listed = [
        {
            "name": f"c{index}",
            "resources": {"limits": {spelled.get(key, key): value for key, value in amounts.items()}},
        }
        for index, amounts in enumerate(containers)
    ]
    return msgspec.convert({"metadata": {"name": name, "namespace": "bench"}, "spec": {"containers": listed}}, Pod)


def node(name: str) -> dict[str, object]:
    """A Node object with the sums of its zones."""
    allocatable = {
        resource: f"{total * ZONES}m" if resource == "cpu" else total * ZONES for resource, total in ZONE_TOTALS.items()
    }
    return {"metadata": {"name": name}, "status": {"allocatable": {**allocatable, "pods": 1000}}}


def topology(name: str) -> dict[str, object]:
    """A NodeResourceTopology object of an idle node: two packages of four zones."""
    zones = []
    for zone in range(ZONES):
        resources = []
        for resource, total in ZONE_TOTALS.items():
            amount = f"{total}m" if resource == "cpu" else str(total)
            resources.append({"name": resource, "capacity": amount, "allocatable": amount, "available": amount})
        costs = [
            {"name": f"node-{other}", "value": 10 if other == zone else 12 if other // 4 == zone // 4 else 32}
            for other in range(ZONES)
        ]
        zones.append({"name": f"node-{zone}", "type": "Node", "resources": resources, "costs": costs})
    policy = {"name": "topologyManagerPolicy", "value": Policy.SINGLE_NUMA_NODE.text}
    return {"metadata": {"name": name}, "attributes": [policy], "zones": zones}
