"""Which nodes a function looks at: all of them (a slice, no copy) or a few (an index array, small copies)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_UNCLEAR, TOPOLOGY_USABLE

# A slice always has a start and a stop, so that its length is a subtraction.
Rows = slice | NDArray[np.intp]
Mask = NDArray[np.bool_]
Codes = NDArray[np.uint8]


def count(rows: Rows) -> int:
    """How many nodes `rows` stands for."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def among(rows: Rows, chosen: Mask) -> NDArray[np.intp]:
    """Row numbers of the nodes for which `chosen` (aligned with `rows`) is true."""
    picked = np.nonzero(chosen)[0]
    return picked + rows.start if isinstance(rows, slice) else rows[picked]


MOST_SCORE = 100
Scores = NDArray[np.int32]


def reads_report(topology: NDArray[np.int8]) -> Mask:
    """Where scheduler-plugins has a report to judge by.

    What is unclear about a kubelet is clear to it: an unknown policy means none.
    """
    known: Mask = (topology == TOPOLOGY_USABLE) | (topology == TOPOLOGY_UNCLEAR)
    return known
