"""Short labels for pictures: `mem 78Gi`, `1Gi pages 24`, `sriov-vf 6`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayplan.cluster.pods.request import HUGEPAGES_PREFIX, MEMORY
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.amounts import human, usual_order
from bayplan.kube.quantity import QuantityError, parse


def short_labels(resources: Iterable[str]) -> dict[str, str]:
    """A label for each resource; devices lose their domain unless two would look alike."""
    names = list(dict.fromkeys(resources))
    last_parts = [name.rpartition("/")[2] for name in names]
    labels = {}
    for name, last in zip(names, last_parts, strict=True):
        if name == MEMORY:
            labels[name] = "mem"
        elif name.startswith(HUGEPAGES_PREFIX):
            labels[name] = f"{name.removeprefix(HUGEPAGES_PREFIX)} pages"
        else:
            labels[name] = last if last_parts.count(last) == 1 else name
    return labels


def short_amount(resource: str, amount: int) -> str:
    """Huge pages are counted as pages, everything else as usual."""
    size = _page_size(resource)
    if size and amount % size == 0:
        return str(amount // size)
    return human(resource, amount)


def short_listing(amounts: Mapping[str, int], labels: Mapping[str, str]) -> list[str]:
    """`cpu 8`, `mem 16Gi`, `1Gi pages 8`, without resources that no zone has."""
    return [
        f"{labels[resource]} {short_amount(resource, amounts[resource])}"
        for resource in usual_order(amounts)
        if amounts[resource] and resource in labels
    ]


def _page_size(resource: str) -> int:
    if not resource.startswith(HUGEPAGES_PREFIX):
        return 0
    try:
        return parse(resource.removeprefix(HUGEPAGES_PREFIX)).value()
    except QuantityError:
        return 0


# -- zones in words ---------------------------------------------------------------------------------------------------


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
