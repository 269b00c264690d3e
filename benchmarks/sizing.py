"""What a scheduler needs by size of the cluster: memory, and CPU for its first lists and for placements.

Each size is a process of its own that takes JSON of an API server through the scheduler's decoding and intake, 8 NUMA
zones a node, and then decides about pods of 20 classes. There is no API server here: requests, TLS and binds come on
top (`python -m benchmarks scheduler` measures with one).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Listed
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.intake import Intake
from benchmarks.wire_objects import as_served, wire_node, wire_pod

Json = dict[str, Any]
SIZES = ((100, 3_000), (1_000, 30_000), (5_000, 50_000), (5_000, 150_000), (20_000, 200_000))
"""Nodes, and running pods on them."""
ZONES, PAGE, WAITING, CLASSES = 8, 500, 1_000, 20


def run() -> None:
    """Print a line for each size."""
    for nodes, pods in SIZES:
        measured = subprocess.run(
            [sys.executable, "-m", "benchmarks.sizing", str(nodes), str(pods)],
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"bench sizing: {nodes} nodes, {pods} pods: {measured.stdout.strip()}", flush=True)


def measure(nodes: int, pods: int) -> str:
    """The figures of one size, in this process."""
    dispatcher = Dispatcher({"bayplan": default_profile()})
    intake = Intake(dispatcher)
    spent = 0.0
    spent += _take(intake, NODES, (_named_node(f"n{index}") for index in range(nodes)))
    spent += _take(intake, NODE_RESOURCE_TOPOLOGIES, (_report(f"n{index}") for index in range(nodes)))
    spent += _take(intake, PODS, (_running(index, f"n{index % nodes}") for index in range(pods)))
    for index in range(WAITING):
        dispatcher.set_pod(msgspec.convert(_waiting(index), PODS.type), 0.0)
    began = time.process_time()
    placed = 0
    while placed < WAITING:
        actions = dispatcher.decide(1.0)
        if actions is None:
            break
        placed += 1
    deciding = time.process_time() - began
    return f"{_memory() / 1e6:.0f} MB, first lists {spent:.1f} s, {placed} decisions {deciding:.2f} s"


def _take(intake: Intake, resource: Resource[Any], bodies: Any) -> float:
    """Decode pages of objects and apply them as one list; CPU seconds. Making the text is not counted."""
    items: list[Any] = []
    spent = 0.0
    page: list[Json] = []

    def decode() -> None:
        nonlocal spent
        text = json.dumps(page).encode()
        began = time.process_time()
        items.extend(msgspec.json.decode(text, type=list[resource.type]))  # type: ignore[name-defined]
        spent += time.process_time() - began
        page.clear()

    for body in bodies:
        page.append(body)
        if len(page) == PAGE:
            decode()
    decode()
    began = time.process_time()
    intake.take(resource, Listed(items, "1", []), 0.0)
    return spent + time.process_time() - began


def _report(name: str) -> Json:
    amounts = {"cpu": "16", "memory": "132062Mi", "nvidia.com/gpu": "1"}
    resources = [
        {"name": key, "capacity": each, "allocatable": each, "available": each} for key, each in amounts.items()
    ]
    costs = [{"name": f"node-{other}", "value": 10 if other == 0 else 20} for other in range(ZONES)]
    zones = [{"name": f"node-{zone}", "type": "Node", "costs": costs, "resources": resources} for zone in range(ZONES)]
    attributes = [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "container"},
    ]
    named = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name}}
    return {**named, "attributes": attributes, "zones": zones}


def _running(index: int, node: str) -> Json:
    body = _pod()
    metadata = {**body["metadata"], "name": f"p{index}", "namespace": f"team-{index % 50}", "uid": f"p{index}"}
    return {**body, "metadata": metadata, "spec": {**body["spec"], "nodeName": node}, "status": {"phase": "Running"}}


@cache
def _pod() -> Json:
    return as_served(wire_pod("p"), kilobytes=5)


@cache
def _node() -> Json:
    return as_served(wire_node("n"), kilobytes=16)


def _named_node(name: str) -> Json:
    body = _node()
    labels = {**body["metadata"]["labels"], "kubernetes.io/hostname": name}
    return {**body, "metadata": {**body["metadata"], "name": name, "uid": name, "labels": labels}}


def _waiting(index: int) -> Json:
    amounts = {"cpu": str(1 + index % CLASSES % 8), "memory": f"{1 + index % CLASSES}Gi"}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": f"w{index}", "namespace": "bench", "uid": f"w{index}"}
    return {"metadata": metadata, "spec": {"schedulerName": "bayplan", "containers": [container]}}


def _memory() -> int:
    """Resident bytes now."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(measure(int(sys.argv[1]), int(sys.argv[2])))
