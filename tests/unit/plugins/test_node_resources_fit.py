"""Room on the node as a whole: the first resource that is short, and scores that stay between 0 and 100."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, Amounts, container, node, pod, simple_pod


def cause(state: ClusterState, waiting: Pod) -> str:
    """Why the first node is refused; asked for many and for one."""
    plugin = NodeResourcesFit()
    asked = state.classes.of(waiting)
    code = plugin.refusal(state, asked, 0)
    together = plugin.refusals(state, asked, slice(0, 1))
    assert (0 if together is None else int(together[0])) == code
    return plugin.cause(asked, code) if code else "fits"


@pytest.mark.parametrize(
    "wanted, words",
    [
        ({"cpu": 8, "memory": "8Gi"}, "fits"),
        ({"cpu": "8001m"}, "Insufficient cpu"),
        ({"memory": "9Gi"}, "Insufficient memory"),
        ({GPU: 1}, f"Insufficient {GPU}"),
        ({GPU: 0}, "fits"),
        ({"cpu": 9, "memory": "9Gi"}, "Insufficient cpu"),
    ],
    ids=["exactly", "cpu", "memory", "not offered", "zero of it", "the first one is named"],
)
def test_a_node_of_8_cpus_and_8_gib(wanted: Amounts, words: str) -> None:
    assert cause(cluster(nodes=[node("n1", {"cpu": 8, "memory": "8Gi"})]), simple_pod(wanted)) == words


def test_a_node_without_a_place_left() -> None:
    full = cluster(nodes=[node("n1", {"pods": 1})], pods=[pod(name="first", nodeName="n1")])
    assert cause(full, pod()) == "Too many pods"


def test_what_runs_there_counts() -> None:
    running = simple_pod({"cpu": 6}, "first", nodeName="n1")
    state = cluster(nodes=[node("n1", {"cpu": 8})], pods=[running])
    assert cause(state, simple_pod({"cpu": 2})) == "fits"
    assert cause(state, simple_pod({"cpu": 3})) == "Insufficient cpu"


def score(state: ClusterState, waiting: Pod, *, most_allocated: bool = False) -> int:
    plugin = NodeResourcesFit(most_allocated=most_allocated)
    asked = state.classes.of(waiting)
    together = int(plugin.scores(state, asked, slice(0, 1))[0])
    assert plugin.score(state, asked, 0) == together
    return together


def test_the_mean_share_of_cpu_and_memory_that_stays_free_or_is_used() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8, "memory": "10Gi"})])
    waiting = simple_pod({"cpu": 2, "memory": "1Gi"})
    assert (score(state, waiting), score(state, waiting, most_allocated=True)) == (82, 17)


@pytest.mark.parametrize(
    "allocatable, running, waiting",
    [
        pytest.param({"cpu": 8}, {}, {"cpu": 1, "memory": "64Gi"}, id="a node without memory"),
        pytest.param({}, {}, {"cpu": 64, "memory": "64Gi"}, id="a node without anything"),
        pytest.param({"cpu": 1, "memory": "8Gi"}, {"cpu": 64}, {"memory": "1Gi"}, id="a node overdrawn in CPUs"),
    ],
)
@pytest.mark.parametrize("most_allocated", [False, True])
def test_scores_never_leave_their_range(
    allocatable: Amounts, running: Amounts, waiting: Amounts, most_allocated: bool
) -> None:
    state = cluster(nodes=[node("n1", allocatable)], pods=[simple_pod(running, "first", nodeName="n1")])
    wanted = pod(container(requests=waiting))
    assert 0 <= score(state, wanted, most_allocated=most_allocated) <= 100


def test_containers_without_requests_count_with_kube_schedulers_defaults() -> None:
    """100m of 1 CPU and 200 MiB of 1000 MiB, for the pod that runs and for the one that waits."""
    state = cluster(nodes=[node("n1", {"cpu": 1, "memory": "1000Mi"})])
    waiting = simple_pod({})
    assert score(state, waiting) == (90 + 80) // 2
    state.set_pod(simple_pod({"cpu": "300m"}, "runs", nodeName="n1"))
    assert score(state, waiting) == (60 + 60) // 2
    state.remove_pod("default/runs")
    assert score(state, waiting) == (90 + 80) // 2


def test_pod_level_resources_do_not_score_as_in_kube_scheduler() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 10, "memory": "10Gi"})])
    amounts = {"cpu": 5, "memory": "5Gi"}
    waiting = simple_pod({"cpu": 1, "memory": "1Gi"}, resources={"requests": amounts, "limits": amounts})
    assert score(state, waiting) == 90
