"""How close a refused node came: the share of the request that its best zone (or the node as a whole) lacks.

For all refused nodes at once a single number is computed, the missing share of the scarcest resource; the few nodes with the
smallest one are then looked at in detail. Pure arithmetic on columns, used by `scheduling/shortfall.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import Columns
from bayplan.engine.numa.demand import Step
from bayplan.engine.numa.rows import Rows, count

Shares = NDArray[np.float64]


def missing_share_of_node(columns: Columns, asked: Sequence[tuple[str, int]], rows: Rows) -> Shares:
    """Per node: the largest share of any requested amount that the node's sums lack; 0 if nothing is missing."""
    worst = np.zeros(count(rows))
    for name, want in asked:
        index = columns.resource_index.get(name)
        free = np.zeros_like(worst) if index is None else columns.free[index][rows]
        np.maximum(worst, (want - free) / want, out=worst)
    return worst


def missing_share_of_best_zone(columns: Columns, step: Step, rows: Rows) -> Shares:
    """Per node: the same for the zone that comes closest to holding one step."""
    zones = columns.zone_available.shape[1]
    worst = np.zeros((zones, count(rows)))
    for name, want in step.wants:
        index = columns.resource_index.get(name)
        if index is None or not want:
            continue
        missing = (want - columns.zone_available[index][:, rows]) / want
        # Where no zone reports the resource it is not aligned, so it is not what is missing.
        missing[:, ~columns.zone_aligned[index][rows]] = 0.0
        np.maximum(worst, missing, out=worst)
    exists = np.arange(zones)[:, np.newaxis] < columns.zone_count[rows]
    worst[~exists] = np.inf
    closest: Shares = np.clip(worst.min(axis=0), 0.0, None)
    return closest
