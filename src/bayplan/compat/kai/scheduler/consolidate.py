"""Make room for a gang by moving running pods: KAI's consolidation.

A job that fits nowhere, although enough is free in total, is *helped*: other pods leave, and both they and the job get
a place. All of this is a rehearsal that counts only if every pod has a place. KAI does not look for the best move. It
helps the first pod of the job, then the first two, and so on, and keeps the moves that earlier pods needed. It asks
running jobs one by one, the newest of the lowest priority first. Each time it goes through the nodes of that job and
tries to move all jobs asked so far that have pods there.

`consolidate` goes through all waiting jobs. In the statement, helped and moved tasks stay pipelined: they wait for what
the moved tasks still hold.

KAI also skips some moves without trying them, when a rough count of free GPUs says they cannot help. That saves time
and, in rare cases, misses a move. This module tries every move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bayplan.compat.kai.scheduler.allocate import Session, not_ready, place_job, tasks_to_place
from bayplan.compat.kai.scheduler.model import GPU, Job, Node, Status, Task
from bayplan.compat.kai.scheduler.order import jobs_in_order, pod_sets_in_order, tasks_in_order
from bayplan.compat.kai.scheduler.statement import Statement
from bayplan.kube.wire.kai_scheduling_v2alpha2 import SubGroupSet

# KAI's default is 16, and it counts one further.
MOST_JOBS_ASKED = 17


def consolidate(session: Session) -> list[str]:
    """Help every job that waits and may itself be moved; names of those that were helped."""
    waiting = [job for job in session.cluster.jobs if session.statement.waiting(job, evicted=False) and job.preemptible]
    return [job.name for job in jobs_in_order(waiting, session.statement) if not not_ready(job) and _help(session, job)]


def _help(session: Session, job: Job) -> bool:
    statement = session.statement
    tasks = tasks_to_place(job, statement, evicted=True)
    if sum(task.requests.get(GPU, 0) for task in tasks) > sum(
        statement.free_amount(node, GPU) for node in statement.idle
    ):
        return False
    start = statement.checkpoint()
    moved: list[Task] = []
    for count in range(1, len(tasks) + 1):
        statement.rollback(start)
        found = _move_someone(session, _first_tasks(job, tasks[:count]), moved)
        if found is None:
            statement.rollback(start)
            return False
        moved = found
    return bool(tasks)


def _move_someone(session: Session, partial: Job, moved: Sequence[Task]) -> list[Task] | None:
    """Move those who were moved before and, if that does not suffice, more; who was moved in the end, or None."""
    statement = session.statement
    start = statement.checkpoint()
    if moved:
        found = _rehearse(session, partial, moved, moved)
        if found is not None:
            return found
        statement.rollback(start)
    asked: list[_Asked] = []
    for asked_now in _ask_one_by_one(session, partial, moved):
        asked.append(asked_now)
        for node in _nodes_of(asked_now.job, statement):
            here = {
                each.job.name for each in asked if any(statement.places[task.name].node == node for task in each.tasks)
            }
            leaving = [task for each in asked if each.job.name in here for task in each.tasks]
            everyone = [*moved, *(task for each in asked for task in each.tasks)]
            found = _rehearse(session, partial, [*moved, *leaving], everyone)
            if found is not None:
                return found
            statement.rollback(start)
    return None


def _rehearse(session: Session, partial: Job, leaving: Sequence[Task], asked: Sequence[Task]) -> list[Task] | None:
    """Make these tasks leave and place all tasks.

    Returns the moved tasks, or None if one of those asked has no place.
    """
    statement = session.statement
    nodes = _nodes_in_play(session, partial, leaving)
    for task in leaving:
        statement.evict(task)
    names = {statement.job_of[task.name].name for task in leaving}
    others = [job for job in session.cluster.jobs if job.name in names]
    for job in jobs_in_order([partial, *others], statement):
        why = place_job(session, job, nodes, pretend=True)
        if why and job is partial:
            return None
    if any(statement.status(task) is Status.RELEASING for task in asked):
        return None
    return [task for task in leaving if statement.status(task) is Status.PIPELINED]


def _nodes_in_play(session: Session, partial: Job, leaving: Sequence[Task]) -> list[Node]:
    """Nodes with a free GPU (all nodes, if a pod of the job needs none) and those that a task leaves."""
    statement = session.statement
    if any(not task.requests.get(GPU, 0) for task in statement.job_of[partial.tasks[0].name].tasks):
        return list(session.cluster.nodes)
    left = {statement.places[task.name].node for task in leaving}
    return [
        node
        for node in session.cluster.nodes
        if node.name in left
        or statement.idle[node.name].get(GPU, 0) > 0
        or statement.releasing[node.name].get(GPU, 0) > 0
    ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Tasks that a job would have moved at once."""

    job: Job
    tasks: tuple[Task, ...]


