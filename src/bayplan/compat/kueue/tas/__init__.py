"""Kueue's way of placing pod sets in a topology: `place(snapshot, pod_sets)` gives assignments, or Kueue's reasons.

`snapshot_of` makes the cluster's side. Start reading in `placement.py`, then `search.py`.
"""

from bayplan.compat.kueue.tas.model import (
    Assignment,
    Host,
    Leaf,
    Outcome,
    PodSet,
    Profile,
    RunningWorkload,
    Settings,
    SliceLayer,
    TopologyRequest,
)
from bayplan.compat.kueue.tas.placement import place
from bayplan.compat.kueue.tas.snapshot import Snapshot, snapshot_of

__all__ = [
    "Assignment",
    "Host",
    "Leaf",
    "Outcome",
    "PodSet",
    "Profile",
    "RunningWorkload",
    "Settings",
    "SliceLayer",
    "Snapshot",
    "TopologyRequest",
    "place",
    "snapshot_of",
]
