"""`bayplan scheduler` as deploy/ starts it: its service account, its roles, its configuration, on nodes that admit and
refuse like kubelets.

What single rights allow is in test_deploy.py. Here the program itself does all that it does, and the API server refuses
it nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import RACK, Json, gang_body, pod_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import NAMESPACE, Deployed, arguments_of, deployed, scheduler_arguments
from tests.kubernetes.played_controllers import create_workload, owned_by, play_controller
from tests.kubernetes.running_scheduler import RunningScheduler, running_pod_grouper, running_scheduler
from tests.kubernetes.virtual_nodes import VirtualNodes, virtual_nodes
from tests.kubernetes.workloads import ROOT, create_all, wait_until_told

JOB = ROOT / "examples" / "workloads" / "job.yaml"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/bayplan"
# Four racks of four nodes, each with two zones.
NODES = ("--machine", "pack:2 numa:1 core:32 pu:1 mem:256Gi nvidia.com/gpu:8@numa", "--nodes", "16")
TREE = ("--tree", "block:2 rack:2", "--heartbeat", "0")


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> Iterator[Deployed]:
    with deployed(control_plane) as found:
        control_plane.apply(topology_body())
        yield found


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str, account: Deployed) -> Iterator[VirtualNodes]:
    with virtual_nodes(control_plane, *NODES, *TREE) as registered:
        yield registered


@pytest.fixture
def grouper(control_plane: ControlPlane, account: Deployed) -> Iterator[RunningScheduler]:
    """Started with its Deployment's arguments, as its own account."""
    written = arguments_of("bayplan-pod-grouper", "--health-address=")
    with running_pod_grouper(control_plane, *written, kubeconfig=account.pod_grouper.kubeconfig) as started:
        yield started


@pytest.fixture
def scheduler(
    control_plane: ControlPlane, account: Deployed, grouper: RunningScheduler, nodes: VirtualNodes, tmp_path: Path
) -> Iterator[RunningScheduler]:
    """Started with the ConfigMap's file and the Deployment's arguments, apart from where the file and the port are."""
    with running_scheduler(control_plane, *scheduler_arguments(tmp_path), kubeconfig=account.kubeconfig) as started:
        started.wait_until_leading()
        yield started


def pods_in(plane: ControlPlane, namespace: str) -> dict[str, Json]:
    items: list[Json] = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {each["metadata"]["name"]: each for each in items}


def wait_until_running(plane: ControlPlane, namespace: str, names: set[str]) -> dict[str, Json]:
    def run() -> bool:
        return {name for name, pod in pods_in(plane, namespace).items() if pod["status"]["phase"] == "Running"} >= names

    wait_until(run, f"{len(names)} pods run")
    return {name: pod for name, pod in pods_in(plane, namespace).items() if name in names}


def racks(plane: ControlPlane, pods: dict[str, Json]) -> set[str]:
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in plane.get("/api/v1/nodes")["items"]}
    return {labels[pod["spec"]["nodeName"]][RACK] for pod in pods.values()}


def groups_in(plane: ControlPlane, namespace: str) -> dict[str, Json]:
    items: list[Json] = plane.get(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups")["items"]
    return {each["metadata"]["name"]: each for each in items}


def wait_for_event(plane: ControlPlane, namespace: str, about: str, reason: str) -> None:
    def told() -> bool:
        items = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return (about, reason) in {(each["regarding"]["name"], each["reason"]) for each in items}

    wait_until(told, f"an event about {about} says {reason}")


def refused_requests(scheduler: RunningScheduler) -> list[str]:
    """Requests that the API server answered with 403, as its metrics count them."""
    return re.findall(r'^bayplan_api_requests_total\{status="403".*$', scheduler.get("/metrics"), re.MULTILINE)


def test_it_does_all_its_work_and_nothing_is_forbidden(
    control_plane: ControlPlane,
    namespace: str,
    scheduler: RunningScheduler,
    grouper: RunningScheduler,
    nodes: VirtualNodes,
) -> None:
    small: dict[str, str | int] = {"cpu": 4, "memory": "4Gi"}
    singles = {f"single-{number}" for number in range(20)}
    members = {f"gang-{rank}" for rank in range(6)}
    control_plane.apply(gang_body("gang", namespace, len(members), topology="network", required=RACK))
    create_all(
        control_plane.kubeconfig,
        [
            *(pod_body(name, namespace, small) for name in sorted(singles)),
            *(pod_body(name, namespace, small, gang="gang") for name in sorted(members)),
            pod_body("too-large", namespace, {"cpu": 500, "memory": "4Gi"}),
        ],
    )
    job = create_workload(control_plane, JOB, namespace)
    workers = {each["metadata"]["name"] for each in play_controller(control_plane, job)}

    running = wait_until_running(control_plane, namespace, singles | members | workers)
    assert nodes.told("refused") == []
    for gang in (members, workers):
        assert len(racks(control_plane, {name: running[name] for name in gang})) == 1
    wait_until(
        lambda: (
            [each.get("status", {}).get("phase") for each in groups_in(control_plane, namespace).values()]
            == ["Scheduled"] * 2
        ),
        "both gangs are told that they are scheduled",
    )
    made = {running[name]["metadata"]["labels"]["bayplan.io/pod-group"] for name in workers}
    assert made == set(groups_in(control_plane, namespace)) - {"gang"}
    wait_until_told(control_plane, namespace, "too-large", "no node has cpu ")
    wait_for_event(control_plane, namespace, "single-0", "Scheduled")
    wait_for_event(control_plane, namespace, "too-large", "FailedScheduling")
    assert control_plane.get(LEASE)["spec"]["holderIdentity"]

    assert refused_requests(scheduler) == []
    for program in (scheduler, grouper):
        assert program.stop() == 0
        assert "forbidden" not in program.log.lower()
        assert [line for line in program.log.splitlines() if json.loads(line)["level"] not in ("debug", "info")] == []
    assert not control_plane.get(LEASE)["spec"].get("holderIdentity")


def test_a_pod_whose_owner_cannot_be_read_stands_alone_and_an_event_says_so(
    control_plane: ControlPlane, namespace: str, scheduler: RunningScheduler
) -> None:
    (owner,) = control_plane.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": namespace}}
    )
    pod = pod_body("owned", namespace, {"cpu": 1, "memory": "1Gi"})
    pod["metadata"]["ownerReferences"] = [owned_by({"apiVersion": "v1", "kind": "ConfigMap", **owner})]
    create_all(control_plane.kubeconfig, [pod])
    wait_until_running(control_plane, namespace, {"owned"})
    wait_for_event(control_plane, namespace, "owned", "OwnerUnreadable")
    assert refused_requests(scheduler) == []
    assert groups_in(control_plane, namespace) == {}
