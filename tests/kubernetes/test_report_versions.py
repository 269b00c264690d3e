"""Clusters whose API server has NodeResourceTopology in other versions than the newest: none of them is scheduled blind
in silence.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.builders.bodies import node_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import PROGRAM, RunningScheduler, running_scheduler
from tests.kubernetes.workloads import create_all, wait_until_told

GROUP = "topology.node.k8s.io"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.{GROUP}"
FIVE_CPUS: dict[str, str | int] = {"cpu": 5, "memory": "1Gi"}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of its own: a version that has been stored cannot be taken out of a definition again."""
    with ControlPlane() as plane:
        yield plane


def definition(*versions: str) -> dict[str, Any]:
    """NodeResourceTopology in these versions, of any shape; the first one is stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "noderesourcetopologies", "singular": "noderesourcetopology", "kind": "NodeResourceTopology"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"noderesourcetopologies.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"},
        },
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Cluster",
            "versions": [
                {"name": each, "served": True, "storage": each == versions[0], "schema": schema} for each in versions
            ],
        },
    }


@pytest.fixture
def serves(control_plane: ControlPlane) -> Iterator[Any]:
    """Define the kind in some versions and wait until they are served."""

    def define(*versions: str) -> None:
        control_plane.apply(definition(*versions))
        for version in versions:
            path = f"/apis/{GROUP}/{version}/noderesourcetopologies"
            wait_until(partial(answers, control_plane, path), f"{version} is served")

    yield define
    if answers(control_plane, CRD):
        control_plane.delete(CRD)
        wait_until(lambda: not answers(control_plane, CRD), "the definition is gone")


def answers(plane: ControlPlane, path: str) -> bool:
    try:
        plane.get(path)
    except ApiRefused:
        return False
    return True


def report(node: str, free: int, version: str = "v1alpha1") -> dict[str, Any]:
    """Two zones of 8 CPUs in the first form of the API: no attributes, no `available`."""
    resources = [{"name": "cpu", "capacity": 8, "allocatable": free}]
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "topologyPolicies": ["SingleNumaNode"],
        "zones": [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in (0, 1)],
    }


def on_node(plane: ControlPlane, namespace: str, pod: str) -> str:
    return str(plane.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["spec"].get("nodeName", ""))


def has_node(plane: ControlPlane, namespace: str, pod: str) -> bool:
    return bool(on_node(plane, namespace, pod))


def bayplan(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments, "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_cluster_that_serves_only_v1alpha1_is_not_scheduled_blind(
    control_plane: ControlPlane, namespace: str, serves: Any
) -> None:
    serves("v1alpha1")
    create_all(
        control_plane.kubeconfig, [node_body(name, {"cpu": "16", "memory": "32Gi"}) for name in ("full", "free")]
    )
    control_plane.apply(report("full", 4))
    control_plane.apply(report("free", 8))
    with running_scheduler(control_plane):
        create_all(control_plane.kubeconfig, [pod_body(f"p{number}", namespace, FIVE_CPUS) for number in range(3)])
        names = ("p0", "p1", "p2")
        wait_until(lambda: sum(bool(on_node(control_plane, namespace, name)) for name in names) == 2, "two have nodes")
        placed = {name: on_node(control_plane, namespace, name) for name in names}
        assert sorted(placed.values()) == ["", "free", "free"]
        waits = next(name for name, node in placed.items() if not node)
        wait_until_told(control_plane, namespace, waits, "no single NUMA zone holds the request")
    answer = bayplan(control_plane, "numa", "full")
    assert (answer.returncode, "single-numa-node" in answer.stdout) == (0, True), answer.stdout + answer.stderr
    why = bayplan(control_plane, "why", f"{namespace}/{waits}")
    assert (why.returncode, "no node has the request inside one NUMA zone" in why.stdout) == (1, True), why.stdout


def test_versions_that_come_after_the_start_are_read(control_plane: ControlPlane, namespace: str, serves: Any) -> None:
    create_all(control_plane.kubeconfig, [node_body("n1", {"cpu": "16", "memory": "32Gi"})])
    with running_scheduler(control_plane) as scheduler:
        serves("v1alpha1")
        control_plane.apply(report("n1", 4))
        wait_until(lambda: usable(scheduler) == 1, "the report is read", timeout=60)
        create_all(control_plane.kubeconfig, [pod_body("p", namespace, FIVE_CPUS)])
        wait_until_told(control_plane, namespace, "p", "no single NUMA zone holds the request")
        serves("v1alpha1", "v1alpha2")
        control_plane.apply(report("n1", 8, "v1alpha2"))
        wait_until(lambda: on_node(control_plane, namespace, "p") == "n1", "the pod has its node", timeout=150)


def test_an_unreadable_version_is_an_error_in_health_log_metrics_and_commands(
    control_plane: ControlPlane, namespace: str, serves: Any
) -> None:
    serves("v1beta9")
    create_all(control_plane.kubeconfig, [node_body("n1", {"cpu": "16", "memory": "32Gi"})])
    told = f"noderesourcetopologies.{GROUP}: the API server serves v1beta9; bayplan reads v1alpha2, v1alpha1"
    scheduler = RunningScheduler(control_plane.kubeconfig, ())
    try:
        wait_until(lambda: f"[-]api-versions failed: {told}" in scheduler.get("/readyz?verbose"), "health tells it")
        assert scheduler.metric("bayplan_unreadable_api_versions") == 1
        assert told in scheduler.log
        control_plane.delete(CRD)
        wait_until(lambda: not answers(control_plane, CRD), "the definition is gone")
        serves("v1alpha2")
        wait_until(lambda: scheduler.get("/readyz") == "ok", "it is ready with a version that it reads", timeout=90)
        assert scheduler.metric("bayplan_unreadable_api_versions") == 0
    finally:
        scheduler.close()


def test_aligned_pods_prefer_nodes_with_a_report_and_are_told_if_they_have_none(
    control_plane: ControlPlane, namespace: str, serves: Any
) -> None:
    serves("v1alpha2")
    create_all(
        control_plane.kubeconfig, [node_body(name, {"cpu": "16", "memory": "32Gi"}) for name in ("silent", "reported")]
    )
    control_plane.apply(report("reported", 8, "v1alpha2"))
    # The nodes are new, and a moment ago is too young for the default.
    config = control_plane.kubeconfig.parent / "no-grace.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n"
        "  - {name: NodeResourceTopologyMatch, args: {assume: {firstReportSeconds: 0}}}\n"
    )
    with running_scheduler(control_plane, "--config", str(config)):
        for number in range(3):
            create_all(control_plane.kubeconfig, [pod_body(f"p{number}", namespace, FIVE_CPUS)])
            wait_until(partial(has_node, control_plane, namespace, f"p{number}"), "the pod has a node")
        assert [on_node(control_plane, namespace, f"p{number}") for number in range(3)] == ["reported"] * 2 + ["silent"]
        wait_until(
            lambda: "NUMA zones of silent are unknown (no NodeResourceTopology)" in notes_of(control_plane, namespace),
            "the event tells it",
        )


def test_an_aligned_pod_waits_for_the_first_report_of_a_new_node(
    control_plane: ControlPlane, namespace: str, serves: Any
) -> None:
    serves("v1alpha2")
    create_all(control_plane.kubeconfig, [node_body("full", {"cpu": "16", "memory": "32Gi"})])
    control_plane.apply(report("full", 0, "v1alpha2"))
    with running_scheduler(control_plane):
        create_all(control_plane.kubeconfig, [node_body("new", {"cpu": "16", "memory": "32Gi"})])
        create_all(control_plane.kubeconfig, [pod_body("p", namespace, FIVE_CPUS)])
        wait_until_told(control_plane, namespace, "p", "new node, no NodeResourceTopology so far")
        control_plane.apply(report("new", 8, "v1alpha2"))
        wait_until(lambda: on_node(control_plane, namespace, "p") == "new", "the pod has the new node")


def notes_of(plane: ControlPlane, namespace: str) -> str:
    events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return " ".join(each.get("note", "") for each in events)


def usable(scheduler: RunningScheduler) -> int:
    lines = scheduler.get("/metrics").splitlines()
    return int(
        sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith('bayplan_nodes{report="usable"'))
    )
