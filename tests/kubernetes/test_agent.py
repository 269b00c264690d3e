"""The node agent on a real API server, as the program that users run: it follows its kubelet, outlives trouble, has no
right too many, clears away.

The kubelet is virtual and serves a real socket (`tests/virtual_node.py`). `test_agent_closes_the_loop.py` looks at
thousands of single steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.cluster.reports.inventory import STALE_SINCE
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.services.agent.gc import Collector
from tests.builders.objects import GPU
from tests.kubernetes.agents import (
    NODES,
    REPORT_KIND,
    REPORTS,
    agent_program,
    allowed,
    install_reports,
    register,
    report_of,
    shows,
    trouble,
)
from tests.kubernetes.control_plane.objects import read_objects, remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import DEPLOY
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode

KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SYSTEM = "bayplan-agent"


@pytest.fixture
def plane(control_plane: ControlPlane, namespace: str) -> ControlPlane:
    """An API server that knows node n1 and reports."""
    install_reports(control_plane)
    register(control_plane, "n1")
    return control_plane


@pytest.fixture
def virtual(tmp_path: Path) -> Iterator[VirtualNode]:
    with VirtualNode(tmp_path / "n1", kubelet(machine(gpus=[[0], [1]]))) as found:
        yield found


# -- the program -------------------------------------------------------------------------------------------------


def test_the_program_follows_the_kubelet_by_itself(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig) as agent:
        agent.wait_until_ready()
        for number in range(3):
            virtual.admit(f"ml/{number}", guaranteed({"cpu": 2, "memory": "1Gi"}))
            wait_until(lambda: shows(plane, virtual), "the report shows the pod")
        virtual.remove("ml/1")
        wait_until(lambda: shows(plane, virtual), "the report shows that the pod is gone")
        assert agent.metric("bayplan_agent_writes_total") == 5
        assert agent.stop() == 0
    report = report_of(plane)
    assert report is not None
    (owner,) = report["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", plane.get(f"{NODES}/n1")["metadata"]["uid"])


def test_an_idle_node_is_written_once(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig, "--interval=200ms") as agent:
        agent.wait_until_ready()
        wait_until(lambda: agent.metric("bayplan_agent_scans_total") > 5, "it has looked several times")
        assert agent.metric("bayplan_agent_writes_total") == 1


def test_once_and_the_end(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig, "--oneshot") as agent:
        assert agent.process.wait(60) == 0, agent.log
    assert shows(plane, virtual)


def test_the_report_of_another_agent_is_taken_over(plane: ControlPlane, virtual: VirtualNode) -> None:
    """NFD's object: another field manager, zones by index, a fingerprint that is not ours."""
    foreign = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [{"name": "node-0", "type": "Node", "resources": []}],
    }
    plane.apply(foreign)
    with agent_program(virtual, plane.kubeconfig, "--oneshot") as agent:
        assert agent.process.wait(60) == 0, agent.log
    assert shows(plane, virtual)


def test_the_version_of_reports_can_be_changed_to_and_fro(plane: ControlPlane, virtual: VirtualNode) -> None:
    """What an older version alone has does not stay behind, nor what it does not have."""
    parts = []
    for version in ("v1alpha2", "v1alpha1", "v1alpha2"):
        with agent_program(virtual, plane.kubeconfig, "--oneshot", f"--format={version}") as agent:
            assert agent.process.wait(60) == 0, agent.log
        assert shows(plane, virtual)
        report = report_of(plane)
        assert report is not None
        parts.append((*sorted({"attributes", "topologyPolicies"} & {*report}), "annotations" in report["metadata"]))
    assert parts == [("attributes", False), ("topologyPolicies", True), ("attributes", False)]


# -- trouble ---------------------------------------------------------------------------------------------------------


def test_an_api_server_that_is_away_is_outlived(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig) as agent:
        agent.wait_until_ready()
        plane.apiserver.stop()
        try:
            virtual.admit("ml/a", guaranteed({"cpu": 2, "memory": "1Gi"}))
            wait_until(lambda: trouble(agent, "api") == 1, "it notices")
            virtual.admit("ml/b", guaranteed({"cpu": 2, "memory": "1Gi"}))
        finally:
            plane.apiserver.start()
        wait_until(lambda: shows(plane, virtual), "the newest report is written", timeout=120)
        wait_until(lambda: trouble(agent, "api") == 0, "the trouble is over")
        assert agent.log.count("the API server does not answer") == 1


def test_an_api_server_that_hangs_is_noticed_although_nothing_is_to_be_written(
    plane: ControlPlane, virtual: VirtualNode
) -> None:
    with agent_program(virtual, plane.kubeconfig, "--interval=1s", "--heartbeat=6s") as agent:
        agent.wait_until_ready()
        plane.apiserver.pause()
        try:
            wait_until(lambda: trouble(agent, "api") == 1, "it notices within a heartbeat", timeout=12)
            assert agent.get("/readyz") != "ok"
        finally:
            plane.apiserver.resume()
        wait_until(lambda: agent.get("/readyz") == "ok", "the trouble is over", timeout=120)


