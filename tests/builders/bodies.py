"""Pods, gangs, nodes, reports and topologies as JSON bodies, for API servers and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

BLOCK, RACK = "example.com/block", "example.com/rack"
Json = dict[str, Any]
Quantities = Mapping[str, str | int | float]


def pod_body(
    name: str,
    namespace: str = "",
    amounts: Quantities | None = None,
    *,
    scheduler: str = "bayplan",
    gang: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    reason: str = "",
    **spec: Any,
) -> Json:
    """A Guaranteed pod of one container; further fields of the spec by their wire names."""
    resources = {"requests": dict(amounts or {}), "limits": dict(amounts or {})}
    in_gang = {"bayplan.io/pod-group": gang} if gang else {}
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {**in_gang, **(labels or {})}, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
            **spec,
        },
        "status": {"phase": phase, "reason": reason} if phase else {},
    }


def gang_body(name: str, namespace: str, size: int, **spec: Any) -> Json:
    """A PodGroup of bayplan's own."""
    return {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": size, **spec},
    }


def node_body(name: str, amounts: Quantities, **labels: str) -> Json:
    """A node without a kubelet."""
    allocatable = {"pods": "110", **amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def report_body(
    name: str, *zones: Json, policy: str = "single-numa-node", scope: str = "container", **attributes: str
) -> Json:
    """A NodeResourceTopology; `tests/builders/objects.py` has zones."""
    named = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **attributes}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in named.items()],
        "zones": list(zones),
    }


def topology_body(name: str = "network", *labels: str) -> Json:
    """Blocks, racks and nodes, or the levels given, as Kueue writes them."""
    levels = [{"nodeLabel": label} for label in labels or (BLOCK, RACK, "kubernetes.io/hostname")]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def list_body(items: Iterable[Json]) -> Json:
    """Objects in one document, as kubectl writes them."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
