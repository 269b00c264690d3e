"""Pods that are resized in place: spec, allocated and actuated amounts."""

from __future__ import annotations

import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, free_on
from tests.builders.objects import container, node, pod

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def running(spec: int, in_effect: int, allocated: int, *conditions: Json, role: str = "containerStatuses") -> Pod:
    status = {"name": "main", "resources": {"requests": {"cpu": in_effect}}, "allocatedResources": {"cpu": allocated}}
    asks = container({"cpu": spec}, "main")
    listed = {role: [status], "conditions": list(conditions)}
    if role == "containerStatuses":
        return pod(asks, nodeName="n1", status=listed)
    return pod(container({"cpu": 1}, "app"), init=[{**asks, "restartPolicy": "Always"}], nodeName="n1", status=listed)


@pytest.mark.parametrize(
    "resized, cpus",
    [
        (running(2, 2, 2), 2),
        (running(4, 2, 2), 4),
        (running(2, 4, 2), 4),
        (running(2, 2, 4), 4),
        (running(8, 2, 4, DEFERRED), 8),
        (running(8, 2, 4, INFEASIBLE), 4),
        (running(2, 4, 3, role="initContainerStatuses"), 5),
    ],
    ids=["done", "growing", "shrinking", "allocated", "deferred", "infeasible", "sidecar"],
)
def test_the_largest_amount_counts_until_the_kubelet_has_followed(resized: Pod, cpus: int) -> None:
    assert effective_request(resized).total["cpu"] == cpus * 1000


def test_init_containers_that_end_are_not_resized() -> None:
    status = {"initContainerStatuses": [{"name": "init", "resources": {"requests": {"cpu": 9}}}]}
    started = pod(container({"cpu": 1}, "main"), init=[container({"cpu": 2}, "init")], nodeName="n1", status=status)
    assert effective_request(started).total["cpu"] == 2000


def test_pod_level_amounts_are_resized_as_well() -> None:
    status = {"resources": {"requests": {"cpu": 3}}, "allocatedResources": {"cpu": 6}}
    started = pod(container(), nodeName="n1", resources={"requests": {"cpu": 4}}, status=status)
    assert effective_request(started).total["cpu"] == 6000


def test_malformed_amounts_of_a_status_do_not_hide_the_pod() -> None:
    status = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]}
    started = pod(container({"cpu": 2}, "main"), nodeName="n1", status=status)
    assert effective_request(started).total["cpu"] == 2000


def test_a_node_has_room_again_once_the_kubelet_has_followed() -> None:
    state: ClusterState = cluster(nodes=[node("n1", {"cpu": 8, "memory": "8Gi"})])
    free = []
    for seen in (running(4, 4, 4), running(2, 4, 4), running(2, 2, 2)):
        state.set_pod(seen)
        free.append(free_on(state, "n1", "cpu"))
    assert free == [4000, 4000, 6000]
