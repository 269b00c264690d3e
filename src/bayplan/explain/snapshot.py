"""A snapshot: a cluster reduced to what decisions depend on, and the decisions.

It is a Kubernetes List, so every command takes it as `--cluster`. It also holds the scheduler configuration and the
outcome of each waiting gang and pod. Only fields that bayplan reads are written (`kube/wire/core_v1.py`,
`workloads/reduced.py`): no environment, commands, images, volume contents or foreign annotations, so that a snapshot
can be shared. `replay` decides everything again, and `differences` compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan import __version__
from bayplan.explain.documents import API_VERSION, Document
from bayplan.grouping.kinds import KNOWN
from bayplan.grouping.rules import Rules
from bayplan.kube import topology_levels
from bayplan.kube.object_set import ObjectSet, OtherObject, OtherPodGroup, StorageObject
from bayplan.kube.priority_classes import PriorityClass
from bayplan.kube.resources import PRIORITY_CLASSES, STORAGE, pod_groups
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    k8s_scheduling_v1beta1,
    node_resource_topology_v1alpha2,
    volcano_batch_v1alpha1,
    volcano_nodeinfo_v1alpha1,
    volcano_topology_v1alpha1,
)
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from bayplan.workloads.reduced import fields_of_rules, reduced, without_nulls

KEY = "bayplan"
LONGEST_DIFFERENCE = 300
# Only meaningful in the original cluster; no decision depends on them.
OF_ONE_CLUSTER = ("uid", "resourceVersion")
# Annotations that request or record scheduling. Others can hold anything, even whole manifests.
KEPT_ANNOTATIONS = (
    "bayplan.io/",
    "kai.scheduler/",
    "kueue.x-k8s.io/",
    "volcano.sh/",
    "scheduling.k8s.io/",
    "scheduling.volcano.sh/",
    "scheduling.x-k8s.io/",
    "grove.io/",
    "alpha.jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "batch.kubernetes.io/job-completion-index",
    "pod-group-name",  # KAI's
    "kubernetes.io/config.mirror",
    "pv.kubernetes.io/bind-completed",
    "volume.kubernetes.io/selected-node",
    "volume.beta.kubernetes.io/storage-class",
    "storage.alpha.kubernetes.io/migrated-plugins",
)

# Where objects name images: the field, and the one that holds it.
OF_IMAGES = {("containers", "image"), ("initContainers", "image"), ("volumes", "image"), ("status", "images")}

_KINDS: dict[type, tuple[str, str]] = {
    Namespace: ("v1", "Namespace"),
    Node: ("v1", "Node"),
    Pod: ("v1", "Pod"),
    NodeResourceTopology: (node_resource_topology_v1alpha2.API_VERSIONS[0], "NodeResourceTopology"),
    Numatopology: (volcano_nodeinfo_v1alpha1.API_VERSION, volcano_nodeinfo_v1alpha1.KIND),
    # Kueue's and KAI's are alike, so either name will do.
    topology_levels.Topology: (topology_levels.API_VERSIONS[-1], topology_levels.KIND),
    volcano_topology_v1alpha1.HyperNode: (volcano_topology_v1alpha1.API_VERSION, volcano_topology_v1alpha1.KIND),
    k8s_scheduling_v1beta1.Workload: (k8s_scheduling_v1beta1.API_VERSION, k8s_scheduling_v1beta1.WORKLOAD),
    volcano_batch_v1alpha1.Job: (volcano_batch_v1alpha1.API_VERSION, volcano_batch_v1alpha1.KIND),
    **{each.type: (each.api_version, each.kind) for each in (*STORAGE, PRIORITY_CLASSES)},
}
_Thing = (
    Namespace
    | Node
    | Pod
    | NodeResourceTopology
    | Numatopology
    | topology_levels.Topology
    | volcano_topology_v1alpha1.HyperNode
    | bayplan_v1alpha1.PodGroup
    | OtherPodGroup
    | volcano_batch_v1alpha1.Job
    | k8s_scheduling_v1beta1.Workload
    | StorageObject
    | PriorityClass
)


class Recorded(msgspec.Struct, frozen=True, rename="camel"):
    """What a snapshot holds beside the objects.

    `decided_at` is set if a decision depends on the time; `grouping_rules` are the users' own.
    """

    version: str
    decisions: list[dict[str, Any]]
    configuration: dict[str, Any] | None = None
    scheduler_name: str | None = None
    decided_at: str | None = None
    grouping_rules: list[dict[str, Any]] | None = None


class _Snapshot(msgspec.Struct, frozen=True):
    bayplan: Recorded | None = None


def snapshot_document(
    objects: ObjectSet, recorded: Recorded, workloads: Iterable[OtherObject], rules: Rules
) -> Document:
    """The objects and decisions as one document; `workloads` own pods, and `rules` can describe them."""
    of_rules = fields_of_rules(rules)

    def keeps(annotation: str) -> bool:
        return _is_kept(annotation) or annotation in of_rules

    things: list[_Thing] = [
        *objects.namespaces,
        *objects.nodes,
        *objects.topologies,
        *objects.numatopologies,
        *objects.pods,
    ]
    things += [*objects.levels, *objects.hyper_nodes, *objects.gangs, *objects.other_gangs, *objects.volcano_jobs]
    things += [*objects.kubernetes_workloads, *objects.storage, *objects.priority_classes]
    return {
        "apiVersion": "v1",
        "kind": "List",
        KEY: {"apiVersion": API_VERSION, "kind": "Snapshot", **msgspec.to_builtins(recorded)},
        "items": [
            *(_without_images(_object(thing)) for thing in things),
            *(_without_images(reduced(each.decoded(), of_rules, keeps)) for each in workloads),
        ],
    }


def recorded_in(document: object) -> Recorded | None:
    """What a document recorded beside its objects; None if it is not a snapshot. Raises msgspec.ValidationError."""
    return msgspec.convert(document, _Snapshot).bayplan


def record(
    decisions: Sequence[Document], configuration: Any, scheduler_name: str | None, decided_at: str | None, rules: Rules
) -> Recorded:
    """Decisions of this version of bayplan with these grouping rules."""
    own = [msgspec.to_builtins(rule) for kind, rule in rules.items() if KNOWN.get(kind) != rule]
    return Recorded(__version__, list(decisions), configuration, scheduler_name, decided_at, own or None)


def differences(first: Sequence[Mapping[str, Any]], again: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per different decision: the gang or pod, and each field with its value then and now."""
    lines = []
    for then, now in zip(first, again, strict=True):
        changed = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        if changed:
            # The answer summarizes the other fields; they are named only if it is unchanged.
            told = ["answer"] if "answer" in changed else changed
            words = [_difference(key, then.get(key), now.get(key)) for key in told]
            lines.append(f"{now.get('gang') or now.get('pod')}: {'; '.join(words)}")
    return lines


