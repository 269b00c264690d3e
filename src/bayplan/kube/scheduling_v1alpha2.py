"""Kubernetes' own PodGroup (`scheduling.k8s.io/v1alpha2`, feature gate GenericWorkload): a policy, and one label whose value all pods share.

Whatever a Workload says about a group is copied into the PodGroup when it is created, so the Workload itself need not be read.
"""

from __future__ import annotations

from bayplan.kube.core_v1 import Metadata, PodCondition, WireStruct

API_VERSION = "scheduling.k8s.io/v1alpha2"
KIND = "PodGroup"
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


class PodGroupSpec(WireStruct, frozen=True):
    """What the group asks for."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None


class PodGroupStatus(WireStruct, frozen=True):
    """What came of it, in conditions."""

    conditions: list[PodCondition] | None = None


class PodGroup(WireStruct, frozen=True):
    """A group of pods; they name it in `spec.schedulingGroup.podGroupName`."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None
