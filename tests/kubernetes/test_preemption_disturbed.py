"""Preemption on a real API server while something gets in the way: victims that stay, preemptors that go, nodes that
close, budgets that select nothing.
"""

from __future__ import annotations

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.test_preemption import (
    ALONE,
    ONE_ZONE,
    Pods,
    asked_for_evictions,
    budget,
    config,
    evicted,
    nominated,
    prioritized,
    without_kubelets,
)
from tests.kubernetes.virtual_nodes import virtual_nodes

__all__ = ["config", "prioritized"]
TWO_NODES = (*ONE_ZONE, "--nodes", "2")
FINALIZER = "example.com/keep"


def two_full_nodes(pods: Pods) -> None:
    """A less important pod on virtual-0, a more important one on virtual-1."""
    pods.add("web", 6, "low", on="virtual-0")
    pods.add("log", 6, "middle", on="virtual-1")


def test_a_victim_that_a_finalizer_keeps_makes_room_once_its_containers_have_ended(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *TWO_NODES), running_scheduler(prioritized, config, ALONE) as scheduler:
        pods.add("web", 6, "low", on="virtual-0", finalizers=[FINALIZER])
        pods.add("log", 6, "middle", on="virtual-1")
        pods.add("db", 6, "high")
        pods.wait_until_runs("db")
        assert pods.all()["db"]["spec"]["nodeName"] == "virtual-0"
        assert evicted(pods) == {"web"}
        assert pods.phases()["log"] == "Running"
        assert (asked_for_evictions(scheduler), scheduler.metric("bayplan_preemption_in_vain_total")) == (1, 0)
        prioritized.api.patch(f"{pods.path}/web", {"metadata": {"finalizers": None}})


def test_the_room_of_a_deleted_preemptor_is_for_others(prioritized: ControlPlane, namespace: str, config: str) -> None:
    pods = Pods(prioritized, namespace)
    without_kubelets(prioritized, lambda: two_full_nodes(pods), *TWO_NODES)
    with running_scheduler(prioritized, config, ALONE) as scheduler:
        pods.add("db", 6, "high")
        wait_until(lambda: nominated(pods, "db") == "virtual-0", "the pod is nominated")
        prioritized.delete(f"{pods.path}/db")
        pods.add("late", 6, "low")
        with virtual_nodes(prioritized, *TWO_NODES):
            pods.wait_until_runs("late")
            assert pods.all()["late"]["spec"]["nodeName"] == "virtual-0"
            assert pods.phases() == {"late": "Running", "log": "Running"}
        assert asked_for_evictions(scheduler) == 1


def test_a_node_that_is_cordoned_after_the_plan_gets_no_pod(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    without_kubelets(prioritized, lambda: two_full_nodes(pods), *TWO_NODES)
    with running_scheduler(prioritized, config, ALONE):
        pods.add("db", 6, "high")
        wait_until(lambda: nominated(pods, "db") == "virtual-0", "the pod is nominated")
        prioritized.api.patch("/api/v1/nodes/virtual-0", {"spec": {"unschedulable": True}})
        with virtual_nodes(prioritized, *TWO_NODES):
            pods.wait_until_runs("db")
            assert pods.all()["db"]["spec"]["nodeName"] == "virtual-1"
            assert pods.phases() == {"db": "Running"}


def test_a_budget_without_a_selector_covers_no_pod(prioritized: ControlPlane, namespace: str, config: str) -> None:
    """The API server refuses selectors that cannot be read; one that is missing selects nothing."""
    pods, written = Pods(prioritized, namespace), budget(namespace)
    written["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    with pytest.raises(ApiRefused, match="not a valid selector operator"):
        prioritized.apply(written)
    del written["spec"]["selector"]
    with virtual_nodes(prioritized, *ONE_ZONE), running_scheduler(prioritized, config, ALONE):
        pods.add("web", 6, "low", on="virtual-0")
        prioritized.apply(written)
        pods.add("db", 6, "high")
        pods.wait_until_runs("db")
        assert set(pods.phases()) == {"db"}
