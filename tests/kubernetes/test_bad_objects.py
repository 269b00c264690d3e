"""Objects that make no sense never stop the scheduler: the pod, node or gang concerned gets the sentence, everybody
else gets a node.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import PODS
from tests.builders.bodies import RACK, gang_body, node_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import PROGRAM, running_scheduler
from tests.kubernetes.workloads import create_all, wait_until_told

SMALL: dict[str, str | int] = {"cpu": 1, "memory": "1Gi"}


def beside(other: str) -> dict[str, Any]:
    """A pod that must stand beside another one, as the spec has it."""
    term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": affinity}


def bad_report(node: str) -> dict[str, Any]:
    """Two zones of the same id, and more available than there is."""
    cpu = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "400"}
    zone = {"name": "node-0", "type": "Node", "resources": [cpu]}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [zone, zone],
    }


def no_grace_period(folder: Path) -> str:
    """A configuration with which new nodes need not report themselves first."""
    file = folder / "configuration.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: bayplan\n"
        "  pluginConfig:\n"
        "  - {name: NodeResourceTopologyMatch, args: {assume: {firstReportSeconds: 0}}}\n"
    )
    return f"--config={file}"


def test_everybody_else_is_scheduled(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    nodes = [node_body(f"n{number}", {"cpu": "8", "memory": "32Gi"}) for number in range(3)]
    create_all(plane.kubeconfig, nodes)
    plane.apply(bad_report("n0"))
    plane.apply(gang_body("lost", namespace, 1, topology="network", required="example.com/nowhere"))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    expected = {
        "absurd": (pod_body("absurd", namespace, {"cpu": "10E", "memory": "1Gi"}), "cpu"),
        "left": (pod_body("left", namespace, SMALL, **beside("right")), "didn't match pod affinity rules"),
        "right": (pod_body("right", namespace, SMALL, **beside("left")), "didn't match pod affinity rules"),
        "claims": (pod_body("claims", namespace, SMALL, volumes=[claim]), 'persistentvolumeclaim "data" not found'),
        "lost-0": (pod_body("lost-0", namespace, SMALL, gang="lost"), "example.com/nowhere"),
        "orphan": (pod_body("orphan", namespace, SMALL, gang="missing"), "which does not exist"),
    }
    with running_scheduler(plane, no_grace_period(tmp_path)) as scheduler:
        for name, (body, _) in expected.items():
            body["metadata"]["labels"]["app"] = name
            body["metadata"]["annotations"] = {"bayplan.io/numa-zones": "no JSON at all"}
        create_all(plane.kubeconfig, [body for body, _ in expected.values()])
        for name, (_, words) in expected.items():
            wait_until_told(plane, namespace, name, words)
        create_all(plane.kubeconfig, [pod_body(f"good-{number}", namespace, SMALL) for number in range(10)])
        wait_until(lambda: sum(has_node(plane, namespace).values()) == 10, "the others have nodes")
        assert not any(has_node(plane, namespace)[name] for name in expected)
        wait_until(lambda: "zones" in told_about_node(plane, "n0"), "the node's report is told to be wrong")
        assert scheduler.process.poll() is None


def test_a_pod_that_is_nested_a_thousand_levels_deep_stops_no_other(plane: ControlPlane, namespace: str) -> None:
    """The API server keeps whatever a tenant writes into managed fields; one such pod is in the first list, one comes
    by watch.
    """
    create_all(plane.kubeconfig, [node_body("n0", {"cpu": "8", "memory": "32Gi"})])
    create_deep_pod(plane, namespace, "deep-0")
    with running_scheduler(plane):
        for number in range(2):
            create_all(plane.kubeconfig, [pod_body(f"good-{number}", namespace, SMALL)])
            path = f"/api/v1/namespaces/{namespace}/pods/good-{number}"
            wait_until(partial(is_bound, plane, path), "the other pod has a node")
            create_deep_pod(plane, namespace, f"deep-{number + 1}")
    asyncio.run(delete_pods(plane, namespace, [f"deep-{number}" for number in range(3)]))


async def delete_pods(plane: ControlPlane, namespace: str, names: list[str]) -> None:
    """The test's own JSON parser could not read a list with them."""
    async with KubeClient(find_access(str(plane.kubeconfig))) as client:
        for name in names:
            await client.delete(PODS, name, namespace, grace=0)


def is_bound(plane: ControlPlane, path: str) -> bool:
    return bool(plane.get(path)["spec"].get("nodeName"))


def create_deep_pod(plane: ControlPlane, namespace: str, name: str, depth: int = 2000) -> None:
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    manager = (
        '{"manager":"tenant","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",'
        f'"fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    )
    body = msgspec.json.encode(pod_body(name, namespace, SMALL)).decode()
    deep = body.replace('"metadata":{', f'"metadata":{{"managedFields":[{manager}],', 1)

    async def create() -> None:
        async with KubeClient(find_access(str(plane.kubeconfig))) as client:
            await client.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=deep.encode())

    asyncio.run(create())


def test_an_object_that_is_fixed_is_taken_up(plane: ControlPlane, namespace: str) -> None:
    create_all(
        plane.kubeconfig, [node_body("n0", {"cpu": "8", "memory": "32Gi"}, **{RACK: "r0", "example.com/block": "b0"})]
    )
    plane.apply(gang_body("gang", namespace, 1, topology="network", required="example.com/nowhere"))
    with running_scheduler(plane):
        create_all(plane.kubeconfig, [pod_body("member", namespace, SMALL, gang="gang")])
        wait_until_told(plane, namespace, "member", "example.com/nowhere")
        plane.apply(gang_body("gang", namespace, 1, topology="network", required=RACK))
        wait_until(lambda: has_node(plane, namespace)["member"], "the gang has its node")


def test_a_report_that_cannot_be_read_closes_its_node_and_breaks_no_command(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    create_all(plane.kubeconfig, [node_body(name, {"cpu": "8", "memory": "32Gi"}) for name in ("n0", "n1")])
    report = bad_report("n0")
    report["zones"] = report["zones"][:1]
    report["zones"][0]["resources"][0]["available"] = "-1"
    plane.apply(report)
    whole: dict[str, str | int] = {"cpu": 5, "memory": "1Gi"}
    with running_scheduler(plane, no_grace_period(tmp_path)):
        create_all(plane.kubeconfig, [pod_body(f"aligned-{number}", namespace, whole) for number in range(2)])
        wait_until(lambda: sum(has_node(plane, namespace).values()) == 1, "one has the node without a report")
        wait_until(lambda: '"-1" is negative' in told_about_node(plane, "n0"), "the node is told")
        waits = next(name for name, placed in has_node(plane, namespace).items() if not placed)
        wait_until_told(plane, namespace, waits, "invalid node topology data")
    program = [sys.executable, "-c", PROGRAM, "why", f"{namespace}/{waits}", "--kubeconfig", str(plane.kubeconfig)]
    answer = subprocess.run(program, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "invalid topology data: n0" in answer.stdout
    assert '"-1" is negative' in answer.stderr


def has_node(plane: ControlPlane, namespace: str) -> dict[str, bool]:
    pods = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"]: bool(pod["spec"].get("nodeName")) for pod in pods}


def told_about_node(plane: ControlPlane, node: str) -> str:
    events = plane.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return " ".join(each["note"] for each in events if each["regarding"].get("name") == node)
