"""ImageLocality: prefer nodes that have the images of a pod, by kube-scheduler's formula.

An image counts with its size, scaled by the share of nodes that have it, so that pods do not crowd on the first node
that pulled a large image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Rows, Scores, count
from bayplan.plugins.base import ScorePlugin

NAME = "ImageLocality"
# Less than this many bytes do not count, nor do more than this many for each container.
LEAST_BYTES, MOST_BYTES = 23 << 20, 1000 << 20


@dataclass(frozen=True, slots=True)
class ImageLocality(ScorePlugin):
    """Score by the images that a node has already."""

    name: str = NAME
    reads_usage: bool = False

    def applies_score(self, pod: PodClass) -> bool:
        """False: the score of a node depends on the images of all others (`scores_among`)."""
        return False

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return 0 for every node."""
        return np.zeros(count(rows), dtype=np.int32)

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """True if any node has an image of the pod."""
        return any(state.images.get(name) for name in pod.images)

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return 0 for up to 23 MiB of images, 100 for 1000 MiB and more for each container."""
        found = np.zeros(state.columns.size, dtype=np.int64)
        for name in pod.images:
            image = state.images.get(name)
            if image is not None:
                found[image.rows] += int(image.size * (len(image.rows) / len(state.rows)))
        most = MOST_BYTES * len(pod.request.containers)
        scores: Scores = (
            MOST_SCORE * (np.clip(found[rows], LEAST_BYTES, most) - LEAST_BYTES) // (most - LEAST_BYTES)
        ).astype(np.int32)
        return scores
