"""The candidates of a decision: nodes by score, with each plugin's score and the zones.

Order and scores come from the answer of the decision; the plugin that chose the zones provides them. Nothing is decided
again. `placement.py` prints the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.placement import ContainerZones, Placement
from bayplan.scheduling.answers import NOT_USABLE, Answer, score_in
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import PodAnswer


@dataclass(frozen=True, slots=True)
class PluginScore:
    """A plugin's score of 0 to 100 and its weight."""

    plugin: str
    score: int
    weight: int


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A node that would take the pod."""

    node: str
    score: int
    scores: tuple[PluginScore, ...]
    containers: tuple[ContainerZones, ...]
    zones_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best candidates, and the number of nodes that would take the pod."""

    candidates: tuple[RankedNode, ...]
    usable: int

    @property
    def remark(self) -> str:
        """Why the order is not that of the scores."""
        unknown = [candidate.zones_unknown for candidate in self.candidates]
        if not any(unknown) or all(unknown):
            return ""
        return "nodes whose NUMA zones are unknown (no NodeResourceTopology) come last"


def ranked(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer, most: int) -> Ranking:
    """The best `most` nodes. Nodes that the kubelet's replay rejects are skipped, as in the decision."""
    usable = int((answer.total_score != NOT_USABLE).sum())
    candidates: list[RankedNode] = []
    for row in ranking(answer, usable):
        if len(candidates) == most:
            break
        placement = profile.topology.place(state, pod, row) if profile.topology else Placement()
        if placement.refusal is not None:
            usable -= 1
            continue
        scores = _together(profile, *_scores_of(state, pod, profile, row), *_scores_of_neighbours(answer, row))
        unknown = profile.topology is not None and bool(profile.topology.remark(state, pod, row))
        score = score_in(int(answer.total_score[row]))
        candidates.append(RankedNode(state.names[row], score, scores, placement.containers, unknown))
    return Ranking(tuple(candidates), usable)


def ranking(answer: Answer, most: int) -> list[int]:
    """Return the best rows, best first; equal scores in row order."""
    usable = np.nonzero(answer.total_score != NOT_USABLE)[0]
    order = np.argsort(-answer.total_score[usable], kind="stable")[:most]
    return [int(row) for row in usable[order]]


def _together(profile: Profile, *scores: PluginScore) -> tuple[PluginScore, ...]:
    """One score for each plugin in their order: what it gives a node by itself and in comparison is added."""
    found: dict[str, PluginScore] = {}
    for each in scores:
        known = found.get(each.plugin)
        found[each.plugin] = each if known is None else replace(known, score=known.score + each.score)
    order = [plugin.name for plugin, _ in profile.scores]
    return tuple(sorted(found.values(), key=lambda each: order.index(each.plugin)))


def _scores_of(state: ClusterState, pod: PodClass, profile: Profile, row: int) -> tuple[PluginScore, ...]:
    one = np.array([row])
    return tuple(
        PluginScore(plugin.name, int(plugin.scores(state, pod, one)[0]), weight)
        for plugin, weight in profile.scores
        if weight and plugin.applies_score(pod)
    )


def _scores_of_neighbours(answer: Answer, row: int) -> tuple[PluginScore, ...]:
    given = answer.given_to(row) if isinstance(answer, PodAnswer) else ()
    return tuple(PluginScore(plugin, score, weight) for plugin, score, weight in given)
