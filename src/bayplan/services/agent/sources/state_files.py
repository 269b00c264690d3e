"""Parse the kubelet's state files: `cpu_manager_state`, `memory_manager_state` and `kubelet_internal_checkpoint`.

The files know more than the podresources API (init containers, free memory per zone) and less (pods only by UID,
devices also of ended pods). They complete its answers, or replace a missing socket. A malformed file raises
`InvalidObject`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from bayplan.cluster.reports.inventory import NotUnderstood, cpu_set
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.kube.json_text import decode, json_words
from bayplan.services.agent.sources.pod_resources import DeviceGroup, MemoryBlock
from bayplan.services.agent.sources.sysfs_files import members

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class CpuState:
    """Shared CPUs, and exclusive ones by pod UID and container."""

    policy: str
    shared_cpus: frozenset[int]
    entries: Mapping[str, Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class MemoryAmounts:
    """One type of memory in one zone."""

    allocatable: int
    free: int


@dataclass(frozen=True, slots=True)
class MemoryZone:
    """A zone of the Memory Manager: the number of containers that use it, and the zones used together with it."""

    assignments: int
    group: tuple[int, ...]
    amounts: Mapping[str, MemoryAmounts]


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Zones by id, and the blocks of each container by pod UID."""

    policy: str
    zones: Mapping[int, MemoryZone]
    entries: Mapping[str, Mapping[str, tuple[MemoryBlock, ...]]]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The devices of each container by pod UID."""

    entries: Mapping[str, Mapping[str, tuple[DeviceGroup, ...]]]


class _CpuFile(msgspec.Struct, rename="camel", frozen=True):
    policy_name: str
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] | None = None


class _MemoryTable(msgspec.Struct, frozen=True):
    allocatable: int = 0
    free: int = 0


class _MemoryZoneFile(msgspec.Struct, rename="camel", frozen=True):
    number_of_assignments: int = 0
    memory_map: dict[str, _MemoryTable] | None = None
    cells: list[int] | None = None


class _Block(msgspec.Struct, rename="camel", frozen=True):
    type: str
    size: int
    numa_affinity: list[int] | None = None


class _MemoryFile(msgspec.Struct, rename="camel", frozen=True):
    policy_name: str
    machine_state: dict[int, _MemoryZoneFile] | None = None
    entries: dict[str, dict[str, list[_Block]]] | None = None


class _DeviceEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """Devices by NUMA id, -1 if it is unknown; kubelets before 1.20 wrote a plain list."""

    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[int, list[str]] | list[str] | None = msgspec.field(default=None, name="DeviceIDs")


class _DeviceData(msgspec.Struct, frozen=True):
    entries: list[_DeviceEntry] | None = msgspec.field(default=None, name="PodDeviceEntries")


class _DeviceFile(msgspec.Struct, frozen=True):
    data: _DeviceData = msgspec.field(name="Data")


def cpu_state_of(text: bytes, source: str) -> CpuState:
    """Read `cpu_manager_state`."""
    parsed = _decoded(text, _CpuFile, source)
    at = ObjectPath(f"file {source}")
    return CpuState(
        policy=parsed.policy_name,
        shared_cpus=frozenset(_cpus(parsed.default_cpu_set, at.child("defaultCpuSet"))),
        entries={
            uid: {name: _cpus(cpus, at.child("entries").key(uid).key(name)) for name, cpus in containers.items()}
            for uid, containers in (parsed.entries or {}).items()
        },
    )


def memory_state_of(text: bytes, source: str) -> MemoryState:
    """Read `memory_manager_state`."""
    parsed = _decoded(text, _MemoryFile, source)
    return MemoryState(
        policy=parsed.policy_name,
        zones={
            zone_id: MemoryZone(
                zone.number_of_assignments,
                tuple(sorted(zone.cells or (zone_id,))),
                {name: MemoryAmounts(each.allocatable, each.free) for name, each in (zone.memory_map or {}).items()},
            )
            for zone_id, zone in (parsed.machine_state or {}).items()
        },
        entries={
            uid: {
                name: tuple(MemoryBlock(block.type, block.size, tuple(block.numa_affinity or ())) for block in blocks)
                for name, blocks in containers.items()
            }
            for uid, containers in (parsed.entries or {}).items()
        },
    )


def device_state_of(text: bytes, source: str) -> DeviceState:
    """Read `kubelet_internal_checkpoint`."""
    parsed = _decoded(text, _DeviceFile, source)
    found: dict[str, dict[str, tuple[DeviceGroup, ...]]] = {}
    for entry in parsed.data.entries or ():
        listed = entry.device_ids or {}
        by_zone = {-1: listed} if isinstance(listed, list) else listed
        groups = tuple(
            DeviceGroup(entry.resource_name, tuple(ids), (zone,) if zone >= 0 else ()) for zone, ids in by_zone.items()
        )
        of_pod = found.setdefault(entry.pod_uid, {})
        of_pod[entry.container_name] = of_pod.get(entry.container_name, ()) + groups
    return DeviceState(found)


def _decoded(text: bytes, kind: type[_Struct], source: str) -> _Struct:
    at = ObjectPath(f"file {source}")
    try:
        return decode(text, kind)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error)
        raise InvalidObject(at.child(where) if where else at, problem) from None
    except msgspec.DecodeError as error:
        raise InvalidObject(at, f"is not valid JSON: {json_words(error)}") from None


def _cpus(text: str, at: ObjectPath) -> tuple[int, ...]:
    try:
        return tuple(sorted(members(cpu_set(text))))
    except NotUnderstood as error:
        raise InvalidObject(at, f'"{text}": must be {error}') from None
