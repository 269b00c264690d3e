"""Devices by name: where each one is, whether pods may have it, whether it is in use.

Input: what the kubelet offers, what pods are listed with, and its checkpoint. Output: one `Device` per device. Only the checkpoint knows devices that
a finished init container keeps for its pod. But it also keeps ended pods until the next one is admitted, so it is trusted only about pods
that are known to exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.reports.inventory import FREE, USED, ListedDevice
from bayplan.services.agent.evidence import Amounts, Evidence, Oddities
from bayplan.services.agent.sources.pod_resources import DeviceGroup, PodResources

ZonesByDevice = dict[str, dict[str, set[int]]]
"""Zones by resource and device."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that exists. One that is held and not allocatable is broken, or its plugin is gone."""

    listed: ListedDevice
    allocatable: bool


def devices_by_resource(
    evidence: Evidence, pods: Sequence[PodResources], oddities: Oddities
) -> dict[str, tuple[Device, ...]]:
    """Every device by resource, in the order of ids."""
    offered = _zones_of_devices(evidence.allocatable.devices if evidence.allocatable else (), oddities)
    listed = _zones_of_devices(
        (group for pod in pods for container in pod.containers for group in container.devices), oddities
    )
    held = _with_noted(listed, evidence, pods, oddities)
    found = {}
    for resource in sorted({*offered, *held}):
        can_be_had, taken = offered.get(resource, {}), held.get(resource, {})
        found[resource] = tuple(
            Device(
                ListedDevice(
                    name,
                    tuple(sorted(can_be_had.get(name) or taken.get(name) or ())),
                    USED if name in taken else FREE,
                ),
                allocatable=name in can_be_had,
            )
            for name in sorted({*can_be_had, *taken})
        )
    return found


def device_amounts(zone: int, devices: Mapping[str, tuple[Device, ...]]) -> dict[str, Amounts]:
    """Each resource that has a device in a zone. A device in several zones is gone from all of them while it is held."""
    amounts = {}
    for resource, found in devices.items():
        here = [device for device in found if zone in device.listed.zones]
        if here:
            usable = [device for device in here if device.allocatable]
            amounts[resource] = Amounts(len(here), len(usable), sum(each.listed.state == FREE for each in usable))
    return amounts


def _zones_of_devices(groups: Iterable[DeviceGroup], oddities: Oddities) -> ZonesByDevice:
    """A device that is listed once per zone is one device."""
    found: ZonesByDevice = {}
    for group in groups:
        zones = oddities.known_zones(group.zones, f"device {group.resource}")
        for device in group.ids:
            found.setdefault(group.resource, {}).setdefault(device, set()).update(zones)
    return found


def _with_noted(
    listed: ZonesByDevice, evidence: Evidence, pods: Sequence[PodResources], oddities: Oddities
) -> ZonesByDevice:
    """Devices that pods are listed with, and those that the checkpoint gives to other containers of pods that are there.

    A checkpoint that does not know a device which a pod holds is older than the list, and says nothing about now.
    """
    notes = evidence.device_state
    if notes is None:
        return listed
    noted = {
        uid: _zones_of_devices((group for groups in containers.values() for group in groups), oddities)
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
    """UIDs in the checkpoint whose pods exist: they are reported alive, other state files name them, or a listed container is theirs."""
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
