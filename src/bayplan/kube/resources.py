"""What can be asked of an API server: each resource with its path and the wire struct that its objects decode into.

`client.list(PODS)` and `follow(client, NODES)` know from here where to ask and what comes back. A resource that bayplan
reads in several API versions names the newest and the others; `kube/client/versions.py` finds out which of them an API
server has.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic
from urllib.parse import quote

from bayplan.extensions import DIALECTS, entry_named, load, registered
from bayplan.kube import priority_classes, topology_levels
from bayplan.kube.wire import (
    apps_v1,
    bayplan_v1alpha1,
    coordination_v1,
    coscheduling_v1alpha1,
    events_v1,
    k8s_scheduling_v1alpha3,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    node_resource_topology_v1alpha2,
    policy_v1,
    storage_v1,
    volcano_batch_v1alpha1,
    volcano_nodeinfo_v1alpha1,
    volcano_scheduling_v1beta1,
    volcano_topology_v1alpha1,
)
from bayplan.kube.wire.core_v1 import (
    GroupObject,
    LimitRange,
    Namespace,
    Node,
    Pod,
    ReplicationController,
    ResourceQuota,
    Service,
)
from bayplan.kube.wire.core_v1_volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.kube.wire.meta_v1 import JSON, T
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of object: where the API server keeps it and what it decodes into.

    `metadata_only`: nothing else of it is sent.

    `other_versions` of the same group decode into the same struct; they are read where `api_version` is not served.

    `paged`: lists are asked for in pages. For each page of a custom resource the API server decodes most objects again:
    5,000 reports in ten pages took 36 s of its CPU time, in one answer 2 s.
    """

    api_version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    metadata_only: bool = False
    other_versions: tuple[str, ...] = ()
    paged: bool = True

    @property
    def api_versions(self) -> tuple[str, ...]:
        """All versions that can be read, the newest first."""
        return self.api_version, *self.other_versions

    @property
    def group_kinds(self) -> set[tuple[str, str]]:
        """The API group, empty for the core, and kind."""
        return {(version.rpartition("/")[0], self.kind) for version in self.api_versions}

    def at(self, api_version: str) -> Resource[T]:
        """The same resource in another version."""
        return replace(self, api_version=api_version, other_versions=())

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path below the server's address: of all objects, of a namespace's, of one, or of a part of one.

        >>> PODS.path("telco", "upf-0", "binding"), NODES.path()
        ('/api/v1/namespaces/telco/pods/upf-0/binding', '/api/v1/nodes')
        """
        parts = [f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def accept(self, *, many: bool = False) -> str:
        """The form of an answer that the API server is asked for.

        Whole objects where it does not know how to leave anything out.
        """
        if not self.metadata_only:
            return JSON
        return f"{JSON};as=PartialObjectMetadata{'List' if many else ''};g=meta.k8s.io;v=v1,{JSON}"

    def __str__(self) -> str:
        """As users write it: `pods`, `noderesourcetopologies.topology.node.k8s.io`."""
        group, _, _ = self.api_version.rpartition("/")
        return f"{self.plural}.{group}" if group else self.plural


PODS = Resource("v1", "pods", "Pod", Pod)
NODES = Resource("v1", "nodes", "Node", Node, namespaced=False)
NAMESPACES = Resource("v1", "namespaces", "Namespace", Namespace, namespaced=False)
LEASES = Resource(coordination_v1.API_VERSION, "leases", "Lease", coordination_v1.Lease)
EVENTS = Resource(events_v1.API_VERSION, "events", "Event", events_v1.Event)
POD_DISRUPTION_BUDGETS = Resource(
    policy_v1.API_VERSION, "poddisruptionbudgets", "PodDisruptionBudget", policy_v1.PodDisruptionBudget
)
RESOURCE_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota", ResourceQuota)
LIMIT_RANGES = Resource("v1", "limitranges", "LimitRange", LimitRange)
PRIORITY_CLASSES = Resource(
    priority_classes.API_VERSION,
    "priorityclasses",
    priority_classes.KIND,
    priority_classes.PriorityClass,
    namespaced=False,
)
SERVICES = Resource("v1", "services", "Service", Service)
REPLICATION_CONTROLLERS = Resource("v1", "replicationcontrollers", "ReplicationController", ReplicationController)
REPLICA_SETS = Resource(apps_v1.API_VERSION, "replicasets", "ReplicaSet", apps_v1.ReplicaSet)
STATEFUL_SETS = Resource(apps_v1.API_VERSION, "statefulsets", "StatefulSet", apps_v1.StatefulSet)
# Whose selectors say which pods belong together.
SELECTING: tuple[Resource[Any], ...] = (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
POD_GROUPS = Resource(bayplan_v1alpha1.API_VERSION, "podgroups", bayplan_v1alpha1.KIND, bayplan_v1alpha1.PodGroup)
KAI_POD_GROUPS = Resource(
    kai_scheduling_v2alpha2.API_VERSION, "podgroups", "PodGroup", kai_scheduling_v2alpha2.PodGroup
)
VOLCANO_POD_GROUPS = Resource(
    volcano_scheduling_v1beta1.API_VERSION, "podgroups", "PodGroup", volcano_scheduling_v1beta1.PodGroup
)
COSCHEDULING_POD_GROUPS = Resource(
    coscheduling_v1alpha1.API_VERSION, "podgroups", "PodGroup", coscheduling_v1alpha1.PodGroup
)
KUBERNETES_POD_GROUPS = Resource(
    k8s_scheduling_v1beta1.API_VERSION,
    "podgroups",
    k8s_scheduling_v1beta1.KIND,
    k8s_scheduling_v1beta1.PodGroup,
    other_versions=k8s_scheduling_v1beta1.API_VERSIONS[1:],
)
KUBERNETES_COMPOSITE_POD_GROUPS = Resource(
    k8s_scheduling_v1alpha3.API_VERSION,
    "compositepodgroups",
    k8s_scheduling_v1alpha3.KIND,
    k8s_scheduling_v1alpha3.CompositePodGroup,
)
KUBERNETES_WORKLOADS = Resource(
    k8s_scheduling_v1beta1.API_VERSION,
    "workloads",
    k8s_scheduling_v1beta1.WORKLOAD,
    k8s_scheduling_v1beta1.Workload,
    other_versions=k8s_scheduling_v1beta1.API_VERSIONS[1:],
)
VOLCANO_JOBS = Resource(
    volcano_batch_v1alpha1.API_VERSION, "jobs", volcano_batch_v1alpha1.KIND, volcano_batch_v1alpha1.Job
)
# By the wire struct, whatever bayplan knows that describes a gang.
KNOWN_POD_GROUPS: dict[type[Any], Resource[Any]] = {
    resource.type: resource
    for resource in (
        POD_GROUPS,
        KAI_POD_GROUPS,
        VOLCANO_POD_GROUPS,
        COSCHEDULING_POD_GROUPS,
        KUBERNETES_POD_GROUPS,
        KUBERNETES_COMPOSITE_POD_GROUPS,
    )
}


# Kinds that are in every dump and describe no gang, with their API groups.
BUILT_IN = frozenset(
    (
        *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
        *(("batch", kind) for kind in ("Job", "CronJob")),
        *(("", kind) for kind in ("Service", "ConfigMap", "Event")),
        ("events.k8s.io", "Event"),
    )
)


@cache
def pod_groups() -> dict[type[Any], Resource[Any]]:
    """By the wire struct, whatever describes a gang: the kinds that bayplan knows, and those of dialects that packages
    add.
    """
    found = dict(KNOWN_POD_GROUPS)
    for name in sorted(registered(DIALECTS)):
        added = getattr(load(DIALECTS, name), "resource", None)
        if added is not None:
            problem = _problem_of_added(added, {known for each in found.values() for known in each.group_kinds})
            if problem:
                raise entry_named(DIALECTS, name).wrong(problem)
            found[added.type] = added
    return found


def _problem_of_added(added: Any, taken: Collection[tuple[str, str]]) -> str:
    """Why the objects of a dialect of another package cannot be read; empty if they can."""
    if not isinstance(added, Resource):
        return f"has a resource of type {type(added).__name__}; must be a Resource"
    struct: Any = added.type
    resource = f"Resource {added.kind} ({added.api_version})"
    if not isinstance(struct, type) or not issubclass(struct, GroupObject):
        return f"reads {resource} into {getattr(struct, '__name__', struct)}; its struct must derive from GroupObject"
    if struct.__name__ != added.kind:
        return f"reads {resource} into {struct.__name__}; its struct must be called {added.kind}, as errors name it"
    missing = [each for each in ("metadata", "spec") if each not in struct.__struct_fields__]
    if missing:
        return f"reads {resource} into {struct.__name__}, which has no field {' and '.join(missing)}"
    if not re.fullmatch(r"[^/\s]+/v[0-9][a-z0-9]*", added.api_version) or not added.plural:
        return f"has the {resource} with plural {added.plural!r}; must be such as example.com/v1 and squads"
    known = {pair for each in globals().values() if isinstance(each, Resource) for pair in each.group_kinds}
    clash = next((pair for pair in added.group_kinds if pair in known or pair in taken or pair in BUILT_IN), None)
    return "" if clash is None else f"has the {resource}, which bayplan or another dialect reads already"


NODE_RESOURCE_TOPOLOGIES = Resource(
    node_resource_topology_v1alpha2.API_VERSIONS[0],
    "noderesourcetopologies",
    "NodeResourceTopology",
    NodeResourceTopology,
    namespaced=False,
    other_versions=node_resource_topology_v1alpha2.API_VERSIONS[1:],
    paged=False,
)
NUMATOPOLOGIES = Resource(
    volcano_nodeinfo_v1alpha1.API_VERSION,
    volcano_nodeinfo_v1alpha1.PLURAL,
    volcano_nodeinfo_v1alpha1.KIND,
    Numatopology,
    namespaced=False,
    paged=False,
)
HYPER_NODES = Resource(
    volcano_topology_v1alpha1.API_VERSION,
    volcano_topology_v1alpha1.PLURAL,
    volcano_topology_v1alpha1.KIND,
    volcano_topology_v1alpha1.HyperNode,
    namespaced=False,
)
KUEUE_TOPOLOGIES = Resource(
    "kueue.x-k8s.io/v1beta2",
    "topologies",
    topology_levels.KIND,
    topology_levels.Topology,
    namespaced=False,
    other_versions=("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1alpha1"),
)
# Group and kind of what Kueue makes of a job; read by name alone.
KUEUE_WORKLOAD = ("kueue.x-k8s.io", "Workload")
KAI_TOPOLOGIES = Resource(
    "kai.scheduler/v1alpha1", "topologies", topology_levels.KIND, topology_levels.Topology, namespaced=False
)

VOLUMES = Resource("v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False)
CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim)
STORAGE_CLASSES = Resource(
    storage_v1.API_VERSION, "storageclasses", "StorageClass", storage_v1.StorageClass, namespaced=False
)
CSI_NODES = Resource(storage_v1.API_VERSION, "csinodes", "CSINode", storage_v1.CSINode, namespaced=False)
CSI_DRIVERS = Resource(storage_v1.API_VERSION, "csidrivers", "CSIDriver", storage_v1.CSIDriver, namespaced=False)
CSI_CAPACITIES = Resource(
    storage_v1.API_VERSION, "csistoragecapacities", "CSIStorageCapacity", storage_v1.CSIStorageCapacity
)
VOLUME_ATTACHMENTS = Resource(
    storage_v1.API_VERSION, "volumeattachments", "VolumeAttachment", storage_v1.VolumeAttachment, namespaced=False
)
# What decides about the volumes of pods, classes before the claims that name them.
STORAGE: tuple[Resource[Any], ...] = (
    STORAGE_CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_CAPACITIES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    CLAIMS,
)
