"""Which nodes a function looks at: all of them (a slice, no copy) or a few (an index array, small copies)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = slice | NDArray[np.intp]
Mask = NDArray[np.bool_]
Codes = NDArray[np.uint8]


def count(rows: Rows, size: int) -> int:
    """How many nodes `rows` stands for in a cluster of `size` rows."""
    return len(range(*rows.indices(size))) if isinstance(rows, slice) else len(rows)


def among(rows: Rows, chosen: Mask) -> NDArray[np.intp]:
    """Row numbers of the nodes for which `chosen` (aligned with `rows`) is true."""
    picked = np.nonzero(chosen)[0]
    return picked + (rows.start or 0) if isinstance(rows, slice) else rows[picked]
