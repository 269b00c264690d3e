"""NodeResourcesFit: does the node as a whole have room, and how much would stay free.

The same sums as kube-scheduler: requests of everything on the node against its allocatable, the number of pods included. The
code of a refusal is the position of the first resource that is short, so that counts can be given per resource.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import CPU, MEMORY, PODS
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Codes, Rows, count
from bayplan.plugins.base import MOST_SCORE, Scores


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """Filter and LeastAllocated (or MostAllocated) score on the node's sums."""

    most_allocated: bool = False
    name: str = "NodeResourcesFit"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """Always: every pod takes at least one place on the node."""
        return True

    def applies_score(self, pod: PodClass) -> bool:
        """Only cpu and memory are scored."""
        return any(pod.request.total.get(resource) for resource in (CPU, MEMORY))

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """1 + the position of the first short resource in `asked_of_node(pod)`."""
        columns = state.columns
        codes = np.zeros(count(rows, columns.size), dtype=np.uint8)
        for position, (name, amount) in enumerate(asked_of_node(pod), start=1):
            index = columns.resource_index.get(name)
            short = True if index is None else columns.free[index][rows] < amount
            codes[short & (codes == 0)] = position
        return codes

    def cause(self, pod: PodClass, code: int) -> str:
        """`Insufficient cpu`, as kube-scheduler says it."""
        resource = asked_of_node(pod)[code - 1][0]
        return "Too many pods" if resource == PODS else f"Insufficient {resource}"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Mean over cpu and memory of the share that would stay free (or be used), as a whole number."""
        columns = state.columns
        total = np.zeros(count(rows, columns.size))
        scored = 0
        for name in (CPU, MEMORY):
            index = columns.resource_index.get(name)
            if index is None:
                continue
            scored += 1
            allocatable = columns.allocatable[index][rows]
            left = columns.free[index][rows] - pod.request.total.get(name, 0)
            kept = allocatable - left if self.most_allocated else left
            share = np.zeros_like(total)
            np.divide(kept * MOST_SCORE, allocatable, out=share, where=allocatable > 0)
            total += np.floor(np.clip(share, 0, MOST_SCORE))
        return (total / max(scored, 1)).astype(np.int32)


def asked_of_node(pod: PodClass) -> list[tuple[str, int]]:
    """What the node must have free, one place for the pod first. Amounts of zero ask for nothing."""
    asked = [(name, amount) for name, amount in pod.request.total.items() if amount]
    return [(PODS, 1), *asked]
