"""Scores by how much of a node's resources is requested:
NodeResourcesFit's strategies and NodeResourcesBalancedAllocation.

The formulas are kube-scheduler 1.36's, on node totals. A resource that a node lacks does not count there, nor does an
extended resource that the pod does not request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import FIRST_RESOURCES
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Rows, Scores, count
from bayplan.plugins.base import ScorePlugin

LEAST_ALLOCATED, MOST_ALLOCATED, TO_CAPACITY_RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, TO_CAPACITY_RATIO)
CPU_AND_MEMORY = tuple((name, 1) for name in FIRST_RESOURCES[:2])
# Counted on every node, whether or not the pod requests them.
_NATIVE = ("cpu", "memory", "ephemeral-storage")

Amounts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Strategy:
    """`scoringStrategy`: resources with their weights,
    and for RequestedToCapacityRatio points of utilization and score.
    """

    kind: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = CPU_AND_MEMORY
    shape: tuple[tuple[int, int], ...] = ()

    def counts(self, pod: PodClass) -> tuple[tuple[str, int], ...]:
        """The resources that count for a pod."""
        return tuple(
            (name, weight) for name, weight in self.resources if name in _NATIVE or pod.request.total.get(name)
        )

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return one score of 0 to 100 per node."""
        total = np.zeros(count(rows))
        weights = np.zeros(count(rows))
        for name, weight in self.counts(pod):
            requested, allocatable = _amounts(state, name, rows)
            if name in FIRST_RESOURCES[:2]:
                requested = requested + state.columns.unrequested[state.columns.index_of(name), rows]
            score = self._score(requested + pod.request.scored.get(name, 0), allocatable)
            counted = allocatable > 0
            if self.kind == TO_CAPACITY_RATIO:
                counted &= score > 0
            total += np.where(counted, score * weight, 0)
            weights += np.where(counted, weight, 0)
        mean = total / np.maximum(weights, 1)
        # Half a point counts as a whole one for a ratio, and as none for the others.
        whole: Scores = np.floor(mean + 0.5 if self.kind == TO_CAPACITY_RATIO else mean).astype(np.int32)
        return whole

    def _score(self, requested: Amounts, allocatable: Amounts) -> Amounts:
        capacity = np.maximum(allocatable, 1.0)
        if self.kind == LEAST_ALLOCATED:
            return np.where(requested > allocatable, 0.0, np.floor((allocatable - requested) * MOST_SCORE / capacity))
        if self.kind == MOST_ALLOCATED:
            # A node is full at most, also if more is requested.
            return np.floor(np.minimum(requested, allocatable) * MOST_SCORE / capacity)
        used = np.where(requested > allocatable, 100.0, np.floor(requested * 100 / capacity))
        return self._on_shape(used)

    def _on_shape(self, used: Amounts) -> Amounts:
        """The score at a utilization, in whole points between two points of the shape."""
        points = [(utilization, score * (MOST_SCORE // 10)) for utilization, score in self.shape]
        found = np.full(len(used), float(points[-1][1]))
        for (low, start), (high, end) in reversed(list(pairwise(points))):
            between = start + np.trunc((end - start) * (used - low) / (high - low))
            found = np.where(used <= high, between, found)
        return np.where(used <= points[0][0], float(points[0][1]), found)


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocation(ScorePlugin):
    """Prefer nodes whose resources are used evenly once the pod is there, compared with before."""

    resources: tuple[tuple[str, int], ...] = CPU_AND_MEMORY
    name: str = "NodeResourcesBalancedAllocation"
    reads_usage: bool = True

    def applies_score(self, pod: PodClass) -> bool:
        """True for pods that request one of the resources."""
        return any(pod.request.total.get(name) for name, _ in self.resources)

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return 75 where nothing changes, up to 100 where the balance improves, down to 50 where it worsens."""
        before, after, present = [], [], []
        for name, _ in Strategy(resources=self.resources).counts(pod):
            requested, allocatable = _amounts(state, name, rows)
            capacity = np.maximum(allocatable, 1.0)
            present.append(allocatable > 0)
            before.append(np.minimum(requested / capacity, 1.0))
            after.append(np.minimum((requested + pod.request.total.get(name, 0)) / capacity, 1.0))
        counted = np.array(present)
        change = _balance(np.array(after), counted) - _balance(np.array(before), counted)
        # Whole points, rounded towards zero as Go divides.
        half = MOST_SCORE // 2
        score: Scores = (half + np.trunc((half + change) / 2)).astype(np.int32)
        return score

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Score one node, in plain numbers: arrays of one element take ten times as long, a quarter of a decision."""
        before, after = [], []
        columns = state.columns
        counted = Strategy(resources=self.resources).counts(pod)
        for name, _ in counted:
            index = columns.index_of(name)
            allocatable = columns.allocatable.item(index, row)
            if allocatable > 0:
                requested = allocatable - columns.free.item(index, row)
                capacity = max(allocatable, 1.0)
                before.append(min(requested / capacity, 1.0))
                after.append(min((requested + pod.request.total.get(name, 0)) / capacity, 1.0))
        change = _balance_of_one(after, len(counted)) - _balance_of_one(before, len(counted))
        half = MOST_SCORE // 2
        return half + math.trunc((half + change) / 2)


def _balance(shares: Amounts, counted: NDArray[np.bool_]) -> Amounts:
    """100 less the standard deviation of the shares in percent."""
    number = np.maximum(counted.sum(axis=0), 1)
    mean = np.where(counted, shares, 0.0).sum(axis=0) / number
    deviation = np.sqrt(np.where(counted, (shares - mean) ** 2, 0.0).sum(axis=0) / number)
    if len(shares) == 2:
        deviation = np.where(counted.all(axis=0), np.abs(shares[0] - shares[1]) / 2, 0.0)
    balance: Amounts = np.trunc((1 - deviation) * MOST_SCORE)
    return balance


def _balance_of_one(shares: list[float], asked: int) -> int:
    """The same for one node, with the shares of what the node has."""
    number = max(len(shares), 1)
    mean = sum(shares) / number
    deviation = math.sqrt(sum([(share - mean) * (share - mean) for share in shares]) / number)
    if asked == 2:
        deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return math.trunc((1 - deviation) * MOST_SCORE)


def _amounts(state: ClusterState, name: str, rows: Rows) -> tuple[Amounts, Amounts]:
    """What is requested of a resource on each node, and what the node has."""
    index = state.columns.index_of(name)
    allocatable = state.columns.allocatable[index, rows]
    return allocatable - state.columns.free[index, rows], allocatable
