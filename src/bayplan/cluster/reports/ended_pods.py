"""Pods that ended but are still listed by a node's report, or may be listed for the first time by a report in flight.

An end is *over* when no report will list the pod any more: either a report listed it and a later one does not
(`cluster/reports/ledger.py`), or a report was made after the end and does not list it. If moments are unknown, only the
first tells. A pod may come and go between two reports. So that its node does not wait endlessly for a report that lists
it, the pod is no longer *expected* after a few reports without it, or after a while without any: an agent does not
report again what has not changed. If a very late report lists it after all, what it held is still added back.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from bayplan.cluster.reports.ledger import REPORTS_WITHIN
from bayplan.cluster.reports.topology_report import TopologyReport

# Per node: pods that ended before any report listed them. One that is late may do so, but most of them never will be.
MOST_NEVER_LISTED = 32
# After this many reports without a pod, a report that lists it is no longer expected.
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

    def give_up(self, row: int, now: float) -> None:
        """Expect no report any more that lists pods which ended long ago."""
        for end in self._ends.get(row, ()):
            if end.at is not None and now >= end.at + REPORTS_WITHIN:
                end.reports_without = REPORTS_WITHOUT

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
