"""`bayplan doctor` on a real API server: green on a sound installation, and each deliberate fault is found, with the
advice that repairs it.

There is no controller manager here, so the test writes the readiness of Deployments and DaemonSets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.builders.bodies import BLOCK, RACK, node_body, pod_body, topology_body
from tests.kubernetes.control_plane.objects import read_objects, remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import Json
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import DEPLOY, NAMESPACE, Deployed, deployed, scheduler_arguments
from tests.kubernetes.running_scheduler import PROGRAM, RunningScheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import create_all

AGENTS = "bayplan-agent"
NODES = ("--machine", "pack:2 numa:1 core:8 pu:1 mem:32Gi", "--nodes", "8", "--name-prefix", "n")
TREE = ("--tree", "block:2 rack:2", "--heartbeat", "0")
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD_GROUPS = "podgroups.bayplan.io"
SCHEDULER_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/bayplan-scheduler"
SCHEDULER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/bayplan-scheduler"


class Patient:
    """An installation on a control plane, and a doctor for it."""

    def __init__(self, plane: ControlPlane, account: Deployed, folder: Path) -> None:
        self.plane = plane
        self.account = account
        self.folder = folder
        self.nodes = sorted(each["metadata"]["name"] for each in plane.get("/api/v1/nodes")["items"])
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> RunningScheduler:
        started = RunningScheduler(self.account.kubeconfig, tuple(scheduler_arguments(self.folder)))
        started.wait_until_ready()
        started.wait_until_leading()
        return started

    def close(self) -> None:
        self.scheduler.close()

    def examined(self, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str]:
        command = [sys.executable, "-c", PROGRAM, "doctor", *arguments]
        command += ["--kubeconfig", str(kubeconfig or self.plane.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "error" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    def findings(self) -> dict[str, list[Json]]:
        """Errors and warnings by check."""
        code, text = self.examined("-o", "json")
        found = {
            check["name"]: [each for each in check["findings"] if each["severity"] != "note"]
            for check in json.loads(text)["checks"]
        }
        assert code == (1 if any(found.values()) else 0)
        return {name: each for name, each in found.items() if each}

    @contextmanager
    def changed(self, path: str, patch: Json | list[Json], *, status: bool = False) -> Iterator[None]:
        """Patch an object, a list being a JSON patch, and write it back as it was."""
        before = self.plane.get(path)
        where = f"{path}/status" if status else path
        self.plane.api.patch(where, patch, kind="json-patch" if isinstance(patch, list) else "merge-patch")
        try:
            yield
        finally:
            now = self.plane.get(path)
            before["metadata"] = {**before["metadata"], "resourceVersion": now["metadata"]["resourceVersion"]}
            before["metadata"].pop("managedFields", None)
            self.plane.api.put(where, before)

    @contextmanager
    def bare_node(self) -> Iterator[None]:
        """One more node, which no kubelet and no agent looks after."""
        labels = self.plane.get(f"/api/v1/nodes/{self.nodes[0]}")["metadata"]["labels"]
        body = node_body("bare", {"cpu": 15, "memory": "60Gi"})
        body["metadata"]["labels"] |= {BLOCK: labels[BLOCK], RACK: labels[RACK]}
        create_all(self.plane.kubeconfig, [body])
        try:
            yield
        finally:
            self.plane.delete("/api/v1/nodes/bare")

    @contextmanager
    def attribute(self, node: str, name: str, value: str) -> Iterator[None]:
        """A report with another value of one attribute."""
        report = self.plane.get(f"{REPORTS}/{node}")
        kept = [each for each in report["attributes"] if each["name"] != name]
        with self.changed(f"{REPORTS}/{node}", {"attributes": [*kept, {"name": name, "value": value}]}):
            yield


@pytest.fixture(scope="module")
def patient(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    with ExitStack() as stack:
        account = stack.enter_context(deployed(control_plane))
        control_plane.apply(topology_body())
        listed = yaml.safe_load((DEPLOY / "agent" / "kustomization.yaml").read_text())["resources"]
        for written in (each for file in listed for each in read_objects(DEPLOY / "agent" / file)):
            control_plane.apply(written)
        stack.callback(remove_namespace, control_plane.api, AGENTS)
        stack.enter_context(virtual_nodes(control_plane, *NODES, *TREE))
        for namespace, kind, name, status in (
            (NAMESPACE, "deployments", "bayplan-scheduler", {"replicas": 2, "readyReplicas": 2}),
            (NAMESPACE, "deployments", "bayplan-pod-grouper", {"replicas": 2, "readyReplicas": 2}),
            (AGENTS, "deployments", "bayplan-agent-gc", {"replicas": 1, "readyReplicas": 1}),
            (AGENTS, "daemonsets", "bayplan-agent", {"desiredNumberScheduled": 8, "numberReady": 8}),
        ):
            path = f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}/status"
            if kind == "daemonsets":
                status |= {"currentNumberScheduled": 8, "numberMisscheduled": 0}
            control_plane.api.patch(path, {"status": status})
        found = Patient(control_plane, account, tmp_path_factory.mktemp("scheduler"))
        stack.callback(found.close)
        yield found


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace for one test; unlike elsewhere, nodes stay."""
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ward"}})
    yield "ward"
    remove_namespace(control_plane.api, "ward")


