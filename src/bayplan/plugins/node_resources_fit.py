"""NodeResourcesFit: whether a node as a whole has room, and how much would stay free.

Sums are kube-scheduler's: all requests on the node against its allocatable, the number of pods included. A refusal code
is the position of the first resource that is short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import FIRST_RESOURCES, FloatColumn
from bayplan.cluster.pods.pod_class import PodClass, kept_with_class
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores
from bayplan.plugins.base import FilterPlugin, ScorePlugin, of_one_node
from bayplan.plugins.resource_scores import Strategy

SCORED = FIRST_RESOURCES[:2]
# With fewer names, skipping those that no node has costs more than it saves.
MANY_RESOURCES = 16


@dataclass(frozen=True, slots=True)
class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """Filter and score on node totals.

    Without a `strategy`, the score is LeastAllocated or MostAllocated of cpu and memory.

    Extended resources that are `ignored`, by name or by group, are not checked.
    """

    most_allocated: bool = False
    strategy: Strategy | None = None
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    name: str = "NodeResourcesFit"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True: every pod counts against the node's pod limit."""
        return True

    def applies_score(self, pod: PodClass) -> bool:
        """True: a container without requests counts with kube-scheduler's defaults."""
        return self.strategy is None or bool(self.strategy.counts(pod))

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return 1 + the position of the first short resource in `asked_of_node(pod)`."""
        names, amounts = _as_arrays(pod)
        indexes = state.columns.indexes(names)
        if len(indexes) > MANY_RESOURCES:
            # Every node is short of a resource that no node has, so later resources change nothing.
            unavailable = np.flatnonzero(indexes == state.columns.of_no_node)
            needed = int(unavailable[0]) + 1 if len(unavailable) else len(indexes)
            indexes, amounts = indexes[:needed], amounts[:needed]
        short = _free(state, indexes, rows) < amounts
        if self.ignored or self.ignored_groups:
            short[[self._ignores(name) for name in names[: len(short)]]] = False
        if not np.logical_or.reduce(short, axis=None):
            return None
        codes: Codes = np.zeros(short.shape[1], dtype=np.uint8)
        for position in range(len(short), 0, -1):
            codes[short[position - 1]] = position
        return codes

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Check one node."""
        columns = state.columns
        for position, (name, amount) in enumerate(asked_of_node(pod), start=1):
            if columns.free[columns.index_of(name), row] < amount and not self._ignores(name):
                return position
        return 0

    def scarcest(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return for each row the code of the resource of which the empty node offers the smallest share."""
        names, amounts = _as_arrays(pod)
        shares = state.columns.allocatable[state.columns.indexes(names)[:, np.newaxis], rows] / amounts
        shares[[self._ignores(name) for name in names]] = np.inf
        codes: NDArray[np.intp] = shares.argmin(axis=0) + 1
        return codes

    def _ignores(self, name: str) -> bool:
        """True for an extended resource that the arguments ignore."""
        return name in self.ignored or ("/" in name and name.partition("/")[0] in self.ignored_groups)

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message, such as `Insufficient cpu`."""
        resource = asked_of_node(pod)[code - 1][0]
        return "Too many pods" if resource == PODS else f"Insufficient {resource}"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return the mean percentage of cpu and memory that would stay free (or be used)."""
        if self.strategy is not None:
            return self.strategy.scores(state, pod, rows)
        # CPU and memory are the first two resources, so this is a view.
        allocatable = state.columns.allocatable[:2, rows]
        share = state.columns.free[:2, rows] - state.columns.unrequested[:, rows]
        share -= _scored_amounts(pod)
        if self.most_allocated:
            np.subtract(allocatable, share, out=share)
        share *= MOST_SCORE
        share /= np.maximum(allocatable, 1.0)
        np.floor(share, out=share)
        # A node may be overcommitted.
        np.clip(share, 0.0, float(MOST_SCORE), out=share)
        present: int | NDArray[np.intp] = len(SCORED)
        if not allocatable.all():
            # A resource that a node lacks does not count.
            share[allocatable == 0] = 0.0
            present = np.maximum(np.count_nonzero(allocatable, axis=0), 1)
        total: NDArray[np.float64] = np.add.reduce(share, axis=0)
        total /= present
        return total.astype(np.int32)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Score one node."""
        if self.strategy is not None:
            return of_one_node(self.scores, state, pod, row)
        total, present = 0, 0
        columns = state.columns
        for index, name in enumerate(SCORED):
            allocatable = int(columns.allocatable[index, row])
            if not allocatable:
                continue
            kept = int(columns.free[index, row] - columns.unrequested[index, row]) - pod.request.scored.get(name, 0)
            counted = allocatable - kept if self.most_allocated else kept
            total += min(max(counted * MOST_SCORE // allocatable, 0), MOST_SCORE)
            present += 1
        return total // max(present, 1)


@kept_with_class
def asked_of_node(pod: PodClass) -> tuple[tuple[str, int], ...]:
    """Return what the node must have free: one pod first, then every non-zero amount."""
    asked = tuple((name, amount) for name, amount in pod.request.total.items() if amount)
    return ((PODS, 1), *asked)


@kept_with_class
def _as_arrays(pod: PodClass) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    asked = asked_of_node(pod)
    return tuple(name for name, _ in asked), np.array([[float(amount)] for _, amount in asked])


@kept_with_class
def _scored_amounts(pod: PodClass) -> NDArray[np.float64]:
    return np.array([[float(pod.request.scored.get(name, 0))] for name in SCORED])


def _free(state: ClusterState, indexes: NDArray[np.intp], rows: Rows) -> FloatColumn:
    """Return the free amounts of these resources and nodes as [resource, node]."""
    free = state.columns.free
    return free[indexes, rows] if isinstance(rows, slice) else free[indexes[:, np.newaxis], rows]
