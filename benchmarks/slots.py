"""How many pods of a class each node takes: counting all nodes for a new class, and repairing the count after a
placement.

Targets on two shared cores: a pod of one container under 1 ms at 5,000 nodes and under 8 ms at 50,000; one row under 50
us.

Pods larger than a zone are replayed node by node where the policy allows them. They are measured on idle nodes, which
are equal and replayed once, and, per node, on nodes that are all different: that is the price of a cold start on a used
cluster.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from bayplan.cluster.pods.pod_class import PodClass, pod_class_of
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.slots.slots import slots
from bayplan.gangs.class_slots import ClassSlots
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import default_profile
from benchmarks.clusters import ZONE_TOTALS, ZONES, cluster, pod, pod_of_containers
from benchmarks.measure import FEWEST_RUNS, median_seconds, milliseconds, report

SIZES = (5_000, 20_000, 50_000)
MOST = 64
IN_A_ROW = 200
DIFFERENT_NODES = 200

ONE_CONTAINER = pod("one", cpu=2, memory="4Gi", gpu=1)
TWO_CONTAINERS = pod_of_containers("two", {"cpu": 4, "memory": "8Gi", "gpu": 1}, {"cpu": 2, "memory": "4Gi", "nic": 1})
LARGER_THAN_A_ZONE = pod("large", cpu=24, memory="100Gi", gpu=3)


def run() -> None:
    """Print all figures of this group."""
    for size in SIZES:
        state = cluster(size)
        milliseconds(f"slots/1-container/{size}", _count(state, ONE_CONTAINER))
        milliseconds(f"slots/2-containers/{size}", _count(state, TWO_CONTAINERS))
        report(f"slots/repair-1-row/1-container/{size}", _seconds_of_a_repair(state, ONE_CONTAINER) * 1e6, "us")
        report(f"slots/repair-1-row/2-containers/{size}", _seconds_of_a_repair(state, TWO_CONTAINERS) * 1e6, "us")
        milliseconds(f"slots/larger-than-a-zone/idle/restricted/{size}", _count(_idle(size), LARGER_THAN_A_ZONE))
    for policy in (Policy.RESTRICTED, Policy.BEST_EFFORT, Policy.NONE):
        for name, waiting in (("1-container", ONE_CONTAINER), ("larger-than-a-zone", LARGER_THAN_A_ZONE)):
            seconds = _seconds_without_memory(policy, waiting)
            report(f"slots/{name}/different-nodes/{policy.text}", seconds / DIFFERENT_NODES * 1e6, "us/node")


def _count(state: ClusterState, waiting: Pod) -> Callable[[], object]:
    pod_class = pod_class_of(waiting)
    return lambda: slots(state, pod_class, Assumptions(), slice(0, state.columns.size), MOST)


def _of_policy(state: ClusterState, policy: Policy) -> ClusterState:
    """The reports must say what the columns say: a replay looks at them."""
    told = state.reports[0]
    assert told is not None
    state.reports[:] = [replace(told, settings=replace(told.settings, policy=policy))] * len(state.reports)
    return state


def _idle(size: int) -> ClusterState:
    state = _of_policy(cluster(size, (Policy.RESTRICTED,)), Policy.RESTRICTED)
    columns = state.columns
    for name, total in ZONE_TOTALS.items():
        index = columns.resource_index[name]
        columns.zone_available[index] = total
        columns.zone_available_sum[index] = columns.free[index] = total * ZONES
    return state


def _seconds_without_memory(policy: Policy, waiting: Pod) -> float:
    """Nodes that were never counted before: every run has a cluster of its own, and most of its nodes are replayed."""
    states = [_of_policy(cluster(DIFFERENT_NODES, (policy,), seed=seed), policy) for seed in range(FEWEST_RUNS + 1)]
    pod_class, new_ones = pod_class_of(waiting), iter(states)
    return median_seconds(
        lambda: slots(next(new_ones), pod_class, Assumptions(), slice(0, DIFFERENT_NODES), MOST), seconds=0.0
    )


def _seconds_of_a_repair(state: ClusterState, waiting: Pod) -> float:
    """A pod is assumed on a node, and its class's slots are asked for again; the filters' answers are counted in."""
    profile, pod_class = default_profile(), state.classes.of(waiting)
    kept = ClassSlots(state, pod_class, profile, ClassAnswer(state, pod_class, profile))
    counts = kept.refresh(MOST)
    rows = [row for row in range(state.columns.size) if counts[row]][:IN_A_ROW]
    times = [_repair(state, kept, waiting, pod_class, row) for row in rows]
    for row in rows:
        state.forget(f"bench/{row}")
    return statistics.median(times)


def _repair(state: ClusterState, kept: ClassSlots, waiting: Pod, pod_class: PodClass, row: int) -> float:
    placement = NodeResourceTopologyMatch().place(state, pod_class, row)
    assume(state, Decision(f"bench/{row}", state.names[row], row, charges=placement.charges), waiting)
    before = time.thread_time()
    kept.refresh(MOST)
    return time.thread_time() - before
