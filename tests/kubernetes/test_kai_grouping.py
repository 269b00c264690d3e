"""`bayplan scheduler --grouping=kai` as deploy/kai-grouping starts it: KAI's PodGroups, with the rights for them and no
others.

What becomes of each kind is in the recordings of KAI's own grouper (tests/conformance/test_pod_grouper.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.compat.kai.grouping.table import GROUPERS
from tests.builders.bodies import BLOCK, RACK, Json, node_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import NAMESPACE, Deployed, deployed, may
from tests.kubernetes.played_controllers import create_workload, play_controller
from tests.kubernetes.running_scheduler import running_pod_grouper, running_scheduler
from tests.kubernetes.workloads import GPU, ROOT, create_all

WORKLOADS = ROOT / "examples" / "workloads"
KINDS = [
    Path(__file__).parent / "foreign_kinds" / f"{name}.yaml"
    for name in ("podgroups.scheduling.run.ai", "pytorchjobs.kubeflow.org")
]
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
RIGHTS = [
    *((verb, "podgroups", "scheduling.run.ai") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("patch", "pods", ""),
    ("get", "priorityclasses", "scheduling.k8s.io"),
    *(("get", f"{kind.lower()}s", group) for group, _, kind in GROUPERS),
]
NO_RIGHTS = [
    *((verb, "podgroups", "bayplan.io") for verb in ("create", "patch", "delete")),
    ("update", "podgroups", "scheduling.run.ai"),
    ("list", "priorityclasses", "scheduling.k8s.io"),
    ("create", "priorityclasses", "scheduling.k8s.io"),
    ("get", "queues", "scheduling.run.ai"),
    ("list", "jobs", "batch"),
    ("get", "configmaps", ""),
]


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of our own: other tests must find neither KAI's PodGroups nor these rights."""
    with ControlPlane() as plane:
        for kind in KINDS:
            plane.apply(kind)
        yield plane


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> Iterator[Deployed]:
    with deployed(control_plane, "kai-grouping") as found:
        control_plane.apply(topology_body())
        yield found


def test_rights_are_those_for_kais_pod_groups_and_not_for_bayplans(account: Deployed) -> None:
    grouper = account.pod_grouper.api
    assert [right for right in RIGHTS if not may(grouper, right[0], right[1], group=right[2])] == []
    assert [right for right in NO_RIGHTS if may(grouper, right[0], right[1], group=right[2])] == []


def test_the_deployment_asks_for_it(control_plane: ControlPlane, account: Deployed) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/bayplan-pod-grouper"
    (container,) = control_plane.get(path)["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--grouping=kai"


def test_an_edited_group_of_kais_is_put_back_but_for_its_queue(
    control_plane: ControlPlane, account: Deployed, namespace: str
) -> None:
    """As the two service accounts, and the API server refuses nothing."""
    amounts: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
    labels = {BLOCK: "b0", RACK: "r0"}
    with (
        running_pod_grouper(
            control_plane, "--grouping=kai", "--no-leader-elect", kubeconfig=account.pod_grouper.kubeconfig
        ) as grouper,
        running_scheduler(
            control_plane, "--no-pod-grouper", "--no-leader-elect", kubeconfig=account.kubeconfig
        ) as scheduler,
    ):
        job = create_workload(control_plane, WORKLOADS / "pytorchjob.yaml", namespace)
        pods = play_controller(control_plane, job)
        wait_until(lambda: len(groups_in(control_plane, namespace)) == 1, "the group is there")
        (made,) = groups_in(control_plane, namespace)
        path = f"{GROUPS.format(namespace)}/{made['metadata']['name']}"
        meddled = {
            "minMember": 1,
            "queue": "mine",
            "minSubGroup": 1,
            "preemptibility": "preemptible",
            "schedulingBackoff": -1,
        }
        control_plane.api.patch(path, {"spec": meddled})
        expected = {**made["spec"], "queue": "mine", "schedulingBackoff": -1}
        wait_until(lambda: control_plane.get(path)["spec"] == expected, "the group is put back")
        create_all(control_plane.kubeconfig, [node_body(f"n{number}", amounts, **labels) for number in range(16)])
        wait_until(lambda: placed(control_plane, namespace) == len(pods), "all pods have nodes")
        assert "orbidden" not in scheduler.log + grouper.log


def groups_in(plane: ControlPlane, namespace: str) -> list[Json]:
    found: list[Json] = plane.get(GROUPS.format(namespace))["items"]
    return found


def placed(plane: ControlPlane, namespace: str) -> int:
    pods: list[Json] = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)
