"""What a count of slots must know of the nodes' reports beyond the columns, kept per row and up to date.

A report is a Python object, and a count over all nodes must not look at each of them. So `reports_of(state)` keeps two
marks per row for `engine/slots/slots.py` and looks again only at rows that the change log names; reading 5,000 reports
the first time takes 2 ms. For `engine/slots/replay.py` it numbers reports by `kind`: equal numbers stand for the same
machine and settings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.reports.inventory import CpuLayout
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet.cpu_assignment import DISTRIBUTE_ACROSS_NUMA
from bayplan.engine.numa.placement import says_more_than_amounts
from bayplan.engine.numa.rows import Mask

# A node may describe another machine in each of its reports. Beyond this many the numbers start anew.
MOST_KINDS = 1024


class SeenReports:
    """Marks per row.

    `irregular`: amounts are not all that decides there. `distributing`: CPUs are spread over zones.
    """

    def __init__(self) -> None:
        self.irregular: Mask = np.zeros(0, dtype=np.bool_)
        self.distributing: Mask = np.zeros(0, dtype=np.bool_)
        self._reports: list[TopologyReport | None] = []
        self._kinds: dict[int, int] = {}
        self._kind_numbers: dict[Hashable, int] = {}
        self._next_kind = 0
        self._cursor = -1

    def refresh(self, state: ClusterState) -> SeenReports:
        """Look at the rows in the state's change log, which include every node with a new report."""
        added = state.columns.size - len(self._reports)
        if self._cursor == state.usage_log.end and not added:
            return self
        changed = state.usage_log.since(self._cursor)
        self._cursor = state.usage_log.end
        if added:
            none_yet = np.zeros(added, dtype=np.bool_)
            self.irregular = np.concatenate((self.irregular, none_yet))
            self.distributing = np.concatenate((self.distributing, none_yet))
            self._reports += [None] * added
        self._look_at(state, range(state.columns.size) if changed is None or added else changed.tolist())
        return self

    def kind(self, row: int) -> int:
        """The number of a row's report: reports that differ only in what is available have the same."""
        number = self._kinds.get(row)
        if number is None:
            report = self._reports[row]
            assert report is not None
            machine = _machine_and_settings(report)
            number = self._kind_numbers.get(machine)
            if number is None:
                if len(self._kind_numbers) >= MOST_KINDS:
                    self._kind_numbers.clear()
                # Never used again: counts are kept by it.
                number = self._kind_numbers[machine] = self._next_kind
                self._next_kind += 1
            self._kinds[row] = number
        return number

    def _look_at(self, state: ClusterState, rows: Iterable[int]) -> None:
        marks_of: dict[int, tuple[bool, bool]] = {}
        for row in rows:
            report = state.reports[row]
            if report is self._reports[row]:
                continue
            self._reports[row] = report
            self._kinds.pop(row, None)
            marks = marks_of.get(id(report))
            if marks is None:
                marks = marks_of[id(report)] = (_irregular(report), _distributing(report)) if report else (False, False)
            self.irregular[row], self.distributing[row] = marks


_SEEN: WeakKeyDictionary[ClusterState, SeenReports] = WeakKeyDictionary()


def reports_of(state: ClusterState) -> SeenReports:
    """What is known of a state's reports as of now."""
    seen = _SEEN.get(state)
    if seen is None:
        seen = _SEEN[state] = SeenReports()
    return seen.refresh(state)


def _irregular(report: TopologyReport) -> bool:
    uneven = report.inventory is not None and _uneven(report.inventory.cpus)
    return uneven or says_more_than_amounts(report)


def _uneven(cpus: CpuLayout) -> bool:
    """Cores or sockets of different sizes: the kubelet goes by their average and may hand out a CPU twice."""
    return any(len({unit.bit_count() for unit in units.values()}) > 1 for units in (cpus.by_core, cpus.by_socket))


def _distributing(report: TopologyReport) -> bool:
    """Spreading over zones may fail although there are enough CPUs; inside one zone it never does."""
    return DISTRIBUTE_ACROSS_NUMA in report.settings.cpu_options


def _machine_and_settings(report: TopologyReport) -> Hashable:
    zones = tuple(
        (
            zone.id,
            zone.memory_group,
            tuple(zone.costs.items()),
            tuple((name, amounts.total_of(name)) for name, amounts in zone.resources.items()),
        )
        for zone in report.zones
    )
    listed = report.inventory
    return report.settings, zones, None if listed is None else (listed.cpus, listed.reserved_cpus)
