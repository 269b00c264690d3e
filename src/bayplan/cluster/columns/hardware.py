"""Hardware classes: nodes with the same NUMA ids and the same distances share one set of subset tables.

A cluster of thousands of nodes has a handful of machine models. What depends only on the model (which sets of zones
exist, in which order the kubelet prefers them, how far apart they are) is computed once per class by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.reports.topology_report import UNKNOWN_DISTANCE, TopologyReport


@dataclass(frozen=True, slots=True)
class HardwareClass:
    """Ascending NUMA ids and the distance from each zone (row) to each zone (column)."""

    zone_ids: tuple[int, ...]
    distances: tuple[tuple[int, ...], ...]
    prefer_closest: bool = False

    @property
    def zone_count(self) -> int:
        """How many zones a node of this class has."""
        return len(self.zone_ids)


def hardware_of(report: TopologyReport) -> HardwareClass:
    """The class of a reported node; an unreported distance counts as unknown (255)."""
    ids = tuple(zone.id for zone in report.zones)
    distances = tuple(tuple(zone.costs.get(other, UNKNOWN_DISTANCE) for other in ids) for zone in report.zones)
    return HardwareClass(ids, distances, report.settings.prefer_closest)
