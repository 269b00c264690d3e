"""The RBAC blocks of two design documents on a real API server, unchanged: their accounts can do what the documents
say.

`tests/unit/worked_examples/test_documents.py` has the blocks that need no API server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import node_body, pod_body, report_body
from tests.builders.objects import zone
from tests.documents import FOLDER
from tests.kubernetes.agents import REPORTS, agent_program, install_reports, register, report_of, shows
from tests.kubernetes.control_plane.objects import read_objects
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import may
from tests.kubernetes.running_scheduler import PROGRAM, RunningScheduler
from tests.kubernetes.workloads import create_all
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode

SCHEDULER_RBAC = FOLDER / "topology-aware-scheduling/rbac.yaml"
DAEMON_RBAC = FOLDER / "exposing-node-resources/rbac.yaml"
TOPOLOGIES = "topology.node.k8s.io"
STOCK_SCHEDULER = "system:kube-scheduler"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of our own: the stock scheduler's user must not read the kinds that other tests install, and a scheduler
    waits for every kind that is there.
    """
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def plane(control_plane: ControlPlane, namespace: str) -> Iterator[ControlPlane]:
    """An API server with NodeResourceTopologies; what a document has brought there is gone afterwards."""
    install_reports(control_plane)
    yield control_plane
    for file in (SCHEDULER_RBAC, DAEMON_RBAC):
        for written in read_objects(file):
            plural = written["kind"].lower() + "s"
            group = written["apiVersion"]
            root = f"/apis/{group}" if "/" in group else f"/api/{group}"
            inside = written["metadata"].get("namespace", "default" if written["kind"] == "ServiceAccount" else "")
            if written["kind"].startswith("Cluster"):
                inside = ""
            path = f"{root}/namespaces/{inside}/{plural}" if inside else f"{root}/{plural}"
            try:
                control_plane.delete(f"{path}/{written['metadata']['name']}")
            except ApiRefused as refused:
                if refused.status != 404:
                    raise


class TestTheScheduler:
    """KEP-119: "In order to allow the scheduler (deployed as a pod) to access NodeResourceTopology CRD instances"."""

    def test_the_account_may_do_what_the_document_says(self, plane: ControlPlane) -> None:
        assert len(plane.apply(SCHEDULER_RBAC)) == 6
        account = plane.api_with(plane.token_for("kube-system", "topo-aware-scheduler"))
        for verb in ("get", "list", "watch", "create", "update", "delete"):
            assert may(account, verb, "noderesourcetopologies", group=TOPOLOGIES), verb
        for verb in ("get", "list", "patch"):
            assert may(account, verb, "nodes"), verb
        for verb in ("get", "list", "watch", "update"):
            assert may(account, verb, "pods"), verb
        # What a scheduler also needs, and the document leaves to other roles.
        assert not may(account, "watch", "nodes")
        assert not may(account, "create", "pods/binding")

    def test_commands_that_only_read_work_with_the_account(self, plane: ControlPlane) -> None:
        plane.apply(SCHEDULER_RBAC)
        create_all(plane.kubeconfig, [node_body("n1", {"cpu": 12, "memory": "32Gi"})])
        plane.apply(report_body("n1", zone(0, {"cpu": 4}), zone(1, {"cpu": 8})))
        kubeconfig = plane.kubeconfig_with_token(plane.token_for("kube-system", "topo-aware-scheduler"))
        command = [sys.executable, "-c", PROGRAM, "numa", "n1", "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "policy single-numa-node" in done.stdout
        assert "no right to list namespaces" in done.stderr

    def test_the_scheduler_names_the_right_that_the_account_lacks(self, plane: ControlPlane) -> None:
        """The document's role has no watch on nodes: the scheduler is not ready, and says why."""
        plane.apply(SCHEDULER_RBAC)
        kubeconfig = plane.kubeconfig_with_token(plane.token_for("kube-system", "topo-aware-scheduler"))
        scheduler = RunningScheduler(kubeconfig, ("--no-leader-elect",))
        try:
            wait_until(lambda: 'cannot watch resource \\"nodes\\"' in scheduler.log, "it says what it lacks")
            assert "[-]lists failed" in scheduler.get("/readyz?verbose")
        finally:
            scheduler.close()

    @pytest.mark.parametrize("granted", [True, False])
    def test_the_stock_schedulers_user_schedules_by_zone_once_it_may_read_reports(
        self, plane: ControlPlane, namespace: str, granted: bool
    ) -> None:
        """The last binding of the block gives `system:kube-scheduler` the role.

        9 CPUs are free in sum on both nodes, in one zone on n2.
        """
        if granted:
            plane.apply(SCHEDULER_RBAC)
        create_all(plane.kubeconfig, [node_body(name, {"cpu": 12, "memory": "32Gi"}) for name in ("n1", "n2")])
        for written in (
            report_body("n1", zone(0, {"cpu": 4}), zone(1, {"cpu": 8})),
            report_body("n2", zone(0, {"cpu": 2}), zone(1, {"cpu": 10})),
        ):
            plane.apply(written)
        scheduler = RunningScheduler(plane.kubeconfig_for(STOCK_SCHEDULER), ("--no-leader-elect",))
        try:
            if not granted:
                refused = 'cannot list resource \\"noderesourcetopologies\\"'
                wait_until(lambda: refused in scheduler.log, "it says what it lacks")
                assert scheduler.get("/readyz") != "ok"
                return
            scheduler.wait_until_ready()
            plane.apply(pod_body("nine", namespace, {"cpu": 9, "memory": "1Gi"}), namespace=namespace)
            path = f"/api/v1/namespaces/{namespace}/pods/nine"
            wait_until(lambda: "nodeName" in plane.get(path)["spec"], "the pod is bound")
            assert plane.get(path)["spec"]["nodeName"] == "n2"
        finally:
            scheduler.close()


class TestTheDaemon:
    """ "In order to allow the NFD-master Daemon to create, get, update, delete NodeResourceTopology CRD instances"."""

    def test_the_agent_publishes_with_the_account(self, plane: ControlPlane, tmp_path: Path) -> None:
        assert len(plane.apply(DAEMON_RBAC)) == 3
        token = plane.token_for("default", "noderesourcetopology-account")
        account = plane.api_with(token)
        for verb in ("create", "get", "update", "delete"):
            assert may(account, verb, "noderesourcetopologies", group=TOPOLOGIES), verb
        register(plane, "n1")
        with VirtualNode(tmp_path / "n1", kubelet(machine(gpus=[[0], [1]]))) as virtual:
            virtual.admit("default/a", guaranteed({"cpu": 2, "memory": "1Gi"}))
            with agent_program(virtual, plane.kubeconfig_with_token(token)):
                wait_until(lambda: report_of(plane) is not None, "the report is there", timeout=60.0)
                wait_until(lambda: shows(plane, virtual), "the report shows the kubelet's cache", timeout=60.0)
        plane.delete(f"{REPORTS}/n1")
