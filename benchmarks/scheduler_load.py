"""What the schedulers have to do: nodes, their reports, and pods that a process of its own creates.

    python -m benchmarks.scheduler_load KUBECONFIG SETTINGS

is that process: SETTINGS is a `Load` as JSON, and it prints, as one JSON object, when the API server had answered the
creation of each pod (seconds of the system's monotonic clock, which all processes share). `scheduler_watch.py` sees
when they are bound.

Nodes and reports are those of `clusters.py`: 128 CPUs in 8 zones with 6 resources. Pods are Guaranteed, with whole
CPUs, so that NUMA alignment concerns all of them; without reports they are pods like any other.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import CLAIMS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, VOLUMES, Resource
from benchmarks.clusters import node, topology
from tests.builders.bodies import pod_body

Json = dict[str, Any]

CSI_DRIVER = "ebs.csi.aws.com"
SCHEDULER = "measured"
"""The name by which pods ask for the measured scheduler."""
AT_ONCE = 16
# Three kinds of pods, in turn: a workload of replicas has few classes.
SIZES: tuple[dict[str, str | int], ...] = (
    {"cpu": 1, "memory": "1Gi"},
    {"cpu": 2, "memory": "4Gi"},
    {"cpu": 4, "memory": "8Gi"},
)


class Load(msgspec.Struct, frozen=True):
    """Pods to create: how many, where, and how many a second (0: as fast as it goes); on nodes already if `on_nodes`
    says of how many.

    `template` is a pod without a name, for other pods than those of `SIZES`; `volumes` gives each pod a claim that is
    bound to a volume of its own.
    """

    namespace: str
    pods: int
    rate: float = 0.0
    on_nodes: int = 0
    template: Json | None = None
    volumes: bool = False


def node_name(index: int) -> str:
    """Names of nodes are those of their reports."""
    return f"node-{index}"


def create_nodes(kubeconfig: Path, count: int) -> None:
    """Nodes that are there and never change."""
    bodies = ({"apiVersion": "v1", "kind": "Node", **node(node_name(index))} for index in range(count))
    asyncio.run(_create_all(kubeconfig, NODES, bodies))


def create_bodies(kubeconfig: Path, resource: Resource[Any], bodies: Iterable[Json]) -> None:
    """Objects of one kind."""
    asyncio.run(_create_all(kubeconfig, resource, bodies))


def create_reports(kubeconfig: Path, count: int) -> None:
    """A NodeResourceTopology for every node."""
    head = {"apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version, "kind": NODE_RESOURCE_TOPOLOGIES.kind}
    bodies = ({**head, **topology(node_name(index))} for index in range(count))
    asyncio.run(_create_all(kubeconfig, NODE_RESOURCE_TOPOLOGIES, bodies))


def start_creating(kubeconfig: Path, load: Load) -> subprocess.Popen[bytes]:
    """Create pods in another process; `created` waits for its end."""
    arguments = [str(kubeconfig), msgspec.json.encode(load).decode()]
    return subprocess.Popen([sys.executable, "-m", __spec__.name, *arguments], stdout=subprocess.PIPE)


def created(creating: subprocess.Popen[bytes]) -> dict[str, float]:
    """When each pod's creation was answered."""
    said, _ = creating.communicate()
    assert creating.returncode == 0, "the process that creates pods failed"
    return msgspec.json.decode(said, type=dict[str, float])


async def _create_pods(kubeconfig: Path, load: Load) -> dict[str, float]:
    answered: dict[str, float] = {}
    began = time.monotonic()

    async def create(client: KubeClient, index: int) -> None:
        if load.rate:
            await asyncio.sleep(began + index / load.rate - time.monotonic())
        name = f"pod-{index}"
        on = node_name(index % load.on_nodes) if load.on_nodes else None
        body = _pod(load, name, index, on)
        if load.volumes:
            volume, claim = _bound_volume(name, load.namespace)
            await client.create(VOLUMES, volume)
            await client.create(CLAIMS, claim, load.namespace)
        await client.create(PODS, body, load.namespace)
        answered[name] = time.monotonic()

    async with KubeClient(find_access(str(kubeconfig)), connections=AT_ONCE) as client:
        await several_at_once(lambda index: create(client, index), range(load.pods))
    return answered


def _pod(load: Load, name: str, index: int, on: str | None) -> Json:
    if load.template is None:
        return pod_body(name, load.namespace, SIZES[index % len(SIZES)], scheduler=SCHEDULER, nodeName=on)
    spec = {**load.template["spec"], "nodeName": on}
    if load.volumes:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    metadata = {**load.template.get("metadata", {}), "name": name, "namespace": load.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _bound_volume(name: str, namespace: str) -> tuple[Json, Json]:
    """A volume that every node can attach, and the claim that has it."""
    volume = f"{namespace}-{name}"
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": CSI_DRIVER, "volumeHandle": volume},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": bound},
            "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume},
        },
    )


async def _create_all(kubeconfig: Path, resource: Resource[Any], bodies: Iterable[Json]) -> None:
    async with KubeClient(find_access(str(kubeconfig)), connections=AT_ONCE) as client:
        await several_at_once(lambda body: client.create(resource, body), bodies)


async def several_at_once(
    do: Callable[[Any], Coroutine[Any, Any, object]], things: Iterable[Any], at_once: int = AT_ONCE
) -> None:
    """Do something with all things, in their order, a number of them at the same time."""
    waiting = iter(things)

    async def one_after_the_other() -> None:
        for thing in waiting:
            await do(thing)

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))


if __name__ == "__main__":
    chosen = msgspec.json.decode(sys.argv[2], type=Load)
    print(json.dumps(asyncio.run(_create_pods(Path(sys.argv[1]), chosen))))
