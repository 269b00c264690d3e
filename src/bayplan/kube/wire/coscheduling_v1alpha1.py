"""The PodGroup of scheduler-plugins' coscheduling (`scheduling.x-k8s.io/v1alpha1`): a number of pods that start
together.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import GroupObject, Int32, Metadata, WireStruct

API_VERSION = "scheduling.x-k8s.io/v1alpha1"


class PodGroupSpec(WireStruct, frozen=True):
    """How many pods start together."""

    min_member: Int32 = 1


class PodGroupStatus(WireStruct, frozen=True):
    """How far the group has come."""

    phase: str = ""
    running: Int32 = 0


class PodGroup(GroupObject, frozen=True):
    """A gang without any wish for places."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None
