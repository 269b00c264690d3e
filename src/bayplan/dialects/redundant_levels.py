"""Levels that a PodGroup names without any effect: wider than one that is required already.

A gang that must be in one rack is in one block: preferring a block, asking for segments in blocks or, for an inner group, requiring a
block changes nothing. It is not an error, so no pod waits; but the author meant something by it and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bayplan.gangs.checks import Naming
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant
from bayplan.kube.wire.podgroup_v1alpha1 import GroupSpec, PodGroupSpec


def redundant_levels(spec: PodGroupSpec, topologies: Mapping[str, tuple[str, ...]]) -> Iterator[Naming]:
    """What a PodGroup names in vain, where it names one of these Topologies or there is only one; the widest level of each is the first."""
    only = next(iter(topologies)) if len(topologies) == 1 else ""
    levels = topologies.get(spec.topology or only)
    return iter(()) if levels is None else _in_group(spec, (*levels, HOSTNAME, NUMA), None)


def _in_group(group: PodGroupSpec | GroupSpec, levels: Sequence[str], around: str | None) -> Iterator[Naming]:
    """`around` is the level that all pods of the group share because of a group around it."""
    if _is_wider(group.required, around, levels):
        yield _in_vain("required", group.required, around)
        shared = around
    else:
        shared = group.required or around
    if _is_wider(group.preferred, shared, levels):
        yield _in_vain("preferred", group.preferred, shared)
    for segment in group.segments or ():
        if _is_wider(segment.level, shared, levels):
            yield _in_vain("segments", segment.level, shared)
    for inner in group.groups or ():
        yield from _in_group(inner, levels, shared)


def _is_wider(level: str | None, shared: str | None, levels: Sequence[str]) -> bool:
    wide, narrow = level_meant(level or "", levels), level_meant(shared or "", levels)
    return wide is not None and narrow is not None and levels.index(wide) < levels.index(narrow)


def _in_vain(field: str, level: str | None, shared: str | None) -> Naming:
    said = f'"{level}" has no effect: it is wider than {shared}, which is required already'
    return Naming(field, level or "", said)
