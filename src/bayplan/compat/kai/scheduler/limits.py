"""What keeps a job from being tried at all: it has too few pods, it does not hang together, or its queue is full."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.compat.kai.scheduler.books import Books
from bayplan.compat.kai.scheduler.model import ACTIVE, GPU, Cluster, Job, Queue, Status, Task

GONE = frozenset({Status.RELEASING})


def not_ready(job: Job) -> str | None:
    """Why a job cannot start whatever is free: a pod set without enough pods, or pods of a pod set that does not exist."""
    names = {pod_set.name for pod_set in job.tree.all_pod_sets()}
    for task in job.tasks:
        if task.pod_set not in names:
            return f"pod {task.name} belongs to sub-group {task.pod_set!r}, which job {job.name} does not have"
    for pod_set in job.tree.all_pod_sets():
        pods = sum(1 for task in job.tasks if task.pod_set == pod_set.name and task.status not in GONE)
        if pods < pod_set.min_available:
            return (
                f"pod set {pod_set.name} of job {job.name} needs {pod_set.min_available} pods to start and has {pods}"
            )
    return None


def over_quota(job: Job, tasks: Sequence[Task], cluster: Cluster, books: Books) -> str | None:
    """Why a job's queue, or one above it, does not let these tasks in; None if there is room, or no queues are known."""
    if not cluster.queues:
        return None
    queues = {queue.name: queue for queue in cluster.queues}
    if job.queue not in queues:
        return f"queue {job.queue!r} of job {job.name} does not exist"
    wanted = _gpus(tasks)
    for queue in _upwards(queues, job.queue):
        held = [other for other in cluster.jobs if queue in _upwards(queues, other.queue)]
        problem = _over_limit(queue, "limit", queue.max_gpus, wanted, held, books)
        if problem is None and not job.preemptible:
            held = [other for other in held if not other.preemptible]
            problem = _over_limit(queue, "quota of non-preemptible jobs", queue.deserved_gpus, wanted, held, books)
        if problem:
            return problem
    return None


def _over_limit(
    queue: Queue, kind: str, limit: float | None, wanted: float, jobs: Sequence[Job], books: Books
) -> str | None:
    if limit is None or not wanted:
        return None
    held = _gpus([task for job in jobs for task in job.tasks if books.status(task) in ACTIVE])
    if held + wanted <= limit:
        return None
    return f"queue {queue.name} holds {held:g} GPUs and {wanted:g} more would exceed its {kind} of {limit:g}"


def _gpus(tasks: Sequence[Task]) -> float:
    return sum(task.requests.get(GPU, 0) for task in tasks)


def _upwards(queues: dict[str, Queue], name: str) -> list[Queue]:
    """A queue and those above it; a circle of parents ends where it closes."""
    line: list[Queue] = []
    while name in queues and queues[name] not in line:
        line.append(queues[name])
        name = queues[name].parent
    return line
