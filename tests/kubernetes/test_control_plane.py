"""The control plane keeps what its users rely on: real access rules, faults on demand, a stock scheduler that binds."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import node_body, pod_body
from tests.kubernetes.control_plane.objects import remove_namespace, remove_nodes
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import kubernetes_version
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json
from tests.kubernetes.control_plane.scratch import scratch_folder
from tests.kubernetes.control_plane.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
AMOUNTS = {"cpu": "4", "memory": "8Gi"}
NODES = "/api/v1/nodes"
WIDGETS = "/apis/example.com/v1/widgets"
WIDGET_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: first}
size: 1
"""


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def service_account(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def pod(name: str, **spec: Any) -> Json:
    """A pod for kube-scheduler."""
    return pod_body(name, "", {"cpu": 1}, scheduler="default-scheduler", **spec)


def test_it_is_the_version_that_go_mod_asks_for(control_plane: ControlPlane) -> None:
    assert control_plane.get("/version")["gitVersion"] == kubernetes_version()


class TestWhoMayDoWhat:
    def test_anonymous_requests_are_refused(self, control_plane: ControlPlane) -> None:
        with pytest.raises(ApiRefused) as refusal:
            control_plane.api_with(None).get(NODES)
        assert refusal.value.status == 401

    def test_a_user_without_rights_is_forbidden_to_look(self, control_plane: ControlPlane) -> None:
        with pytest.raises(ApiRefused, match='User \\\\"anna\\\\" cannot list resource') as refusal:
            control_plane.api_as("anna", ["visitors"]).get(NODES)
        assert refusal.value.status == 403

    def test_a_group_gives_rights(self, control_plane: ControlPlane) -> None:
        assert control_plane.api_as("berta", ["system:masters"]).get(NODES)["kind"] == "NodeList"

    def test_a_node_cannot_touch_another_node(self, control_plane: ControlPlane, namespace: str) -> None:
        control_plane.post(NODES, node_body("a", AMOUNTS))
        control_plane.post(NODES, node_body("b", AMOUNTS))
        kubelet = control_plane.api_as("system:node:a", ["system:nodes"])
        labels = {"metadata": {"labels": {"example.com/rack": "r1"}}}
        assert kubelet.patch(f"{NODES}/a", labels)["metadata"]["labels"]["example.com/rack"] == "r1"
        with pytest.raises(ApiRefused, match="is not allowed to modify node"):
            kubelet.patch(f"{NODES}/b", labels)

    def test_a_token_is_its_service_account(self, control_plane: ControlPlane, namespace: str) -> None:
        control_plane.apply(service_account("robot"), namespace=namespace)
        robot = control_plane.api_with(control_plane.token_for(namespace, "robot"))
        with pytest.raises(ApiRefused, match=f"system:serviceaccount:{namespace}:robot") as refusal:
            robot.get(NODES)
        assert refusal.value.status == 403

    def test_a_namespace_can_demand_restricted_pods(self, control_plane: ControlPlane, namespace: str) -> None:
        demand = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        control_plane.api.patch(f"/api/v1/namespaces/{namespace}", demand)
        with pytest.raises(ApiRefused, match='violates PodSecurity \\\\"restricted'):
            control_plane.apply(pod("careless"), namespace=namespace)


class TestApplying:
    def test_what_exists_is_replaced(self, control_plane: ControlPlane, namespace: str) -> None:
        control_plane.apply(config_map("settings", a="1", b="2"), namespace=namespace)
        control_plane.apply(config_map("settings", a="3"), namespace=namespace)
        assert control_plane.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")["data"] == {"a": "3"}

    def test_objects_follow_their_definition_at_once(
        self, control_plane: ControlPlane, namespace: str, tmp_path: Path
    ) -> None:
        (tmp_path / "widgets.yaml").write_text(WIDGET_DEFINITION, encoding="utf-8")
        control_plane.apply(tmp_path)
        assert control_plane.get(f"{WIDGETS}/first")["size"] == 1
        remove_nodes(control_plane.api)
        assert control_plane.get(WIDGETS)["items"] == [], "cluster-wide custom objects go with the nodes"
        control_plane.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")

    def test_an_undefined_kind_is_named(self, control_plane: ControlPlane) -> None:
        with pytest.raises(AssertionError, match="offers no Gadget of example"):
            control_plane.apply({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "x"}})


def test_a_namespace_goes_with_all_that_is_in_it(control_plane: ControlPlane) -> None:
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}})
    control_plane.apply(pod("bound", nodeName="gone"), namespace="short-lived")
    control_plane.apply(config_map("settings"), namespace="short-lived")
    remove_namespace(control_plane.api, "short-lived")
    assert not control_plane.api.exists("/api/v1/namespaces/short-lived")
    assert control_plane.get("/api/v1/pods?fieldSelector=metadata.namespace=short-lived")["items"] == []


