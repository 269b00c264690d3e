"""What the fault tests put into the cluster: nodes without kubelets, pods, and gangs that want one rack."""

from __future__ import annotations

from collections.abc import Iterable

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import Json
from tests.kubernetes.control_plane.waiting import wait_until

RACK = "example.com/rack"
SCHEDULER = "bayplan"


def add_nodes(plane: ControlPlane, *names: str, cpus: int = 4, rack: str = "r1") -> None:
    """Nodes that nobody runs: pods on them stay Pending, and that is enough for who only schedules."""
    for name in names:
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, RACK: rack}
        status = {"capacity": amounts, "allocatable": amounts}
        metadata = {"name": name, "labels": labels}
        plane.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})


def add_levels(plane: ControlPlane) -> None:
    """The tree: racks."""
    spec = {"levels": [{"nodeLabel": RACK}]}
    metadata = {"name": "network"}
    plane.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": metadata, "spec": spec})


def pod(name: str, *, cpus: int = 1, gang: str = "", scheduler: str = SCHEDULER) -> Json:
    """A pod that leaves at once when it is deleted; there is no kubelet to end it."""
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    labels = {"bayplan.io/pod-group": gang} if gang else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def add_pods(plane: ControlPlane, namespace: str, pods: Iterable[Json]) -> None:
    """Create pods, one after the other."""
    for each in pods:
        plane.post(f"/api/v1/namespaces/{namespace}/pods", each)


def add_gang(plane: ControlPlane, namespace: str, name: str, size: int, *, cpus: int = 1) -> None:
    """A PodGroup that must be in one rack, and its pods."""
    spec = {"topology": "network", "required": RACK, "size": size}
    metadata = {"name": name, "namespace": namespace}
    group = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    plane.post(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups", group)
    add_pods(plane, namespace, (pod(f"{name}-{number}", cpus=cpus, gang=name) for number in range(size)))


def pods_in(plane: ControlPlane, namespace: str) -> list[Json]:
    """All pods of a namespace."""
    items: list[Json] = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def bound(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """The node of every pod that has one."""
    pods = pods_in(plane, namespace)
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}


def wait_until_bound(plane: ControlPlane, namespace: str, number: int, *, timeout: float = 120.0) -> None:
    """Until so many pods of a namespace have a node."""
    wait_until(lambda: len(bound(plane, namespace)) >= number, f"{number} pods have a node", timeout=timeout)


def phase_of(plane: ControlPlane, namespace: str, gang: str) -> str:
    """What is written on a PodGroup."""
    group = plane.get(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups/{gang}")
    phase: str = group.get("status", {}).get("phase", "")
    return phase
