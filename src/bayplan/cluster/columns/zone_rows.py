"""One node's report as a row of the columns: written whole, written in part, taken back.

`cluster/state.py` decides which of the three; nothing else writes what the zones of a node have.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_USABLE, UNKNOWN, Columns
from bayplan.cluster.columns.sparse import write_row
from bayplan.cluster.pods.request import CPU, is_memory
from bayplan.cluster.reports.kubelet_version import NEWEST
from bayplan.cluster.reports.topology_report import TopologyReport


def write_zones(columns: Columns, row: int, report: TopologyReport) -> None:
    """Everything a report says about a row that is clear, except to which class of hardware it belongs."""
    columns.require_zones(len(report.zones))
    columns.put("topology", row, TOPOLOGY_USABLE)
    columns.put("zone_count", row, len(report.zones))
    indexes, positions = _cells(columns, report)
    totals = [amounts.total_of(name) for zone in report.zones for name, amounts in zone.resources.items()]
    columns.zone_total[indexes, positions, row] = totals
    reported = columns.zone_reported[:, row].copy()
    np.bitwise_or.at(reported, indexes, np.left_shift(np.uint64(1), np.array(positions, dtype=np.uint64)))
    write_row(columns.zone_reported, row, reported)
    write_available(columns, row, report)
    write_row(columns.zone_total_largest, row, columns.zone_total[:, :, row].max(axis=1))
    for name in {name for zone in report.zones for name in zone.resources}:
        index = columns.resource(name)
        # Zones may report a device of which they have none: then no device of the node has a place to align to.
        known = name == CPU or is_memory(name) or columns.zone_total_largest[index, row] > 0
        columns.put_aligned(index, row, aligned=bool(known))
    settings = report.settings
    columns.max_numa_nodes[row] = settings.max_numa_nodes
    columns.put("policy", row, settings.policy)
    columns.put("scope", row, settings.scope)
    columns.put("upstream_policy", row, report.upstream_settings.policy)
    columns.put("upstream_scope", row, report.upstream_settings.scope)
    columns.put("cpu_group", row, settings.cpu_group)
    columns.put("cpu_static", row, UNKNOWN if settings.cpu_static is None else settings.cpu_static)
    columns.put("memory_static", row, UNKNOWN if settings.memory_static is None else settings.memory_static)
    columns.put("kubelet", row, settings.version)


def write_available(columns: Columns, row: int, report: TopologyReport) -> None:
    """Only what is left in the zones."""
    indexes, positions = _cells(columns, report)
    available = [amounts.available for zone in report.zones for amounts in zone.resources.values()]
    columns.zone_available[indexes, positions, row] = available
    write_row(columns.zone_available_sum, row, columns.zone_available[:, :, row].sum(axis=1))


def _cells(columns: Columns, report: TopologyReport) -> tuple[list[int], list[int]]:
    """Index and position of every amount in a report, in its order; one write of many cells takes a tenth of many."""
    indexes = [columns.resource(name) for zone in report.zones for name in zone.resources]
    positions = [position for position, zone in enumerate(report.zones) for _ in zone.resources]
    return indexes, positions


def clear_zones(columns: Columns, row: int) -> None:
    """A row as if no report had ever come."""
    if columns.topology[row] == NO_TOPOLOGY:
        return  # none has
    columns.totals_changed()
    zones = (columns.zone_available, columns.zone_total)
    sums = (columns.zone_available_sum, columns.zone_total_largest, columns.zone_reported)
    for column in (*zones, *sums):
        write_row(column, row, 0)
    for resource in np.flatnonzero(columns.zone_aligned[:, row]).tolist():
        columns.put_aligned(resource, row, aligned=False)
    columns.put("zone_count", row, 0)
    columns.max_numa_nodes[row] = 8
    columns.put("topology", row, NO_TOPOLOGY)
    columns.put("policy", row, 0)
    columns.put("scope", row, 0)
    columns.put("upstream_policy", row, 0)
    columns.put("upstream_scope", row, 0)
    columns.put("cpu_group", row, 1)
    columns.put("cpu_static", row, UNKNOWN)
    columns.put("memory_static", row, UNKNOWN)
    columns.put("kubelet", row, NEWEST)
    columns.put("hardware_class", row, 0)