def _ask_one_by_one(session: Session, partial: Job, moved: Sequence[Task]) -> Iterator[_Asked]:
    """Running jobs in the reverse of KAI's order; of one with pods to spare first these, one at a time."""
    statement = session.statement
    movable = [job for job in session.cluster.jobs if job.name != partial.name and _movable(job, statement)]
    line = jobs_in_order(movable, statement)[::-1][:MOST_JOBS_ASKED]
    already = {task.name for task in moved}
    while line:
        job = line.pop(0)
        tasks = _tasks_to_move(job, statement)
        asked_before = any(task.name in already for task in tasks)
        settled = already if asked_before else {task.name for task in tasks}
        rest = replace(job, tasks=tuple(task for task in job.tasks if task.name not in settled))
        if _running(rest, statement):
            line = jobs_in_order([rest, *line], statement)[::-1]
        if not asked_before:
            yield _Asked(statement.job_of[job.tasks[0].name], tuple(tasks))


def _movable(job: Job, statement: Statement) -> bool:
    running = _running(job, statement)
    return (
        job.preemptible
        and bool(running)
        and all(statement.places[task.name].node in statement.idle for task in running)
    )


def _running(job: Job, statement: Statement) -> list[Task]:
    """Tasks that hold something on a node and are not already being moved."""
    known = {pod_set.name for pod_set in job.tree.all_pod_sets()}
    return [
        task
        for task in job.tasks
        if statement.status(task) in (Status.RUNNING, Status.BINDING) and task.pod_set in known
    ]


def _tasks_to_move(job: Job, statement: Statement) -> list[Task]:
    """One task of the pod set furthest above its minimum; if none is above, all that run."""
    running = tasks_in_order(_running(job, statement))[::-1]
    pod_sets = pod_sets_in_order(list(job.tree.all_pod_sets()), job, statement)[::-1]
    of_pod_set = {each.name: [task for task in running if task.pod_set == each.name] for each in pod_sets}
    for each in pod_sets:
        if len(of_pod_set[each.name]) > each.min_available:
            return of_pod_set[each.name][:1]
    return [task for each in pod_sets for task in of_pod_set[each.name]]


def _nodes_of(job: Job, statement: Statement) -> list[str]:
    return sorted({statement.places[task.name].node for task in job.tasks} - {""})


def _first_tasks(job: Job, tasks: Sequence[Task]) -> Job:
    """A job of only these tasks, which all have to start."""
    counts = Counter(task.pod_set for task in tasks)
    return replace(job, tasks=tuple(tasks), tree=_with_minimums(job.tree, counts))


def _with_minimums(tree: SubGroupSet, counts: Counter[str]) -> SubGroupSet:
    return replace(
        tree,
        sub_groups=tuple(_with_minimums(child, counts) for child in tree.sub_groups),
        pod_sets=tuple(
            replace(pod_set, min_available=counts.get(pod_set.name, pod_set.min_available)) for pod_set in tree.pod_sets
        ),
    )
