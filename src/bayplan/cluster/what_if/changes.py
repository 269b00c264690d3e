"""Nodes drained, added or uncordoned, and taints removed, in the objects of a cluster before they become its state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from msgspec import structs

from bayplan.cluster.pods.node_pods import belongs_to_its_node
from bayplan.cluster.pods.tolerations import UNSCHEDULABLE_TAINT, tolerates
from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.cluster.state import TERMINAL_PHASES
from bayplan.cluster.what_if.empty_node import copies_of
from bayplan.kube.object_set import ObjectSet, StorageObject
from bayplan.kube.wire.core_v1 import Node, Pod, PodStatus, Toleration
from bayplan.kube.wire.storage_v1 import CSINode, VolumeAttachment


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes of a cluster: names of nodes to drain and to uncordon, `added` nodes `like` one, and tolerations of the
    taints to remove.
    """

    drained: frozenset[str] = frozenset()
    uncordoned: frozenset[str] = frozenset()
    taints: tuple[Toleration, ...] = ()
    added: int = 0
    like: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """The objects of the changed cluster, and pods of drained nodes that wait again."""

    objects: ObjectSet
    waiting_again: list[Pod] = field(default_factory=list)


def changed(objects: ObjectSet, what_if: WhatIf) -> Changed:
    """The cluster with all changes.

    A drained node is gone with its reports and the pods that belong to it; its other pods wait again. An added node has
    copies of the pods that belong to the node that it is like, and is free otherwise.
    """
    if what_if.added:
        objects = copies_of(objects, what_if.like, what_if.added)
    nodes = [_opened(node, what_if) for node in objects.nodes]
    if not what_if.drained:
        return Changed(replace(objects, nodes=nodes))
    gone = what_if.drained
    waiting_again = [_waiting(pod) for pod in objects.pods if pod.spec.node_name in gone and _moves(pod)]
    return Changed(
        replace(
            objects,
            nodes=[node for node in nodes if node.metadata.name not in gone],
            pods=[*(pod for pod in objects.pods if pod.spec.node_name not in gone), *waiting_again],
            topologies=[each for each in objects.topologies if each.metadata.name not in gone],
            numatopologies=[each for each in objects.numatopologies if each.metadata.name not in gone],
            unreadable_topologies=[name for name in objects.unreadable_topologies if name not in gone],
            storage=[each for each in objects.storage if _node_of(each) not in gone],
        ),
        waiting_again,
    )


def _opened(node: Node, what_if: WhatIf) -> Node:
    """The node uncordoned and without taints, where that is asked."""
    uncordons = node.metadata.name in what_if.uncordoned
    taints = [each for each in node.spec.taints or () if not any(tolerates(meant, each) for meant in what_if.taints)]
    if uncordons:
        taints = [each for each in taints if each.key != UNSCHEDULABLE_TAINT.key]
    if not uncordons and len(taints) == len(node.spec.taints or ()):
        return node
    spec = structs.replace(node.spec, taints=taints, unschedulable=node.spec.unschedulable and not uncordons)
    return structs.replace(node, spec=spec)


def _moves(pod: Pod) -> bool:
    """Whether a pod of a drained node is created again."""
    ended = pod.status is not None and pod.status.phase in TERMINAL_PHASES
    return not ended and pod.metadata.deletion_timestamp is None and not belongs_to_its_node(pod)


def _waiting(pod: Pod) -> Pod:
    """The pod that takes its place, as new."""
    annotations = {key: value for key, value in (pod.metadata.annotations or {}).items() if key != NUMA_ZONES}
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, annotations=annotations, creation_timestamp=None),
        spec=structs.replace(pod.spec, node_name=None),
        status=PodStatus(phase="Pending"),
    )


def _node_of(thing: StorageObject) -> str:
    """The node that an object says something about; empty if it is about none."""
    if isinstance(thing, CSINode):
        return thing.metadata.name
    return thing.spec.node_name if isinstance(thing, VolumeAttachment) else ""
