"""Kubernetes' own Workload and PodGroup (`scheduling.k8s.io/v1alpha2`, feature gate GenericWorkload).

A Workload names the object whose pods it is about (`controllerRef`) and has a template for each sort of group. A PodGroup is one group at run time: a policy, and one
label whose value all pods share. Who creates it copies that from a template, and says from which one; the API server checks only that the template was there then. Both are immutable.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import GroupObject, Metadata, PodCondition, WireStruct

API_VERSION = "scheduling.k8s.io/v1alpha2"
KIND = "PodGroup"
WORKLOAD = "Workload"
SCHEDULED = "PodGroupScheduled"


class GangPolicy(WireStruct, frozen=True):
    """At least so many pods at the same time."""

    min_count: int = 0


class BasicPolicy(WireStruct, frozen=True):
    """Each pod when it can."""


class SchedulingPolicy(WireStruct, frozen=True):
    """Exactly one of them is given."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(WireStruct, frozen=True):
    """All pods on nodes with the same value of this label."""

    key: str = ""


class SchedulingConstraints(WireStruct, frozen=True):
    """At most one so far."""

    topology: list[TopologyConstraint] | None = None


class ResourceClaim(WireStruct, frozen=True):
    """Devices that the pods of a group share."""

    name: str = ""


class GroupAsked(WireStruct, frozen=True):
    """What is asked of a group, in a template and in a PodGroup alike; `priority` is filled in from the class, `disruption_mode` is Pod or PodGroup."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: list[ResourceClaim] | None = None
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


class WorkloadTemplateReference(WireStruct, frozen=True):
    """A template by its name and that of its Workload."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class TemplateReference(WireStruct, frozen=True):
    """What a PodGroup was created from."""

    workload: WorkloadTemplateReference | None = None


class PodGroupSpec(GroupAsked, frozen=True):
    """What the group asks for, and whose words those are."""

    pod_group_template_ref: TemplateReference | None = None


class PodGroupStatus(WireStruct, frozen=True):
    """What came of it, in conditions."""

    conditions: list[PodCondition] | None = None


class PodGroup(GroupObject, frozen=True):
    """A group of pods; they name it in `spec.schedulingGroup.podGroupName`."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None


class PodGroupTemplate(GroupAsked, frozen=True):
    """One sort of groups of a Workload."""

    name: str = ""


class ControllerReference(WireStruct, frozen=True):
    """The object whose pods a Workload is about, in its namespace; the core group is empty."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(WireStruct, frozen=True):
    """Templates, at most eight."""

    controller_ref: ControllerReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None


class Workload(GroupObject, frozen=True):
    """What is asked of the pods of one object, group by group."""

    metadata: Metadata = Metadata()
    spec: WorkloadSpec = WorkloadSpec()
