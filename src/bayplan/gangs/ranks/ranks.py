"""The order of a gang's pods: by the indices that their controllers wrote on them, or by name if there is none.

Every controller that creates numbered pods has a label for the number. Some number in two steps (the group of a LeaderWorkerSet and its
worker, the job of a JobSet and its pod): then the outer number comes first. `rank_key` sorts by these numbers and `index_of` reads them;
this is the only place where labels become numbers.
"""

from __future__ import annotations

from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import natural_key
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.core_v1 import Pod

# The label by which a user gives a pod its rank, and the annotation with which bayplan writes down which one it got.
RANK = "bayplan.io/rank"
# The annotation with the number of its segment.
SEGMENT = "bayplan.io/segment"

# Labels with which controllers number their pods; who describes kinds of workloads (`grouping/kinds.py`) names them by these.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
KUBEFLOW_INDEX = "training.kubeflow.org/replica-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
RAY_HOST_INDEX = "ray.io/replica-host-index"
RAY_REPLICA_INDEX = "ray.io/worker-group-replica-index"
TASK_INDEX = "volcano.sh/task-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"

# From the outside in; of each step the first label that a pod has counts.
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
"""The outer number of a pod and the inner one."""


def rank_key(pod: Pod) -> tuple[int, tuple[int, ...], object]:
    """Sorts pods by the rank that they are given, then by the indices that their controller gave them, then by name (`r2` before `r10`)."""
    return (_given(pod), _indices(pod), natural_key(pod_key(pod)))


def index_of(pod: Pod) -> Index | None:
    """The rank that a pod is given, else the index that its controller gave it; None if it has neither."""
    given, (outer, inner) = _given(pod), _indices(pod)
    if given != UNNUMBERED:
        return 0, given
    if outer == inner == UNNUMBERED:
        return None
    return (0 if outer == UNNUMBERED else outer), (0 if inner == UNNUMBERED else inner)


def given_rank(pod: Pod) -> int | None:
    """The number that a user gave a pod by label; None if there is none."""
    number = _given(pod)
    return None if number == UNNUMBERED else number


def written_rank(pod: Pod) -> int | None:
    """The number that was written on a pod with its bind; None if there is none."""
    return _written(pod, RANK)


def written_segment(pod: Pod) -> int | None:
    """The number of its segment that was written on a pod with its bind; None if there is none."""
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
    # Before Kubernetes 1.28 the index of a Job's pod was an annotation alone.
    if inner == UNNUMBERED and annotations and COMPLETION_INDEX in annotations:
        inner = _number(annotations[COMPLETION_INDEX])
    return outer, inner


def _labelled(labels: dict[str, str]) -> Index:
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
    number = whole_number(text)
    return UNNUMBERED if number is None else number


_STEPS = {label: (step, order) for step, labels in enumerate(INDEX_LABELS) for order, label in enumerate(labels)}
