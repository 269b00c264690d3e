"""The exact replay of one admission on one node: what verifying a chosen node costs."""

from __future__ import annotations

from functools import partial

from bayplan.cluster.pods.pod_class import pod_class_of
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy
from bayplan.engine.kubelet import admit
from bayplan.engine.numa.placement import knowledge_of
from benchmarks.clusters import cluster, pod, pod_of_containers
from benchmarks.measure import median_seconds, report

ONE = pod("one", cpu=4, memory="8Gi", gpu=1)
_SMALL: dict[str, str | int] = {"cpu": 2, "memory": "2Gi", "nic": 1}
FOUR = pod_of_containers("four", _SMALL, _SMALL, _SMALL, _SMALL)
LARGE = pod("large", cpu=40, memory="150Gi", gpu=5)


def run() -> None:
    """Print all figures of this group."""
    for policy in (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT):
        state = cluster(1, (policy,), seed=4)
        node = knowledge_of(state, 0, Assumptions())
        assert node is not None
        for name, asked in (("1-container", ONE), ("4-containers", FOUR), ("larger-than-a-zone", LARGE)):
            request = pod_class_of(asked).request
            seconds = median_seconds(partial(admit, node, request), seconds=0.3)
            report(f"replay/{policy.text}/{name}/8-zones", seconds * 1e3, "ms")
