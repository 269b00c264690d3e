"""Kubernetes' CompositePodGroup (`scheduling.k8s.io/v1alpha3`, feature gate CompositePodGroup): a group of groups.

PodGroups and other CompositePodGroups name the one that they are a part of in `parentCompositePodGroupName`. At most
four levels are allowed, PodGroups included.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int32, Metadata, VersionedGroupObject, WireStruct
from bayplan.kube.wire.k8s_scheduling_v1beta1 import AskedOfAnyGroup, GroupStatus, WorkloadReference

API_VERSION = "scheduling.k8s.io/v1alpha3"
KIND = "CompositePodGroup"
INITIALLY_SCHEDULED = "CompositePodGroupInitiallyScheduled"
MOST_LEVELS = 4


class CompositeGangPolicy(WireStruct, frozen=True):
    """At least so many groups at the same time."""

    min_group_count: Int32 = 0


class CompositeBasicPolicy(WireStruct, frozen=True):
    """Each group when it can."""


class CompositePolicy(WireStruct, frozen=True):
    """Exactly one of them is given."""

    basic: CompositeBasicPolicy | None = None
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(AskedOfAnyGroup, frozen=True):
    """What is asked of the groups together, whose words those are, and the group that this one is a part of."""

    scheduling_policy: CompositePolicy = CompositePolicy()
    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None


class CompositePodGroup(VersionedGroupObject, frozen=True):
    """A group of groups."""

    metadata: Metadata = Metadata()
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: GroupStatus | None = None
