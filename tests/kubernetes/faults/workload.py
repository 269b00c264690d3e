"""What the fault tests put into the cluster: nodes without kubelets, pods, and gangs that want one rack."""

from __future__ import annotations

from collections.abc import Iterable

from tests.builders.bodies import RACK, Json, gang_body, node_body, pod_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.workloads import pods_in

SCHEDULER = "bayplan"


def add_nodes(plane: ControlPlane, *names: str, cpus: int = 4, rack: str = "r1") -> None:
    """Nodes without kubelets: pods on them stay Pending, which is enough to test scheduling."""
    for name in names:
        plane.post("/api/v1/nodes", node_body(name, {"cpu": cpus, "memory": "64Gi"}, **{RACK: rack}))


def add_levels(plane: ControlPlane) -> None:
    """The tree: racks."""
    plane.apply(topology_body("network", RACK))


def pod(name: str, *, cpus: int = 1, gang: str = "", scheduler: str = SCHEDULER) -> Json:
    """A pod that leaves at once when it is deleted; there is no kubelet to end it."""
    return pod_body(name, "", {"cpu": cpus, "memory": "1Gi"}, gang=gang, scheduler=scheduler)


def add_pods(plane: ControlPlane, namespace: str, pods: Iterable[Json]) -> None:
    """Create pods, one after the other."""
    for each in pods:
        plane.post(f"/api/v1/namespaces/{namespace}/pods", each)


def add_gang(plane: ControlPlane, namespace: str, name: str, size: int, *, cpus: int = 1) -> None:
    """A PodGroup that must be in one rack, and its pods."""
    group = gang_body(name, namespace, size, topology="network", required=RACK)
    plane.post(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups", group)
    add_pods(plane, namespace, (pod(f"{name}-{number}", cpus=cpus, gang=name) for number in range(size)))


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
