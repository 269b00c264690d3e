"""Which rows changed, in order: the list from which cached answers are repaired instead of recomputed.

Every change of a row is appended once. A reader keeps a cursor and asks for the rows since; when the log has been
trimmed past the cursor the answer is "everything", so a reader that slept long costs one full evaluation, never a wrong
one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class ChangeLog:
    """An append-only list of row numbers with a moving start."""

    def __init__(self, keep: int = 65_536) -> None:
        self._rows: list[int] = []
        self._start = 0
        self._keep = keep

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen everything."""
        return self._start + len(self._rows)

    def append(self, row: int) -> None:
        """Note that a row changed."""
        self._rows.append(row)
        if len(self._rows) > 2 * self._keep:
            self._start += len(self._rows) - self._keep
            del self._rows[: -self._keep]

    def since(self, cursor: int) -> Rows | None:
        """The distinct rows changed since `cursor`, or None if the log no longer reaches back that far."""
        if cursor < self._start:
            return None
        recent = self._rows[cursor - self._start :]
        if len(recent) > 1:
            recent = list(dict.fromkeys(recent))
        return np.array(recent, dtype=np.intp)
