"""InterPodAffinity: pods that want to share a topology domain with other pods, or must not.

A *place* is one value of a node label, the term's topology key. `bincount` turns counts by row
(`cluster/pods/neighbours.py`) into counts by place. The rules are those of kube-scheduler 1.36:

* Required affinity: the node has every topology key, and each place holds a pod that matches all terms. If no such
  pod exists anywhere, a pod that matches its own terms may go to any node: it is the first of its group.
* Required anti-affinity: no place holds a matching pod. It also works in reverse: existing pods repel incoming ones.
* Preferences add and subtract weights, both ways. Required affinity of existing pods adds `hardPodAffinityWeight`.
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
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Mask, Scores
from bayplan.plugins.base import IncomingPod, RelationPlugin

NAME = "InterPodAffinity"
NO_AFFINITY, ANTI_AFFINITY, OTHERS_ANTI_AFFINITY = 1, 2, 3
CAUSES = {
    NO_AFFINITY: "node(s) didn't match pod affinity rules",
    ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    OTHERS_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
}

# Places named in one sentence.
MOST_PLACES = 3

# A count or weight by the code of a place. The first entry is for nodes without the label and is always 0.
ByPlace = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InterPodAffinity(RelationPlugin):
    """Filter on required terms, score on preferred ones, with kube-scheduler's arguments."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    name: str = NAME

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return CAUSES[code]

    def refusals_of(self, state: ClusterState, incoming: IncomingPod) -> Codes | None:
        """Return the rule that refuses each row; of several, the one kube-scheduler names."""
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
        """Name the term behind a refusal, and the pod and node it matches."""
        match code:
            case code if code == OTHERS_ANTI_AFFINITY:
                return tuple(_held_against(state, incoming, rows))
            case code if code == ANTI_AFFINITY:
                return tuple(_too_close(state, incoming, rows))
        return tuple(_no_company(state, incoming))

    def scores_of(self, state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Scores | None:
        """Sum the weights of preferences in both directions, normalized: the best row has 100, the worst 0."""
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
        """Return the weight of each place, by topology key."""
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
    """Turn counts by row into counts by the code of a label value."""
    codes = state.labels.codes(topology_key)
    counts = tally.by_code(codes, len(state.labels.values(topology_key)))
    counts[ABSENT] = 0
    return counts


def _close(by_key: dict[str, Codes], state: ClusterState, topology_key: str, tally: RowCounts, code: int) -> None:
    """Close every place that holds a counted pod. The last code written is the one reported."""
    if tally:
        codes = state.labels.codes(topology_key)
        if topology_key not in by_key:
            by_key[topology_key] = np.zeros(len(state.labels.values(topology_key)), dtype=np.uint8)
        by_key[topology_key][codes[tally.rows]] = code
        by_key[topology_key][ABSENT] = 0


def _first(one: Codes, other: Codes) -> Codes:
    """Return the code that kube-scheduler names for each row: the smaller non-zero one."""
    found: Codes = np.where((one == 0) | ((other != 0) & (other < one)), other, one)
    return found


def _add(sums: dict[str, ByPlace], state: ClusterState, term: PodTerm, tally: RowCounts, weight: int) -> None:
    if tally:
        counts = by_place(state, term.topology_key, tally) * weight
        known = sums.get(term.topology_key)
        sums[term.topology_key] = counts if known is None else known + counts


def _has_company(state: ClusterState, incoming: IncomingPod) -> Mask:
    """Return the rows that satisfy required affinity."""
    terms = incoming.terms.affinity
    tally = state.neighbours.tally(tuple(term.pods for term in terms))
    has_keys = np.ones(state.columns.size, dtype=np.bool_)
    has_company = np.ones_like(has_keys)
    first_of_group = all(term.pods.matches(*incoming.known_by) for term in terms)
    for topology_key in dict.fromkeys(term.topology_key for term in terms):
        codes = state.labels.codes(topology_key)
        has_keys &= codes != ABSENT
        counts = by_place(state, topology_key, tally)
        first_of_group &= not counts.any()
        has_company &= (counts > 0)[codes]
    return has_keys if first_of_group else has_company


# -- details of refusals ---------------------------------------------------------------------------------------------


def _held_against(state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Iterator[str]:
    """Required anti-affinity of existing pods in the places of these rows, with the first pod that holds it."""
    for held in state.neighbours.anti_affinity.against(*incoming.known_by):
        for row, place in _first_place(state, held.term.topology_key, held.on, rows):
            holder = state.neighbours.holder(state.keys_on(row), held.term)
            yield f"pod {holder} on {state.names[row]} has podAntiAffinity to {_words(held.term)}; it is in {place}"


def _too_close(state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Iterator[str]:
    """Each required anti-affinity term of the pod, with the first matching pod in the places of these rows."""
    for number, term in enumerate(incoming.terms.anti_affinity):
        tally = state.neighbours.tally((term.pods,))
        for row, place in _first_place(state, term.topology_key, tally, rows):
            other = state.neighbours.meant(state.keys_on(row), (term.pods,))
            yield f"podAntiAffinity[{number}] to {_words(term)}: pod {other} on {state.names[row]} is in {place}"


def _no_company(state: ClusterState, incoming: IncomingPod) -> Iterator[str]:
    """Each required affinity term of the pod, with the places of the pods that match all of them."""
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
    """Yield the first counted row in the place of one of these rows, and that place; nothing if there is none."""
    codes = state.labels.codes(topology_key)
    closed = np.unique(codes[rows])
    counted = np.sort(tally.rows)
    shared = counted[(codes[counted] != ABSENT) & np.isin(codes[counted], closed)] if len(counted) else counted
    if len(shared):
        row = int(shared[0])
        yield row, f"{topology_key}={state.labels.values(topology_key)[codes[row]]}"


def _words(term: PodTerm) -> str:
    return f"{term.pods.selector} (topologyKey {term.topology_key})"
