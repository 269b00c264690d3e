"""What closes a node to new pods."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.cluster.node_status import closing, closings
from bayplan.kube.wire.core_v1 import Node, Toleration
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, node

GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
PLANNED = {"key": "maintenance", "value": "may", "effect": "NoSchedule"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def with_condition(status: str, **more: Any) -> Node:
    written = msgspec.to_builtins(node("n1", {GPU: 8}, **more))
    written["status"]["conditions"] = [{"type": "Ready", "status": status}]
    return msgspec.convert(written, Node)


@pytest.mark.parametrize(
    "given, status, causes",
    [
        (node("n1"), "Ready", ()),
        (with_condition("True"), "Ready", ()),
        (with_condition("False"), "NotReady", ("NotReady",)),
        (with_condition("Unknown", taints=[UNREACHABLE]), "NotReady", ("NotReady",)),
        (node("n1", taints=[UNREACHABLE]), "NotReady", ("NotReady",)),
        (node("n1", unschedulable=True), "Ready,SchedulingDisabled", ("cordoned",)),
        (node("n1", unschedulable=True, taints=[CORDON]), "Ready,SchedulingDisabled", ("cordoned",)),
        (with_condition("Unknown", unschedulable=True), "NotReady,SchedulingDisabled", ("NotReady", "cordoned")),
        (node("n1", taints=[PLANNED]), "Ready,Tainted", ("maintenance=may:NoSchedule",)),
        (node("n1", taints=[{"key": "slow", "effect": "PreferNoSchedule"}]), "Ready", ()),
        # Kept for pods that ask for a GPU, which tolerate it; no pod does if no node has any.
        (node("n1", {GPU: 8}, taints=[GPU_TAINT]), "Ready", ()),
        (node("n1", taints=[GPU_TAINT]), "Ready,Tainted", (f"{GPU}=present:NoSchedule",)),
        (node("n1", {GPU: 8}, taints=[GPU_TAINT, PLANNED]), "Ready,Tainted", ("maintenance=may:NoSchedule",)),
        (node("n1", {GPU: 8}, taints=[{"key": GPU, "effect": "NoExecute"}]), "Ready,Tainted", (f"{GPU}:NoExecute",)),
    ],
)
def test_a_node_has_the_status_that_kubectl_shows_and_the_taints_that_close_it(
    given: Node, status: str, causes: tuple[str, ...]
) -> None:
    found = closing(cluster(nodes=[given]), 0)
    assert (found.status, found.causes) == (status, causes)


@pytest.mark.parametrize(
    "tolerations, open_nodes",
    [
        ([], ["plain"]),
        ([Toleration(key=GPU, operator="Exists", effect="NoSchedule")], ["plain", "gpu"]),
        ([Toleration(key="maintenance", operator="Exists")], ["plain", "planned"]),
        ([Toleration(operator="Exists")], ["plain", "gpu", "planned", "cordoned"]),
    ],
)
def test_to_pods_with_known_tolerations_the_taints_that_they_lack_close_a_node(
    tolerations: list[Toleration], open_nodes: list[str]
) -> None:
    state = cluster(
        nodes=[
            node("plain"),
            node("gpu", {GPU: 8}, taints=[GPU_TAINT]),
            node("planned", taints=[PLANNED]),
            node("cordoned", unschedulable=True),
            node("lost", taints=[UNREACHABLE]),
        ]
    )
    found = closings(state, np.arange(5), tolerations, exactly=True)
    assert [state.names[row] for row in range(5) if found.open[row]] == open_nodes


def test_a_condition_is_followed_when_it_changes() -> None:
    state = cluster(nodes=[with_condition("False")])
    state.set_node(with_condition("True"))
    assert closing(state, 0).status == "Ready"
