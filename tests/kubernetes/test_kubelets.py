"""Virtual kubelets on a real API server: a test binds pods by hand and looks at what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.virtual_nodes import virtual_nodes

REPORT_KIND = Path(__file__).parents[2] / "deploy/crds/noderesourcetopologies.topology.node.k8s.io.yaml"
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MACHINE = ("--machine", "pack:2 core:4 mem:8Gi")  # zone 0 has 3 CPUs for pods, zone 1 has 4

Json = dict[str, Any]


@pytest.fixture
def plane(control_plane: ControlPlane, namespace: str) -> ControlPlane:
    """A control plane that knows reports."""
    control_plane.apply(REPORT_KIND)
    wait_until(lambda: control_plane.api.exists(REPORTS), "the API server knows reports")
    return control_plane


def bind(
    plane: ControlPlane, namespace: str, name: str, cpus: int, node: str = "virtual-0", **annotations: str
) -> None:
    """Create a Guaranteed pod on a node; no scheduler is involved."""
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    plane.post(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": node, "containers": [container]},
        },
    )


def status(plane: ControlPlane, namespace: str, name: str) -> Json:
    found: Json = plane.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
    return found


def wait_for_phase(plane: ControlPlane, namespace: str, name: str, phase: str) -> Json:
    wait_until(lambda: status(plane, namespace, name)["phase"] == phase, f"{name} is {phase}")
    return status(plane, namespace, name)


def is_ready(shown: Json) -> bool:
    """Whether a status has the condition Ready."""
    return any((each["type"], each["status"]) == ("Ready", "True") for each in shown["conditions"])


def evict(plane: ControlPlane, namespace: str, name: str) -> None:
    """Ask a pod to go within its grace period, which only a kubelet can end."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    plane.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)


def is_gone(plane: ControlPlane, namespace: str, name: str) -> bool:
    return not plane.api.exists(f"/api/v1/namespaces/{namespace}/pods/{name}")


def free_cpus(plane: ControlPlane, node: str = "virtual-0") -> dict[str, int]:
    """Available CPUs by zone, as the node reports them."""
    return {
        zone["name"]: int(resource["available"])
        for zone in plane.get(f"{REPORTS}/{node}")["zones"]
        for resource in zone["resources"]
        if resource["name"] == "cpu"
    }


