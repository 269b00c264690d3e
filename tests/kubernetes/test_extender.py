"""The extender under the stock kube-scheduler, on a real API server and virtual kubelets.

The workload is one on which the stock scheduler alone loses pods to TopologyAffinityError.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import pod_body
from tests.kubernetes.control_plane.objects import read_objects, remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import DEPLOY, NAMESPACE
from tests.kubernetes.running_extender import running_extender
from tests.kubernetes.service_address import service_address
from tests.kubernetes.test_end_to_end import SINGLE, SMALL, phases
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import create_all, pods_in

# 15 CPUs for pods on each node: in one zone, which holds three pods of 5, or in two, which hold one each.
ONE_ZONE = ("--machine", "pack:1 numa:1 core:16 pu:1 mem:64Gi", "--nodes", "10", "--kubelet", SINGLE)
TWO_ZONES = ("--machine", SMALL, "--nodes", "10", "--kubelet", SINGLE)
NODES = (*ONE_ZONE, *TWO_ZONES, "--heartbeat", "0")
MOST_WAITING = 240.0
MACHINE = ("--machine", "pack:2 core:8 mem:32Gi", "--heartbeat", "0")  # zone 0 has 7 CPUs for pods, zone 1 has 8
STOCK = "default-scheduler"
# Every node is asked about: by default the stock scheduler samples.
ALL_NODES = 100


def workload(namespace: str) -> list[dict[str, Any]]:
    """Pods for all but two of the 50 places: spread evenly by sums, a third pod meets many a node with two zones."""
    return [pod_body(f"p{number}", namespace, {"cpu": 5, "memory": "6Gi"}, scheduler=STOCK) for number in range(48)]


def test_the_stock_scheduler_alone_loses_pods_to_topology_affinity_error(plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(plane, *NODES), plane.start_stock_scheduler(percentage=ALL_NODES):
        create_all(plane.kubeconfig, workload(namespace))
        wait_until(
            lambda: not phases(plane, namespace)["Pending", ""], "all pods run or have failed", timeout=MOST_WAITING
        )
        assert phases(plane, namespace)["Failed", "TopologyAffinityError"] > 0


@pytest.mark.parametrize("delay", ["0s", "10s"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"binds": False}, {"ignorable": True}, {"node_cache_capable": False}],
    ids=["binds", "no-bind", "ignorable", "objects"],
)
def test_the_stock_scheduler_loses_no_pod_with_the_extender(
    plane: ControlPlane, namespace: str, delay: str, choices: dict[str, bool]
) -> None:
    with (
        virtual_nodes(plane, *NODES, "--report-delay", delay) as nodes,
        running_extender(plane) as extender,
        plane.start_stock_scheduler(extenders=[extender.stanza(**choices)], percentage=ALL_NODES),
    ):
        pods = workload(namespace)
        create_all(plane.kubeconfig, pods)
        wait_until(
            lambda: phases(plane, namespace)["Running", ""] == len(pods) or bool(nodes.told("refused")),
            "all pods run",
            timeout=MOST_WAITING,
        )
        assert nodes.told("refused") == []
        assert phases(plane, namespace) == {("Running", ""): len(pods)}
        assert 'code="500"' not in extender.get("/metrics")


def test_another_replica_takes_over_in_the_middle_of_a_workload(plane: ControlPlane, namespace: str) -> None:
    with (
        virtual_nodes(plane, *NODES) as nodes,
        running_extender(plane) as first,
        running_extender(plane) as second,
        service_address([first.address, second.address]) as address,
        plane.start_stock_scheduler(extenders=[first.stanza(url_prefix=f"http://{address}")], percentage=ALL_NODES),
    ):
        pods = workload(namespace)[:40]
        create_all(plane.kubeconfig, pods[:20])
        wait_until(lambda: phases(plane, namespace)["Running", ""] >= 8, "some pods run", timeout=MOST_WAITING)
        assert first.stop() == 0
        create_all(plane.kubeconfig, pods[20:])
        wait_until(
            lambda: phases(plane, namespace)["Running", ""] == len(pods) or bool(nodes.told("refused")),
            "all pods run",
            timeout=MOST_WAITING,
        )
        assert nodes.told("refused") == []
        assert phases(plane, namespace) == {("Running", ""): len(pods)}
        assert second.metric('bayplan_extender_requests_total{code="200",verb="bind"}') > 0


def test_scheduling_goes_on_without_an_ignorable_extender(plane: ControlPlane, namespace: str) -> None:
    six: dict[str, str | int] = {"cpu": 6, "memory": "1Gi"}
    with (
        virtual_nodes(plane, "--nodes", "2", *MACHINE),
        running_extender(plane) as extender,
        plane.start_stock_scheduler(extenders=[extender.stanza(ignorable=True)]),
    ):
        create_all(plane.kubeconfig, [pod_body("with", namespace, six, scheduler=STOCK)])
        wait_until(lambda: phases(plane, namespace)["Running", ""] == 1, "the first pod runs")
        assert extender.stop() == 0
        create_all(plane.kubeconfig, [pod_body("without", namespace, six, scheduler=STOCK)])
        wait_until(lambda: phases(plane, namespace)["Running", ""] == 2, "the second pod runs")


def test_the_event_of_a_waiting_pod_names_container_resource_zone_have_and_want(
    plane: ControlPlane, namespace: str
) -> None:
    with (
        virtual_nodes(plane, "--nodes", "1", *MACHINE),
        running_extender(plane) as extender,
        plane.start_stock_scheduler(extenders=[extender.stanza()]),
    ):
        create_all(plane.kubeconfig, [pod_body("wide", namespace, {"cpu": 10, "memory": "1Gi"}, scheduler=STOCK)])

        def told() -> str:
            (pod,) = pods_in(plane, namespace)
            conditions = pod["status"].get("conditions", [])
            return " ".join(each.get("message", "") for each in conditions if each["type"] == "PodScheduled")

        wait_until(lambda: bool(told()), "the pod is told why it waits")
        assert "no single NUMA zone holds the request: container main: zone 1 has cpu 8 of 10" in told()


def test_preemption_evicts_victims_that_make_room_in_one_zone(plane: ControlPlane, namespace: str) -> None:
    """Zone 0 runs 3 and 4 CPUs, zone 1 runs 4 and 4.

    A pod of 8 CPUs needs zone 1 empty; any two victims would do in sum.
    """
    plane.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "extender-high"},
            "value": 1000,
        }
    )
    with (
        virtual_nodes(plane, "--nodes", "1", *MACHINE),
        running_extender(plane) as extender,
        plane.start_stock_scheduler(extenders=[extender.stanza()]),
    ):
        for name, cpus in (("a", 7), ("b", 4), ("c", 4)):
            create_all(plane.kubeconfig, [pod_body(name, namespace, {"cpu": cpus, "memory": "1Gi"}, scheduler=STOCK)])
            wait_until(lambda: not phases(plane, namespace)["Pending", ""], f"{name} runs")
        high = pod_body("high", namespace, {"cpu": 8, "memory": "1Gi"}, scheduler=STOCK)
        high["spec"]["priorityClassName"] = "extender-high"
        create_all(plane.kubeconfig, [high])
        wait_until(
            lambda: (
                {each["metadata"]["name"] for each in pods_in(plane, namespace)} == {"a", "high"}
                and phases(plane, namespace)["Running", ""] == 2
            ),
            "the victims are gone and the pod runs",
        )


def test_the_stock_scheduler_authenticates_by_certificate_or_a_token_in_the_url(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    serving, client = plane.authority.issue_server(), plane.authority.issue_client("kube-scheduler", ())
    (tmp_path / "token").write_text("s3cret")
    ca = str(plane.authority.certificate)
    tls = ("--tls-cert-file", str(serving.certificate), "--tls-private-key-file", str(serving.key))
    with (
        virtual_nodes(plane, "--nodes", "1", *MACHINE),
        running_extender(plane, *tls, "--client-ca-file", ca, scheme="https") as mutual,
        running_extender(plane, *tls, "--token-file", str(tmp_path / "token"), scheme="https") as by_token,
    ):
        shown = {"ca_file": ca, "cert_file": str(client.certificate), "key_file": str(client.key)}
        stanzas = [
            mutual.stanza(**shown),
            by_token.stanza(url_prefix=f"https://bayplan:s3cret@{by_token.address}", ca_file=ca, binds=False),
        ]
        with plane.start_stock_scheduler(extenders=stanzas):
            create_all(plane.kubeconfig, [pod_body("a", namespace, {"cpu": 6, "memory": "1Gi"}, scheduler=STOCK)])
            wait_until(lambda: phases(plane, namespace)["Running", ""] == 1, "the pod runs")
        for extender in (mutual, by_token):
            assert extender.metric('bayplan_extender_requests_total{code="200",verb="filter"}') == 1


def test_the_manifests_are_accepted_and_their_rights_suffice(plane: ControlPlane, namespace: str) -> None:
    (kustomization,) = read_objects(DEPLOY / "extender" / "kustomization.yaml")
    for file in kustomization["resources"]:
        for written in read_objects(DEPLOY / "extender" / file):
            plane.apply(written)
    try:
        kubeconfig = plane.kubeconfig_with_token(plane.token_for(NAMESPACE, "bayplan-extender"))
        with (
            virtual_nodes(plane, "--nodes", "1", *MACHINE),
            running_extender(plane, kubeconfig=kubeconfig) as extender,
            plane.start_stock_scheduler(extenders=[extender.stanza()]),
        ):
            create_all(plane.kubeconfig, [pod_body("a", namespace, {"cpu": 6, "memory": "1Gi"}, scheduler=STOCK)])
            wait_until(lambda: phases(plane, namespace)["Running", ""] == 1, "the pod runs")
            assert extender.metric("bayplan_watch_restarts_total") == 0
            (pod,) = pods_in(plane, namespace)
            assert pod["metadata"]["annotations"]["bayplan.io/numa-zones"] == '{"main":[0]}'
    finally:
        remove_namespace(plane.api, NAMESPACE)
        for kind in ("clusterroles", "clusterrolebindings"):
            plane.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/bayplan-extender")
