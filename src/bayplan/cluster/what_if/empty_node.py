"""Healthy nodes like one of the cluster, on which nothing runs but what runs on every node.

Labels, taints, allocatable amounts and zones are those of the model; its rack's label and its HyperNodes are, too.
Its name replaces the model's wherever a label has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import TypeVar

import msgspec
from msgspec import structs

from bayplan.cluster.pods.node_pods import belongs_to_its_node
from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.fingerprint import ANNOTATION, ATTRIBUTE, METHOD_ATTRIBUTE
from bayplan.cluster.reports.inventory import (
    DEVICES,
    FREE,
    FREE_CPUS,
    MADE_AT,
    OFFLINE,
    PODS,
    STALE_SINCE,
    USED,
    NotUnderstood,
    cpu_list,
    read_inventory,
)
from bayplan.cluster.state import TERMINAL_PHASES
from bayplan.cluster.topology.hyper_nodes import hierarchy_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeSpec, NodeStatus, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    Attribute,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    resources_of,
    zones_of,
)
from bayplan.kube.wire.storage_v1 import CSINode
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import TIMESTAMP_ANNOTATION, Numatopology
from bayplan.kube.wire.volcano_topology_v1alpha1 import NODE, ExactMatch, HyperNode, Member, MemberSelector

# Taints that say how a node is, and not what it is for.
_OF_THE_MOMENT = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
# What a report says about its pods, or about the moment at which it was made.
_OF_THE_PODS = {PODS, MADE_AT, STALE_SINCE, TIMESTAMP_ANNOTATION, ATTRIBUTE, METHOD_ATTRIBUTE, ANNOTATION}

_OfNode = TypeVar("_OfNode", NodeResourceTopology, Numatopology, CSINode)


def copies_of(objects: ObjectSet, like: str, number: int) -> ObjectSet:
    """The objects with so many nodes like one of them."""
    model = next(node for node in objects.nodes if node.metadata.name == like)
    names = _new_names(like, number, {node.metadata.name for node in objects.nodes})
    reports = [_emptied(each) for each in objects.topologies if each.metadata.name == like]
    of_volcano = [_freed(each) for each in objects.numatopologies if each.metadata.name == like]
    drivers = [each for each in objects.storage if isinstance(each, CSINode) and each.metadata.name == like]
    daemons = [pod for pod in objects.pods if pod.spec.node_name == like and _runs_everywhere(pod)]
    return replace(
        objects,
        nodes=[*objects.nodes, *(_copied(model, name) for name in names)],
        topologies=[*objects.topologies, *(_renamed(each, name) for name in names for each in reports)],
        numatopologies=[*objects.numatopologies, *(_renamed(each, name) for name in names for each in of_volcano)],
        hyper_nodes=_joined(objects.hyper_nodes, model, names),
        storage=[*objects.storage, *(_renamed(each, name) for name in names for each in drivers)],
        pods=[*objects.pods, *(_on(pod, name) for name in names for pod in daemons)],
    )


def _new_names(like: str, number: int, taken: set[str]) -> list[str]:
    """`gpu-1-added-1`; of a name with a domain, the host part."""
    host, dot, domain = like.partition(".")
    names = (f"{host}-added-{each}{dot}{domain}" for each in count(1))
    return list(islice((name for name in names if name not in taken), number))


def _copied(model: Node, name: str) -> Node:
    labels = model.metadata.labels or {}
    of_host = {model.metadata.name, labels.get(HOSTNAME)}
    own = {key: name if value in of_host else value for key, value in labels.items()}
    taints = [each for each in model.spec.taints or () if not each.key.startswith(_OF_THE_MOMENT)]
    return Node(
        metadata=Metadata(name=name, labels=own, annotations=model.metadata.annotations),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(
            allocatable=model.status.allocatable,
            node_info=model.status.node_info,
            declared_features=model.status.declared_features,
        ),
    )


def _joined(hyper_nodes: list[HyperNode], model: Node, names: Sequence[str]) -> list[HyperNode]:
    """HyperNodes in which the copies are where their model is, by whatever that is selected."""
    try:
        around = hierarchy_of(hyper_nodes).selecting(model) if hyper_nodes else set()
    except InvalidObject:  # they are no tree, as who reads them will say
        return hyper_nodes
    members = [Member(type=NODE, selector=MemberSelector(exact_match=ExactMatch(name))) for name in names]
    return [
        structs.replace(each, spec=structs.replace(each.spec, members=[*(each.spec.members or ()), *members]))
        if each.metadata.name in around
        else each
        for each in hyper_nodes
    ]


def _renamed(thing: _OfNode, name: str) -> _OfNode:
    annotations = thing.metadata.annotations or {}
    kept = {key: value for key, value in annotations.items() if key not in _OF_THE_PODS}
    return structs.replace(thing, metadata=Metadata(name=name, annotations=kept))


def _on(pod: Pod, node: str) -> Pod:
    """A pod of a DaemonSet, or a static pod, on another node."""
    metadata = structs.replace(pod.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    return structs.replace(pod, metadata=metadata, spec=structs.replace(pod.spec, node_name=node))


def _runs_everywhere(pod: Pod) -> bool:
    return belongs_to_its_node(pod) and (pod.status is None or pod.status.phase not in TERMINAL_PHASES)


def _emptied(report: NodeResourceTopology) -> NodeResourceTopology:
    """A report in which all is free that pods can have."""
    attributes = {each.name: each.value for each in report.attributes or () if each.name not in _OF_THE_PODS}
    try:
        listed = read_inventory(attributes)
    except NotUnderstood:  # the report of the model has the same fault, and a remark on it
        listed = None
    if listed is not None:
        attributes[FREE_CPUS] = cpu_list(
            cpu for cpu, zone in enumerate(listed.cpus.numa) if zone != OFFLINE and not listed.reserved_cpus >> cpu & 1
        )
        devices = {
            resource: [(each.id, each.zones, FREE if each.state == USED else each.state) for each in of_resource]
            for resource, of_resource in listed.devices.items()
        }
        attributes[DEVICES] = msgspec.json.encode(devices).decode()
    return structs.replace(
        report,
        attributes=[Attribute(name, value) for name, value in attributes.items()],
        zones=[structs.replace(zone, resources=dict(_all_free(zone))) for zone in zones_of(report)],
    )


def _all_free(zone: Zone) -> Iterator[tuple[str, ZoneResource]]:
    """What a zone has; where nothing is `available`, `allocatable` is what is left of `capacity`."""
    for name, resource in resources_of(zone):
        if resource.available is None:
            whole = resource.allocatable if resource.capacity is None else resource.capacity
            yield name, structs.replace(resource, allocatable=whole)
        else:
            whole = resource.capacity if resource.allocatable is None else resource.allocatable
            yield name, structs.replace(resource, available=whole)


def _freed(report: Numatopology) -> Numatopology:
    """The same of Volcano's report."""
    cpus = cpu_list(int(cpu) for cpu in report.spec.cpu_detail or {} if cpu.isascii() and cpu.isdecimal())
    numares = {
        name: structs.replace(each, allocatable=cpus) if name == CPU else each
        for name, each in (report.spec.numares or {}).items()
    }
    return structs.replace(report, spec=structs.replace(report.spec, numares=numares, pod_allocations=None))
