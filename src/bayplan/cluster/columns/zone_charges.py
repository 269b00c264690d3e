"""Taking from zones and giving back: what pods hold, as arithmetic on one row of the columns.

`cluster/state.py` decides who takes what; nothing else changes what is left in a zone between two reports
(`cluster/columns/zone_rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.reports.inventory import ZoneHoldings
from bayplan.cluster.reports.ledger import Charges, ZoneCharge
from bayplan.cluster.reports.pod_zones import Holding
from bayplan.cluster.reports.topology_report import TopologyReport


def take(columns: Columns, row: int, charges: Sequence[ZoneCharge]) -> Charges:
    """Subtract from zones, never below zero: a late report may already show less than was promised.

    Returned is what was there.
    """
    taken = []
    for charge in charges:
        left = columns.zone_available[charge.resource, charge.zone, row]
        amount = max(min(float(left), charge.amount), 0.0)
        columns.zone_available[charge.resource, charge.zone, row] = left - amount
        columns.zone_available_sum[charge.resource, row] -= amount
        taken.append(charge if amount == charge.amount else replace(charge, amount=amount))
    return tuple(taken)


def give(columns: Columns, row: int, charges: Charges) -> None:
    """Add to zones, never beyond what they have in all: a report may show as free what it says a pod holds."""
    for charge in charges:
        left = columns.zone_available[charge.resource, charge.zone, row]
        amount = min(float(columns.zone_total[charge.resource, charge.zone, row] - left), charge.amount)
        columns.zone_available[charge.resource, charge.zone, row] = left + amount
        columns.zone_available_sum[charge.resource, row] += amount


def charges_of(columns: Columns, holdings: Iterable[Holding]) -> Charges:
    """Holdings by name as charges by number.

    A report that cannot be used may name zones and resources that have no column: nothing is held there.
    """
    zones = columns.zone_available.shape[1]
    return tuple(
        ZoneCharge(columns.resource_index[name], zone, float(amount))
        for name, zone, amount in holdings
        if zone < zones and name in columns.resource_index
    )


def held_of(columns: Columns, report: TopologyReport, entry: ZoneHoldings) -> Charges:
    """What a list says that a pod holds; zones and resources that the report does not have are passed over."""
    return charges_of(
        columns,
        (
            (name, position, in_zones[zone.id])
            for name, in_zones in entry.items()
            for position, zone in enumerate(report.zones)
            if zone.id in in_zones and name in zone.resources
        ),
    )