class TestFaults:
    @pytest.mark.parametrize("way", ["stop", "kill"])
    def test_a_restart_keeps_address_and_objects(self, control_plane: ControlPlane, namespace: str, way: str) -> None:
        control_plane.apply(config_map("kept"), namespace=namespace)
        for program in (control_plane.apiserver, control_plane.etcd):
            program.stop() if way == "stop" else program.kill()
        with pytest.raises(ConnectionRefusedError):
            control_plane.get(NODES)
        control_plane.etcd.start()
        control_plane.apiserver.start()
        assert control_plane.api.exists(f"/api/v1/namespaces/{namespace}/configmaps/kept")

    @pytest.mark.parametrize("paused", ["apiserver", "etcd"])
    def test_a_pause_blocks_writes_until_it_ends(
        self, control_plane: ControlPlane, namespace: str, paused: str
    ) -> None:
        config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
        program = getattr(control_plane, paused)
        program.pause()
        try:
            with pytest.raises(TimeoutError):
                control_plane.api.post(config_maps, config_map("late"), timeout=0.5)
        finally:
            program.resume()
        wait_until(lambda: control_plane.api.answers("/readyz"), "the API server has recovered")
        assert control_plane.post(config_maps, config_map("after"))["metadata"]["name"] == "after"

    def test_a_program_outlives_the_thread_that_started_it(self, control_plane: ControlPlane) -> None:
        restart = threading.Thread(target=control_plane.apiserver.restart)
        restart.start()
        restart.join()
        assert control_plane.api.answers("/readyz")

    def test_a_paused_program_can_be_stopped(self, control_plane: ControlPlane) -> None:
        control_plane.apiserver.pause()
        control_plane.apiserver.restart()
        assert control_plane.api.answers("/readyz")

    def test_forgotten_history_is_gone_for_lists_and_watches(self, control_plane: ControlPlane, namespace: str) -> None:
        config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
        for name in ("a", "b", "c"):
            control_plane.post(config_maps, config_map(name))
        first_page = control_plane.get(f"{config_maps}?limit=1")["metadata"]
        control_plane.post(config_maps, config_map("d"))
        control_plane.etcd.compact()
        control_plane.apiserver.restart()
        with pytest.raises(ApiRefused) as refusal:
            control_plane.get(f"{config_maps}?limit=1&continue={first_page['continue']}")
        assert refusal.value.status == 410
        watch = f"{config_maps}?watch=true&timeoutSeconds=1&resourceVersion={first_page['resourceVersion']}"
        assert '"code":410' in control_plane.api.get_text(watch)

    def test_it_tells_what_it_costs(self, control_plane: ControlPlane) -> None:
        assert 100 * 2**20 < control_plane.apiserver.memory() < 2**30
        assert control_plane.apiserver.cpu_seconds() > 0


@pytest.mark.parametrize("scheduler_name, percentage", [("default-scheduler", None), ("another", 100)])
def test_a_stock_scheduler_binds_pods_that_ask_for_it(
    control_plane: ControlPlane, namespace: str, scheduler_name: str, percentage: int | None
) -> None:
    control_plane.post(NODES, node_body("n1", AMOUNTS))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with control_plane.start_stock_scheduler(scheduler_name=scheduler_name, percentage=percentage) as scheduler:
        control_plane.post(pods, pod("mine", schedulerName=scheduler_name))
        control_plane.post(pods, pod("not-mine", schedulerName="unknown"))
        wait_until(lambda: "nodeName" in control_plane.get(f"{pods}/mine")["spec"], "the pod is bound")
        assert control_plane.get(f"{pods}/mine")["spec"]["nodeName"] == "n1"
        assert "nodeName" not in control_plane.get(f"{pods}/not-mine")["spec"]
        assert "scheduler_schedule_attempts_total" in scheduler.metrics()


def test_nothing_outlives_a_run_that_is_killed(control_plane: ControlPlane) -> None:
    command = [sys.executable, "-m", "tests.kubernetes.control_plane", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as run:
        assert run.stdout is not None
        kubeconfig = Path(run.stdout.readline().strip().removeprefix("export KUBECONFIG="))
        address = json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        assert is_listening(address)
        run.kill()
    wait_until(lambda: not is_listening(address), "the API server is gone")
    with scratch_folder():
        assert not kubeconfig.exists(), "the next one clears away what the killed one has left"


def is_listening(address: str) -> bool:
    host, port = address.removeprefix("https://").split(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0