def test_a_sound_installation_passes_every_check(patient: Patient) -> None:
    code, text = patient.examined()
    assert (code, text.partition("\n")[0]) == (0, "14 checks passed"), text


def test_an_account_asks_for_its_own_rights_and_says_what_it_cannot_know(patient: Patient) -> None:
    code, text = patient.examined("--fail-on", "error", kubeconfig=patient.account.kubeconfig)
    assert "only its own rights are known" in text
    assert code == 1  # it must not read Deployments, so it cannot see that it is installed
    assert "there is no Deployment bayplan-scheduler" in text


@contextmanager
def podgroup_kind_is_missing(patient: Patient, namespace: str) -> Iterator[None]:
    patient.plane.delete(f"{CRDS}/{POD_GROUPS}")
    wait_until(lambda: not patient.plane.api.exists(f"{CRDS}/{POD_GROUPS}"), "the kind is gone")
    try:
        yield
    finally:
        patient.plane.apply(DEPLOY / "crds" / f"{POD_GROUPS}.yaml")
        wait_until(lambda: patient.plane.api.exists("/apis/bayplan.io/v1alpha1/podgroups"), "the kind is back")


@contextmanager
def topologies_are_served_in_an_unknown_version(patient: Patient, namespace: str) -> Iterator[None]:
    path = f"{CRDS}/topologies.kai.scheduler"
    (version,) = patient.plane.get(path)["spec"]["versions"]
    future = {**version, "name": "v9", "storage": False}
    with patient.changed(path, {"spec": {"versions": [{**version, "served": False}, future]}}):
        wait_until(lambda: patient.plane.api.exists("/apis/kai.scheduler/v9"), "v9 is served")
        wait_until(lambda: not patient.plane.api.exists("/apis/kai.scheduler/v1alpha1"), "v1alpha1 is not")
        yield
    wait_until(lambda: patient.plane.api.exists("/apis/kai.scheduler/v1alpha1"), "v1alpha1 is back")


@contextmanager
def the_scheduler_must_not_bind(patient: Patient, namespace: str) -> Iterator[None]:
    rules = patient.plane.get(SCHEDULER_ROLE)["rules"]
    with patient.changed(
        SCHEDULER_ROLE, {"rules": [rule for rule in rules if "pods/binding" not in rule["resources"]]}
    ):
        yield


