"""What `kubectl get podgroups` shows over the life of a gang: from its first pod to its last, with a replacement that
waits in between.

Nodes have no kubelets here; the test says for them that pods run or have ended.
"""

from __future__ import annotations

import time

from tests.builders.bodies import gang_body, node_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.workloads import create_all

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GROUPS = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups"
PODS = "/api/v1/namespaces/{}/pods"
# Seconds: so soon after its start a scheduler has looked at gangs without pods.
COUNTED_WITHIN = 4.0
AMOUNTS: dict[str, str | int] = {"cpu": 8, "memory": "64Gi"}


def shown(plane: ControlPlane, namespace: str) -> dict[str, object]:
    """The only line of `kubectl get podgroups`, by column."""
    table = plane.api.get(GROUPS.format(namespace), accept=AS_TABLE)
    columns = [each["name"] for each in table["columnDefinitions"] if not each["priority"]]
    (row,) = table["rows"]
    return dict(zip(columns, row["cells"], strict=True))


def wait_until_shown(
    plane: ControlPlane, namespace: str, phase: str, members: int, scheduled: int, running: int
) -> str:
    """Until the line says this; its message."""
    wanted = {"Phase": phase, "Members": members, "Scheduled": scheduled, "Running": running}
    wait_until(lambda: wanted.items() <= shown(plane, namespace).items(), f"kubectl shows {wanted}", timeout=30)
    return str(shown(plane, namespace)["Message"])


def create(plane: ControlPlane, namespace: str, name: str, cpus: int = 6) -> None:
    create_all(plane.kubeconfig, [pod_body(name, namespace, {"cpu": cpus, "memory": "1Gi"}, gang="train")])


def say(plane: ControlPlane, namespace: str, phase: str, *names: str) -> None:
    """What the kubelets would say about pods."""
    for name in names:
        plane.api.patch(f"{PODS.format(namespace)}/{name}/status", {"status": {"phase": phase}})


def test_a_gang_is_counted_from_its_first_pod_to_its_last(plane: ControlPlane, namespace: str) -> None:
    create_all(plane.kubeconfig, [node_body(name, AMOUNTS) for name in ("n0", "n1")])
    plane.apply(gang_body("train", namespace, 2))
    with running_scheduler(plane):
        create(plane, namespace, "a")
        assert wait_until_shown(plane, namespace, "Waiting", 1, 0, 0) == "waits for pods: 1 of 2 have arrived"
        create(plane, namespace, "b")
        wait_until_shown(plane, namespace, "Scheduled", 2, 2, 0)
        say(plane, namespace, "Running", "a", "b")
        assert wait_until_shown(plane, namespace, "Scheduled", 2, 2, 2) == "2 pods have nodes, 2 run"
        plane.api.delete(f"{PODS.format(namespace)}/b")
        told = "1 pod has a node, 1 runs; 1 of 2 are left, the others ended or were deleted"
        assert wait_until_shown(plane, namespace, "Scheduled", 1, 1, 1) == told
        create(plane, namespace, "too-large", cpus=12)
        message = wait_until_shown(plane, namespace, "Degraded", 2, 1, 1)
        assert message.startswith("1 of 2 pods have nodes: the gang has no place")
    with running_scheduler(plane):  # Another one knows as much.
        plane.api.delete(f"{PODS.format(namespace)}/too-large")
        wait_until_shown(plane, namespace, "Scheduled", 1, 1, 1)
        create(plane, namespace, "c")
        wait_until_shown(plane, namespace, "Scheduled", 2, 2, 1)
        say(plane, namespace, "Succeeded", "a", "c")
        assert wait_until_shown(plane, namespace, "Ended", 0, 0, 0) == "no pods are left"
    with running_scheduler(plane):
        time.sleep(COUNTED_WITHIN)
        assert shown(plane, namespace)["Phase"] == "Ended"
