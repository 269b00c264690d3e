"""Objects of a cluster, by kind: what `files.py` reads from files and `kube/client/live.py` from a cluster that runs.

`cluster/loading.py` builds the state from an `ObjectSet`. Objects of kinds without a struct are kept as they are
(`OtherObject`): some of them own pods (`workloads/`), and the rest are named in a remark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.kube import priority_classes, topology_levels
from bayplan.kube.documents import Position
from bayplan.kube.errors import InvalidObject
from bayplan.kube.json_text import decode
from bayplan.kube.object_heads import position_of, same_name
from bayplan.kube.resources import (
    BUILT_IN,
    KNOWN_POD_GROUPS,
    LIMIT_RANGES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    RESOURCE_QUOTAS,
    STORAGE,
    pod_groups,
)
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    coscheduling_v1alpha1,
    k8s_scheduling_v1alpha3,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    volcano_batch_v1alpha1,
    volcano_nodeinfo_v1alpha1,
    volcano_scheduling_v1beta1,
    volcano_topology_v1alpha1,
)
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Node, Pod
from bayplan.kube.wire.core_v1_volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from bayplan.kube.wire.volcano_topology_v1alpha1 import HyperNode

MOST_SEARCHES = 20

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
OtherPodGroup = (
    kai_scheduling_v2alpha2.PodGroup
    | volcano_scheduling_v1beta1.PodGroup
    | coscheduling_v1alpha1.PodGroup
    | k8s_scheduling_v1beta1.PodGroup
    | k8s_scheduling_v1alpha3.CompositePodGroup
)

# By `apiVersion` and `kind`: what it decodes into, and where in an `ObjectSet` it goes.
_KINDS: dict[tuple[str, str], tuple[type[Any], str]] = {
    (volcano_nodeinfo_v1alpha1.API_VERSION, volcano_nodeinfo_v1alpha1.KIND): (Numatopology, "numatopologies"),
    (volcano_topology_v1alpha1.API_VERSION, volcano_topology_v1alpha1.KIND): (HyperNode, "hyper_nodes"),
    (priority_classes.API_VERSION, priority_classes.KIND): (priority_classes.PriorityClass, "priority_classes"),
    (bayplan_v1alpha1.API_VERSION, bayplan_v1alpha1.KIND): (bayplan_v1alpha1.PodGroup, "gangs"),
    (volcano_batch_v1alpha1.API_VERSION, volcano_batch_v1alpha1.KIND): (volcano_batch_v1alpha1.Job, "volcano_jobs"),
    **{
        (version, k8s_scheduling_v1beta1.WORKLOAD): (k8s_scheduling_v1beta1.Workload, "kubernetes_workloads")
        for version in k8s_scheduling_v1beta1.API_VERSIONS
    },
    **{
        (version, topology_levels.KIND): (topology_levels.Topology, "levels")
        for version in topology_levels.API_VERSIONS
    },
    **{
        (version, each.kind): (each.type, "other_gangs")
        for each in KNOWN_POD_GROUPS.values()
        if each is not POD_GROUPS
        for version in each.api_versions
    },
    **{(each.api_version, each.kind): (each.type, "storage") for each in STORAGE},
}
# By the same: kinds that are kept as they are, and read where they are needed.
READ_LATER = tuple((each.api_version, each.kind) for each in (POD_DISRUPTION_BUDGETS, RESOURCE_QUOTAS, LIMIT_RANGES))


def kind_in_set(api_version: str, kind: str) -> tuple[type[Any], str] | None:
    """What a kind decodes into, and where in an `ObjectSet` it goes; None if it has no struct."""
    known = _KINDS.get((api_version, kind))
    if known is not None or (api_version.rpartition("/")[0], kind) in BUILT_IN:
        return known
    added = (each for each in pod_groups().values() if each.type not in KNOWN_POD_GROUPS)
    return next(
        ((each.type, "other_gangs") for each in added if each.kind == kind and api_version in each.api_versions), None
    )


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object of a kind without a struct of its own: which one it is, and its JSON."""

    api_version: str
    kind: str
    metadata: Metadata
    document: bytes

    @property
    def shown(self) -> str:
        """Its kind, for a remark."""
        return _unread(self.api_version, self.kind)

    def decoded(self) -> dict[str, Any]:
        """The whole object, with the kind that a typed list leaves out."""
        content: dict[str, Any] = decode(self.document)
        return {**content, "apiVersion": self.api_version, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class MadeFrom:
    """The workload that a PodGroup was made of, such as `Job ml/train`, and its manifest if it is in a file.

    `fields` has the workload's annotation for fields of the PodGroup and their values.
    """

    about: str
    fields: Mapping[tuple[str, str], str]
    other: OtherObject | None = None


@dataclass
class ObjectSet:
    """The objects found. `others` are those of kinds that decisions are not made from; workloads are among them.

    It is wide because each kind of object has its list.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    topologies: list[NodeResourceTopology] = field(default_factory=list)
    numatopologies: list[Numatopology] = field(default_factory=list)
    unreadable_topologies: list[str] = field(default_factory=list)
    """Nodes whose NodeResourceTopology has a wrong shape."""
    levels: list[topology_levels.Topology] = field(default_factory=list)
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    gangs: list[bayplan_v1alpha1.PodGroup] = field(default_factory=list)
    other_gangs: list[OtherPodGroup] = field(default_factory=list)
    volcano_jobs: list[volcano_batch_v1alpha1.Job] = field(default_factory=list)
    kubernetes_workloads: list[k8s_scheduling_v1beta1.Workload] = field(default_factory=list)
    storage: list[StorageObject] = field(default_factory=list)
    """Claims, volumes, classes and what CSI drivers say."""
    priority_classes: list[priority_classes.PriorityClass] = field(default_factory=list)
    others: list[OtherObject] = field(default_factory=list)
    rule_documents: list[tuple[Path, Any]] = field(default_factory=list)
    """Rules for kinds of workloads (`grouping/rules.py`) that were among the objects, with their files."""
    left_out: list[InvalidObject] = field(default_factory=list)
    """What is wrong with objects of a cluster that have a wrong shape."""
    remarks: list[str] = field(default_factory=list)
    """What is wrong with objects that were submitted and are used nevertheless."""
    origins: dict[str, MadeFrom] = field(default_factory=dict)
    """By namespace and name of bayplan's own PodGroups what those were made of that are in no file."""
    files: list[tuple[Path, ObjectSet]] = field(default_factory=list)
    searches: int = 0

    def add(self, part: ObjectSet, file: Path | None = None) -> None:
        """Take over the objects of another set; `file` is where they come from."""
        self.nodes += part.nodes
        self.pods += part.pods
        self.namespaces += part.namespaces
        self.topologies += part.topologies
        self.numatopologies += part.numatopologies
        self.levels += part.levels
        self.hyper_nodes += part.hyper_nodes
        self.gangs += part.gangs
        self.other_gangs += part.other_gangs
        self.volcano_jobs += part.volcano_jobs
        self.kubernetes_workloads += part.kubernetes_workloads
        self.storage += part.storage
        self.priority_classes += part.priority_classes
        self.others += part.others
        self.rule_documents += part.rule_documents
        self.unreadable_topologies += part.unreadable_topologies
        self.left_out += part.left_out
        self.remarks += part.remarks
        self.files += [(file, part)] if file else part.files

    def naming_the_file(self, error: InvalidObject, thing: WireObject) -> InvalidObject:
        """The same error about an object of this set, with the file it came from and its place there.

        The object may have got a namespace or a priority since it was read.
        """
        as_read = ((file, part, each) for file, part in self.files for each in part.all_of(type(thing)))
        named = [found for found in as_read if found[2] is thing or _is_later(thing, found[2])]
        for file, part, written in sorted(named, key=lambda found: found[2] is not thing)[:1]:
            self.searches += 1  # reads the file once more: not for thousands of objects
            searched = self.searches <= MOST_SEARCHES
            position = part.position_of(written, file, error.at.field) if searched else None
            return InvalidObject(error.at.in_file(file, position), error.problem)
        return error

    def position_of(self, thing: WireObject, file: Path, field: str) -> Position | None:
        """Where a field of an object of this set stands in the file that the set was read from."""
        alike = [each for each in self.all_of(type(thing)) if same_name(each.metadata, thing.metadata)]
        nth = next(number for number, each in enumerate(alike) if each is thing)
        return position_of(type(thing).__name__, thing.metadata, nth, file, field)

    @property
    def ignored_kinds(self) -> Counter[str]:
        """How many objects there are of each kind that decisions are not made from."""
        return Counter(each.shown for each in self.others)

    def naming_the_file_of(self, error: InvalidObject, other: OtherObject) -> InvalidObject:
        """The same error about an object of another kind, with the file it came from and its place there."""
        for file, part in self.files:
            alike = [each for each in part.others if each.kind == other.kind]
            alike = [each for each in alike if same_name(each.metadata, other.metadata)]
            nth = next((number for number, each in enumerate(alike) if each is other), None)
            if nth is not None:
                self.searches += 1
                searched = self.searches <= MOST_SEARCHES
                field = error.at.field
                position = position_of(other.kind, other.metadata, nth, file, field) if searched else None
                return InvalidObject(error.at.in_file(file, position), error.problem)
        return error

    def all_of(self, kind: type[WireObject]) -> list[WireObject]:
        """The objects of one kind."""
        groups = (self.nodes, self.namespaces, self.pods, self.topologies, self.levels, self.gangs, self.other_gangs)
        others = (self.volcano_jobs, self.numatopologies, self.hyper_nodes, self.kubernetes_workloads, self.storage)
        every = (*groups, *others, self.priority_classes)
        return [each for group in every if group for each in group if isinstance(each, kind)]

    def __len__(self) -> int:
        return len(self.nodes) + len(self.pods) + len(self.topologies) + len(self.numatopologies)


def _is_later(thing: WireObject, written: WireObject) -> bool:
    """Whether a thing is what became of another one, as it was read."""
    names = written.metadata.namespace in (None, thing.metadata.namespace)
    return names and written.metadata.name == thing.metadata.name


def _unread(api_version: str, kind: str) -> str:
    """The kind of an object that is left out; with its version if another group or version would be read."""
    group = api_version.rpartition("/")[0]
    read = [known for known, of_kind in (*_KINDS, *READ_LATER) if of_kind == kind]
    of_group = [known for known in read if known.rpartition("/")[0] == group]
    if not read or api_version in read or not group:
        return kind
    if not of_group:
        return f"{kind} of {api_version}"
    versions = [known.rpartition("/")[2] for known in of_group]
    return f"{kind} of {api_version}, of which bayplan reads {', '.join(versions)}"
