"""The order of a gang's pods: by the indices that their controllers wrote on them, else by name.

Every controller that creates numbered pods has a label for the number. Some number in two steps (LeaderWorkerSet group
and worker, JobSet job and pod): then the outer number comes first. Only this module turns labels into numbers.
"""

from __future__ import annotations

from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import natural_key
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.core_v1 import Pod

# The label with which a user ranks a pod, and the annotation with which bayplan records the rank.
RANK = "bayplan.io/rank"
# The annotation with the number of the pod's segment.
SEGMENT = "bayplan.io/segment"

# Labels with which controllers number their pods, also used by `grouping/kinds.py`.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
RAY_HOST_INDEX = "ray.io/replica-host-index"
RAY_REPLICA_INDEX = "ray.io/worker-group-replica-index"
TASK_INDEX = "volcano.sh/task-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"

# Outer step first; in each step the first label that a pod has counts.
INDEX_LABELS: tuple[tuple[str, ...], ...] = (
    (
        "jobset.sigs.k8s.io/job-global-index",
        JOB_INDEX,
        "leaderworkerset.sigs.k8s.io/group-index",
        RAY_REPLICA_INDEX,
        "volcano.sh/partition-id",
    ),
    (
        COMPLETION_INDEX,
        WORKER_INDEX,
        KUBEFLOW_INDEX,
        "kueue.x-k8s.io/pod-group-pod-index",
        TASK_INDEX,
        RAY_HOST_INDEX,
        "grove.io/podclique-pod-index",
        POD_INDEX,
    ),
)
UNNUMBERED = 1 << 31

Index = tuple[int, int]
"""The outer and the inner number of a pod."""


def rank_key(pod: Pod) -> tuple[int, tuple[int, ...], object]:
    """Sort key: the given rank, then the controller's indices, then the name (`r2` before `r10`)."""
    return (_given(pod), _indices(pod), natural_key(pod_key(pod)))


def index_of(pod: Pod) -> Index | None:
    """Return a pod's given rank, else its controller's index; None if it has neither."""
    given, (outer, inner) = _given(pod), _indices(pod)
    if given != UNNUMBERED:
        return 0, given
    if outer == inner == UNNUMBERED:
        return None
    return (0 if outer == UNNUMBERED else outer), (0 if inner == UNNUMBERED else inner)


def given_rank(pod: Pod) -> int | None:
    """Return the rank that a user gave a pod by label, if any."""
    number = _given(pod)
    return None if number == UNNUMBERED else number


def written_rank(pod: Pod) -> int | None:
    """Return the rank that was written on a pod with its bind, if any."""
    return _written(pod, RANK)


def written_segment(pod: Pod) -> int | None:
    """Return the segment number that was written on a pod with its bind, if any."""
    return _written(pod, SEGMENT)


def _written(pod: Pod, annotation: str) -> int | None:
    number = _number((pod.metadata.annotations or {}).get(annotation, ""))
    return None if number == UNNUMBERED else number


def _given(pod: Pod) -> int:
    labels = pod.metadata.labels
    return _number(labels[RANK]) if labels and RANK in labels else UNNUMBERED


def _indices(pod: Pod) -> Index:
    outer, inner = _labelled(pod.metadata.labels or {})
    annotations = pod.metadata.annotations
    # Before Kubernetes 1.28 the index of a Job's pod was only an annotation.
    if inner == UNNUMBERED and annotations and COMPLETION_INDEX in annotations:
        inner = _number(annotations[COMPLETION_INDEX])
    return outer, inner


def _labelled(labels: dict[str, str]) -> Index:
    """Return the outer and the inner number. Iterates the pod's labels, which are fewer than the known ones."""
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
    number = whole_number(text)
    return UNNUMBERED if number is None else number


_STEPS = {label: (step, order) for step, labels in enumerate(INDEX_LABELS) for order, label in enumerate(labels)}
