"""What comes out of a replayed admission: the kubelet's yes or no, where everything lies, or what was missing.

`replay.py` fills these in. The managers (`cpu.py`, `memory.py`, `devices.py`) say no by raising `ManagerRefused`, which
carries the kubelet's own reason and text and the nearest miss behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
SMT_ALIGNMENT_ERROR = "SMTAlignmentError"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL_ERROR = "EmptyPodSharedPoolError"
# Not a reason of the kubelet's: it would go on counting, for longer than anyone waits.
TOO_MANY_ZONES = "TooManyZoneCombinations"
# Neither is this: the kubelet has not been consulted yet, because its node's report is known to be behind.
REPORT_BEHIND = "ReportBehind"


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The nearest miss: in this zone (None: over several zones or the whole node) there was less than wanted.

    CPU is counted in milli-CPUs, everything else in whole units, as in a pod's request. Where `have` covers `want`,
    the amount was not the obstacle; the reason says what was.
    """

    resource: str
    zone: int | None
    have: int
    want: int


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory of one type, charged to a zone or, in sum, to a group of zones."""

    type: str
    size: int
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ContainerPlacement:
    """What one container gets. `zones` is None where the Topology Manager gives no affinity."""

    name: str
    zones: tuple[int, ...] | None
    preferred: bool
    cpus: tuple[int, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on one pod. `stage` and `container` say where a refusal happened; both are empty for a yes."""

    admitted: bool
    reason: str = ""
    message: str = ""
    stage: str = ""
    container: str = ""
    containers: tuple[ContainerPlacement, ...] = ()
    nearest_miss: NearestMiss | None = None


class ManagerRefused(Exception):
    """A manager's no while resources are handed out."""

    def __init__(self, reason: str, message: str, nearest_miss: NearestMiss | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.nearest_miss = nearest_miss


def unexpected(cause: str, nearest_miss: NearestMiss | None = None) -> ManagerRefused:
    """The kubelet's wrapping of every refusal for which it has no reason of its own."""
    return ManagerRefused(
        UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {cause}, which is unexpected", nearest_miss
    )


def no_healthy_devices(resource: str, container: str) -> Admission:
    """The refusal of a container that requests zero devices if none is healthy (kubernetes #109595)."""
    refused = unexpected(no_healthy_devices_text(resource))
    return Admission(
        admitted=False, reason=refused.reason, message=refused.message, stage="device", container=container
    )


def no_healthy_devices_text(resource: str) -> str:
    """The Device Manager's message."""
    return f"no healthy devices present; cannot allocate unhealthy devices {resource}"


def undecided(zones: int, nearest_miss: NearestMiss | None = None) -> ManagerRefused:
    """bayplan's own refusal: the zones can be combined in more ways than it checks (`masks.MOST_SUBSETS`)."""
    return ManagerRefused(
        TOO_MANY_ZONES, f"{zones} zones can be combined in too many ways to find one that fits", nearest_miss
    )
