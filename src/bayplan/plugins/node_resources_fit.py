"""NodeResourcesFit: does the node as a whole have room, and how much would stay free.

The same sums as kube-scheduler: requests of everything on the node against its allocatable, the number of pods included. The
code of a refusal is the position of the first resource that is short, so that counts can be given per resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import FloatColumn
from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import CPU, MEMORY, PODS
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Codes, Rows
from bayplan.plugins.base import MOST_SCORE, Scores

SCORED = (CPU, MEMORY)


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
        return any(pod.request.total.get(resource) for resource in SCORED)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """1 + the position of the first short resource in `asked_of_node(pod)`."""
        names, amounts = _as_arrays(asked_of_node(pod))
        short = _of_resources(state, names, rows, free=True) < amounts
        if not np.logical_or.reduce(short, axis=None):
            return None
        return np.where(short.any(axis=0), short.argmax(axis=0) + 1, 0).astype(np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """`Insufficient cpu`, as kube-scheduler says it."""
        resource = asked_of_node(pod)[code - 1][0]
        return "Too many pods" if resource == PODS else f"Insufficient {resource}"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Mean over cpu and memory of the share that would stay free (or be used), as a whole number."""
        total = pod.request.total
        _, amounts = _as_arrays(tuple((name, total.get(name, 0)) for name in SCORED))
        allocatable = _of_resources(state, SCORED, rows, free=False)
        kept = _of_resources(state, SCORED, rows, free=True) - amounts
        share = (allocatable - kept if self.most_allocated else kept) * MOST_SCORE
        # A node that offers none of a resource is worth nothing here; so is one that lacks the room.
        share /= np.maximum(allocatable, 1.0)
        np.floor(share, out=share)
        np.minimum(np.maximum(share, 0.0, out=share), float(MOST_SCORE), out=share)
        mean: NDArray[np.float64] = np.add.reduce(share, axis=0) / len(SCORED)
        return mean.astype(np.int32)


@lru_cache(maxsize=4096)
def asked_of_node(pod: PodClass) -> tuple[tuple[str, int], ...]:
    """What the node must have free, one place for the pod first. Amounts of zero ask for nothing."""
    asked = tuple((name, amount) for name, amount in pod.request.total.items() if amount)
    return ((PODS, 1), *asked)


@lru_cache(maxsize=4096)
def _as_arrays(asked: tuple[tuple[str, int], ...]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    return tuple(name for name, _ in asked), np.array([[float(amount)] for _, amount in asked])


def _of_resources(state: ClusterState, names: tuple[str, ...], rows: Rows, *, free: bool) -> FloatColumn:
    """[resource, node] of what is free or allocatable, for some resources and nodes."""
    indexes = state.columns.indexes(names)
    columns = state.columns.free if free else state.columns.allocatable
    return columns[indexes, rows] if isinstance(rows, slice) else columns[indexes[:, np.newaxis], rows]
