"""Why nodes are refused, in the words of `bayplan why`: kube-scheduler counts equal texts and puts them into its event.

The nodes that come closest also name container, resource, zone, have and want, but only if no node is left: finding
that out replays admissions. Texts are cached by pod class until something in the cluster changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import Admission
from bayplan.engine.numa.rows import Scores
from bayplan.explain.refusal import Miss
from bayplan.explain.why import miss_phrase
from bayplan.scheduling.answers import NO_NODE, Answer
from bayplan.scheduling.decision import NearestNode
from bayplan.scheduling.profile import PASSES, Blocked, Profile
from bayplan.scheduling.shortfall import nearest_misses, refusal_words
from bayplan.scheduling.when_empty import refusals_when_empty
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.extender.candidates import Candidates, Texts

NOT_KNOWN = "the node is not known to the extender yet"
MOST_CACHED = 1000


@dataclass(frozen=True, slots=True)
class _Cached:
    version: tuple[int, int]
    rows: bytes
    misses: dict[str, NearestNode]


@dataclass(eq=False, slots=True)
class _AnswerAmong:
    """An answer in which only the candidates exist."""

    blocked: Blocked
    total_score: Scores
    refused_by_replay: dict[int, Admission]

    def refuse(self, row: int, admission: Admission) -> None:
        """Record a replay's refusal."""
        self.refused_by_replay[row] = admission


class Reasons:
    """Texts for refused nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._cached: BoundedDict[tuple[str, PodClass], _Cached] = BoundedDict(MOST_CACHED)

    def of(
        self, pod: PodClass, profile: Profile, answer: Answer, candidates: Candidates, *, detailed: bool
    ) -> tuple[Texts, Texts]:
        """Texts by node: where evictions may help, and where they do not."""
        failed: Texts = {}
        unresolvable = dict.fromkeys(candidates.unknown, NOT_KNOWN)
        rows = np.flatnonzero(candidates.rows)
        misses = self._misses(pod, profile, answer, rows) if detailed else {}
        blocked = answer.blocked[rows]
        # These refusals stay even if all other pods leave.
        lasting = refusals_when_empty(self._state, pod, profile) != PASSES
        for number in np.unique(blocked[blocked != PASSES]).tolist():
            _, cause = profile.cause(pod, number)
            of_usage = profile.filter_of(number).reads_usage
            for row in rows[blocked == number].tolist():
                name = self._state.names[row]
                text = _with_miss(cause, misses.get(name))
                (failed if of_usage and not lasting[row] else unresolvable)[name] = text
        for row in set(rows.tolist()) & answer.refused_by_replay.keys():
            admission = answer.refused_by_replay[row]
            failed[self._state.names[row]] = refusal_words(pod, admission)
        return failed, unresolvable

    def _misses(
        self, pod: PodClass, profile: Profile, answer: Answer, rows: NDArray[np.intp]
    ) -> dict[str, NearestNode]:
        state = self._state
        key, version, asked = (profile.name, pod), (state.usage_log.end, state.node_log.end), rows.tobytes()
        known = self._cached.get(key)
        if known is not None and (known.version, known.rows) == (version, asked):
            return known.misses
        blocked = np.full(len(answer.blocked), NO_NODE, dtype=np.int16)
        blocked[rows] = answer.blocked[rows]
        among = _AnswerAmong(blocked, answer.total_score, answer.refused_by_replay)
        misses = {miss.node: miss for miss in nearest_misses(state, pod, profile, among)}
        self._cached[key] = _Cached(version, asked, misses)
        return misses


def _with_miss(cause: str, miss: NearestNode | None) -> str:
    """`no single NUMA zone holds the request: container upf: zone 1 has cpu 22 of 24`."""
    if miss is None:
        return cause
    container = f"container {miss.container}: " if miss.container else ""
    return f"{cause}: {container}{miss_phrase(Miss(miss, None))}"
