"""NodeAffinity: node selectors, required and preferred node affinity, on label columns.

Terms are alternatives, all requirements of a term must hold, and an empty term matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Codes, Rows, Scores, count
from bayplan.kube.wire.core_v1 import NodeSelector, PreferredSchedulingTerm
from bayplan.plugins.base import FilterPlugin, ScorePlugin, normalized

ENFORCED = 2


@dataclass(frozen=True, slots=True)
class AddedAffinity:
    """kube-scheduler's argument `addedAffinity`."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] = ()


NOT_ADDED = AddedAffinity()


@dataclass(frozen=True, slots=True)
class NodeAffinity(FilterPlugin, ScorePlugin):
    """Filter on required terms, score on preferred ones; `added` holds for all pods of the profile as well."""

    added: AddedAffinity = NOT_ADDED
    name: str = "NodeAffinity"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True for pods that select nodes."""
        if self.added.required is not None:
            return True
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        return bool(pod.node_selector) or required is not None

    def applies_score(self, pod: PodClass) -> bool:
        """False: nodes are scored against each other (`scores_among`)."""
        return False

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return 0 for every node."""
        return np.zeros(count(rows), dtype=np.int32)

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """True for pods with preferences."""
        return bool(pod.node_affinity.preferred_during_scheduling_ignored_during_execution or self.added.preferred)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for nodes that do not match the pod, 2 for those that do not match what the profile adds."""
        matches = np.ones(count(rows), dtype=np.bool_)
        for key, value in pod.node_selector.items():
            matches &= state.terms.has_value(key, [value], rows)
            if not matches.any():
                break  # A pod may name thousands of labels.
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            matches &= state.terms.matching(required, rows)
        codes = (~matches).astype(np.uint8)
        if self.added.required is not None:
            codes[~state.terms.matching(self.added.required, rows)] = ENFORCED
        return codes

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        if code == ENFORCED:
            return "node(s) didn't match scheduler-enforced node affinity"
        return "node(s) didn't match Pod's node affinity/selector"

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return the weight of the matching preferences, in percent of the best row's."""
        own = pod.node_affinity.preferred_during_scheduling_ignored_during_execution or []
        total = np.zeros(len(rows), dtype=np.int32)
        for preferred in (*own, *self.added.preferred):
            total += np.int32(preferred.weight) * state.terms.matching_term(preferred.preference, rows)
        return normalized(total)
