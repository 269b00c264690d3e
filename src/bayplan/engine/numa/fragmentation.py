"""How much of what is free on a node one aligned pod can have, for all nodes at once.

*Aligned* means inside one NUMA zone. `largest` is the most that one zone has free; `at_best` is the most that one zone
could have free if the same free
amount lay together: all of it, or one whole zone if it is more than that. The fragmentation of nodes is the share of
`at_best` that is out of reach:

    fragmentation = 1 - sum(largest) / sum(at_best)

An idle node has 0, and so has one whose pods fill one zone after another; two zones that are half free each have 0.5.
Nodes without a usable report, and nodes whose kubelet aligns nothing (policy `none`), count as zero in both sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_STALE, TOPOLOGY_USABLE
from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Mask

RowNumbers = NDArray[np.intp]
Amounts = NDArray[np.float64]
MILLI_PER_CPU = 1000.0


@dataclass(frozen=True, slots=True)
class Aligned:
    """What one zone of each node can give of a resource; `by_zone` is [zone, node]."""

    by_zone: Amounts
    largest: Amounts
    at_best: Amounts


def aligned_amounts(state: ClusterState, resource: str, rows: RowNumbers) -> Aligned:
    """The largest aligned amounts of a resource on the nodes of `rows`.

    CPUs are whole, and whole cores under `full-pcpus-only`.
    """
    columns = state.columns
    index = columns.index_of(resource)
    left_on_node = np.maximum(columns.free[index][rows], 0.0)
    in_zones = np.maximum(columns.zone_available[index][:, rows], 0.0)
    by_zone: Amounts = np.where(aligning(state, rows), np.minimum(in_zones, left_on_node), 0.0)
    unit = MILLI_PER_CPU * np.maximum(columns.cpu_group[rows], 1) if resource == CPU else 1.0
    by_zone = np.floor(by_zone / unit) * unit
    free = np.minimum(by_zone.sum(axis=0), left_on_node)
    largest = by_zone.max(axis=0, initial=0.0)
    largest_zone = columns.zone_offered[index][:, rows].max(axis=0, initial=0.0)
    together = np.floor(np.minimum(free, largest_zone) / unit) * unit
    return Aligned(by_zone, largest, np.maximum(together, largest))


def aligning(state: ClusterState, rows: RowNumbers) -> Mask:
    """Nodes whose report can be used and whose kubelet aligns pods."""
    columns = state.columns
    found: Mask = np.isin(columns.topology[rows], (TOPOLOGY_USABLE, TOPOLOGY_STALE)) & (
        columns.policy[rows] != Policy.NONE
    )
    return found


def fragmentation(largest: Amounts, at_best: Amounts) -> Amounts:
    """The share that is out of reach, 0 to 1; NaN where nothing could be aligned at best."""
    share = np.full(np.shape(at_best), np.nan)
    np.divide(at_best - largest, at_best, out=share, where=at_best > 0)
    return share
