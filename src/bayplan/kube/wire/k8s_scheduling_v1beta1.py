"""Kubernetes' own Workload and PodGroup (`scheduling.k8s.io`, feature gate GenericWorkload), in every version that
served them.

A Workload names the object whose pods it is about (`controllerRef`) and has a template for each sort of group. A
PodGroup is one group at run time: a policy, and one label whose value all pods share. Its creator copies that from a
template, and names the template. Only `minCount` can change later, from `v1beta1` on.

| | `v1alpha2` (1.36) | `v1alpha3`, `v1beta1` (1.37) |
|---|---|---|
| template of a PodGroup | `podGroupTemplateRef.workload` | `workloadRef` |
| `disruptionMode` | `Pod`, `PodGroup` | `{single: {}}`, `{all: {}}` |
| condition | `PodGroupScheduled` | `PodGroupInitiallyScheduled` |
| groups of groups | no | CompositePodGroup |
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int32, Metadata, PodCondition, VersionedGroupObject, WireStruct

GROUP = "scheduling.k8s.io"
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
API_VERSIONS = tuple(f"{GROUP}/{version}" for version in VERSIONS)
API_VERSION = API_VERSIONS[0]
V1ALPHA2 = f"{GROUP}/v1alpha2"
KIND = "PodGroup"
WORKLOAD = "Workload"
SCHEDULED = "PodGroupScheduled"
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class GangPolicy(WireStruct, frozen=True):
    """At least so many pods at the same time."""

    min_count: Int32 = 0


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


class Mode(WireStruct, frozen=True):
    """A disruption mode without settings of its own."""


class DisruptionMode(WireStruct, frozen=True):
    """What can be evicted alone: a `single` member, or only `all` of them. Exactly one is given."""

    single: Mode | None = None
    all: Mode | None = None


# How versions before `v1beta1` write them.
DISRUPTION_MODES = {"Pod": "single", "PodGroup": "all"}


class AskedOfAnyGroup(WireStruct, frozen=True):
    """What is asked of a group of pods or of groups, in a template and in the group alike.

    `priority` is filled in from the class.
    """

    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None

    @property
    def evicts(self) -> str:
        """`single`, `all`, or an empty string if no mode is given."""
        mode = self.disruption_mode
        if isinstance(mode, DisruptionMode):
            return "all" if mode.all is not None else "single" if mode.single is not None else ""
        return DISRUPTION_MODES.get(mode or "", "")


class GroupAsked(AskedOfAnyGroup, frozen=True):
    """What is asked of a group of pods."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    resource_claims: list[ResourceClaim] | None = None


class WorkloadReference(WireStruct, frozen=True):
    """A template by its name and that of its Workload."""

    workload_name: str = ""
    template_name: str = ""


class WorkloadTemplateReference(WireStruct, frozen=True):
    """The same in `v1alpha2`."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class TemplateReference(WireStruct, frozen=True):
    """What a PodGroup was created from, in `v1alpha2`."""

    workload: WorkloadTemplateReference | None = None


class PodGroupSpec(GroupAsked, frozen=True):
    """What the group asks for, whose words those are, and the group that it is a part of."""

    workload_ref: WorkloadReference | None = None
    pod_group_template_ref: TemplateReference | None = None
    parent_composite_pod_group_name: str | None = None


class GroupStatus(WireStruct, frozen=True):
    """What came of a group, in conditions."""

    conditions: list[PodCondition] | None = None


class PodGroup(VersionedGroupObject, frozen=True):
    """A group of pods; they name it in `spec.schedulingGroup.podGroupName`."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: GroupStatus | None = None


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


class Workload(VersionedGroupObject, frozen=True):
    """What is asked of the pods of one object, group by group."""

    metadata: Metadata = Metadata()
    spec: WorkloadSpec = WorkloadSpec()
