"""A cluster and a gang in the words of Kueue and KAI: what their programs are asked (`tests/peers/README.md`).

All pods of a group are equal. Equal groups that each need a domain, inside a domain that all of them need, are slices
of one pod set in Kueue, and so are segments; a leader and its workers are a group of two pod sets, other groups pod
sets of their own. KAI knows GPUs by one name only, and neither segments nor groups inside groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Path
from bayplan.gangs.model import Gang, Group
from bayplan.kube.quantity import parse
from bayplan.kube.wire.core_v1 import Quantities
from tests.peers.asking import Json

HOSTNAME = "kubernetes.io/hostname"
KAI_GPU = "nvidia.com/gpu"
TOPOLOGY = "topology"
WHOLE = "main"


def kueue_question(state: ClusterState, gang: Gang, levels: Sequence[str]) -> Json:
    """What Kueue's `assign` and `time` take."""
    nodes = [
        {
            "name": name,
            "labels": {**labels, HOSTNAME: name},
            "allocatable": {resource: str(amount) for resource, amount in allocatable.items()},
        }
        for name, labels, allocatable in nodes_of(state)
    ]
    return {
        "gates": {"explicit": {}},
        "topology": {"name": TOPOLOGY, "levels": [*levels, HOSTNAME]},
        "flavor": {},
        "nodes": nodes,
        "podSets": _pod_sets(gang.root),
    }


def _pod_sets(root: Group) -> list[Json]:
    if not root.groups:
        slices: Json = {
            name: value
            for each in root.segments
            for name, value in (("podSetSliceRequiredTopology", each.level), ("podSetSliceSize", each.size))
        }
        return [_pod_set(root, WHOLE, len(root.pods), {**_asked(root), **slices})]
    first = root.groups[0]
    if first.groups:
        return [
            {
                **_pod_set(inner, inner.name, len(inner.pods), {**_asked(each), "podSetGroupName": each.name}),
                "podSetGroupName": each.name,
            }
            for each in root.groups
            for inner in each.groups
        ]
    if root.required and len({(len(each.pods), each.required) for each in root.groups}) == 1:
        slices = {"podSetSliceRequiredTopology": first.required, "podSetSliceSize": len(first.pods)}
        count = len(first.pods) * len(root.groups)
        return [_pod_set(first, WHOLE, count, {"required": root.required, **slices})]
    return [_pod_set(each, each.name, len(each.pods), _asked(each)) for each in root.groups]


def _pod_set(group: Group, name: str, count: int, request: Json) -> Json:
    requests = {each: int(amount * 1000 if each == "cpu" else amount) for each, amount in _amounts(group).items()}
    return {"name": name, "count": count, "requests": requests, "topologyRequest": request}


def _asked(group: Group) -> Json:
    return {"required": group.required} if group.required else {"preferred": group.preferred}


def kai_question(state: ClusterState, gang: Gang, levels: Sequence[str]) -> Json:
    """What KAI's `allocate` and `time` take."""
    root = gang.root
    groups = [(each.name, each) for each in root.groups] or [("default", root)]
    tree: Json = {"name": "", **_constraint(root)}
    tree["podSets"] = [
        {"name": name, "minAvailable": len(each.pods), **(_constraint(each) if root.groups else {})}
        for name, each in groups
    ]
    tasks = [
        {
            "name": pod.metadata.name,
            "subGroup": name,
            "state": "Pending",
            "requests": {"cpu": 0, "memory": 0, **_as_kai_names(_amounts(each)), "pods": 1},
        }
        for name, each in groups
        for pod in each.pods
    ]
    nodes = [
        {
            "name": name,
            "labels": {**labels, HOSTNAME: name},
            "allocatable": {"memory": 2**40, **_as_kai_names(_parsed(allocatable))},
        }
        for name, labels, allocatable in nodes_of(state)
    ]
    return {
        "topologies": [{"name": TOPOLOGY, "levels": list(levels)}],
        "nodes": nodes,
        "queues": [{"Name": "queue", "ParentQueue": "department", "DeservedGPUs": 1_000_000, "GPUOverQuotaWeight": 1}],
        "departments": [{"Name": "department", "DeservedGPUs": 1_000_000}],
        "jobs": [{"name": "job", "queue": "queue", "priority": 50, "rootSubGroupSet": tree, "tasks": tasks}],
    }


def _constraint(group: Group) -> Json:
    asked = {kind: level for kind in ("required", "preferred") if (level := getattr(group, kind))}
    return {"topologyConstraint": {"topology": TOPOLOGY, **asked}} if asked else {}


def nodes_of(state: ClusterState) -> Iterator[tuple[str, dict[str, str], Quantities]]:
    """Name, labels and allocatable amounts of every node."""
    for node in state.nodes:
        if node is not None:
            yield node.metadata.name, node.metadata.labels or {}, node.status.allocatable or {}


def paths_of(state: ClusterState, levels: Sequence[str]) -> dict[str, Path]:
    """The domains of every node, widest first, and the node itself."""
    return {name: (*(labels[level] for level in levels), name) for name, labels, _ in nodes_of(state)}


def _amounts(group: Group) -> dict[str, float]:
    """What each pod of a group asks for."""
    (container,) = group.pods[0].spec.containers or []
    assert container.resources is not None
    return _parsed(container.resources.requests or container.resources.limits or {})


def _parsed(written: Quantities) -> dict[str, float]:
    return {name: parse(amount).milli() / 1000 for name, amount in written.items()}


def _as_kai_names(amounts: dict[str, float]) -> dict[str, float]:
    return {KAI_GPU if name.endswith("/gpu") else name: amount for name, amount in amounts.items()}
