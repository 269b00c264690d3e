"""Pods, nodes and topology reports in one line each, written as a user would write them in YAML.

Amounts are dictionaries of Kubernetes quantities. A container given only amounts has equal limits, so its pod is
Guaranteed. A zone's amount is one quantity (idle: capacity = allocatable = available) or the three of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.kube.quantity import parse
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile, default_profile

GI = 2**30
GPU = "example.com/gpu"
NIC = "example.com/nic"

Quantity = str | int | float
Amounts = Mapping[str, Quantity]
ZoneAmounts = Mapping[str, Quantity | tuple[Quantity, Quantity, Quantity]]
Json = dict[str, Any]


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
    init: Sequence[Json] = (),
    status: Json | None = None,
    labels: Mapping[str, str] | None = None,
    leaving: bool = False,
    **spec: Any,
) -> Pod:
    """A pod of these containers, deleted already if it is `leaving`; further fields of the spec by their wire names."""
    written = {"containers": list(containers), "initContainers": list(init), **spec}
    metadata: Json = {"name": name, "namespace": "default", "labels": dict(labels or {})}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "spec": written, "status": status or {}}, Pod)


def simple_pod(amounts: Amounts, name: str = "pod", **spec: Any) -> Pod:
    """One container, requests equal to limits."""
    return pod(container(amounts), name=name, **spec)


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


def topology(
    *zones: Json,
    name: str = "n1",
    policy: str = "single-numa-node",
    scope: str = "container",
    attributes: Mapping[str, str] | None = None,
) -> NodeResourceTopology:
    """A v1alpha2 report; further attributes by name."""
    named = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **(attributes or {})}
    written = [{"name": key, "value": value} for key, value in named.items()]
    return msgspec.convert(
        {"metadata": {"name": name}, "attributes": written, "zones": list(zones)}, NodeResourceTopology
    )


def cluster(*topologies: NodeResourceTopology, nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> ClusterState:
    """A state with `nodes`, and a node for every other report whose allocatable is the sum over its zones."""
    state = ClusterState()
    given = list(nodes)
    known = {each.metadata.name for each in given}
    for each in given:
        state.set_node(each)
    for report in topologies:
        if report.metadata.name not in known:
            state.set_node(node(report.metadata.name, summed(report)))
        state.set_topology(report)
    for each_pod in pods:
        state.set_pod(each_pod)
    return state


def summed(report: NodeResourceTopology) -> dict[str, Quantity]:
    """What the zones of a report can give to pods in sum."""
    total: dict[str, Any] = {}
    for each in report.zones if isinstance(report.zones, list) else []:
        for resource in each.resources if isinstance(each.resources, list) else []:
            found = parse(resource.allocatable or 0)
            total[resource.name] = total[resource.name] + found if resource.name in total else found
    return {resource_name: str(amount) for resource_name, amount in total.items()}


def decide(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> Decision:
    """One scheduling cycle from scratch."""
    return schedule_one(state, waiting, profile or default_profile(), ClassAnswers(state))


def place(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> Decision:
    """One scheduling cycle whose outcome is assumed at once."""
    decision = decide(state, waiting, profile)
    assert decision.placed, decision
    assume(state, decision, waiting)
    return decision


def free_in_zones(state: ClusterState, name: str, resource: str) -> list[int]:
    """What is left of a resource in each zone of a node, lowest zone first."""
    row = state.rows[name]
    column = state.columns.zone_available[state.columns.resource_index[resource], :, row]
    return [int(amount) for amount in column[: state.columns.zone_count[row]]]


def free_on(state: ClusterState, name: str, resource: str) -> int:
    """What is left of a resource on a node in sum."""
    return int(state.columns.free[state.columns.index_of(resource), state.rows[name]])
