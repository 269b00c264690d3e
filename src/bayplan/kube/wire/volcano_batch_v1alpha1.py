"""Volcano's Job (`batch.volcano.sh/v1alpha1`): tasks with replicas of a pod template, partitions inside tasks.

Volcano's controllers make a PodGroup and pods of it; `dialects/volcano/job.py` knows how they do that, and what their
admission webhook has against a Job.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import GroupObject, Int32, Metadata, PodSpec, WireStruct
from bayplan.kube.wire.volcano_scheduling_v1beta1 import NetworkTopology

API_VERSION = "batch.volcano.sh/v1alpha1"
KIND = "Job"


class PartitionPolicy(WireStruct, frozen=True):
    """A task's pods in partitions of one size, each of them close together.

    `min_partitions` 0 asks for no number of them.
    """

    total_partitions: Int32 = 0
    partition_size: Int32 = 0
    min_partitions: Int32 = 0
    network_topology: NetworkTopology | None = None


class PodTemplate(WireStruct, frozen=True):
    """What the pods of a task look like."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class Task(WireStruct, frozen=True):
    """One role of a Job."""

    name: str = ""
    replicas: Int32 = 0
    min_available: Int32 | None = None
    topology_policy: str = ""
    partition_policy: PartitionPolicy | None = None
    template: PodTemplate = PodTemplate()


class JobSpec(WireStruct, frozen=True):
    """The whole Job; a `min_available` that is not given means all pods."""

    scheduler_name: str = ""
    min_available: Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    tasks: list[Task] | None = None


class Job(GroupObject, frozen=True):
    """A Volcano Job."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
