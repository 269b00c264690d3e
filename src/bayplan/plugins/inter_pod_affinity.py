"""InterPodAffinity: pods that want to be, or must not be, in the same place as other pods.

A *place* is one value of a node label, the term's topology key. Counts of pods by row (`cluster/pods/neighbours.py`) become counts by place with one
`bincount`, and the answer for a node is a look-up of its place. The rules are those of kube-scheduler 1.36:

* required affinity: every topology key is there, and in each of these places stands a pod that all terms mean together. If nowhere does one, a
  pod that its own terms mean may go anywhere: it is the first of its group.
* required anti-affinity: in none of the places stands a pod that the term means; and it works both ways, so pods that stand somewhere keep
  away incoming pods that their own terms mean.
* preferences add and subtract weights, again both ways; what pods that stand there require counts `hardPodAffinityWeight`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.columns.row_counts import RowCounts
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodTerm
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Codes, Mask
from bayplan.engine.numa.scores import MOST_SCORE, Scores
from bayplan.plugins.base import IncomingPod, RelationPlugin

NAME = "InterPodAffinity"
NO_AFFINITY, ANTI_AFFINITY, OTHERS_ANTI_AFFINITY = 1, 2, 3
CAUSES = {
    NO_AFFINITY: "node(s) didn't match pod affinity rules",
    ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    OTHERS_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
}

# Places that a sentence names.
MOST_PLACES = 3

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

    def refusals_of(self, state: ClusterState, incoming: IncomingPod) -> Codes | None:
        """Which rule refuses each row; of several the one that kube-scheduler names."""
        terms, neighbours = incoming.terms, state.neighbours
        by_key: dict[str, Codes] = {}
        for held in neighbours.anti_affinity.against(*incoming.known_by):
            _close(by_key, state, held.term.topology_key, held.on, OTHERS_ANTI_AFFINITY)
        for term in terms.anti_affinity:
            _close(by_key, state, term.topology_key, neighbours.tally((term.pods,)), ANTI_AFFINITY)
        refused: Codes | None = None
        for topology_key, by_code in by_key.items():
            codes = by_code[state.labels.codes(topology_key)]
            refused = codes if refused is None else _first(refused, codes)
        if terms.affinity:
            refused = np.zeros(state.columns.size, dtype=np.uint8) if refused is None else refused
            refused[~_has_company(state, incoming)] = NO_AFFINITY
        return refused

    def details(self, state: ClusterState, incoming: IncomingPod, code: int, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Which term is behind a refusal, and which pod on which node it is about."""
        match code:
            case code if code == OTHERS_ANTI_AFFINITY:
                return tuple(_held_against(state, incoming, rows))
            case code if code == ANTI_AFFINITY:
                return tuple(_too_close(state, incoming, rows))
        return tuple(_no_company(state, incoming))

    def scores_of(self, state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Scores | None:
        """Weights of all preferences, one's own and those of others, stretched so that the best row has 100 and the worst 0."""
        weights = self._weights(state, incoming)
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

    def _weights(self, state: ClusterState, incoming: IncomingPod) -> dict[str, ByPlace]:
        """By topology key, what each place is worth."""
        neighbours, preferred = state.neighbours, incoming.terms.preferred
        if self.ignore_preferred_terms_of_existing_pods and not preferred:
            return {}
        weights: dict[str, ByPlace] = {}
        for term, weight in preferred:
            _add(weights, state, term, neighbours.tally((term.pods,)), weight)
        for held in neighbours.preferred.against(*incoming.known_by):
            _add(weights, state, held.term, held.on, held.weight)
        if self.hard_pod_affinity_weight:
            for held in neighbours.affinity.against(*incoming.known_by):
                _add(weights, state, held.term, held.on, self.hard_pod_affinity_weight)
        return weights


def by_place(state: ClusterState, topology_key: str, tally: RowCounts) -> ByPlace:
    """Counts by row as counts by the code of a label's value."""
    codes = state.labels.codes(topology_key)
    counts = tally.by_code(codes, len(state.labels.values(topology_key)))
    counts[ABSENT] = 0
    return counts


def _close(by_key: dict[str, Codes], state: ClusterState, topology_key: str, tally: RowCounts, code: int) -> None:
    """Note for every place in which counted pods stand that they close it; what is said last is what is named."""
    if tally:
        codes = state.labels.codes(topology_key)
        if topology_key not in by_key:
            by_key[topology_key] = np.zeros(len(state.labels.values(topology_key)), dtype=np.uint8)
        by_key[topology_key][codes[tally.rows]] = code
        by_key[topology_key][ABSENT] = 0


def _first(one: Codes, other: Codes) -> Codes:
    """Of two codes per row, the one that kube-scheduler names: the smaller, unless it is none."""
    found: Codes = np.where((one == 0) | ((other != 0) & (other < one)), other, one)
    return found


def _add(sums: dict[str, ByPlace], state: ClusterState, term: PodTerm, tally: RowCounts, weight: int) -> None:
    if tally:
        counts = by_place(state, term.topology_key, tally) * weight
        known = sums.get(term.topology_key)
        sums[term.topology_key] = counts if known is None else known + counts


def _has_company(state: ClusterState, incoming: IncomingPod) -> Mask:
    """Rows where required affinity is satisfied."""
    terms = incoming.terms.affinity
    tally = state.neighbours.tally(tuple(term.pods for term in terms))
    has_keys = np.ones(state.columns.size, dtype=np.bool_)
    has_company = np.ones_like(has_keys)
    nobody_anywhere = True
    for topology_key in dict.fromkeys(term.topology_key for term in terms):
        codes = state.labels.codes(topology_key)
        has_keys &= codes != ABSENT
        counts = by_place(state, topology_key, tally)
        nobody_anywhere &= not counts.any()
        has_company &= (counts > 0)[codes]
    return has_keys if nobody_anywhere and _means_itself(incoming) else has_company


def _means_itself(incoming: IncomingPod) -> bool:
    return all(term.pods.matches(*incoming.known_by) for term in incoming.terms.affinity)


# -- who it is about -------------------------------------------------------------------------------------------------------


def _held_against(state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Iterator[str]:
    """Required anti-affinity of pods that stand in the places of these rows, with the first of its holders there."""
    for held in state.neighbours.anti_affinity.against(*incoming.known_by):
        for row, place in _first_place(state, held.term.topology_key, held.on, rows):
            holder = state.neighbours.holder(state.keys_on(row), held.term)
            yield f"pod {holder} on {state.names[row]} has podAntiAffinity to {_words(held.term)}; it is in {place}"


def _too_close(state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Iterator[str]:
    """The pod's own terms of required anti-affinity, with the first pod that each means in the places of these rows."""
    for number, term in enumerate(incoming.terms.anti_affinity):
        tally = state.neighbours.tally((term.pods,))
        for row, place in _first_place(state, term.topology_key, tally, rows):
            other = state.neighbours.meant(state.keys_on(row), (term.pods,))
            yield f"podAntiAffinity[{number}] to {_words(term)}: pod {other} on {state.names[row]} is in {place}"


def _no_company(state: ClusterState, incoming: IncomingPod) -> Iterator[str]:
    """The pod's own terms of required affinity, with where pods stand that all of them mean together."""
    terms = incoming.terms.affinity
    tally = state.neighbours.tally(tuple(term.pods for term in terms))
    for number, term in enumerate(terms):
        counts = by_place(state, term.topology_key, tally)
        values = state.labels.values(term.topology_key)
        places = [f"{term.topology_key}={values[code]}" for code in np.flatnonzero(counts)]
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        where = f"only in {', '.join(places[:MOST_PLACES])}{more}" if places else "nowhere"
        yield f"podAffinity[{number}] to {_words(term)}: such pods are {where}"


def _first_place(
    state: ClusterState, topology_key: str, tally: RowCounts, rows: NDArray[np.intp]
) -> Iterator[tuple[int, str]]:
    """The first row of a tally that is in the place of one of these rows, and the place; nothing if there is none."""
    codes = state.labels.codes(topology_key)
    closed = np.unique(codes[rows])
    counted = np.sort(tally.rows)
    shared = counted[(codes[counted] != ABSENT) & np.isin(codes[counted], closed)] if len(counted) else counted
    if len(shared):
        row = int(shared[0])
        yield row, f"{topology_key}={state.labels.values(topology_key)[codes[row]]}"


def _words(term: PodTerm) -> str:
    return f"{term.pods.selector} (topologyKey {term.topology_key})"
