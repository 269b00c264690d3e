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
    columns.totals_changed()
    columns.put("topology", row, TOPOLOGY_USABLE)
    columns.put("zone_count", row, len(report.zones))
    cells = columns.cells(tuple([zone.names for zone in report.zones]))
    totals = [total for zone in report.zones for total in zone.totals]
    columns.zone_total[cells.indexes, cells.positions, row] = totals
    offered = [amount for zone in report.zones for amount in zone.offered]
    columns.zone_offered[cells.indexes, cells.positions, row] = offered
    columns.zone_reported[cells.reported, row] = cells.bits
    write_available(columns, row, report)
    largest = columns.zone_total[cells.reported, :, row].max(axis=1)
    columns.zone_total_largest[cells.reported, row] = largest
    for index, most in zip(cells.reported.tolist(), largest.tolist(), strict=True):
        name = columns.resource_names[index]
        # Zones may report a device of which they have none: then no device of the node has a place to align to.
        known = name == CPU or is_memory(name) or most > 0
        columns.put_aligned(index, row, aligned=known)
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
    cells = columns.cells(tuple([zone.names for zone in report.zones]))
    # One write of many cells takes a tenth of many.
    available = [amount for zone in report.zones for amount in zone.available]
    columns.zone_available[cells.indexes, cells.positions, row] = available
    columns.zone_available_sum[cells.reported, row] = columns.zone_available[cells.reported, :, row].sum(axis=1)


def clear_zones(columns: Columns, row: int) -> None:
    """A row as if no report had ever come."""
    if columns.topology[row] == NO_TOPOLOGY:
        return  # none has
    columns.totals_changed()
    zones = (columns.zone_available, columns.zone_total, columns.zone_offered)
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
