"""`bayplan ... --watch` on a real API server: the answer follows what happens in the cluster."""

from __future__ import annotations

from tests.builders.bodies import node_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.workloads import create_all
from tests.running_commands import running


def test_nodes_and_waiting_pods_appear_as_they_come(plane: ControlPlane, namespace: str) -> None:
    create_all(plane.kubeconfig, [node_body("watched-1", {"cpu": 4, "memory": "8Gi"})])
    with (
        running("nodes", "-w", "--kubeconfig", str(plane.kubeconfig)) as nodes,
        running("why", "-n", namespace, "-w", "--kubeconfig", str(plane.kubeconfig)) as why,
    ):
        nodes.until("watched-1")
        create_all(plane.kubeconfig, [node_body("watched-2", {"cpu": 4, "memory": "8Gi"})])
        assert "watched-1 " not in nodes.until("watched-2")
        create_all(plane.kubeconfig, [pod_body("large", namespace, {"cpu": 64, "memory": "1Gi"})])
        assert "larger than every node: cpu" in why.until(f"{namespace}/large")
        assert (nodes.ctrl_c(), why.ctrl_c()) == (130, 130)
