"""Pods and gangs for tests on a real API server: written in one line each, created many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import NODES, PODS, Resource
from tests.builders.bodies import Json
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until

ROOT = Path(__file__).parents[2]
CRDS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
GPU = "nvidia.com/gpu"
AT_ONCE = 16


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


def pods_in(plane: ControlPlane, namespace: str) -> list[Json]:
    """All pods of a namespace."""
    items: list[Json] = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def groups_in(plane: ControlPlane, namespace: str) -> list[Json]:
    """All of bayplan's PodGroups in a namespace."""
    items: list[Json] = plane.get(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups")["items"]
    return items
