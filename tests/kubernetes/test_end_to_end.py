"""The point of it all, on a real API server: a workload that loses pods under the stock scheduler loses none under
bayplan.

200 virtual kubelets of mixed hardware and policies; pods of many sizes, gangs that must share a rack, and pods that
cannot run at all. Whatever the delay of the nodes' reports, no kubelet refuses a pod of bayplan's, gangs stand in one
rack each, and those that wait are told the truth.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import partial
from typing import Any

import pytest

from bayplan.services.scheduler.announcing.announcer import MEMBERS_WITH_EVENTS
from tests.builders.bodies import RACK, gang_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import PROGRAM, running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import GPU, create_all, pods_in, wait_until_told, why_it_waits

# Zones of 8 CPUs each, two or four in a node.
SMALL = "pack:2 numa:1 core:8 pu:1 mem:32Gi"
LARGE = "pack:2 numa:2 core:4 pu:2 mem:32Gi nvidia.com/gpu:2@numa"
SINGLE = "policy=single-numa-node,cpu=static,memory=Static"
RESTRICTED = "policy=restricted,scope=pod,cpu=static,memory=Static"
# Racks of 10 nodes, each of one kind.
NODES = (
    "--machine",
    SMALL,
    "--nodes",
    "100",
    "--kubelet",
    SINGLE,
    "--machine",
    LARGE,
    "--nodes",
    "100",
    "--kubelet",
    RESTRICTED,
)
TREE = ("--tree", "block:4 rack:5", "--heartbeat", "0")

GANGS, GANG_SIZE = 6, 12
MOST_WAITING = 90.0


def workload(namespace: str, scheduler: str) -> list[dict[str, Any]]:
    """Two thirds of the CPUs, most of them in sizes of which a zone holds one and a node, if its zones are not looked
    at, more than it has zones.
    """
    shapes: list[tuple[dict[str, str | int], int]] = [
        ({"cpu": 5, "memory": "6Gi"}, 330),
        ({"cpu": 6, "memory": "8Gi"}, 100),
        ({"cpu": 2, "memory": "2Gi"}, 300),
        ({"cpu": 7, "memory": "8Gi", GPU: 2}, 40),
    ]
    pods = [
        pod_body(f"p{kind}-{number}", namespace, amounts, scheduler=scheduler)
        for kind, (amounts, count) in enumerate(shapes)
        for number in range(count)
    ]
    # As they would arrive: all kinds mixed.
    return [pods[position * 13 % len(pods)] for position in range(len(pods))]


def phases(plane: ControlPlane, namespace: str) -> Counter[tuple[str, str]]:
    return Counter((pod["status"]["phase"], pod["status"].get("reason", "")) for pod in pods_in(plane, namespace))


def test_the_stock_scheduler_loses_pods_to_topology_affinity_error(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, *NODES, *TREE), plane.start_stock_scheduler():
        create_all(plane.kubeconfig, workload(namespace, "default-scheduler"))
        wait_until(
            lambda: not phases(plane, namespace)["Pending", ""], "all pods have ended or run", timeout=MOST_WAITING
        )
        assert phases(plane, namespace)["Failed", "TopologyAffinityError"] > 10


@pytest.mark.parametrize("delay", ["0s", "1s", "10s"])
def test_bayplan_loses_none_whatever_the_delay_of_reports(plane: ControlPlane, namespace: str, delay: str) -> None:
    with virtual_nodes(plane, *NODES, *TREE, "--report-delay", delay) as nodes, running_scheduler(plane):
        pods = workload(namespace, "bayplan")
        gangs = [f"gang-{number}" for number in range(GANGS)]
        for gang in gangs:
            plane.apply(gang_body(gang, namespace, GANG_SIZE, topology="network", required=RACK))
        members = [
            pod_body(f"{gang}-{rank}", namespace, {"cpu": 4, "memory": "4Gi"}, gang=gang)
            for gang in gangs
            for rank in range(GANG_SIZE)
        ]
        plane.apply(gang_body("too-wide", namespace, 90, topology="network", required=RACK))
        hopeless = [pod_body("too-large", namespace, {"cpu": 40, "memory": "4Gi"})]
        hopeless += [
            pod_body(f"too-wide-{rank}", namespace, {"cpu": 8, "memory": "1Gi"}, gang="too-wide") for rank in range(90)
        ]
        create_all(plane.kubeconfig, [*hopeless, *pods[:300], *members, *pods[300:]])
        wait_until(
            lambda: phases(plane, namespace)["Running", ""] == len(pods) + len(members),
            "all pods that fit run",
            timeout=MOST_WAITING,
        )
        assert phases(plane, namespace) == {("Running", ""): len(pods) + len(members), ("Pending", ""): len(hopeless)}
        assert nodes.told("refused") == []
        assert_gangs_share_a_rack(plane, namespace, gangs)
        assert_those_that_wait_are_told_why(plane, namespace)


def assert_gangs_share_a_rack(plane: ControlPlane, namespace: str, gangs: list[str]) -> None:
    rack_of = {
        node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in plane.get("/api/v1/nodes")["items"]
    }
    for gang in gangs:
        own = [pod for pod in pods_in(plane, namespace) if pod["metadata"]["name"].startswith(f"{gang}-")]
        assert len({rack_of[pod["spec"]["nodeName"]] for pod in own}) == 1
        assert sorted(int(pod["metadata"]["annotations"]["bayplan.io/rank"]) for pod in own) == list(range(GANG_SIZE))
        status = plane.get(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups/{gang}")["status"]
        assert (status["phase"], status["scheduled"]) == ("Scheduled", GANG_SIZE)


def _needs_ninety_slots(plane: ControlPlane, name: str) -> bool:
    return "needs 90 slots in one rack" in why(plane, name).stdout.splitlines()[0]


def assert_those_that_wait_are_told_why(plane: ControlPlane, namespace: str) -> None:
    for name, words in (("too-large", "no node has cpu "), ("too-wide-0", "needs 90 slots")):
        wait_until_told(plane, namespace, name, words)
    answer = why(plane, f"{namespace}/too-large")
    assert answer.returncode == 1
    assert answer.stdout.startswith(f"{namespace}/too-large is Pending")
    assert why_it_waits(plane, namespace, "too-large").partition(".")[0] in answer.stdout.splitlines()[0]
    for name in (f"podgroup/{namespace}/too-wide", f"{namespace}/too-wide-0"):
        # While reports are behind, no zones are known at all, and that is the answer.
        wait_until(partial(_needs_ninety_slots, plane, name), f"{name} is told what it needs")
        gang = why(plane, name)
        assert gang.returncode == 1
        assert gang.stdout.startswith(f"{name.removeprefix('podgroup/')} is Pending")
    assert_a_gang_is_told_by_few_events(plane, namespace)


def assert_a_gang_is_told_by_few_events(plane: ControlPlane, namespace: str) -> None:
    """All of them about its real reason, however its pods arrived."""

    def told() -> list[dict[str, Any]]:
        events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [event for event in events if event["regarding"]["name"].startswith("too-wide")]

    wait_until(
        lambda: len({event["regarding"]["name"] for event in told()}) == 1 + MEMBERS_WITH_EVENTS,
        "the PodGroup and a few members have events",
    )
    assert all("needs 90 slots" in event["note"] for event in told())


def why(plane: ControlPlane, name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "why", name, "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_gangs_that_require_numa_are_in_one_zone_of_their_kubelet(plane: ControlPlane, namespace: str) -> None:
    """Which zone a pod got is what its node reports, not what bayplan had in mind."""

    def zones() -> dict[str, set[tuple[str, str]]]:
        """By gang, node and zone of the CPUs of its pods."""
        found: dict[str, set[tuple[str, str]]] = {}
        for report in plane.get("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")["items"]:
            attributes = {each["name"]: each["value"] for each in report.get("attributes") or ()}
            for key, amounts in json.loads(attributes.get("bayplan.io/pods", "{}")).items():
                gang = key.removeprefix(f"{namespace}/").rpartition("-")[0]
                found.setdefault(gang, set()).update((report["metadata"]["name"], zone) for zone in amounts["cpu"])
        return found

    kinds = (
        "--machine",
        SMALL,
        "--nodes",
        "3",
        "--kubelet",
        SINGLE,
        "--machine",
        LARGE,
        "--nodes",
        "3",
        "--kubelet",
        RESTRICTED,
    )
    # What a gang leaves of its zone would tear the next one apart, so a node takes one of them.
    gangs = [f"gang-{number}" for number in range(6)]
    with virtual_nodes(plane, *kinds, "--heartbeat", "0") as nodes, running_scheduler(plane):
        for gang in gangs:
            plane.apply(gang_body(gang, namespace, 3, required="numa"))
        amounts: dict[str, str | int] = {"cpu": 2, "memory": "1Gi"}
        members = [pod_body(f"{gang}-{rank}", namespace, amounts, gang=gang) for gang in gangs for rank in range(3)]
        create_all(plane.kubeconfig, members)
        wait_until(lambda: phases(plane, namespace)["Running", ""] == len(members), "all run", timeout=MOST_WAITING)
        wait_until(lambda: sorted(zones()) == gangs, "reports show them", timeout=MOST_WAITING)
        assert nodes.told("refused") == []
        assert {gang: len(own) for gang, own in zones().items()} == dict.fromkeys(gangs, 1)
