"""Pods with claims on a real API server: free and provisioned volumes, failures, races, and gangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import BLOCK, RACK, gang_body, node_body, pod_body
from tests.builders.storage import claim, storage_class, uses, volume
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import Json
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.volume_controller import volume_controller
from tests.kubernetes.workloads import create_all, wait_until_told

SMALL: dict[str, str | int] = {"cpu": 1, "memory": "1Gi"}
CSI = "csi.example.com"


@pytest.fixture
def stored(plane: ControlPlane, namespace: str) -> Iterator[ControlPlane]:
    """Two racks of two nodes, a class of local volumes and one with a provisioner; volumes are gone after the test."""
    nodes = [("n0", "r0"), ("n1", "r0"), ("n2", "r1"), ("n3", "r1")]
    create_all(
        plane.kubeconfig,
        [node_body(name, {"cpu": "8", "memory": "32Gi"}, **{BLOCK: "b0", RACK: rack}) for name, rack in nodes],
    )
    for body in (storage_class("local"), storage_class("fast", CSI)):
        plane.apply(body)
    yield plane
    for each in plane.get("/api/v1/persistentvolumes")["items"]:
        path = f"/api/v1/persistentvolumes/{each['metadata']['name']}"
        plane.api.patch(path, {"metadata": {"finalizers": None}})
        plane.api.delete(path)


def configured(folder: Path, timeout: int = 600) -> str:
    """New nodes need not report themselves first, and binding volumes may take so many seconds."""
    file = folder / "configuration.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "podInitialBackoffSeconds: 1\n"
        "podMaxBackoffSeconds: 1\n"
        "profiles:\n"
        "- schedulerName: bayplan\n"
        "  pluginConfig:\n"
        "  - {name: NodeResourceTopologyMatch, args: {assume: {firstReportSeconds: 0}}}\n"
        f"  - {{name: VolumeBinding, args: {{bindTimeoutSeconds: {timeout}}}}}\n"
    )
    return f"--config={file}"


def add_volume(plane: ControlPlane, body: Json) -> None:
    """A volume that its controller has found to be available."""
    plane.apply(body)
    path = f"/api/v1/persistentvolumes/{body['metadata']['name']}/status"
    plane.api.patch(path, {"status": {"phase": "Available"}})


def add_claims(plane: ControlPlane, namespace: str, *names: str, cls: str = "local") -> None:
    for name in names:
        body = claim(name, cls=cls, namespace=namespace)
        del body["metadata"]["uid"], body["spec"]["volumeName"]
        plane.apply(body)


def pod(name: str, namespace: str, *claims: str, **spec: Any) -> Json:
    return pod_body(name, namespace, SMALL, volumes=uses(*claims), **spec)


def node_of(plane: ControlPlane, namespace: str, name: str) -> str:
    return str(plane.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"].get("nodeName", ""))


def wait_for_node(plane: ControlPlane, namespace: str, name: str) -> str:
    wait_until(lambda: bool(node_of(plane, namespace, name)), f"{name} has a node")
    return node_of(plane, namespace, name)


def volume_of(plane: ControlPlane, namespace: str, name: str) -> str:
    return str(plane.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")["spec"].get("volumeName", ""))


def test_a_local_volume_is_bound_with_its_pod(stored: ControlPlane, namespace: str, tmp_path: Path) -> None:
    add_volume(stored, volume("large", "100Gi", on="n2"))
    add_volume(stored, volume("small", "10Gi", on="n2"))
    with running_scheduler(stored, configured(tmp_path)), volume_controller(stored, namespace):
        create_all(stored.kubeconfig, [pod("web", namespace, "data")])
        wait_until_told(stored, namespace, "web", 'persistentvolumeclaim "data" not found')
        add_claims(stored, namespace, "data")
        assert wait_for_node(stored, namespace, "web") == "n2"
    assert volume_of(stored, namespace, "data") == "small"


def test_a_provisioner_that_fails_on_a_node_is_asked_on_others(
    stored: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    add_claims(stored, namespace, "data", cls="fast")
    first: list[str] = []

    def fails_on(node: str) -> bool:
        first.append(node)
        return node == first[0]

    with (
        running_scheduler(stored, configured(tmp_path)),
        volume_controller(stored, namespace, fails_on) as asked,
    ):
        create_all(stored.kubeconfig, [pod("web", namespace, "data")])
        node = wait_for_node(stored, namespace, "web")
    assert node != first[0]
    assert ("data", node) in asked


def test_a_provisioner_that_never_answers_holds_up_only_its_pod(
    stored: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    add_claims(stored, namespace, "data", cls="fast")
    claim_path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    seen: set[str] = set()

    def selected() -> str:
        annotations = stored.get(claim_path)["metadata"].get("annotations", {})
        found = str(annotations.get("volume.kubernetes.io/selected-node", ""))
        seen.update({found} - {""})
        return found

    with running_scheduler(stored, configured(tmp_path, timeout=2)):
        create_all(stored.kubeconfig, [pod("web", namespace, "data")])
        wait_until(lambda: bool(selected()), "a node is selected")
        create_all(stored.kubeconfig, [pod_body(f"other-{number}", namespace, SMALL) for number in range(20)])
        for number in range(20):
            wait_for_node(stored, namespace, f"other-{number}")
        wait_until_told(stored, namespace, "web", "timed out after 2 s")
        wait_until(lambda: bool(selected()) and len(seen) > 1, "another node is selected")
        assert node_of(stored, namespace, "web") == ""
        with volume_controller(stored, namespace):
            wait_for_node(stored, namespace, "web")


def test_storage_objects_that_make_no_sense(stored: ControlPlane, namespace: str, tmp_path: Path) -> None:
    add_volume(stored, volume("unreachable", on="no-such-node"))
    add_claims(stored, namespace, "nowhere")
    for name, cls in (("classless", ""), ("lost-class", "gone")):
        add_claims(stored, namespace, name, cls=cls)
    expected = {
        "nowhere": "didn't find available persistent volumes to bind",
        "classless": "pod has unbound immediate PersistentVolumeClaims",
        "lost-class": 'storageclass.storage.k8s.io "gone" not found',
    }
    with running_scheduler(stored, configured(tmp_path)), volume_controller(stored, namespace):
        create_all(stored.kubeconfig, [pod(name, namespace, name) for name in expected])
        for name, words in expected.items():
            wait_until_told(stored, namespace, name, words)
        stored.apply(storage_class("gone", CSI))
        wait_for_node(stored, namespace, "lost-class")
        assert [node_of(stored, namespace, name) for name in ("nowhere", "classless")] == ["", ""]
    stored.api.delete("/apis/storage.k8s.io/v1/storageclasses/gone")


def test_two_pods_that_want_the_last_volume(stored: ControlPlane, namespace: str, tmp_path: Path) -> None:
    add_volume(stored, volume("only", on="n1"))
    add_claims(stored, namespace, "a", "b")
    with running_scheduler(stored, configured(tmp_path)), volume_controller(stored, namespace):
        create_all(stored.kubeconfig, [pod(name, namespace, name) for name in ("a", "b")])
        wait_until(lambda: any(node_of(stored, namespace, name) for name in "ab"), "one of them has a node")
        loser = next(name for name in "ab" if not node_of(stored, namespace, name))
        wait_until_told(stored, namespace, loser, "didn't find available persistent volumes to bind")
        add_volume(stored, volume("another", on="n3"))
        assert wait_for_node(stored, namespace, loser) == "n3"


def test_a_claim_that_is_deleted_while_it_is_bound(stored: ControlPlane, namespace: str, tmp_path: Path) -> None:
    add_claims(stored, namespace, "data", cls="fast")
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    with running_scheduler(stored, configured(tmp_path)):
        create_all(stored.kubeconfig, [pod("web", namespace, "data")])
        wait_until(lambda: "volume.kubernetes.io/selected-node" in str(stored.get(path)), "a node is selected")
        stored.api.patch(path, {"metadata": {"finalizers": None}})
        stored.api.delete(path)
        wait_until_told(stored, namespace, "web", 'persistentvolumeclaim "data" not found')
        assert node_of(stored, namespace, "web") == ""


def test_a_gang_finds_all_its_volumes_in_one_rack_or_takes_none(
    stored: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    for name, on in {"a": "n0", "b": "n1", "c": "n1", "d": "n2", "e": "n2"}.items():
        add_volume(stored, volume(name, on=on))
    claims = [f"data-{rank}" for rank in range(4)]
    add_claims(stored, namespace, *claims)
    with running_scheduler(stored, configured(tmp_path)), volume_controller(stored, namespace):
        stored.apply(gang_body("train", namespace, 4, topology="network", required=RACK))
        create_all(
            stored.kubeconfig,
            [pod(f"train-{rank}", namespace, claims[rank], gang="train") for rank in range(4)],
        )
        wait_until_told(stored, namespace, "train-0", "no place")
        assert not any(volume_of(stored, namespace, each) for each in claims)
        for name in ("f", "g"):
            add_volume(stored, volume(name, on="n3"))
        nodes = [wait_for_node(stored, namespace, f"train-{rank}") for rank in range(4)]
    assert sorted(nodes) == ["n2", "n2", "n3", "n3"]
    assert {volume_of(stored, namespace, each) for each in claims} == {"d", "e", "f", "g"}
