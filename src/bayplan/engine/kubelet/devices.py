"""The Device Manager: which zones host enough devices of a resource, and which devices a container gets.

`DeviceLedger` holds what one admission changes. Unlike CPUs and memory, devices align for pods of any QoS class. Which
of several equal devices a kubelet picks is its plugin's business; here it is the lowest id, as with a plugin that
prefers so. `replay.py` is the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, Role, sidecar_aware_sum
from bayplan.engine.kubelet.masks import bits, mask_of, subsets
from bayplan.engine.kubelet.merge import Hint, ResourceHints
from bayplan.engine.kubelet.node import Device, NodeKnowledge
from bayplan.engine.kubelet.verdict import NearestMiss, no_healthy_devices_text, unexpected
from bayplan.engine.kubelet.versions import RULES


@dataclass(slots=True)
class DeviceLedger:
    """Device ids during one admission, per resource; `owned` lists per container what it got."""

    taken: dict[str, set[str]] = field(default_factory=dict)
    reusable: dict[str, set[str]] = field(default_factory=dict)
    owned: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)


def device_requests(node: NodeKnowledge, container: ContainerRequest) -> dict[str, int]:
    """The number of devices of each plugin's resource that a container requests."""
    return {name: amount for name, amount in container.limits.items() if name in node.devices}


def device_requests_of_pod(node: NodeKnowledge, pod: PodRequest) -> dict[str, int]:
    """The most devices that the pod's containers hold at any one time."""
    totals = sidecar_aware_sum(pod.containers, of_limits=True)
    return {name: amount for name, amount in totals.items() if name in node.devices}


def device_hints(
    node: NodeKnowledge, ledger: DeviceLedger, requests: Mapping[str, int], *, with_reuse: bool = True
) -> dict[str, ResourceHints]:
    """Per resource, the zones with enough free devices; None if no device has a known zone."""
    hints: dict[str, ResourceHints] = {}
    for resource, count in requests.items():
        devices = node.devices[resource]
        reusable = ledger.reusable.get(resource, set()) if with_reuse else set()
        usable = free_devices(node, ledger, resource)
        if not any(device.zones for device in devices):
            hints[resource] = None
        elif len({device.id for device in usable} | reusable) < count:
            hints[resource] = []
        else:
            hints[resource] = _hints_of_resource(node, devices, usable, reusable, count)
    return hints


def free_devices(node: NodeKnowledge, ledger: DeviceLedger, resource: str) -> list[Device]:
    """Healthy, unallocated devices."""
    taken = ledger.taken.get(resource, set())
    return [d for d in node.devices[resource] if d.healthy and not d.allocated and d.id not in taken]


def allocate_devices(
    node: NodeKnowledge, ledger: DeviceLedger, container: ContainerRequest, affinity: int | None
) -> None:
    """Give a container its devices: those its init containers left, then those in its zones, then any."""
    for resource, count in device_requests(node, container).items():
        chosen = _choose(node, ledger, resource, count, affinity)
        if chosen:
            ledger.taken.setdefault(resource, set()).update(chosen)
            ledger.owned.setdefault(container.name, {})[resource] = tuple(sorted(chosen))
    for resource, ids in ledger.owned.get(container.name, {}).items():
        left = ledger.reusable.setdefault(resource, set())
        if container.role is Role.INIT:
            left.update(ids)
        else:
            left.difference_update(ids)


def _hints_of_resource(
    node: NodeKnowledge, devices: Iterable[Device], usable: Iterable[Device], reusable: set[str], count: int
) -> list[Hint]:
    """Hints for one resource. Newer kubelets consider only zones with such a device; one between zones counts for each.

    What a zone could serve at most includes devices that are in use or unhealthy.
    """
    everywhere = mask_of(node.zone_ids) if RULES[node.settings.version].devices_hint_every_zone else 0
    reused: list[int] = []
    for device in devices:
        everywhere |= device.zones
        if device.id in reusable and device.zones:
            reused.append(device.zones)
    considered = tuple(bits(everywhere))
    all_zones = _tally(device.zones for device in devices)
    free_zones = _tally(device.zones for device in usable if device.id not in reusable)
    masks = subsets(considered).masks
    fewest = next((mask.bit_count() for mask in masks if _matching(all_zones, mask) >= count), len(considered))
    return [
        Hint(mask, mask.bit_count() == fewest)
        for mask in masks
        if all(zones & mask for zones in reused) and len(reused) + _matching(free_zones, mask) >= count
    ]


def _tally(zones: Iterable[int]) -> dict[int, int]:
    tally: dict[int, int] = {}
    for mask in zones:
        if mask:
            tally[mask] = tally.get(mask, 0) + 1
    return tally


def _matching(tally: Mapping[int, int], mask: int) -> int:
    return sum(number for zones, number in tally.items() if zones & mask)


def _choose(node: NodeKnowledge, ledger: DeviceLedger, resource: str, count: int, affinity: int | None) -> set[str]:
    # Health comes first, even if none is requested (kubernetes #109595).
    if not any(device.healthy for device in node.devices[resource]):
        raise unexpected(
            no_healthy_devices_text(resource),
            NearestMiss(resource, None, 0, count),
        )
    chosen = set(sorted(ledger.reusable.get(resource, set()))[:count])
    needed = count - len(chosen)
    if needed == 0:
        return chosen
    free = [device for device in free_devices(node, ledger, resource) if device.id not in chosen]
    if len(free) < needed:
        raise unexpected(
            f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(free)}",
            NearestMiss(resource, None, len(free) + len(chosen), count),
        )
    near = sorted(device.id for device in free if affinity is not None and device.zones & affinity)
    others = sorted(device.id for device in free if affinity is None or not device.zones & affinity)
    return chosen | set([*near, *others][:needed])
