"""Pods and gangs for tests on a real API server: written in one line each, created many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import NODES, PODS, Resource
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until

ROOT = Path(__file__).parents[2]
CRDS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
BLOCK, RACK = "example.com/block", "example.com/rack"
GPU = "nvidia.com/gpu"
AT_ONCE = 16

Json = dict[str, Any]


def pod_body(
    name: str,
    namespace: str,
    amounts: Mapping[str, str | int],
    *,
    scheduler: str = "bayplan",
    gang: str = "",
    **spec: Any,
) -> Json:
    """A Guaranteed pod of one container; further fields of the spec by their wire names."""
    resources = {"requests": dict(amounts), "limits": dict(amounts)}
    labels = {"bayplan.io/pod-group": gang} if gang else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
            **spec,
        },
    }


def gang_body(name: str, namespace: str, size: int, **spec: Any) -> Json:
    """A PodGroup of bayplan's own."""
    return {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": size, **spec},
    }


def node_body(name: str, amounts: Mapping[str, str | int], **labels: str) -> Json:
    """A node without a kubelet."""
    allocatable = {"pods": "110", **amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def topology_body(name: str = "network") -> Json:
    """Blocks and racks, as Kueue writes them."""
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, "kubernetes.io/hostname")]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def create_all(kubeconfig: Path, bodies: Sequence[Json]) -> None:
    """Create pods and nodes, several at a time, in this order."""
    asyncio.run(_create_all(kubeconfig, bodies))


async def _create_all(kubeconfig: Path, bodies: Sequence[Json]) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def create(body: Json) -> None:
        resource: Resource[Any] = NODES if body["kind"] == "Node" else PODS
        async with slots:
            await client.create(resource, body, body["metadata"].get("namespace"))

    async with KubeClient(find_access(str(kubeconfig)), connections=AT_ONCE) as client:
        await asyncio.gather(*(create(body) for body in bodies))


def why_it_waits(plane: ControlPlane, namespace: str, pod: str) -> str:
    """The message of the condition PodScheduled; empty if it has none."""
    status = plane.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]
    found = [each for each in status.get("conditions", []) if each["type"] == "PodScheduled"]
    return str(found[0].get("message", "")) if found else ""


def wait_until_told(plane: ControlPlane, namespace: str, pod: str, words: str) -> None:
    """Until the pod's condition says these words."""
    wait_until(lambda: words in why_it_waits(plane, namespace, pod), f"{pod} is told: {words}")
