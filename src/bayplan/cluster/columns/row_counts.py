"""How many of something stand on which rows, and on none of the others.

Thousands of selectors are counted at once, most of them for pods on a few nodes: so only rows that have any are kept,
in two short arrays that NumPy reads at once. A pod that comes or goes changes one entry.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

_AT_FIRST = 8
# Never used twice, so that counts which were dropped and made again are not taken for the old ones.
_versions = count()


class RowCounts:
    """Counts by row; a row whose count falls to zero is forgotten."""

    def __init__(self) -> None:
        self.version = next(_versions)
        """Another number whenever a count changes."""
        self._place: dict[int, int] = {}
        self._rows: NDArray[np.intp] = np.zeros(_AT_FIRST, dtype=np.intp)
        self._counts: NDArray[np.float64] = np.zeros(_AT_FIRST, dtype=np.float64)

    def add(self, row: int, change: int) -> None:
        """Count more or fewer on a row."""
        self.version = next(_versions)
        place = self._place.get(row)
        if place is None:
            place = self._place[row] = len(self._place)
            if place == len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
                self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
            self._rows[place] = row
            self._counts[place] = change
        else:
            self._counts[place] += change
        if not self._counts[place]:
            self._forget(row, place)

    def __bool__(self) -> bool:
        return bool(self._place)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows that have any, in no particular order."""
        return self._rows[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.float64]:
        """The counts of `rows`; floats that hold whole numbers, because sums are taken with weights."""
        return self._counts[: len(self._place)]

    def per_row(self, size: int) -> NDArray[np.float64]:
        """The counts of all `size` rows."""
        found = np.zeros(size)
        found[self.rows] = self.counts
        return found

    def by_code(
        self, codes: NDArray[np.int32], most: int, among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """The counts summed up by the code of their row (below `most`), of all rows or of those
        that a mask includes.
        """
        if not self._place:
            return np.zeros(most)
        rows, counts = self.rows, self.counts
        weights = counts if among is None else counts * among[rows]
        return np.bincount(codes[rows], weights, most).astype(np.float64, copy=False)

    def _forget(self, row: int, place: int) -> None:
        """The last entry takes the place that became free."""
        last = len(self._place) - 1
        moved = int(self._rows[last])
        self._rows[place], self._counts[place] = moved, self._counts[last]
        self._place[moved] = place
        del self._place[row]
