"""What a virtual kubelet answers: whether a pod is admitted and what each container got, and what is free afterwards.

Everything is spelled out in ids (CPUs, zones, devices) so that it can be shown, reported to a scheduler or compared
with a recording as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.cluster.pods.request import PodRequest


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Bytes of one type (`memory`, `hugepages-1Gi`) in a group of zones. The share of each zone is unknown."""

    type: str
    size: int
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """What one container got. `zones` is the Topology Manager's affinity (None: none); `cpus` are exclusive, ascending.

    Under pod-level managers `cpus` may also be the part of the pod's CPUs that its containers share.
    """

    name: str
    zones: tuple[int, ...] | None
    preferred: bool
    cpus: tuple[int, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on one pod.

    A refusal has the reason and message that go into the pod's status, the stage that refused (`topology`, `device`,
    `cpu`, `memory` or `predicate`) and the container at hand, if any. `fits` is the node-level check alone, before any
    allocation.
    """

    admitted: bool
    fits: bool
    reason: str = ""
    message: str = ""
    stage: str = ""
    container: str = ""
    containers: tuple[ContainerAllocation, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """A pod on the node and what its containers hold now."""

    request: PodRequest
    containers: tuple[ContainerAllocation, ...]
    started: bool = False


@dataclass(frozen=True, slots=True)
class ZoneMemoryState:
    """One zone's memory: free bytes by type, the group of zones it serves now, and how many assignments touch it."""

    free: Mapping[str, int]
    group: tuple[int, ...]
    assignments: int


@dataclass(frozen=True, slots=True)
class FreeState:
    """What can still be handed out. `cpus` and `memory` are None where the manager is not static."""

    cpus: frozenset[int] | None
    memory: Mapping[int, ZoneMemoryState] | None
    devices: Mapping[str, tuple[str, ...]]


class AdmissionError(Exception):
    """A manager cannot give a container what it asks for; carries what the pod's status will say."""

    def __init__(self, stage: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.reason = reason
        self.message = message


def allocation_failed(stage: str, cause: str) -> AdmissionError:
    """A refusal by a manager, worded as the kubelet words any error that it did not foresee."""
    return AdmissionError(stage, "UnexpectedAdmissionError", f"Allocate failed due to {cause}, which is unexpected")