@contextmanager
def no_scheduler_pod_is_ready(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.changed(SCHEDULER, {"status": {"readyReplicas": 0}}, status=True):
        yield


@contextmanager
def no_replica_leads_and_a_pod_waits(patient: Patient, namespace: str) -> Iterator[None]:
    assert patient.scheduler.stop() == 0
    patient.scheduler.close()
    create_all(patient.plane.kubeconfig, [pod_body("waits", namespace, {"cpu": 1, "memory": "1Gi"})])
    yield
    patient.scheduler = patient.start_scheduler()


@contextmanager
def the_configuration_has_a_typo(patient: Patient, namespace: str) -> Iterator[None]:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/bayplan-scheduler"
    text = patient.plane.get(path)["data"]["config.yaml"]
    with patient.changed(path, {"data": {"config.yaml": text.replace("profiles:", "profile:")}}):
        yield


@contextmanager
def preemption_is_on_without_the_right_to_evict(patient: Patient, namespace: str) -> Iterator[None]:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/bayplan-scheduler"
    text = patient.plane.get(path)["data"]["config.yaml"]
    preempting = text.replace("- schedulerName: bayplan", "- preemption: On\n  schedulerName: bayplan")
    with patient.changed(path, {"data": {"config.yaml": preempting}}):
        yield


@contextmanager
def a_nodes_clock_is_fast(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.attribute(patient.nodes[0], "bayplan.io/made-at", f"{time.time() + 3600:.3f}"):
        yield


@contextmanager
def a_node_has_no_report(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.bare_node():
        yield


@contextmanager
def a_report_outlived_its_node(patient: Patient, namespace: str) -> Iterator[None]:
    report = patient.plane.get(f"{REPORTS}/{patient.nodes[0]}")
    patient.plane.post(REPORTS, {**report, "metadata": {"name": "ghost"}})
    yield
    patient.plane.delete(f"{REPORTS}/ghost")


@contextmanager
def a_report_is_two_hours_old(patient: Patient, namespace: str) -> Iterator[None]:
    # A minute beyond, as doctor reads the API server's clock, which tells whole seconds.
    with patient.attribute(patient.nodes[0], "bayplan.io/made-at", f"{time.time() - 7260:.3f}"):
        yield


@contextmanager
def a_report_names_a_zone_twice(patient: Patient, namespace: str) -> Iterator[None]:
    path = f"{REPORTS}/{patient.nodes[0]}"
    zones = patient.plane.get(path)["zones"]
    with patient.changed(path, {"zones": [*zones, zones[0]]}):
        yield


@contextmanager
def a_report_is_of_a_smaller_machine(patient: Patient, namespace: str) -> Iterator[None]:
    path = f"{REPORTS}/{patient.nodes[0]}"
    with patient.changed(path, {"zones": patient.plane.get(path)["zones"][:1]}):
        yield


@contextmanager
def a_kubelet_refuses_though_its_policy_is_none(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.bare_node():
        report = patient.plane.get(f"{REPORTS}/{patient.nodes[0]}")
        kept = [each for each in report["attributes"] if each["name"] != "topologyManagerPolicy"]
        attributes = [*kept, {"name": "topologyManagerPolicy", "value": "none"}]
        patient.plane.post(REPORTS, {**report, "metadata": {"name": "bare"}, "attributes": attributes})
        pod = pod_body(
            "refused", namespace, {"cpu": 1, "memory": "1Gi"}, scheduler="default-scheduler", nodeName="bare"
        )
        create_all(patient.plane.kubeconfig, [pod])
        path = f"/api/v1/namespaces/{namespace}/pods/refused"
        patient.plane.api.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "TopologyAffinityError"}})
        yield
        patient.plane.delete(path)
        patient.plane.delete(f"{REPORTS}/bare")


@contextmanager
def a_fingerprint_is_of_other_pods(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.attribute(patient.nodes[0], "nodeTopologyPodsFingerprint", "pfp0v0010123456789abcdef"):
        yield


@contextmanager
def an_agent_is_old(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.attribute(patient.nodes[0], "bayplan.io/agent-version", "0.0.9"):
        yield


@contextmanager
def a_node_has_a_rack_but_no_block(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.changed(f"/api/v1/nodes/{patient.nodes[0]}", {"metadata": {"labels": {BLOCK: None}}}):
        yield


@contextmanager
def a_node_has_no_level_label(patient: Patient, namespace: str) -> Iterator[None]:
    with patient.changed(f"/api/v1/nodes/{patient.nodes[0]}", {"metadata": {"labels": {BLOCK: None, RACK: None}}}):
        yield


@contextmanager
def two_schedulers_share_a_node(patient: Patient, namespace: str) -> Iterator[None]:
    small: dict[str, str | int] = {"cpu": 1, "memory": "1Gi"}
    both = ("bayplan", "default-scheduler")
    create_all(
        patient.plane.kubeconfig,
        [pod_body(f"of-{name}", namespace, small, scheduler=name, nodeName=patient.nodes[0]) for name in both],
    )
    yield
    for name in both:
        patient.plane.delete(f"/api/v1/namespaces/{namespace}/pods/of-{name}")


Fault = Callable[[Patient, str], AbstractContextManager[None]]
# Each fault, the check that finds it, words of the problem, words of the advice, and checks that rightly see it as
# well.
FAULTS = [
    (podgroup_kind_is_missing, "kinds", "podgroups.bayplan.io is not installed",
     "kubectl create -f deploy/crds/podgroups", ()),
    (topologies_are_served_in_an_unknown_version, "kinds", "the API server serves v9", "Serve kai.scheduler/v1alpha1",
     ()),
    (the_scheduler_must_not_bind, "rights", "must not create pods/binding",
     "kubectl apply -f deploy/base/scheduler-role.yaml", ()),
    (preemption_is_on_without_the_right_to_evict, "rights", "must not create pods/eviction",
     "deploy/preemption/preemption-role.yaml", ()),
    (no_scheduler_pod_is_ready, "programs", "0 of 2 pods ready", "kubectl -n bayplan-system describe pods", ()),
    (no_replica_leads_and_a_pod_waits, "leader", "and 1 pod that names it waits", "logs deployment/bayplan-scheduler",
     ()),
    (the_configuration_has_a_typo, "leader", "profile", "--check-config", ()),
    (a_nodes_clock_is_fast, "clocks", "ahead of the API server's", "chronyc", ()),
    (a_node_has_no_report, "missing-reports", "1 of 9 nodes have no report", "get pods -o wide", ()),
    (a_report_outlived_its_node, "missing-reports", "nodes that do not exist", "agent-gc", ()),
    (a_report_is_two_hours_old, "stale-reports", "for up to 2h", "Check the agents", ()),
    (a_report_names_a_zone_twice, "report-contents", "appears twice", "InvalidTopology", ()),
    (a_report_is_of_a_smaller_machine, "report-contents", "cpu 15 allocatable, 8 in all zones", "restart the agent",
     ()),
    (a_kubelet_refuses_though_its_policy_is_none, "kubelet-policies", "reported policy (none) never does",
     "--kubelet-config", ()),
    (a_fingerprint_is_of_other_pods, "fingerprints", "do not match the pods", "podresources", ()),
    (an_agent_is_old, "agents", "version 0.0.9", "Upgrade the DaemonSet", ()),
    (a_node_has_a_rack_but_no_block, "tree", f"nodes lack {BLOCK}", f"kubectl label node NAME {BLOCK}=VALUE", ()),
    (a_node_has_no_level_label, "tree", "outside its tree", "kubectl label node", ()),
    (two_schedulers_share_a_node, "shared-nodes", "pods of bayplan and of default-scheduler", "kubectl taint node", ()),
]  # fmt: skip


@pytest.mark.parametrize("fault,check,problem,advice,others", FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_fault_is_found_with_the_right_advice(
    patient: Patient, namespace: str, fault: Fault, check: str, problem: str, advice: str, others: tuple[str, ...]
) -> None:
    with fault(patient, namespace):
        found = patient.findings()
        assert set(found) == {check, *others}, found
        assert any(problem in each["problem"] and advice in each["advice"] for each in found[check]), found[check]


def test_the_repaired_installation_is_sound_again(patient: Patient) -> None:
    wait_until(lambda: not patient.findings(), "the installation is sound again")
