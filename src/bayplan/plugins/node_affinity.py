"""NodeAffinity: node selectors, required and preferred node affinity, on label columns.

Terms are alternatives, all requirements of a term must hold, and an empty term matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores, count
from bayplan.plugins.base import FilterPlugin, ScorePlugin


@dataclass(frozen=True, slots=True)
class NodeAffinity(FilterPlugin, ScorePlugin):
    """Filter on required terms, score on preferred ones."""

    name: str = "NodeAffinity"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True for pods that select nodes."""
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        return bool(pod.node_selector) or required is not None

    def applies_score(self, pod: PodClass) -> bool:
        """True for pods with preferences."""
        return bool(pod.node_affinity.preferred_during_scheduling_ignored_during_execution)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for nodes that do not match."""
        matches = np.ones(count(rows), dtype=np.bool_)
        for key, value in pod.node_selector.items():
            matches &= state.terms.has_value(key, [value], rows)
            if not matches.any():
                break  # A pod may name thousands of labels.
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            matches &= state.terms.matching(required, rows)
        return (~matches).astype(np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) didn't match Pod's node affinity/selector"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return the weight of the matching preferences, as a percentage of all weights."""
        preferences = pod.node_affinity.preferred_during_scheduling_ignored_during_execution or []
        total = np.zeros(count(rows), dtype=np.int64)
        for preferred in preferences:
            total += preferred.weight * state.terms.matching_term(preferred.preference, rows)
        most = sum(preferred.weight for preferred in preferences)
        return (total * MOST_SCORE // max(most, 1)).astype(np.int32)
