"""What a map shows of every node, by row, repaired for changed rows only; and the last maps, to tell what changed.

Free amounts are in the cluster's own columns. Fragmentation and the moments of reports are read from report objects,
one by one, so they are kept here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.fragmentation import aligned_amounts, fragmentation

Whole = NDArray[np.int64]
Rows = NDArray[np.intp]
UNKNOWN = -1
# Of each map, this many versions are kept: pages that are further behind get all of it.
MOST_VERSIONS = 8
MOST_MAPS = 16


class MapColumns:
    """Columns over the rows of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._seen = (0, 0)
        self._shares: dict[str, Whole] = {}
        self._reported_at: Whole = np.zeros(0, dtype=np.int64)
        self.versions = Versions()

    def refresh(self, resources: list[str]) -> None:
        """Take over what has changed; a resource that was not shown before is read for all nodes."""
        state = self._state
        changed = self._changed()
        size = len(state.names)
        self._reported_at = _grown(self._reported_at, size)
        self._reported_at[changed] = [self._moment(row) for row in changed.tolist()]
        for name in resources:
            known = self._shares.get(name)
            rows = changed if known is not None else np.arange(size, dtype=np.intp)
            column = _grown(known if known is not None else np.zeros(0, dtype=np.int64), size)
            column[rows] = self._fragmentation(name, rows)
            self._shares[name] = column
        self._shares = {name: self._shares[name] for name in resources}

    def fragmentation(self, resource: str) -> Whole:
        """By row, percent of what is free in zones that no aligned pod can use; -1 if zones are unknown."""
        return self._shares[resource]

    @property
    def reported_at(self) -> Whole:
        """By row, when the node's report was made, in seconds since 1970; -1 if that is unknown."""
        return self._reported_at

    def _changed(self) -> Rows:
        logs = (self._state.usage_log, self._state.node_log)
        found = [log.since(seen) for log, seen in zip(logs, self._seen, strict=True)]
        self._seen = (logs[0].end, logs[1].end)
        if any(each is None for each in found):
            return np.arange(len(self._state.names), dtype=np.intp)
        rows: Rows = np.unique(np.concatenate([each for each in found if each is not None]))
        return rows

    def _moment(self, row: int) -> int:
        report = self._state.reports[row]
        return UNKNOWN if report is None or report.made_at is None else round(report.made_at)

    def _fragmentation(self, resource: str, rows: Rows) -> Whole:
        amounts = aligned_amounts(self._state, resource, rows)
        shares = fragmentation(amounts.largest, amounts.at_best)
        percent = np.where(np.isnan(shares), UNKNOWN, np.round(100 * np.nan_to_num(shares)))
        return percent.astype(np.int64)


def _grown(column: Whole, size: int) -> Whole:
    if len(column) >= size:
        return column
    longer = np.full(size, UNKNOWN, dtype=np.int64)
    longer[: len(column)] = column
    return longer


@dataclass(frozen=True, slots=True)
class Version:
    """A map as it was sent: `order` is the same object as long as its nodes stand in the same order."""

    name: str
    order: Any
    columns: Mapping[str, Whole]


class Versions:
    """The last versions of each map, by what was asked for."""

    def __init__(self) -> None:
        self._numbers = count(1)
        # Another process, or the same file read again, must not be taken for this one.
        self._prefix = token_hex(4)
        self._kept: OrderedDict[Any, list[Version]] = OrderedDict()

    def current(self, asked: Any, order: Any, columns: Mapping[str, Whole]) -> Version:
        """The version of these columns: the last one if nothing differs, else a new one."""
        versions = self._kept.setdefault(asked, [])
        self._kept.move_to_end(asked)
        if len(self._kept) > MOST_MAPS:
            self._kept.popitem(last=False)
        if versions and (changed := changed_since(versions[-1], order, columns)) is not None and not len(changed):
            return versions[-1]
        versions.append(Version(f"{self._prefix}-{next(self._numbers)}", order, columns))
        del versions[:-MOST_VERSIONS]
        return versions[-1]

    def named(self, asked: Any, name: str) -> Version | None:
        """An earlier version; None if it is not known any more."""
        return next((each for each in self._kept.get(asked, ()) if each.name == name), None)


def changed_since(version: Version, order: Any, columns: Mapping[str, Whole]) -> Rows | None:
    """Positions at which columns differ from a version; None if they are not comparable."""
    if version.order is not order or version.columns.keys() != columns.keys():
        return None
    differs = np.zeros(len(next(iter(columns.values()), ())), dtype=bool)
    for name, column in columns.items():
        differs |= version.columns[name] != column
    found: Rows = np.flatnonzero(differs)
    return found
