"""The requests of all parked pod classes in one table, to rule out hopeless classes at once.

Updating the answer of a class takes 10 us, and thousands of classes may be parked. A changed node cannot help a class
that requests more than the node has free in total. Comparing 2,000 classes with one node takes 50 us.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from bayplan.cluster.columns.columns import FloatColumn
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Rows

# More rows than these are represented by their largest amounts.
ROW_BY_ROW = 32
# Every node has enough of a resource that is not requested, and no node has enough for an unused line.
NOT_ASKED, UNUSED = -np.inf, np.inf

_Class = TypeVar("_Class", bound=Hashable)


class ParkedClasses(Generic[_Class]):
    """The total request of each parked class, one line of the table each."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        # Requests by resource name, to rebuild the table when the columns change.
        self._asked_by_name: dict[_Class, tuple[tuple[str, int], ...]] = {}
        self._names_version = state.columns.names_version
        self._asked: FloatColumn = np.full((0, 0), UNUSED)
        self._classes: list[_Class | None] = []
        self._line_of: dict[_Class, int] = {}
        self._free_lines: list[int] = []

    def add(self, parked: _Class, asked: Iterable[tuple[str, int]]) -> None:
        """Add a parked class with these requests, unless present."""
        if parked in self._line_of:
            return
        columns = self._state.columns
        asked = self._asked_by_name[parked] = tuple(asked)
        amounts = [(columns.index_of(name), amount) for name, amount in asked]
        if not self._free_lines:
            self._free_lines.append(len(self._classes))
            self._classes.append(None)
        line = self._free_lines.pop()
        self._grow(line + 1, len(columns.resource_names))
        self._classes[line] = parked
        self._line_of[parked] = line
        self._asked[line] = NOT_ASKED
        for index, amount in amounts:
            self._asked[line, index] = max(self._asked[line, index], amount)

    def discard(self, parked: _Class) -> None:
        """Remove a class, if it is there."""
        if parked not in self._line_of:
            return
        del self._asked_by_name[parked]
        line = self._line_of.pop(parked)
        self._classes[line] = None
        self._asked[line] = UNUSED
        self._free_lines.append(line)

    def that_may_fit(self, rows: Rows) -> list[_Class]:
        """The classes for which one of the rows has enough of everything in total."""
        columns = self._state.columns
        if self._names_version != columns.names_version:
            # A resource appeared or disappeared, which some classes may request.
            self._names_version = columns.names_version
            for parked, asked in list(self._asked_by_name.items()):
                self.discard(parked)
                self.add(parked, asked)
        free = columns.free[: self._asked.shape[1]][:, rows]
        if free.shape[1] > ROW_BY_ROW:
            free = free.max(axis=1, keepdims=True)
        fit = np.zeros(len(self._asked), dtype=np.bool_)
        for amounts in free.T:
            fit |= (self._asked <= amounts).all(axis=1)
        return [found for line in np.flatnonzero(fit) if (found := self._classes[line]) is not None]

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[_Class]:
        return iter(list(self._line_of))

    def _grow(self, lines: int, resources: int) -> None:
        """Make room for `lines` lines of `resources` resources; existing classes do not request the new resources."""
        lines_before, resources_before = self._asked.shape
        if lines > lines_before or resources > resources_before:
            doubled = 2 * lines_before if lines > lines_before else lines_before
            grown = np.full((max(lines, doubled), resources), UNUSED)
            grown[:lines_before, :resources_before] = self._asked
            grown[:lines_before, resources_before:] = NOT_ASKED
            self._asked = grown
