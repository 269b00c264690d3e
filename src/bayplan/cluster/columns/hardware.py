"""Hardware classes: nodes with the same NUMA ids and the same distances share one set of subset tables.

A cluster of thousands of nodes has a handful of machine models. What depends only on the model (which sets of zones
exist, in which order the kubelet prefers them, how far apart they are) is computed once per class by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.zone_reports import UNKNOWN_DISTANCE


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


class HardwareClasses(list[HardwareClass]):
    """All classes by number. Number 0 is the class of nodes without zones."""

    def __init__(self) -> None:
        self._numbers: dict[HardwareClass, int] = {}
        self.number_of(HardwareClass((), ()))

    def number_of(self, hardware: HardwareClass) -> int:
        """The number of a class, which is new if no node had it before."""
        number = self._numbers.setdefault(hardware, len(self))
        if number == len(self):
            self.append(hardware)
        return number


def hardware_of(report: TopologyReport) -> HardwareClass:
    """The class of a reported node; an unreported distance counts as unknown (255)."""
    ids = tuple(zone.id for zone in report.zones)
    distances = tuple([tuple([zone.costs.get(other, UNKNOWN_DISTANCE) for other in ids]) for zone in report.zones])
    return HardwareClass(ids, distances, report.settings.prefer_closest)
