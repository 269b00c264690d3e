"""NUMAZoneLimit: a pod that says `bayplan.io/max-numa-zones: "2"` goes only where its kubelet keeps it within two NUMA zones.

The zones of all containers count, as the node's kubelet would pick them (`engine/numa/zones_needed.py`). A kubelet that does not align the pod may use all
zones of the node: one with policy `none`, or one whose managers pin nothing of the pod. A node without a usable report is refused, because its zones are unknown.
The node that is chosen is checked again by the exact placement (`NodeResourceTopologyMatch`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from bayplan.cluster.pods.pod_class import MOST_ZONES, PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.rows import Codes, Rows
from bayplan.engine.numa.zones_needed import NOT_KNOWN, zones_needed
from bayplan.plugins.base import of_one_node

NAME = "NUMAZoneLimit"


class ZoneLimit(IntEnum):
    """Why a node is refused."""

    TOO_WIDE = 1
    NOT_KNOWN = 2


@dataclass(frozen=True)
class NumaZoneLimit:
    """Filter by the number of zones that a pod would get."""

    assumptions: Assumptions = field(default_factory=Assumptions)
    name: str = NAME
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """To pods with a limit."""
        return pod.most_zones is not None

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """One code per node."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        needed = zones_needed(state.columns, state.hardware_classes, demand(pod), numbers, self.assumptions)
        codes = np.where(needed > (pod.most_zones or 0), ZoneLimit.TOO_WIDE, 0).astype(np.uint8)
        codes[needed == NOT_KNOWN] = ZoneLimit.NOT_KNOWN
        return codes

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Why, with the annotation that asks for it."""
        asked = f"{MOST_ZONES}: {pod.most_zones}"
        if code == ZoneLimit.NOT_KNOWN:
            return f"NUMA zones are unknown ({asked})"
        return f"the kubelet would use more NUMA zones than allowed ({asked})"
