"""What the kubelet says about its pods, as plain values: who holds which CPUs, memory and devices, and what could be handed out at all.

`podresources.py` makes them of the kubelet's answers over gRPC, `state_files.py` of its checkpoints. `accounting.py` counts them. Nothing is
checked here: ids are what the kubelet or a device plugin said, whether or not the machine has such a zone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Bytes of one type (`memory`, `hugepages-2Mi`) in one zone or in several together; nobody knows in what parts."""

    type: str
    size: int
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DevicePart:
    """Devices of one resource. One that is in several zones comes once for each of them; no zones: nobody knows where it is."""

    resource: str
    ids: tuple[str, ...]
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource claim (DRA) that a container uses, and its devices as `driver/pool/device`. It is in no zone's books."""

    namespace: str
    name: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds. Init containers that end are not told, those that stay (sidecars) are."""

    name: str
    cpus: tuple[int, ...] = ()
    devices: tuple[DevicePart, ...] = ()
    memory: tuple[MemoryPart, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod holds."""

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What could be handed out if no pod held anything. No CPUs: the CPU Manager is not static; no memory: neither is the Memory Manager."""

    cpus: tuple[int, ...] = ()
    devices: tuple[DevicePart, ...] = ()
    memory: tuple[MemoryPart, ...] = ()
