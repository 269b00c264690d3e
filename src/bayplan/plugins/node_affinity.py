"""NodeAffinity: node selectors, required and preferred node affinity, on label columns.

Terms are alternatives, all requirements of a term must hold, and an empty term matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.label_selectors import Requirement
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Codes, Rows, Scores, count
from bayplan.kube.errors import did_you_mean
from bayplan.kube.wire.core_v1 import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, SelectorRequirement
from bayplan.plugins.base import FilterPlugin, ScorePlugin, normalized

ENFORCED = 2
# Of a pod's terms and of a cluster's labels, as many are looked at to explain a refusal.
MOST_TERMS, MOST_LABELS = 20, 1000
ALIKE_VALUES = 0.6


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

    def details(self, state: ClusterState, pod: PodClass) -> tuple[str, ...]:
        """Name the pod's terms that no node of the cluster meets, and what may be meant instead."""
        asked = [SelectorRequirement(key, "In", [value]) for key, value in pod.node_selector.items()]
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        for term in (required.node_selector_terms or ()) if required is not None else ():
            asked += term.match_expressions or ()
        rows = np.fromiter(state.rows.values(), dtype=np.intp)
        unmet = (
            each
            for each in asked[:MOST_TERMS]
            if not state.terms.matching_term(NodeSelectorTerm(match_expressions=[each]), rows).any()
        )
        return tuple(f"{_told(each)}: {_why_unmet(state, each, rows)}" for each in unmet)

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return the weight of the matching preferences, in percent of the best row's."""
        own = pod.node_affinity.preferred_during_scheduling_ignored_during_execution or []
        total = np.zeros(len(rows), dtype=np.int32)
        for preferred in (*own, *self.added.preferred):
            total += np.int32(preferred.weight) * state.terms.matching_term(preferred.preference, rows)
        return normalized(total)


def _told(term: SelectorRequirement) -> str:
    return str(Requirement(term.key, term.operator, tuple((term.values or [""])[:MOST_TERMS])))


def _why_unmet(state: ClusterState, term: SelectorRequirement, rows: NDArray[np.intp]) -> str:
    if not state.terms.has_label(term.key, rows).any():
        nodes = [state.nodes[row] for row in rows[:MOST_LABELS]]
        keys = {key for node in nodes if node is not None for key in node.metadata.labels or ()}
        return f"no node has this label{did_you_mean(term.key, keys)}"
    wanted, there = (term.values or [""])[0], state.labels.values(term.key)[1 : MOST_LABELS + 1]
    return f"no node has it{did_you_mean(wanted, sorted(there), ALIKE_VALUES) if term.operator == 'In' else ''}"
