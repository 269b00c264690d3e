"""`filter`: which of the scheduler's nodes would admit a pod into its NUMA zones, and why the others would not.

The columns answer for all nodes at once. Amounts do not always decide, so the best nodes are also placed exactly. If
one of them needs the kubelet's replay, only nodes that were verified like this pass; kube-scheduler samples nodes the
same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.engine.numa.placement import Placement
from bayplan.engine.numa.rows import Scores
from bayplan.kube.wire.extender_v1 import ExtenderFilterResult
from bayplan.scheduling.answers import NOT_USABLE, Answer
from bayplan.scheduling.profile import PASSES
from bayplan.services.extender.candidates import Candidates, Texts
from bayplan.services.extender.cluster import AskedPod, ExtenderCluster
from bayplan.services.extender.name_index import Mask
from bayplan.services.extender.reasons import Reasons

# Nodes that are placed exactly to see whether amounts decide: 50 us each.
SAMPLE = 4
# If they do not: as many are verified, and at most this many are replayed, 1 to 5 ms each.
MOST_VERIFIED = 16
MOST_REPLAYED = 64
# Stands for a placement that was found before.
COUNTED = Placement()


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer, and how many of the nodes that were asked about passed."""

    result: ExtenderFilterResult
    asked: int
    passed: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Nodes that passed, failed, are unresolvable, and that would have to be replayed."""
        failed, unresolvable = len(self.result.failed_nodes), len(self.result.failed_and_unresolvable_nodes)
        return self.passed, failed, unresolvable, max(self.asked - self.passed - failed - unresolvable, 0)


def filter_nodes(cluster: ExtenderCluster, reasons: Reasons, asked: AskedPod, candidates: Candidates) -> Filtered:
    """Answer one request."""
    answer = cluster.answer_for(asked)
    if cluster.reports.counts_refusals:
        for row in cluster.answers.rows_refused_for_zones(asked.pod_class, asked.profile):
            cluster.reports.refused(cluster.state.names[row])
    passing = candidates.rows & (answer.blocked == PASSES)
    if asked.takes_zones:
        passing = _verified(cluster, asked, answer, passing)
    passed = int(np.count_nonzero(passing))
    count = int(np.count_nonzero(candidates.rows)) + len(candidates.unknown)
    failed: Texts = {}
    unresolvable: Texts = {}
    if passed < count:
        failed, unresolvable = reasons.of(asked.pod_class, asked.profile, answer, candidates, detailed=not passed)
    return Filtered(candidates.result(passing, failed, unresolvable), count, passed)


def _verified(cluster: ExtenderCluster, asked: AskedPod, answer: Answer, passing: Mask) -> Mask:
    """The rows that pass an exact placement too; all of them if amounts decide on the best nodes."""
    topology = asked.profile.topology
    assert topology is not None
    counted = cluster.counted.of(asked.pod_class, asked.profile)
    scores = np.where(passing, answer.total_score, NOT_USABLE)
    verified = np.zeros(len(passing), dtype=bool)
    found = replayed = 0
    for tried, row in enumerate(_best_first(scores)):
        if found == MOST_VERIFIED or replayed == MOST_REPLAYED:
            break
        placement = COUNTED if row in counted else topology.place(cluster.state, asked.pod_class, row)
        replayed += placement.refusal is not None or not placement.by_amounts
        if placement.refusal is not None:
            answer.refuse(row, placement.refusal)
            continue
        verified[row] = True
        found += 1
        if placement.by_amounts:
            counted.add(row)
        if tried + 1 == SAMPLE and not replayed:
            break
    return verified if replayed else scores != NOT_USABLE


def _best_first(scores: Scores) -> list[int]:
    """The best usable rows by score. Sorting 5,000 would cost more than the filter, and selecting among equals too."""
    best = np.flatnonzero(scores == scores.max(initial=0))
    if len(best) < MOST_REPLAYED:
        best = np.flatnonzero(scores != NOT_USABLE)
        if len(best) > MOST_REPLAYED:
            best = best[np.argpartition(-scores[best], MOST_REPLAYED)[:MOST_REPLAYED]]
        best = best[np.argsort(-scores[best], kind="stable")]
    rows: list[int] = best[:MOST_REPLAYED].tolist()
    return rows
