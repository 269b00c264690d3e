"""NodeAffinity: node selectors, required and preferred node affinity, on label columns.

Terms are alternatives, all requirements of a term must hold, and an empty term matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.cluster.columns.labels import ABSENT, whole_number
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Mask, Rows, Scores, count
from bayplan.kube.wire.core_v1 import NodeSelectorTerm, SelectorRequirement
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
            matches &= _has_value(state, key, [value], rows)
            if not matches.any():
                break  # A pod may name thousands of labels.
        required = pod.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            any_term = np.zeros_like(matches)
            for term in required.node_selector_terms or []:
                any_term |= matches_term(state, term, rows)
            matches &= any_term
        return (~matches).astype(np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) didn't match Pod's node affinity/selector"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return the weight of the matching preferences, as a percentage of all weights."""
        preferences = pod.node_affinity.preferred_during_scheduling_ignored_during_execution or []
        total = np.zeros(count(rows), dtype=np.int64)
        for preferred in preferences:
            total += preferred.weight * matches_term(state, preferred.preference, rows)
        most = sum(preferred.weight for preferred in preferences)
        return (total * MOST_SCORE // max(most, 1)).astype(np.int32)


def matches_term(state: ClusterState, term: NodeSelectorTerm, rows: Rows) -> Mask:
    """Return the nodes that meet every requirement of a term."""
    nodes = count(rows)
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes, dtype=np.bool_)
    matches = np.ones(nodes, dtype=np.bool_)
    for requirement in term.match_expressions or []:
        matches &= _holds(state, requirement, rows)
        if not matches.any():
            return matches
    for requirement in term.match_fields or []:
        matches &= _field_holds(state, requirement, rows)
    return matches


def _holds(state: ClusterState, requirement: SelectorRequirement, rows: Rows) -> Mask:
    key, values = requirement.key, requirement.values or []
    match requirement.operator:
        case "In":
            return _has_value(state, key, values, rows)
        case "NotIn":
            return ~_has_value(state, key, values, rows)
        case "Exists":
            return np.asarray(state.labels.codes(key)[rows] != ABSENT)
        case "DoesNotExist":
            return np.asarray(state.labels.codes(key)[rows] == ABSENT)
        case "Gt" | "Lt":
            return _compares(state, key, values, rows, greater=requirement.operator == "Gt")
    # The API server rejects other operators; a file can still contain one.
    return np.zeros(count(rows), dtype=np.bool_)


def _has_value(state: ClusterState, key: str, values: list[str], rows: Rows) -> Mask:
    codes = state.labels.codes(key)[rows]
    wanted = state.labels.codes_among(key, values)
    if len(wanted) == 1:
        return np.asarray(codes == wanted[0])
    return np.isin(codes, wanted) if wanted else np.zeros(len(codes), dtype=np.bool_)


def _compares(state: ClusterState, key: str, values: list[str], rows: Rows, *, greater: bool) -> Mask:
    codes = state.labels.codes(key)[rows]
    bound = whole_number(values[0]) if len(values) == 1 else None
    if bound is None:
        return np.zeros(len(codes), dtype=np.bool_)
    numbers, is_number = state.labels.whole_numbers(key)
    return np.asarray((is_number & (numbers > bound if greater else numbers < bound))[codes])


def _field_holds(state: ClusterState, requirement: SelectorRequirement, rows: Rows) -> Mask:
    """`metadata.name` is the only field Kubernetes allows here."""
    matches = np.zeros(state.columns.size, dtype=np.bool_)
    if requirement.key == "metadata.name":
        for name in requirement.values or []:
            row = state.rows.get(name)
            if row is not None:
                matches[row] = True
        if requirement.operator == "NotIn":
            matches = ~matches
    return matches[rows]