def _difference(key: str, then: Any, now: Any) -> str:
    """Values in full, except long ones such as the seats of a gang."""
    words = f"{key} was {then}, is {now}"
    return words if len(words) <= LONGEST_DIFFERENCE else f"{key} differ"


def _object(thing: _Thing) -> Document:
    group = pod_groups().get(type(thing))
    api_version, kind = _KINDS[type(thing)] if group is None else (group.api_version, group.kind)
    reduced = msgspec.structs.replace(thing, metadata=_without_foreign_annotations(thing.metadata))
    document = without_nulls(msgspec.to_builtins(reduced))
    for name in OF_ONE_CLUSTER:
        document["metadata"].pop(name, None)
    return {**document, "apiVersion": document.get("apiVersion") or api_version, "kind": kind}


def _without_images(value: Any, within: str = "") -> Any:
    """A document without the names of images, which tell more about a cluster than its decisions need."""
    if isinstance(value, list):
        return [_without_images(each, within) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_images(each, key) for key, each in value.items() if (within, key) not in OF_IMAGES}


def _is_kept(annotation: str) -> bool:
    return annotation.startswith(KEPT_ANNOTATIONS)


def _without_foreign_annotations(metadata: Metadata) -> Metadata:
    kept = {name: text for name, text in (metadata.annotations or {}).items() if _is_kept(name)}
    return msgspec.structs.replace(metadata, annotations=kept or None)
