"""The kubelet's admission of one pod on one node, replayed exactly.

`admit(node, pod)` returns every container's place or the reason against it. `node.py` is what must be known about a
node. Start at `replay.py`.
"""

from bayplan.engine.kubelet.merge import Hint, admits, merge
from bayplan.engine.kubelet.node import (
    CpuLayout,
    Device,
    NodeKnowledge,
    ZoneCounts,
    ZoneMemory,
    from_counts,
    with_inventory,
)
from bayplan.engine.kubelet.replay import admit
from bayplan.engine.kubelet.verdict import (
    REPORT_BEHIND,
    TOO_MANY_ZONES,
    Admission,
    ContainerPlacement,
    MemoryBlock,
    NearestMiss,
)

__all__ = [
    "REPORT_BEHIND",
    "TOO_MANY_ZONES",
    "Admission",
    "ContainerPlacement",
    "CpuLayout",
    "Device",
    "Hint",
    "MemoryBlock",
    "NearestMiss",
    "NodeKnowledge",
    "ZoneCounts",
    "ZoneMemory",
    "admit",
    "admits",
    "from_counts",
    "merge",
    "with_inventory",
]
