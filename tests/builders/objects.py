"""Pods, nodes and topology reports in one line each, written as a user would write them in YAML.

Amounts are dictionaries of Kubernetes quantities. A container given only amounts has equal limits, so its pod is
Guaranteed. A zone's amount is one quantity (idle: capacity = allocatable = available) or the three of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.kube.wire.core_v1 import Node, Pod, PodStatus
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.bodies import Json, report_body

GI = 2**30
GPU = "example.com/gpu"
NIC = "example.com/nic"

Quantity = str | int | float
Amounts = Mapping[str, Quantity]
ZoneAmounts = Mapping[str, Quantity | tuple[Quantity, Quantity, Quantity]]


def container(
    amounts: Amounts | None = None,
    name: str = "main",
    *,
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    sidecar: bool = False,
    ports: Sequence[Json] = (),
) -> Json:
    """A container; `amounts` are requests and limits alike. `sidecar` makes an init container restart always."""
    resources = {"requests": dict(requests or amounts or {}), "limits": dict(limits or amounts or {})}
    written: Json = {"name": name, "resources": resources, "ports": list(ports)}
    return {**written, "restartPolicy": "Always"} if sidecar else written


def pod(
    *containers: Json,
    name: str = "pod",
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str | None = None,
    leaving: bool = False,
    init: Sequence[Json] = (),
    status: Json | None = None,
    **spec: Any,
) -> Pod:
    """A pod of these containers; `leaving` sets its deletion timestamp.

    Further fields of the spec by their wire names.
    """
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "labels": dict(labels or {}),
        "annotations": None if annotations is None else dict(annotations),
        "creationTimestamp": created,
        "deletionTimestamp": "2026-01-01T00:00:00Z" if leaving else None,
    }
    written = {"containers": list(containers), "initContainers": list(init), **spec}
    return msgspec.convert({"metadata": metadata, "spec": written, "status": status or {}}, Pod)


def simple_pod(amounts: Amounts, name: str = "pod", **more: Any) -> Pod:
    """One container, requests equal to limits; `more` is as for `pod`."""
    return pod(container(amounts), name=name, **more)


def cpu_pod(number: int | str, name: str = "web", **more: Any) -> Pod:
    """A Guaranteed pod of so many CPUs and 1Gi of memory."""
    return simple_pod({"cpu": number, "memory": "1Gi"}, name, **more)


def simple_pods(amounts: Amounts, number: int, name: str = "p", **more: Any) -> tuple[Pod, ...]:
    """Equal pods `p-0`, `p-1` and so on."""
    return tuple(simple_pod(amounts, f"{name}-{each}", **more) for each in range(number))


def bound(waiting: Pod, to: str = "n1", *, phase: str | None = None, annotations: Json | None = None) -> Pod:
    """The pod as the API server shows it once it is bound."""
    metadata, status = waiting.metadata, waiting.status
    if annotations is not None:
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    if phase is not None:
        status = PodStatus(phase=phase) if status is None else msgspec.structs.replace(status, phase=phase)
    spec = msgspec.structs.replace(waiting.spec, node_name=to)
    return msgspec.structs.replace(waiting, metadata=metadata, spec=spec, status=status)


def node(
    name: str = "n1",
    allocatable: Amounts | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    unschedulable: bool = False,
) -> Node:
    """A node with room for 110 pods unless `allocatable` says otherwise."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {"allocatable": {"pods": 110, **(allocatable or {})}},
        },
        Node,
    )


def zone(number: int, amounts: ZoneAmounts, distances: Mapping[int, int] | None = None) -> Json:
    """A NUMA zone; a triple is (capacity, allocatable, available)."""
    resources = []
    for name, given in amounts.items():
        capacity, allocatable, available = given if isinstance(given, tuple) else (given, given, given)
        resources.append({"name": name, "capacity": capacity, "allocatable": allocatable, "available": available})
    costs = [{"name": f"node-{other}", "value": value} for other, value in (distances or {}).items()]
    return {"name": f"node-{number}", "type": "Node", "resources": resources, "costs": costs}


def cpu_zones(*free: int, of: int = 8, **more: Quantity | tuple[Quantity, Quantity, Quantity]) -> list[Json]:
    """Zones of 8 CPUs, of which so many are available; `more` amounts are the same in each."""
    return [zone(number, {"cpu": (of, of, cpus), **more}) for number, cpus in enumerate(free)]


def topology(
    *zones: Json,
    name: str = "n1",
    policy: str = "single-numa-node",
    scope: str = "container",
    attributes: Mapping[str, str] | None = None,
) -> NodeResourceTopology:
    """A v1alpha2 report; further attributes by name."""
    return msgspec.convert(
        report_body(name, *zones, policy=policy, scope=scope, **(attributes or {})), NodeResourceTopology
    )
