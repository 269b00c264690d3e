"""Which nodes can be counted by amounts alone: two marks per row, taken from the nodes' reports and kept up to date.

A report is a Python object, and a count over all nodes must not look at each of them. So `marks_of(state)` keeps, per row, what
`engine/slots.py` needs to know of the report beyond the columns, and looks again only at rows that the change log names.
Reading 5,000 reports the first time takes 2 ms.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.inventory import CpuLayout
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology_report import TopologyReport
from bayplan.engine.kubelet.cpu_assignment import DISTRIBUTE_ACROSS_NUMA
from bayplan.engine.placement import _says_more_than_amounts
from bayplan.engine.rows import Mask


class ReportMarks:
    """Marks per row. `irregular`: amounts are not all that decides there. `distributing`: CPUs are spread over zones."""

    def __init__(self) -> None:
        self.irregular: Mask = np.zeros(0, dtype=np.bool_)
        self.distributing: Mask = np.zeros(0, dtype=np.bool_)
        self._reports: list[TopologyReport | None] = []
        self._cursor = -1

    def refresh(self, state: ClusterState) -> ReportMarks:
        """Bring the marks up to date with the state's change log: whoever reports anew is in it."""
        if self._cursor == state.usage_log.end and len(self._reports) == state.columns.size:
            return self
        rows = state.usage_log.since(self._cursor)
        added = state.columns.size - len(self._reports)
        if added:
            self.irregular = np.concatenate((self.irregular, np.zeros(added, dtype=np.bool_)))
            self.distributing = np.concatenate((self.distributing, np.zeros(added, dtype=np.bool_)))
            self._reports += [None] * added
        self._look_at(state, range(state.columns.size) if rows is None or added else rows.tolist())
        self._cursor = state.usage_log.end
        return self

    def _look_at(self, state: ClusterState, rows: range | list[int]) -> None:
        known: dict[int, tuple[bool, bool]] = {}
        for row in rows:
            report = state.reports[row]
            if report is self._reports[row]:
                continue
            self._reports[row] = report
            marks = known.get(id(report))
            if marks is None:
                marks = known[id(report)] = (_irregular(report), _distributing(report)) if report else (False, False)
            self.irregular[row], self.distributing[row] = marks


_MARKS: WeakKeyDictionary[ClusterState, ReportMarks] = WeakKeyDictionary()


def marks_of(state: ClusterState) -> ReportMarks:
    """The marks of a state's rows as of now."""
    marks = _MARKS.get(state)
    if marks is None:
        marks = _MARKS[state] = ReportMarks()
    return marks.refresh(state)


def _irregular(report: TopologyReport) -> bool:
    uneven = report.inventory is not None and _uneven(report.inventory.cpus)
    return uneven or _says_more_than_amounts(report)


def _uneven(cpus: CpuLayout) -> bool:
    """Cores or sockets of different sizes: the kubelet goes by their average and may hand out a CPU twice."""
    return any(len({unit.bit_count() for unit in units.values()}) > 1 for units in (cpus.by_core, cpus.by_socket))


def _distributing(report: TopologyReport) -> bool:
    """Spreading over zones may fail although there are enough CPUs; inside one zone it never does."""
    return DISTRIBUTE_ACROSS_NUMA in report.settings.cpu_options
