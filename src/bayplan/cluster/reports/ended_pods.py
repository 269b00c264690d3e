"""Pods that ended and that a node's report lists still, or that one on its way may list for the first time.

An end is *over* when no report will list the pod any more: one listed it and then no longer does (`cluster/reports/ledger.py`), or one was
made after the end and does not list it. Where nobody knows moments, nothing but the first tells. So that a node does not wait for
ever for a report that lists a pod which came and went between two of them, such a pod is no longer *expected* after a few reports
without it; what it held is added back all the same should a very late one list it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from bayplan.cluster.reports.topology_report import TopologyReport

# Per node: pods that ended before any report listed them. One that is late may do so, but most of them never will be.
MOST_NEVER_LISTED = 32
# Reports without a pod, after which nobody waits for one that lists it.
REPORTS_WITHOUT = 3


@dataclass(slots=True)
class _End:
    key: str
    at: float | None
    reports_without: int = 0


class EndedPods:
    """By row, in the order of their ends; a name may be there more than once."""

    def __init__(self) -> None:
        self._ends: dict[int, list[_End]] = {}

    def add(self, row: int, key: str, at: float | None, listed: Container[str]) -> None:
        """A pod ended, at a moment if that is known; `listed` are the pods of the node's latest report."""
        ends = self._ends.setdefault(row, [])
        ends.append(_End(key, at))
        never_listed = [end for end in ends if end.key not in listed]
        if len(never_listed) > MOST_NEVER_LISTED:
            ends.remove(never_listed[0])

    def on(self, row: int) -> list[str]:
        """The pods of a row that are not over."""
        return [end.key for end in self._ends.get(row, ())]

    def expected(self, row: int) -> list[str]:
        """Those of them that the next report may well list."""
        return [end.key for end in self._ends.get(row, ()) if end.reports_without < REPORTS_WITHOUT]

    def look_at(self, row: int, report: TopologyReport) -> list[str]:
        """The pods that are not over after a new report, as far as its moment tells."""
        kept = [end for end in self._ends.pop(row, ()) if not _over(end, report)]
        if kept:
            self._ends[row] = kept
        return [end.key for end in kept]

    def keep(self, row: int, keys: list[str]) -> None:
        """Only these are not over; the others are forgotten."""
        ends = self._ends.pop(row, [])
        kept = []
        for key in keys:
            end = next(each for each in ends if each.key == key)
            ends.remove(end)
            kept.append(end)
        if kept:
            self._ends[row] = kept

    def clear(self, row: int) -> None:
        """The node or its report is gone."""
        self._ends.pop(row, None)


def _over(end: _End, report: TopologyReport) -> bool:
    if report.pods is None or end.key in report.pods:
        end.reports_without = 0
        return False
    if end.at is not None and report.made_at is not None:
        return report.made_at >= end.at
    end.reports_without += 1
    return False
