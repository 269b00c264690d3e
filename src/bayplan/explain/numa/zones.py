"""Zones in words: `NUMA zone 1`, `NUMA zones 0-1`, `NUMA zones app 0, log 1`; `~0-1` for an estimate."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.engine.numa.placement import ContainerZones


def zone_numbers(zones: Sequence[int]) -> str:
    """`0`, `0-1`, `0,2-3`."""
    runs: list[list[int]] = []
    for zone in sorted(set(zones)):
        if runs and zone == runs[-1][1] + 1:
            runs[-1][1] = zone
        else:
            runs.append([zone, zone])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def zone_column(containers: Sequence[ContainerZones]) -> str:
    """The zones of a pod for a table: one set if all aligned containers share it, else by container.

    Estimates begin with `~`.
    """
    numbers = _numbers(containers)
    return f"~{numbers}" if any(entry.zones and entry.estimated for entry in containers) else numbers


def _numbers(containers: Sequence[ContainerZones]) -> str:
    aligned = [(entry.container, entry.zones) for entry in containers if entry.zones]
    if not aligned:
        return "-"
    by_zones: dict[tuple[int, ...], list[str]] = {}
    for container, zones in aligned:
        by_zones.setdefault(zones, []).append(container)
    # If most containers share a place, only the others are named.
    common = max(by_zones, key=lambda zones: len(by_zones[zones]))
    if len(by_zones) == 1:
        return zone_numbers(common)
    if len(by_zones[common]) == 1:
        return ", ".join(f"{container} {zone_numbers(zones)}" for container, zones in aligned)
    others = ", ".join(f"{container} {zone_numbers(zones)}" for container, zones in aligned if zones != common)
    return f"{zone_numbers(common)} ({others})"


def zone_phrase(containers: Sequence[ContainerZones]) -> str:
    """The zones of a pod for a sentence; empty if nothing is aligned."""
    numbers = _numbers(containers)
    if numbers == "-":
        return ""
    phrase = f"NUMA zone {numbers}" if numbers.isdigit() else f"NUMA zones {numbers}"
    return f"probably {phrase}" if any(entry.zones and entry.estimated for entry in containers) else phrase
