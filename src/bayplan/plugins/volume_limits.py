"""VolumeRestrictions and NodeVolumeLimits: volumes that pods cannot share, and how many a node can attach.

The rules and the words are kube-scheduler 1.36's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Codes, Rows
from bayplan.plugins.base import FilterPlugin

DISK_IN_USE, CLAIM_IN_USE = 1, 2
CAUSES = {
    DISK_IN_USE: "node(s) had no available disk",
    CLAIM_IN_USE: (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod"
    ),
}


@dataclass(frozen=True, slots=True)
class VolumeRestrictions(FilterPlugin):
    """A ReadWriteOncePod claim has one pod; some kinds of disks have one pod of a node."""

    name: str = "VolumeRestrictions"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for pods with such disks, or whose claim another pod holds."""
        return bool(pod.volumes.in_use or pod.volumes.disks)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return the code of each node."""
        codes = np.full(state.columns.size, CLAIM_IN_USE if pod.volumes.in_use else 0, dtype=np.uint8)
        left = {state.volumes.row_left_by_holders(claim) for claim in pod.volumes.in_use}
        if len(left) == 1:
            codes[[row for row in left if row is not None]] = 0
        for disk in pod.volumes.disks:
            for held, row in state.volumes.disks_like(disk):
                if disk.conflicts(held):
                    codes[row] = DISK_IN_USE
        return codes[rows]

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return CAUSES[code]


@dataclass(frozen=True, slots=True)
class NodeVolumeLimits(FilterPlugin):
    """A node attaches as many volumes of a CSI driver as its CSINode says."""

    name: str = "NodeVolumeLimits"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for pods with volumes of a limited driver."""
        return bool(pod.volumes.attached)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for nodes without room."""
        size, attached = state.columns.size, state.volumes.attached
        refused = np.zeros(size, dtype=np.bool_)
        for driver, number in pod.volumes.attached:
            asked = np.full(size, number, dtype=np.int64)
            for of_driver, claim in pod.volumes.shared:
                if of_driver == driver:
                    asked[list(attached.rows_with(claim))] -= 1
            # A pod whose volumes are all there passes also where the limit is exceeded.
            refused |= (asked > 0) & (asked > attached.room(driver, size))
        return refused[rows].astype(np.uint8)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Check one node."""
        attached = state.volumes.attached
        for driver, number in pod.volumes.attached:
            claims = [claim for of_driver, claim in pod.volumes.shared if of_driver == driver]
            asked = number - sum(row in attached.rows_with(claim) for claim in claims)
            if asked > 0 and asked > attached.room_on(driver, row):
                return 1
        return 0

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) exceed max volume count"