def test_a_missing_kind_is_waited_for(plane: ControlPlane, virtual: VirtualNode) -> None:
    plane.delete(f"{KINDS}/noderesourcetopologies.topology.node.k8s.io")
    wait_until(lambda: not plane.api.exists(REPORTS), "the API server has forgotten reports")
    with agent_program(virtual, plane.kubeconfig) as agent:
        wait_until(lambda: trouble(agent, "api") == 1, "it notices")
        assert agent.log.count("does not know NodeResourceTopology (topology.node.k8s.io/v1alpha2): install") == 1
        assert agent.get("/livez") == "ok"
        assert agent.get("/readyz") != "ok"
        plane.apply(REPORT_KIND)
        wait_until(lambda: agent.get("/readyz") == "ok", "it has written its report", timeout=120)
    assert shows(plane, virtual)


def test_missing_rights_are_said_and_waited_for(plane: ControlPlane, virtual: VirtualNode) -> None:
    powerless = plane.kubeconfig_for("system:serviceaccount:somewhere:powerless", [])
    with agent_program(virtual, powerless) as agent:
        wait_until(lambda: trouble(agent, "api") == 1, "it notices")
        assert agent.log.count("the agent is not allowed to write reports") == 1
        assert "cannot patch resource" in agent.log
        with allowed(plane, "system:serviceaccount:somewhere:powerless", "bayplan-agent"):
            wait_until(lambda: agent.get("/readyz") == "ok", "it has written its report", timeout=120)


def test_a_kubelet_that_restarts_leaves_the_last_good_report(plane: ControlPlane, virtual: VirtualNode) -> None:
    virtual.admit("ml/a", guaranteed({"cpu": 4, "memory": "1Gi", GPU: 1}))
    with agent_program(virtual, plane.kubeconfig) as agent:
        agent.wait_until_ready()
        before = report_of(plane)
        virtual.server.stop()
        wait_until(lambda: trouble(agent, "podresources") == 1, "it notices")
        assert report_of(plane) == before
        virtual.server.start()
        wait_until(lambda: trouble(agent, "podresources") == 0, "it has found the kubelet again")
        virtual.remove("ml/a")
        wait_until(lambda: shows(plane, virtual), "it goes on")


def test_a_kubelet_whose_managers_have_not_started_leaves_the_last_good_report(
    plane: ControlPlane, virtual: VirtualNode
) -> None:
    virtual.admit("ml/a", guaranteed({"cpu": 4, "memory": "1Gi", GPU: 1}))
    with agent_program(virtual, plane.kubeconfig, "--interval=200ms") as agent:
        agent.wait_until_ready()
        before = report_of(plane)
        virtual.server.managers_started = False
        wait_until(lambda: trouble(agent, "podresources") == 1, "it notices")
        assert report_of(plane) == before
        assert agent.get("/readyz") != "ok"
        virtual.server.managers_started = True
        wait_until(lambda: agent.get("/readyz") == "ok", "the kubelet's managers run", timeout=60)
        assert agent.log.count("it is starting, or was not restarted") == 1


def test_no_report_is_written_for_a_node_that_does_not_exist(plane: ControlPlane, virtual: VirtualNode) -> None:
    plane.delete(f"{NODES}/n1")
    with agent_program(virtual, plane.kubeconfig) as agent:
        wait_until(lambda: trouble(agent, "node") == 1, "it notices")
        assert report_of(plane) is None
        register(plane, "n1")
        wait_until(lambda: shows(plane, virtual), "it has written its report", timeout=120)


def test_a_deleted_report_is_written_again(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig, "--interval=2s") as agent:
        agent.wait_until_ready()
        plane.delete(f"{REPORTS}/n1")
        wait_until(lambda: shows(plane, virtual), "it is there again")


def test_a_changed_report_is_put_right_but_not_for_an_annotation(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig, "--interval=500ms") as agent:
        agent.wait_until_ready()
        plane.api.patch(f"{REPORTS}/n1", {"metadata": {"annotations": {STALE_SINCE: "2026-01-01T00:00:00Z"}}})
        looked = agent.metric("bayplan_agent_scans_total")
        wait_until(lambda: agent.metric("bayplan_agent_scans_total") > looked + 4, "it has looked several times")
        assert agent.metric("bayplan_agent_writes_total") == 1
        plane.api.patch(f"{REPORTS}/n1", {"zones": []})
        wait_until(lambda: shows(plane, virtual), "the zones are there again")
        wait_until(lambda: trouble(agent, "report") == 0, "no other client changes it any more")
        assert agent.metric('bayplan_agent_writes_total{reason="again"}') == 1
        assert agent.log.count("another client changed the report (") == 1


