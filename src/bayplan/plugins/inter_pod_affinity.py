"""InterPodAffinity: pods that want to be, or must not be, in the same place as other pods.

A *place* is one value of a node label, the term's topology key. Counts of pods by row (`cluster/neighbours.py`) become counts by place with one
`bincount`, and the answer for a node is a look-up of its place. The rules are those of kube-scheduler 1.36:

* required affinity: every topology key is there, and in each of these places stands a pod that all terms mean together. If nowhere does one, a
  pod that its own terms mean may go anywhere: it is the first of its group.
* required anti-affinity: in none of the places stands a pod that the term means; and it works both ways, so pods that stand somewhere keep
  away newcomers that their own terms mean.
* preferences add and subtract weights, again both ways; what pods that stand there require counts `hardPodAffinityWeight`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.labels import ABSENT
from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_terms import PodTerm
from bayplan.cluster.row_counts import RowCounts
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Codes, Mask
from bayplan.engine.scores import MOST_SCORE, Scores
from bayplan.plugins.base import Newcomer, RelationPlugin

NAME = "InterPodAffinity"
NO_AFFINITY, ANTI_AFFINITY, OTHERS_ANTI_AFFINITY = 1, 2, 3
CAUSES = {
    NO_AFFINITY: "node(s) didn't match pod affinity rules",
    ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    OTHERS_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
}

# Something counted, by the code of a place; the first entry stands for nodes without the label and is always 0.
ByPlace = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InterPodAffinity(RelationPlugin):
    """Filter on what is required, score on what is preferred, with kube-scheduler's arguments."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    name: str = NAME

    def cause(self, pod: PodClass, code: int) -> str:
        """kube-scheduler's words."""
        return CAUSES[code]

    def refusals_of(self, state: ClusterState, newcomer: Newcomer) -> Codes | None:
        """Which rule refuses each row; of several the one that kube-scheduler names."""
        terms = newcomer.terms
        against = _existing_anti_affinity(state, newcomer)
        if not (terms.affinity or terms.anti_affinity or against):
            return None
        refused: Codes = np.zeros(state.columns.size, dtype=np.uint8)
        for topology_key, counts in against.items():
            refused[(counts > 0)[state.labels.codes(topology_key)]] = OTHERS_ANTI_AFFINITY
        for term in terms.anti_affinity:
            counts = by_place(state, term.topology_key, state.neighbours.tally((term.pods,)))
            refused[(counts > 0)[state.labels.codes(term.topology_key)]] = ANTI_AFFINITY
        if terms.affinity:
            refused[~_has_company(state, newcomer)] = NO_AFFINITY
        return refused

    def scores_of(self, state: ClusterState, newcomer: Newcomer, rows: NDArray[np.intp]) -> Scores | None:
        """Weights of all preferences, one's own and those of others, stretched so that the best row has 100 and the worst 0."""
        weights = self._weights(state, newcomer)
        if not weights:
            return None
        sums = np.zeros(len(rows))
        for topology_key, by_code in weights.items():
            sums += by_code[state.labels.codes(topology_key)[rows]]
        least, most = float(sums.min()), float(sums.max())
        if least == most:
            return None
        scores: Scores = (MOST_SCORE * ((sums - least) / (most - least))).astype(np.int32)
        return scores

    def _weights(self, state: ClusterState, newcomer: Newcomer) -> dict[str, ByPlace]:
        """By topology key, what each place is worth."""
        neighbours, preferred = state.neighbours, newcomer.terms.preferred
        if self.ignore_preferred_terms_of_existing_pods and not preferred:
            return {}
        known_by = newcomer.namespace, newcomer.namespace_labels, newcomer.labels
        weights: dict[str, ByPlace] = {}
        for term, weight in preferred:
            _add(weights, state, term, neighbours.tally((term.pods,)), weight)
        for held in neighbours.preferred.against(*known_by):
            _add(weights, state, held.term, held.on, held.weight)
        if self.hard_pod_affinity_weight:
            for held in neighbours.affinity.against(*known_by):
                _add(weights, state, held.term, held.on, self.hard_pod_affinity_weight)
        return weights


def by_place(state: ClusterState, topology_key: str, tally: RowCounts) -> ByPlace:
    """Counts by row as counts by the code of a label's value."""
    codes = state.labels.codes(topology_key)
    counts = tally.by_code(codes, len(state.labels.values(topology_key)))
    counts[ABSENT] = 0
    return counts


def _existing_anti_affinity(state: ClusterState, newcomer: Newcomer) -> dict[str, ByPlace]:
    """By topology key, how many pods that want no newcomer like this one stand in each place."""
    found: dict[str, ByPlace] = {}
    for held in state.neighbours.anti_affinity.against(newcomer.namespace, newcomer.namespace_labels, newcomer.labels):
        _add(found, state, held.term, held.on, 1)
    return found


def _add(sums: dict[str, ByPlace], state: ClusterState, term: PodTerm, tally: RowCounts, weight: int) -> None:
    if tally:
        counts = by_place(state, term.topology_key, tally) * weight
        known = sums.get(term.topology_key)
        sums[term.topology_key] = counts if known is None else known + counts


def _has_company(state: ClusterState, newcomer: Newcomer) -> Mask:
    """Rows where required affinity is satisfied."""
    terms = newcomer.terms.affinity
    tally = state.neighbours.tally(tuple(term.pods for term in terms))
    has_keys = np.ones(state.columns.size, dtype=np.bool_)
    has_company = has_keys.copy()
    nobody_anywhere = True
    for topology_key in dict.fromkeys(term.topology_key for term in terms):
        codes = state.labels.codes(topology_key)
        has_keys &= codes != ABSENT
        counts = by_place(state, topology_key, tally)
        nobody_anywhere &= not counts.any()
        has_company &= (counts > 0)[codes]
    if nobody_anywhere and _means_itself(newcomer):
        return has_keys
    return has_keys & has_company


def _means_itself(newcomer: Newcomer) -> bool:
    return all(
        term.pods.matches(newcomer.namespace, newcomer.namespace_labels, newcomer.labels)
        for term in newcomer.terms.affinity
    )
