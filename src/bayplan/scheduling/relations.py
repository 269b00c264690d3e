"""The effect of other pods on one pod: nodes they close and scores they add.

In come a pod and its class's answer (`scheduling/answers.py`), out goes the answer that `cycle.py` picks from: the
class's own if other pods do not matter, else a `PodAnswer` for this one decision. As in kube-scheduler, scores are
normalized over the remaining nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodTerms, has_terms, labels_of, namespace_of
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import Admission
from bayplan.engine.numa.rows import Scores
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.base import FilterPlugin, FixedRefusals, IncomingPod
from bayplan.scheduling.answers import NOT_USABLE, Answer, ClassAnswers
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Blocked, Profile


@dataclass(frozen=True, eq=False, slots=True)
class Given:
    """The scores of one plugin for the open rows, and their weight."""

    plugin: str
    weight: int
    scores: Scores


@dataclass(eq=False, slots=True)
class PodAnswer:
    """One pod's answer for every row. A replay's refusal holds for the whole class."""

    of_class: Answer
    blocked: Blocked
    total_score: Scores
    open_rows: NDArray[np.intp]
    given: list[Given]

    @property
    def refused_by_replay(self) -> dict[int, Admission]:
        """Refusals by replay, which are independent of other pods."""
        return self.of_class.refused_by_replay

    def refuse(self, row: int, admission: Admission) -> None:
        """Record a replay's refusal."""
        self.of_class.refuse(row, admission)
        self.total_score[row] = NOT_USABLE

    def given_to(self, row: int) -> list[tuple[str, int, int]]:
        """Return plugin, score and weight of each relation score of an open row."""
        at = int(np.searchsorted(self.open_rows, row))
        return [(each.plugin, int(each.scores[at]), each.weight) for each in self.given]


def answer_for(state: ClusterState, pod: Pod, pod_class: PodClass, profile: Profile, answers: ClassAnswers) -> Answer:
    """Return the answer for one pod of a class."""
    of_class = answers.for_class(pod_class, profile)
    incoming = _with_default_spread(state, pod, pod_class, profile)
    comparing = [each for each in profile.comparing_scores if each[0].compares(state, pod_class)]
    if incoming is None and not comparing:
        return of_class
    blocked = _closed(state, incoming, profile) if incoming is not None else None
    if blocked is not None:
        blocked = np.where(of_class.blocked == PASSES, blocked, of_class.blocked)
    is_open = of_class.total_score != NOT_USABLE
    open_rows = np.flatnonzero(is_open if blocked is None else is_open & (blocked == PASSES))
    given: list[Given] = []
    if len(open_rows):
        given += _given(state, incoming, profile, open_rows) if incoming is not None else []
        given += [
            Given(plugin.name, weight, plugin.scores_among(state, pod_class, open_rows)) for plugin, weight in comparing
        ]
    if blocked is None and not given:
        return of_class
    open_scores = of_class.total_score[open_rows]
    for each in given:
        open_scores += each.scores * np.int32(each.weight)
    total_score = np.full(len(of_class.total_score), NOT_USABLE, dtype=np.int32)
    total_score[open_rows] = open_scores
    return PodAnswer(of_class, of_class.blocked if blocked is None else blocked, total_score, open_rows, given)


def incoming_pod(state: ClusterState, pod: Pod, pod_class: PodClass) -> IncomingPod | None:
    """Return a pod with its terms and labels; None if neither it nor an existing pod has terms."""
    if not (state.neighbours.hold_terms or has_terms(pod)):
        return None
    return _incoming(state, pod, pod_class, state.classes.terms_of(pod))


def _with_default_spread(state: ClusterState, pod: Pod, pod_class: PodClass, profile: Profile) -> IncomingPod | None:
    """Return an incoming pod with the profile's default spread constraints, which only matter for scores."""
    rules = () if profile.spread is None else profile.spread.default_rules(state, pod)
    if not rules:
        return incoming_pod(state, pod, pod_class)
    return _incoming(state, pod, pod_class, replace(state.classes.terms_of(pod), spread=rules))


def _incoming(state: ClusterState, pod: Pod, pod_class: PodClass, terms: PodTerms) -> IncomingPod:
    namespace = namespace_of(pod)
    return IncomingPod(
        pod_class,
        namespace,
        state.neighbours.labels_of_namespace(namespace),
        labels_of(pod),
        terms,
    )


def with_pods_as_they_are(state: ClusterState, pod: Pod, pod_class: PodClass, profile: Profile) -> Profile:
    """Return a profile that judges any class as existing pods judge this one, to try smaller requests."""
    incoming = incoming_pod(state, pod, pod_class)
    if incoming is None:
        return profile
    filters: list[FilterPlugin] = list(profile.filters)
    for position, plugin in profile.relation_filters:
        codes = plugin.refusals_of(state, incoming)
        if codes is not None:
            filters[position] = FixedRefusals(plugin, codes)
    return Profile(profile.name, tuple(filters), profile.scores)


def _closed(state: ClusterState, incoming: IncomingPod, profile: Profile) -> Blocked | None:
    """Return the `blocked` number of each row that other pods close; None if they close none."""
    blocked: Blocked | None = None
    for position, plugin in profile.relation_filters:
        codes = plugin.refusals_of(state, incoming)
        if codes is not None and codes.any():
            numbers = codes.astype(np.int16)
            np.add(numbers, np.int16(position * CODES_PER_FILTER), out=numbers, where=codes != 0)
            blocked = numbers if blocked is None else np.where(blocked == PASSES, numbers, blocked)
    return blocked


def _given(state: ClusterState, incoming: IncomingPod, profile: Profile, rows: NDArray[np.intp]) -> list[Given]:
    """Return the relation scores of the open rows, without plugins that score them all the same."""
    found = ((each.name, weight, each.scores_of(state, incoming, rows)) for each, weight in profile.relation_scores)
    return [Given(plugin, weight, scores) for plugin, weight, scores in found if scores is not None]
