"""NUMAZoneLimit: a pod with `bayplan.io/max-numa-zones: "2"` goes only where its kubelet keeps it within two zones.

Counts the zones of all containers as the kubelet would pick them (`engine/numa/zones_needed.py`). A kubelet that does
not align the pod may use all zones. Nodes without a usable report are refused. `NodeResourceTopologyMatch` checks the
chosen node again with the exact placement.
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
from bayplan.plugins.base import FilterPlugin

NAME = "NUMAZoneLimit"


class ZoneLimit(IntEnum):
    """Why a node is refused."""

    TOO_WIDE = 1
    NOT_KNOWN = 2


@dataclass(frozen=True)
class NumaZoneLimit(FilterPlugin):
    """Filter by the number of zones that a pod would use."""

    assumptions: Assumptions = field(default_factory=Assumptions)
    name: str = NAME
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for pods with a limit."""
        return pod.most_zones is not None

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return one code per node."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        needed = zones_needed(state.columns, state.hardware_classes, demand(pod), numbers, self.assumptions)
        codes = np.where(needed > (pod.most_zones or 0), ZoneLimit.TOO_WIDE, 0).astype(np.uint8)
        codes[needed == NOT_KNOWN] = ZoneLimit.NOT_KNOWN
        return codes

    def cause(self, pod: PodClass, code: int) -> str:
        """Explain a code, with the annotation that sets the limit."""
        asked = f"{MOST_ZONES}: {pod.most_zones}"
        if code == ZoneLimit.NOT_KNOWN:
            return f"NUMA zones are unknown ({asked})"
        return f"the kubelet would use more NUMA zones than allowed ({asked})"
