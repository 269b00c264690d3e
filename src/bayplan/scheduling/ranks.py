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
# The annotation with the number of its segment.
SEGMENT = "bayplan.io/segment"

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
    metadata = pod.metadata
    labels = metadata.labels or {}
    given = _number(labels[RANK]) if RANK in labels else UNNUMBERED
    outer, inner = _indices(labels)
    if inner == UNNUMBERED and metadata.annotations and COMPLETION_INDEX in metadata.annotations:
        inner = _number(metadata.annotations[COMPLETION_INDEX])
    return (given, (outer, inner), natural_key(pod_key(pod)))


def _indices(labels: dict[str, str]) -> tuple[int, int]:
    """The outer and the inner number; pods have few labels, so those are looked up and not the other way round."""
    found = [UNNUMBERED, UNNUMBERED]
    first = [len(_STEPS), len(_STEPS)]
    for label, text in labels.items():
        if label in _STEPS:
            step, order = _STEPS[label]
            number = _number(text)
            if number != UNNUMBERED and order < first[step]:
                found[step], first[step] = number, order
    return found[0], found[1]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < LONGEST_NUMBER else UNNUMBERED


_STEPS = {label: (step, order) for step, labels in enumerate(INDEX_LABELS) for order, label in enumerate(labels)}
