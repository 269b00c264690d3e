"""The order of a gang's pods: the indices that their controllers wrote on them, and their names where there is none.

Everybody who creates numbered pods has a label for the number. Some number in two steps (the group of a LeaderWorkerSet and the worker in
it, the job of a JobSet and the pod of that job): then the outer number comes first. `rank_key` sorts by them; it is the one place where
labels become an order.
"""

from __future__ import annotations

from bayplan.cluster.state import pod_key
from bayplan.cluster.tree import natural_key
from bayplan.kube.core_v1 import Pod

# The label by which a user gives a pod its rank, and the annotation with which bayplan writes down which one it got.
RANK = "bayplan.io/rank"

# From the outside in; of each step the first label that a pod has counts.
INDEX_LABELS: tuple[tuple[str, ...], ...] = (
    (
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-index",
        "leaderworkerset.sigs.k8s.io/group-index",
        "ray.io/worker-group-replica-index",
        "volcano.sh/partition-id",
    ),
    (
        "batch.kubernetes.io/job-completion-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
        "kueue.x-k8s.io/pod-group-pod-index",
        "volcano.sh/task-index",
        "ray.io/replica-host-index",
        "grove.io/podclique-pod-index",
        "apps.kubernetes.io/pod-index",
    ),
)
# Before Kubernetes 1.28 the index of a Job's pod was an annotation alone.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
UNNUMBERED = 1 << 31
LONGEST_NUMBER = 10


def rank_key(pod: Pod) -> tuple[int, tuple[int, ...], object]:
    """Sorts pods by the rank that they are given, then by the indices that their controller gave them, then by name (`r2` before `r10`)."""
    labels = pod.metadata.labels or {}
    given = _number(labels.get(RANK, ""))
    indices = tuple(_first_number(labels, keys) for keys in INDEX_LABELS)
    if indices[-1] == UNNUMBERED:
        written = _number((pod.metadata.annotations or {}).get(COMPLETION_INDEX, ""))
        indices = (*indices[:-1], UNNUMBERED if written is None else written)
    return (UNNUMBERED if given is None else given, indices, natural_key(pod_key(pod)))


def _first_number(labels: dict[str, str], keys: tuple[str, ...]) -> int:
    for key in keys:
        number = _number(labels.get(key, ""))
        if number is not None:
            return number
    return UNNUMBERED


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < LONGEST_NUMBER else None
