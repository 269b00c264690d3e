"""`prioritize`: the profile's weighted scores on the extender's scale of 0 to 10.

kube-scheduler multiplies an extender's score by ten times its weight. By default a score means the same for every pod:
the share of the highest possible score, in ten steps. Spread over the candidates, the best one gets 10 and the worst
one 0, so that close scores are told apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.wire.extender_v1 import MAX_EXTENDER_PRIORITY
from bayplan.scheduling.answers import NOT_USABLE, PREFERRED
from bayplan.services.extender.candidates import Candidates
from bayplan.services.extender.cluster import AskedPod, ExtenderCluster
from bayplan.services.extender.profiles import largest_score

TotalScores = NDArray[np.int64]


def prioritize(cluster: ExtenderCluster, asked: AskedPod, candidates: Candidates, *, spread: bool) -> bytes:
    """Score every candidate; nodes that are unknown or refused get 0."""
    answer = cluster.answer_for(asked)
    scores = np.where(candidates.rows, answer.total_score, NOT_USABLE).astype(np.int64)
    return candidates.scored(steps_of(scores, largest_score(asked.profile), spread=spread))


def steps_of(scores: TotalScores, largest: int, *, spread: bool) -> TotalScores:
    """Scale scores to 0 to 10; the order of scores is kept, and `NOT_USABLE` becomes 0.

    Nodes that a class prefers regardless of scores get 1 to 10 if there are others, which then get 0.
    """
    usable = scores != NOT_USABLE
    preferred = usable & (scores >= PREFERRED)
    if not usable.any():
        return np.zeros(len(scores), dtype=np.int64)
    least = 0
    if preferred.any() and not preferred[usable].all():
        usable, least = preferred, 1
    values = scores & (PREFERRED - 1)
    low, high = 0, largest
    if spread:
        low, high = int(values[usable].min()), int(values[usable].max())
        high = max(high, low + 1)
    width = MAX_EXTENDER_PRIORITY - least
    scaled = least + ((np.minimum(values, high) - low) * width * 2 + (high - low)) // (2 * (high - low))
    return np.where(usable, scaled, 0)