# -- rights ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def deployed(plane: ControlPlane) -> Iterator[ControlPlane]:
    """deploy/agent, as kustomize would bring it there."""
    for file in yaml.safe_load((DEPLOY / "agent/kustomization.yaml").read_text())["resources"]:
        for written in read_objects(DEPLOY / f"agent/{file}"):
            plane.apply(written)
    yield plane
    plane.delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/bayplan-agent-own-report")
    plane.delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/bayplan-agent-own-report")
    remove_namespace(plane.api, SYSTEM)


def token_of_a_pod(plane: ControlPlane, node_name: str) -> str:
    """The token that a pod of the DaemonSet on this node would have."""
    container = {"name": "agent", "image": "bayplan"}
    spec = {"serviceAccountName": "bayplan-agent", "nodeName": node_name, "containers": [container]}
    (pod,) = plane.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"agent-{node_name}"}, "spec": spec}, namespace=SYSTEM
    )
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    answer = plane.post(
        f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/bayplan-agent/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
        },
    )
    token: str = answer["status"]["token"]
    return token


def test_an_agent_writes_the_report_of_its_own_node_and_no_other(deployed: ControlPlane, virtual: VirtualNode) -> None:
    register(deployed, "n2")
    token = token_of_a_pod(deployed, "n1")
    kubeconfig = deployed.kubeconfig_with_token(token)
    with agent_program(virtual, kubeconfig) as agent:
        agent.wait_until_ready()
    assert shows(deployed, virtual)
    virtual.name = "n2"
    with agent_program(virtual, kubeconfig, "--oneshot") as agent:
        assert agent.process.wait(60) == 2
        assert "an agent writes the report of its own node (n1) and no other" in agent.log
    assert report_of(deployed, "n2") is None
    for path in ("/api/v1/secrets", NODES, REPORTS):
        with pytest.raises(ApiRefused):
            deployed.api_with(token).get(path)


# -- clearing away ---------------------------------------------------------------------------------------------------


def collect(plane: ControlPlane, kubeconfig: Path, **more: Any) -> Any:
    async def story() -> Any:
        async with KubeClient(find_access(str(kubeconfig))) as client:
            return await Collector(client, **more).round()

    return asyncio.run(story())


def write_report(plane: ControlPlane, name: str, made_at: float | None) -> None:
    attributes = [] if made_at is None else [{"name": "bayplan.io/made-at", "value": f"{made_at:.6f}"}]
    plane.apply(
        {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": name},
            "attributes": attributes,
            "zones": [],
        }
    )


def test_reports_of_nodes_that_are_gone_are_deleted_and_stale_ones_marked(deployed: ControlPlane) -> None:
    kubeconfig = deployed.kubeconfig_with_token(deployed.token_for(SYSTEM, "bayplan-agent-gc"))
    for name in ("n2", "n3"):
        register(deployed, name)
    write_report(deployed, "n1", made_at=1_000_000.0)
    write_report(deployed, "n2", made_at=1_000_900.0)
    write_report(deployed, "n3", made_at=None)
    write_report(deployed, "gone", made_at=1_000_900.0)
    done = collect(deployed, kubeconfig, now=lambda: 1_001_000.0, stale_after=900.0)
    assert (done.deleted, done.marked, done.stale, done.failures) == (("gone",), ("n1",), 1, ())
    stale = report_of(deployed)
    assert stale is not None
    assert stale["metadata"]["annotations"] == {STALE_SINCE: "1970-01-12T13:46:40Z"}
    renewed = {"attributes": [{"name": "bayplan.io/made-at", "value": "1000990.0"}]}
    deployed.api.patch(f"{REPORTS}/n1", renewed)
    done = collect(deployed, kubeconfig, now=lambda: 1_001_000.0, stale_after=900.0)
    assert (done.deleted, done.unmarked, done.stale) == ((), ("n1",), 0)
    fresh = report_of(deployed)
    assert fresh is not None
    assert STALE_SINCE not in fresh["metadata"].get("annotations", {})


def test_the_collector_notices_a_node_that_goes(plane: ControlPlane) -> None:
    register(plane, "n2")
    write_report(plane, "n2", made_at=None)

    async def story() -> None:
        async with KubeClient(find_access(str(plane.kubeconfig))) as client:
            collector = asyncio.create_task(Collector(client, interval=3600, grace=0.2).run())
            await asyncio.sleep(1)
            await asyncio.to_thread(plane.delete, f"{NODES}/n2")
            await asyncio.to_thread(wait_until, lambda: report_of(plane, "n2") is None, "the report is gone")
            collector.cancel()

    asyncio.run(story())
