"""`filter`: which of the scheduler's nodes would admit a pod into its NUMA zones, and why the others would not.

The columns answer for all nodes at once. Amounts do not always decide, so the best nodes are also placed exactly. If
one of them needs the kubelet's replay, only nodes that were verified like this pass; kube-scheduler samples nodes the
same way.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import ExtenderFilterResult
from bayplan.scheduling.answers import NOT_USABLE, Answer
from bayplan.scheduling.profile import PASSES, Profile
from bayplan.scheduling.relations import answer_for
from bayplan.services.extender.candidates import Candidates, Positions
from bayplan.services.extender.cluster import ExtenderCluster
from bayplan.services.extender.reasons import Reasons

# Nodes that are placed exactly to see whether amounts decide: 50 us each.
SAMPLE = 4
# If they do not: as many are verified, and at most so many replayed, 1 to 5 ms each.
MOST_VERIFIED = 16
MOST_REPLAYED = 64


def filter_nodes(cluster: ExtenderCluster, reasons: Reasons, pod: Pod, candidates: Candidates) -> ExtenderFilterResult:
    """Answer one request. Raises `InvalidObject` if the pod is invalid."""
    state, profile = cluster.state, cluster.profile_of(pod)
    pod_class = state.classes.of(pod)
    answer = answer_for(state, pod, pod_class, profile, cluster.answers)
    if cluster.reports.counts_refusals:
        for row in cluster.answers.rows_refused_for_zones(pod_class, profile):
            cluster.reports.refused(state.names[row])
    known = candidates.known
    passing = known[answer.blocked[candidates.rows[known]] == PASSES]
    if len(passing) and profile.topology is not None and profile.topology.applies(pod_class):
        passing = _verified(cluster, pod_class, profile, answer, candidates, passing)
    if len(passing) == len(candidates.names):
        return candidates.result(range(len(passing)), {}, {})
    failed, unresolvable = reasons.of(pod_class, profile, answer, candidates, detailed=not len(passing))
    return candidates.result(passing.tolist(), failed, unresolvable)


def _verified(
    cluster: ExtenderCluster,
    pod_class: PodClass,
    profile: Profile,
    answer: Answer,
    candidates: Candidates,
    passing: Positions,
) -> Positions:
    """The positions that pass an exact placement too; all of them if amounts decide on the best nodes."""
    topology = profile.topology
    assert topology is not None
    ranks = answer.rank[candidates.rows[passing]]
    passing, ranks = passing[ranks != NOT_USABLE], ranks[ranks != NOT_USABLE]
    verified: list[int] = []
    replayed = 0
    for tried, position in enumerate(passing[_best_first(ranks)].tolist()):
        if len(verified) == MOST_VERIFIED or replayed == MOST_REPLAYED:
            break
        row = int(candidates.rows[position])
        placement = topology.place(cluster.state, pod_class, row)
        replayed += placement.refusal is not None or not placement.by_amounts
        if placement.refusal is not None:
            answer.refuse(row, placement.refusal)
        else:
            verified.append(position)
        if tried + 1 == SAMPLE and not replayed:
            return passing
    return passing if not replayed else np.sort(np.array(verified, dtype=np.intp))


def _best_first(ranks: Positions) -> Positions:
    """The best positions by rank. Sorting 5,000 would cost more than the filter, and selecting among equals too."""
    best = np.flatnonzero(ranks == ranks.max()) if len(ranks) else np.zeros(0, dtype=np.intp)
    if len(best) >= MOST_REPLAYED:
        return best[:MOST_REPLAYED]
    if len(ranks) <= MOST_REPLAYED:
        return np.argsort(-ranks, kind="stable")
    best = np.argpartition(-ranks, MOST_REPLAYED)[:MOST_REPLAYED]
    return best[np.argsort(-ranks[best], kind="stable")]