def test_nodes_and_leases_and_reports_appear_and_go(plane: ControlPlane) -> None:
    arguments = ("--nodes", "4", *MACHINE, "--tree", "zone:1 rack:2", "--heartbeat", "500ms")
    with virtual_nodes(plane, *arguments) as nodes:
        (registered,) = nodes.told("registered")
        assert (registered["nodes"], registered["kinds"]) == (4, {"pack:2 core:4 mem:8Gi": 4})
        node = plane.get(f"{NODES}/virtual-3")
        assert node["metadata"]["labels"]["example.com/rack"] == "rack-1"
        assert node["status"]["capacity"]["cpu"] == "8"
        assert node["status"]["allocatable"]["cpu"] == "7"
        assert {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"] == "True"
        report = plane.get(f"{REPORTS}/virtual-3")
        assert report["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        first = plane.get(f"{LEASES}/virtual-3")["spec"]["renewTime"]
        wait_until(lambda: plane.get(f"{LEASES}/virtual-3")["spec"]["renewTime"] != first, "the lease is renewed")
    assert nodes.told("removed") == [{"event": "removed", "nodes": 4, "of": 4}]
    assert [plane.get(each)["items"] for each in (NODES, LEASES, REPORTS)] == [[], [], []]


def test_pods_run_or_fail_as_their_kubelet_decides(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE) as nodes:
        bind(plane, namespace, "whole-zone", cpus=4)
        running = wait_for_phase(plane, namespace, "whole-zone", "Running")
        assert running["startTime"]
        assert {each["type"]: each["status"] for each in running["conditions"]}["Ready"] == "True"
        # 3 CPUs are free, but not with a fourth in one zone.
        bind(plane, namespace, "too-wide", cpus=4)
        failed = wait_for_phase(plane, namespace, "too-wide", "Failed")
        assert failed["reason"] == "TopologyAffinityError"
        assert failed["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
        assert [news["pod"] for news in nodes.told("refused")] == [f"{namespace}/too-wide"]


def test_a_report_shows_a_pod_after_the_delay_and_its_end_too(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE, "--report-delay", "1s"):
        assert free_cpus(plane) == {"node-0": 3, "node-1": 4}
        bind(plane, namespace, "a", cpus=3)
        wait_for_phase(plane, namespace, "a", "Running")
        assert free_cpus(plane) == {"node-0": 3, "node-1": 4}
        wait_until(lambda: free_cpus(plane) == {"node-0": 0, "node-1": 4}, "the report shows the pod")
        plane.delete(f"/api/v1/namespaces/{namespace}/pods/a")
        wait_until(lambda: is_gone(plane, namespace, "a"), "the pod is gone")
        wait_until(lambda: free_cpus(plane) == {"node-0": 3, "node-1": 4}, "the report shows that it is gone")


def test_a_node_that_was_marked_not_ready_recovers_with_its_pods(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE, "--heartbeat", "500ms"):
        bind(plane, namespace, "a", cpus=4)
        wait_for_phase(plane, namespace, "a", "Running")
        # What the node controller does when heartbeats stop.
        unready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
        plane.api.patch(f"{NODES}/virtual-0/status", unready, kind="strategic-merge-patch")
        plane.api.patch(
            f"/api/v1/namespaces/{namespace}/pods/a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            kind="strategic-merge-patch",
        )
        wait_until(lambda: is_ready(plane.get(f"{NODES}/virtual-0")["status"]), "the node is ready again")
        wait_until(lambda: is_ready(status(plane, namespace, "a")), "the pod is ready again")


def test_a_deleted_pod_ends_in_a_terminal_phase(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE):
        bind(plane, namespace, "a", cpus=4)
        wait_for_phase(plane, namespace, "a", "Running")
        pod = f"/api/v1/namespaces/{namespace}/pods/a"
        plane.api.patch(pod, {"metadata": {"finalizers": ["example.com/hold"]}})
        evict(plane, namespace, "a")
        wait_for_phase(plane, namespace, "a", "Failed")
        plane.api.patch(pod, {"metadata": {"finalizers": []}})
        wait_until(lambda: is_gone(plane, namespace, "a"), "the pod is gone")


def test_graceful_deletion_is_finished_and_frees_the_place(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE):
        bind(plane, namespace, "a", cpus=4)
        wait_for_phase(plane, namespace, "a", "Running")
        evict(plane, namespace, "a")
        wait_until(lambda: is_gone(plane, namespace, "a"), "the pod is gone")
        bind(plane, namespace, "b", cpus=4)
        wait_for_phase(plane, namespace, "b", "Running")


def test_pods_end_after_their_run_time(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE):
        bind(plane, namespace, "a", 4, **{"bayplan.io/runs-for": "500ms"})
        wait_for_phase(plane, namespace, "a", "Succeeded")


def test_a_restart_of_the_api_server_is_outlived(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "2", *MACHINE):
        bind(plane, namespace, "before", cpus=4)
        wait_for_phase(plane, namespace, "before", "Running")
        plane.apiserver.restart()
        bind(plane, namespace, "too-wide", cpus=4)
        wait_for_phase(plane, namespace, "too-wide", "Failed")
        bind(plane, namespace, "after", cpus=4, node="virtual-1")
        wait_for_phase(plane, namespace, "after", "Running")
        assert status(plane, namespace, "before")["phase"] == "Running"


def test_after_being_killed_it_takes_over_its_nodes_and_their_pods(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, "--nodes", "1", *MACHINE) as nodes:
        bind(plane, namespace, "before", cpus=4)
        wait_for_phase(plane, namespace, "before", "Running")
        nodes.kill()
    bind(plane, namespace, "while-away", cpus=3)
    with virtual_nodes(plane, "--nodes", "1", *MACHINE) as nodes:
        wait_for_phase(plane, namespace, "while-away", "Running")
        assert status(plane, namespace, "before")["phase"] == "Running"
        assert nodes.told("refused") == []
        assert free_cpus(plane) == {"node-0": 0, "node-1": 0}


def test_reports_come_when_their_kind_does_and_again_when_it_was_removed(plane: ControlPlane) -> None:
    kind = f"{KINDS}/noderesourcetopologies.topology.node.k8s.io"
    plane.delete(kind)
    wait_until(lambda: not plane.api.exists(REPORTS), "the API server has forgotten reports")
    with virtual_nodes(plane, "--nodes", "2", *MACHINE) as nodes:
        assert nodes.told("ready")[0]["reports"] is None
        for _ in range(2):
            plane.apply(REPORT_KIND)
            wait_until(lambda: _reports(plane) == {"virtual-0", "virtual-1"}, "all nodes have reported")
            plane.delete(kind)
            wait_until(lambda: not plane.api.exists(REPORTS), "the API server has forgotten reports")


def _reports(plane: ControlPlane) -> set[str]:
    try:
        return {report["metadata"]["name"] for report in plane.get(REPORTS)["items"]}
    except ApiRefused:
        return set()


def test_a_node_that_is_not_virtual_is_left_alone(plane: ControlPlane) -> None:
    plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "virtual-1"}})
    with pytest.raises(AssertionError, match="node virtual-1 exists without the label"):
        virtual_nodes(plane, "--nodes", "2", *MACHINE).__enter__()
    assert [node["metadata"]["name"] for node in plane.get(NODES)["items"]] == ["virtual-1"]


def test_it_ends_although_the_api_server_is_away_and_says_what_is_left(plane: ControlPlane) -> None:
    with virtual_nodes(plane, "--nodes", "10", *MACHINE) as nodes:
        plane.apiserver.stop()
        try:
            nodes.stop()
        finally:
            plane.apiserver.start()
    assert nodes.told("removed") == [{"event": "removed", "nodes": 0, "of": 10}]


def test_nodes_of_a_scenario(plane: ControlPlane) -> None:
    scenario = Path(__file__).parents[2] / "examples/scenarios/demo.yaml"
    with virtual_nodes(plane, "--scenario", str(scenario), "--report", "plain") as nodes:
        assert nodes.told("registered")[0]["kinds"] == {"telco": 24, "ml": 12, "snc": 16, "web": 20}
        ml = plane.get(f"{NODES}/ml-0")
        assert ml["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
        assert ml["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert plane.get(f"{REPORTS}/ml-0")["topologyPolicies"] == ["RestrictedPodLevel"]
