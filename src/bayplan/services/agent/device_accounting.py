"""Devices by name: their zones, and whether they are allocatable and in use.

In come the kubelet's allocatable devices, listed pods and checkpoint; out goes one `AccountedDevice` per device. Only
the checkpoint knows devices of finished init containers. It also keeps ended pods until the next admission, so it
counts only for pods that are known to exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.reports.inventory import FREE, USED, ListedDevice
from bayplan.services.agent.evidence import Amounts, Evidence, UnknownIds
from bayplan.services.agent.sources.pod_resources import DeviceGroup, PodResources

ZonesByDevice = dict[str, dict[str, set[int]]]
"""Zones by resource and device."""


@dataclass(frozen=True, slots=True)
class AccountedDevice:
    """A device. If a container has it and it is not allocatable, it is unhealthy or its plugin is gone."""

    listed: ListedDevice
    allocatable: bool


def devices_by_resource(
    evidence: Evidence, pods: Sequence[PodResources], unknown: UnknownIds
) -> dict[str, tuple[AccountedDevice, ...]]:
    """All devices by resource, ordered by id."""
    offered = _zones_of_devices(evidence.allocatable.devices if evidence.allocatable else (), unknown)
    listed = _zones_of_devices(
        (group for pod in pods for container in pod.containers for group in container.devices), unknown
    )
    held = _with_noted(listed, evidence, pods, unknown)
    found = {}
    for resource in sorted({*offered, *held}):
        allocatable, taken = offered.get(resource, {}), held.get(resource, {})
        found[resource] = tuple(
            AccountedDevice(
                ListedDevice(
                    name,
                    tuple(sorted(allocatable.get(name) or taken.get(name) or ())),
                    USED if name in taken else FREE,
                ),
                allocatable=name in allocatable,
            )
            for name in sorted({*allocatable, *taken})
        )
    return found


def device_amounts(zone: int, devices: Mapping[str, tuple[AccountedDevice, ...]]) -> dict[str, Amounts]:
    """Amounts of each resource with devices in a zone. A device in use counts as taken in all its zones."""
    amounts = {}
    for resource, found in devices.items():
        here = [device for device in found if zone in device.listed.zones]
        if here:
            usable = [device for device in here if device.allocatable]
            amounts[resource] = Amounts(len(here), len(usable), sum(each.listed.state == FREE for each in usable))
    return amounts


def _zones_of_devices(groups: Iterable[DeviceGroup], unknown: UnknownIds) -> ZonesByDevice:
    """Zones of each device; it may be listed once per zone."""
    found: ZonesByDevice = {}
    for group in groups:
        zones = unknown.known_zones(group.zones, f"device {group.resource}")
        for device in group.ids:
            found.setdefault(group.resource, {}).setdefault(device, set()).update(zones)
    return found


def _with_noted(
    listed: ZonesByDevice, evidence: Evidence, pods: Sequence[PodResources], unknown: UnknownIds
) -> ZonesByDevice:
    """Listed devices, and those of other containers of existing pods in the checkpoint.

    A checkpoint without a listed device is older than the list, and is ignored.
    """
    notes = evidence.device_state
    if notes is None:
        return listed
    noted = {
        uid: _zones_of_devices((group for groups in containers.values() for group in groups), unknown)
        for uid, containers in notes.entries.items()
    }
    named = {(resource, name) for held in noted.values() for resource, names in held.items() for name in names}
    if not named.issuperset((resource, name) for resource, names in listed.items() for name in names):
        return listed
    found = {resource: dict(names) for resource, names in listed.items()}
    for uid in _alive(evidence, pods):
        for resource, names in noted.get(uid, {}).items():
            for name, zones in names.items():
                found.setdefault(resource, {}).setdefault(name, zones)
    return found


def _alive(evidence: Evidence, pods: Sequence[PodResources]) -> set[str]:
    """UIDs of existing pods: reported alive, named by other state files, or with a listed container."""
    notes = evidence.device_state
    if notes is None:
        return set()
    others = [state.entries for state in (evidence.cpu_state, evidence.memory_state) if state is not None]
    known = evidence.alive.union(*others) - evidence.ended
    listed = {
        (container.name, device) for pod in pods for container in pod.containers for device in _names(container.devices)
    }
    return {
        uid
        for uid, containers in notes.entries.items()
        if uid in known
        or (
            uid not in evidence.ended
            and any((name, device) in listed for name, groups in containers.items() for device in _names(groups))
        )
    }


def _names(groups: Iterable[DeviceGroup]) -> set[tuple[str, str]]:
    return {(group.resource, name) for group in groups for name in group.ids}
