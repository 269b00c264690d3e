"""PodTopologySpread: spread matching pods evenly over the values of a node label.

The filter (`DoNotSchedule`) refuses a node whose place would exceed the emptiest place by more than `maxSkew` pods.
The score (`ScheduleAnyway`) prefers emptier places. The arithmetic is kube-scheduler 1.36's, quirks included: a node
that lacks the key of any constraint counts for none, terminating pods do not count, and an empty selector counts no
pods but matches the pod itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.columns.row_counts import RowCounts
from bayplan.cluster.pods.label_selectors import EVERYTHING, NOTHING
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, SpreadRule, namespace_of
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Mask, Scores
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.base import IncomingPod, RelationPlugin
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.plugins.node_basics import TaintToleration

NAME = "PodTopologySpread"
UNEVEN, NO_LABEL = 1, 2
CAUSES = {
    UNEVEN: "node(s) didn't match pod topology spread constraints",
    NO_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
}

ZONE = "topology.kubernetes.io/zone"

# Places named in one sentence.
MOST_PLACES = 3

_NO_PODS = RowCounts()
_AFFINITY = NodeAffinity()
_TAINTS = TaintToleration()


@dataclass(frozen=True, slots=True)
class DefaultConstraint:
    """A `ScheduleAnyway` constraint for pods of a Service or controller that have none of their own."""

    topology_key: str
    max_skew: int
    needs_label: bool = True
    honors_affinity: bool = True
    honors_taints: bool = False


# What `defaultingType: System` means.
SYSTEM_DEFAULTS = (
    DefaultConstraint(HOSTNAME, 3, needs_label=False),
    DefaultConstraint(ZONE, 5, needs_label=False),
)


@dataclass(frozen=True, slots=True)
class PodTopologySpread(RelationPlugin):
    """Filter on `DoNotSchedule` constraints, score on `ScheduleAnyway` ones and on the `defaults`."""

    defaults: tuple[DefaultConstraint, ...] = ()
    name: str = NAME

    def default_rules(self, state: ClusterState, pod: Pod) -> tuple[SpreadRule, ...]:
        """Return the default constraints of a pod; none if it has its own, or no Service or controller selects it."""
        if not self.defaults or pod.spec.topology_spread_constraints:
            return ()
        selector = state.owner_selectors.of(pod)
        if selector == EVERYTHING:
            return ()
        pods = PodSelector(frozenset((namespace_of(pod),)), NOTHING, selector)
        return tuple(
            SpreadRule(
                max_skew=each.max_skew,
                topology_key=each.topology_key,
                required=False,
                pods=pods,
                min_domains=1,
                honors_affinity=each.honors_affinity,
                honors_taints=each.honors_taints,
                needs_label=each.needs_label,
            )
            for each in self.defaults
        )

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return CAUSES[code]

    def refusals_of(self, state: ClusterState, incoming: IncomingPod) -> Codes | None:
        """Return the code of the first constraint that refuses each row."""
        rules = [rule for rule in incoming.terms.spread if rule.required]
        if not rules:
            return None
        has_labels = _has_labels(state, rules)
        refused: Codes = np.zeros(state.columns.size, dtype=np.uint8)
        for rule in reversed(rules):
            codes = state.labels.codes(rule.topology_key)
            uneven = _uneven_places(state, incoming, rule, _included(state, incoming, rule, has_labels))
            refused[uneven[codes]] = UNEVEN
            refused[codes == ABSENT] = NO_LABEL
        return refused

    def details(self, state: ClusterState, incoming: IncomingPod, code: int, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Name each constraint that refuses one of the rows: its key and skew, and the pods in each place."""
        found = []
        for number, rule in enumerate(incoming.terms.spread):
            if not rule.required:
                continue
            key, selector = rule.topology_key, rule.pods.selector
            at = f"topologySpreadConstraints[{number}] (topologyKey {key}, maxSkew {rule.max_skew}, {selector})"
            codes = state.labels.codes(rule.topology_key)[rows]
            if code == NO_LABEL and (codes == ABSENT).any():
                found.append(f"{at}: {int((codes == ABSENT).sum())} without the label {key}")
            elif code == UNEVEN:
                found += [f"{at}: {words}" for words in _skew(state, incoming, rule, np.unique(codes))]
        return tuple(found)

    def scores_of(self, state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Scores | None:
        """Return 100 for the emptiest place and proportionally less for fuller ones; 0 for rows that lack a label."""
        rules = [rule for rule in incoming.terms.spread if not rule.required]
        if not rules:
            return None
        has_labels = _has_labels(state, rules)
        labelled = has_labels[rows]
        sums = np.zeros(int(labelled.sum()))
        for rule in rules:
            sums += _fullness(state, incoming, rule, has_labels, rows[labelled])
        scores: Scores = np.zeros(len(rows), dtype=np.int32)
        if len(sums):
            scores[labelled] = _normalized(_rounded(sums))
        return scores


@dataclass(frozen=True, slots=True)
class SpreadCounts:
    """Pods that a constraint counts, by the code of a place, and the places it considers."""

    before: NDArray[np.float64]
    exists: Mask


def spread_counts(state: ClusterState, incoming: IncomingPod, rule: SpreadRule) -> SpreadCounts:
    """Return what a constraint of an incoming pod counts now."""
    included = _included(
        state, incoming, rule, _has_labels(state, [each for each in incoming.terms.spread if each.required])
    )
    return SpreadCounts(_counts(state, rule, included), _places(state, rule, np.flatnonzero(included)))


def _has_labels(state: ClusterState, rules: list[SpreadRule]) -> Mask:
    """Return the nodes with the labels of all constraints. Other nodes count for none."""
    has = np.ones(state.columns.size, dtype=np.bool_)
    for rule in rules:
        if not rule.needs_label:
            continue
        has &= state.labels.codes(rule.topology_key) != ABSENT
    return has


def _included(state: ClusterState, incoming: IncomingPod, rule: SpreadRule, has_labels: Mask) -> Mask:
    """Return the nodes whose pods a constraint counts, by its inclusion policies."""
    everywhere = slice(0, state.columns.size)
    pod, included = incoming.pod_class, has_labels
    if rule.honors_affinity and _AFFINITY.applies(pod):
        included = included & (_AFFINITY.refusals(state, pod, everywhere) == 0)
    tainted = _TAINTS.refusals(state, pod, everywhere) if rule.honors_taints else None
    if tainted is not None:
        included = included & (tainted == 0)
    return included


def _uneven_places(state: ClusterState, incoming: IncomingPod, rule: SpreadRule, included: Mask) -> Mask:
    """Return the places, by code, where one more pod would exceed the skew."""
    exists = _places(state, rule, np.flatnonzero(included))
    counts = _counts(state, rule, included)
    fewest = counts[exists].min() if exists.sum() >= rule.min_domains else 0
    itself = rule.pods.selector.matches(incoming.labels)
    uneven: Mask = counts + itself - fewest > rule.max_skew
    uneven[ABSENT] = False
    return uneven


def _skew(state: ClusterState, incoming: IncomingPod, rule: SpreadRule, refused: NDArray[np.int32]) -> Iterator[str]:
    """Pod counts of the refused places and the minimum of all places; nothing if the rule refuses none of them."""
    known = spread_counts(state, incoming, rule)
    counts, values = known.before, state.labels.values(rule.topology_key)
    enough = int(known.exists.sum()) >= rule.min_domains
    fewest = int(counts[known.exists].min(initial=0)) if enough and known.exists.any() else 0
    itself = rule.pods.selector.matches(incoming.labels)
    full = [code for code in refused if code != ABSENT and counts[code] + itself - fewest > rule.max_skew]
    if full:
        places = [f"{values[code]} has {int(counts[code])}" for code in full[:MOST_PLACES]]
        more = f" and {len(full) - MOST_PLACES} more are full" if len(full) > MOST_PLACES else ""
        emptiest = next((values[code] for code in np.flatnonzero(known.exists) if counts[code] == fewest), "")
        least = (
            f"the fewest is {fewest} in {emptiest}"
            if enough
            else f"the fewest counts as 0 below minDomains {rule.min_domains}"
        )
        yield f"{', '.join(places)}{more}, {least}"


def _fullness(
    state: ClusterState, incoming: IncomingPod, rule: SpreadRule, has_labels: Mask, rows: NDArray[np.intp]
) -> NDArray[np.float64]:
    """How full the place of each row is. A constraint over many places weighs more: each place holds fewer pods."""
    codes = state.labels.codes(rule.topology_key)[rows]
    if rule.topology_key == HOSTNAME:
        places = len(rows)
        counts = _tally(state, rule).per_row(state.columns.size)[rows]
    else:
        places = int(_places(state, rule, rows).sum())
        by_code = _counts(state, rule, _included(state, incoming, rule, has_labels))
        counts = by_code[codes]
    fullness = counts * math.log(places + 2) + (rule.max_skew - 1)
    return fullness if rule.needs_label else np.where(codes == ABSENT, 0.0, fullness)


def _tally(state: ClusterState, rule: SpreadRule) -> RowCounts:
    if rule.pods.selector == EVERYTHING:
        return _NO_PODS
    return state.neighbours.tally((rule.pods,), with_terminating=False)


def _counts(state: ClusterState, rule: SpreadRule, included: Mask) -> NDArray[np.float64]:
    """Return the number of counted pods on included nodes, by the code of a place."""
    codes = state.labels.codes(rule.topology_key)
    return _tally(state, rule).by_code(codes, len(state.labels.values(rule.topology_key)), included)


def _places(state: ClusterState, rule: SpreadRule, rows: NDArray[np.intp]) -> Mask:
    """Return the places, by code, that contain any of the rows."""
    codes = state.labels.codes(rule.topology_key)
    there = np.zeros(len(state.labels.values(rule.topology_key)), dtype=np.bool_)
    there[codes[rows]] = True
    return there


def _rounded(sums: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round halves up as Go does; NumPy would round them to even."""
    whole = np.trunc(sums)
    return (whole + (sums - whole >= 0.5)).astype(np.int64)


def _normalized(fullness: NDArray[np.int64]) -> NDArray[np.int64]:
    least, most = int(fullness.min()), int(fullness.max())
    if most == 0:
        return np.full(len(fullness), MOST_SCORE, dtype=np.int64)
    normalized: NDArray[np.int64] = MOST_SCORE * (most + least - fullness) // most
    return normalized
