"""Memory and huge pages by zone: allocatable, available, and zones that are used together.

In come the evidence and the blocks that pods hold. The kubelet takes and returns blocks that span zones from the lowest
zone on, so only its state file knows what is left in each. The file counts if it covers everything that pods hold.
Otherwise only the sum over zones that are used together is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayplan.cluster.pods.request import MEMORY
from bayplan.services.agent.evidence import Amounts, Evidence
from bayplan.services.agent.sources.pod_resources import MemoryBlock
from bayplan.services.agent.sources.state_files import MemoryState
from bayplan.services.agent.sources.sysfs import Hardware, HardwareZone


def is_current(evidence: Evidence, blocks: Iterable[MemoryBlock]) -> bool:
    """Whether the Memory Manager's state file is as new as the list of pods, and names no pod that ended."""
    notes = evidence.memory_state
    if notes is None or not notes.zones or not evidence.ended.isdisjoint(notes.entries):
        return False
    noted: dict[str, int] = {}
    for zone in notes.zones.values():
        for name, each in zone.amounts.items():
            noted[name] = noted.get(name, 0) + each.allocatable - each.free
    for block in blocks:
        noted[block.type] = noted.get(block.type, 0) - block.size
    return all(amount >= 0 for amount in noted.values())


def memory_by_zone(
    evidence: Evidence, noted: MemoryState | None, held: Sequence[MemoryBlock]
) -> dict[int, dict[str, Amounts]]:
    """Memory and huge pages by zone; nothing without a Memory Manager, because memory then has no zone."""
    allocatable = _allocatable_memory(evidence)
    available = {zone: dict(amounts) for zone, amounts in allocatable.items()}
    if noted is not None:
        for zone, notes in noted.zones.items():
            for name, each in notes.amounts.items():
                if name in available.get(zone, {}):
                    available[zone][name] = max(0, min(each.free, available[zone][name]))
    else:
        # Zone groups are disjoint, so the order of blocks does not matter.
        for block in held:
            _take(available, block)
    capacity = {zone.id: zone.capacity for zone in evidence.hardware.zones}
    return {
        zone: {
            name: Amounts(max(capacity[zone].get(name, 0), amount), amount, available[zone][name])
            for name, amount in amounts.items()
            if amount or capacity[zone].get(name)
        }
        for zone, amounts in allocatable.items()
    }


def _allocatable_memory(evidence: Evidence) -> dict[int, dict[str, int]]:
    hardware = evidence.hardware
    if evidence.allocatable is not None:
        ids = hardware.zone_ids
        found: dict[int, dict[str, int]] = {}
        for block in evidence.allocatable.memory:
            zones = sorted(zone for zone in block.zones if zone in ids)
            for position, zone in enumerate(zones):
                # The kubelet lists one zone per block; if it ever lists several, the block counts once.
                share = block.size // len(zones) + (block.size % len(zones) if position == 0 else 0)
                of_zone = found.setdefault(zone, {})
                of_zone[block.type] = of_zone.get(block.type, 0) + share
        return found
    if evidence.memory_state is not None and evidence.memory_state.zones:
        return {
            zone: {name: each.allocatable for name, each in noted.amounts.items()}
            for zone, noted in evidence.memory_state.zones.items()
            if zone in hardware.zone_ids
        }
    if evidence.setup is not None and not evidence.setup.settings.memory_static:
        return {}
    reserved = evidence.setup.reserved_memory if evidence.setup else {}
    return {zone.id: _less_reserved(zone, reserved.get(zone.id, {})) for zone in hardware.zones}


def _less_reserved(zone: HardwareZone, reserved: Mapping[str, int]) -> dict[str, int]:
    """Memory outside huge pages, and huge pages, minus reservations."""
    whole = {MEMORY: zone.memory - sum(zone.huge_pages.values()), **zone.huge_pages}
    return {name: max(0, amount - reserved.get(name, 0)) for name, amount in whole.items()}


def _take(available: dict[int, dict[str, int]], block: MemoryBlock) -> None:
    left = block.size
    for zone in sorted(block.zones):
        taken = min(left, available.get(zone, {}).get(block.type, 0))
        if taken:
            available[zone][block.type] -= taken
            left -= taken


def memory_groups(
    hardware: Hardware, noted: MemoryState | None, blocks: Iterable[MemoryBlock]
) -> dict[int, tuple[int, ...]]:
    """For each zone with memory in use, the zones that are used together."""
    if noted is not None:
        return {zone: notes.group for zone, notes in noted.zones.items() if notes.assignments}
    groups: dict[int, tuple[int, ...]] = {}
    for block in blocks:
        group = tuple(sorted(zone for zone in block.zones if zone in hardware.zone_ids))
        if block.size:
            groups.update(dict.fromkeys(group, group))
    return groups
