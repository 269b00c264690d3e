"""Places one job as KAI does: down its tree of sub-groups, and for each the first node set in which everything finds a
node.

`place_job` takes the tasks that a job has to start together and goes through its tree: inner sub-groups by name, then
pod sets. Each gets its own node sets out of the one that the sub-group above it tries (`subset_nodes.py`). What fits in
the first set is kept. If a part fails in all its sets, the sub-group above goes on to its own next set; what an earlier
part took within one set is never reconsidered for the sake of a later one.

In a real round (`pretend=False`) a task is bound if what is idle suffices and otherwise waits for what is being
released; when a pod set cannot start with what is idle, the whole job waits. In a rehearsal (`pretend=True`, for
`consolidate.py`) every task is promised its place, and tasks that were made to leave look for one too.

`allocate` goes through all waiting jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.compat.kai.scheduler.model import ACTIVE, GPU, Cluster, Job, Node, Queue, Status, Task, fits
from bayplan.compat.kai.scheduler.order import jobs_in_order, nodes_in_order, pod_sets_in_order, tasks_in_order
from bayplan.compat.kai.scheduler.statement import Statement
from bayplan.compat.kai.scheduler.subset_nodes import Asker, NodeSets, subset_nodes
from bayplan.compat.kai.scheduler.tree import TopologyTree, build_tree
from bayplan.kube.wire.kai_scheduling_v2alpha2 import PodSet, SubGroupSet

Scores = Mapping[str, float] | None
Why = tuple[str, ...]

PLACED: Why = ()


@dataclass(frozen=True, slots=True)
class Session:
    """One round: the cluster as it was, its topologies as trees, and the statement that are written in."""

    cluster: Cluster
    trees: Mapping[str, TopologyTree]
    statement: Statement


def open_session(cluster: Cluster) -> Session:
    """Trees and statement for a cluster."""
    trees = {topology.name: build_tree(topology, cluster.nodes) for topology in cluster.topologies}
    return Session(cluster, trees, Statement(cluster))


def allocate(session: Session) -> dict[str, Why]:
    """Place every job that waits, one after another; for each that could not be placed, by name, why not.

    A job that reached its minimum stands in line again for each of its further pods.
    """
    refused: dict[str, Why] = {}
    waiting = [job for job in session.cluster.jobs if session.statement.waiting(job, evicted=False)]
    line = jobs_in_order(waiting, session.statement)
    while line:
        job = line.pop(0)
        why = _place_for_real(session, job)
        if why:
            refused[job.name] = why
        elif session.statement.waiting(job, evicted=False):
            line = jobs_in_order([job, *line], session.statement)
    return refused


def _place_for_real(session: Session, job: Job) -> Why:
    problem = not_ready(job)
    if problem:
        return (problem,)
    why = place_job(session, job, session.cluster.nodes, pretend=False)
    if not why and _must_wait(job, session.statement):
        for task in job.tasks:
            if session.statement.status(task) is Status.BINDING:
                session.statement.pipeline(task, session.statement.places[task.name].node)
    return why


def _must_wait(job: Job, statement: Statement) -> bool:
    """Whether a pod set has tasks that wait for releases and cannot start without them."""
    for pod_set in job.tree.all_pod_sets():
        statuses = [statement.status(task) for task in job.tasks if task.pod_set == pod_set.name]
        started = sum(1 for status in statuses if status in ACTIVE and status is not Status.PIPELINED)
        if Status.PIPELINED in statuses and started < pod_set.min_available:
            return True
    return False


def place_job(session: Session, job: Job, nodes: Sequence[Node], *, pretend: bool) -> Why:
    """Place the tasks that a job has to start together, all or none."""
    tasks = tasks_to_place(job, session.statement, evicted=pretend)
    problem = over_quota(job, tasks, session.cluster, session.statement)
    if problem:
        return (problem,)
    return _place_sub_group_set(_Placing(session, job, pretend), job.tree, nodes, tasks, None)


def tasks_to_place(job: Job, statement: Statement, *, evicted: bool) -> list[Task]:
    """What is missing to the minimum of each pod set; if nothing is, one more pod of the first pod set that has one."""
    waiting = tasks_in_order(statement.waiting(job, evicted=evicted))
    ordered = pod_sets_in_order(list(job.tree.all_pod_sets()), job, statement)
    missing: list[Task] = []
    for pod_set in ordered:
        lacks = pod_set.min_available - sum(1 for _ in statement.active(job, pod_set.name))
        missing += [task for task in waiting if task.pod_set == pod_set.name][: max(lacks, 0)]
    if missing:
        return missing
    return next(([task] for pod_set in ordered for task in waiting if task.pod_set == pod_set.name), [])


@dataclass(frozen=True, slots=True)
class _Placing:
    """What stays the same on the way down a job's tree."""

    session: Session
    job: Job
    pretend: bool

    def node_sets(
        self, part: SubGroupSet | PodSet, pod_sets: Sequence[PodSet], tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> NodeSets:
        statement = self.session.statement
        active_on = frozenset(
            statement.places[task.name].node
            for pod_set in pod_sets
            for task in statement.active(self.job, pod_set.name)
        )
        asker = Asker(self.job.namespace, self.job.name, part.name, part.constraint, active_on)
        return subset_nodes(asker, tasks, nodes, self.session.trees, statement.free)


def _place_sub_group_set(
    placing: _Placing, sub_group: SubGroupSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    statement = placing.session.statement
    found = placing.node_sets(sub_group, list(sub_group.all_pod_sets()), tasks, nodes)
    own_scores = scores if found.scores is None else found.scores
    why = found.problems
    for node_set in found.sets:
        mark = statement.checkpoint()
        why = _place_parts(placing, sub_group, node_set, tasks, own_scores)
        if not why:
            return PLACED
        statement.rollback(mark)
    return why


def _place_parts(
    placing: _Placing, sub_group: SubGroupSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    for child in sorted(sub_group.sub_groups, key=lambda each: each.name):
        names = {pod_set.name for pod_set in child.all_pod_sets()}
        why = _place_sub_group_set(placing, child, nodes, [task for task in tasks if task.pod_set in names], scores)
        if why:
            return why
    for pod_set in pod_sets_in_order(sub_group.pod_sets, placing.job, placing.session.statement):
        why = _place_pod_set(placing, pod_set, nodes, [task for task in tasks if task.pod_set == pod_set.name], scores)
        if why:
            return why
    return PLACED


def _place_pod_set(
    placing: _Placing, pod_set: PodSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    statement = placing.session.statement
    found = placing.node_sets(pod_set, [pod_set], tasks, nodes)
    own_scores = scores if found.scores is None else found.scores
    why = found.problems
    for node_set in found.sets:
        mark = statement.checkpoint()
        failed = next(
            (number for number, task in enumerate(tasks) if not _place_task(placing, task, node_set, own_scores)), None
        )
        if failed is None:
            return PLACED
        statement.rollback(mark)
        why = (_no_node(placing.job, pod_set, tasks[failed], failed, statement),)
    return why


def _place_task(placing: _Placing, task: Task, nodes: Sequence[Node], scores: Scores) -> bool:
    session = placing.session
    statement = session.statement
    for node in nodes_in_order(task, nodes, statement, scores, session.cluster.node_order):
        if not fits(task.requests, statement.free(node.name)):
            continue
        if task.allowed_nodes is not None and node.name not in task.allowed_nodes:
            continue
        if not placing.pretend and statement.fits_now(task, node.name):
            statement.bind(task, node.name)
        else:
            statement.pipeline(task, node.name)
        return True
    return False


def _no_node(job: Job, pod_set: PodSet, task: Task, placed: int, statement: Statement) -> str:
    alone = all(each.min_available <= 1 for each in job.tree.all_pod_sets())
    if alone or sum(1 for _ in statement.active(job, pod_set.name)) >= pod_set.min_available:
        return f"Resources were not found for pod {task.name}: no node that it may use has enough left"
    return (
        f"Resources were found for {placed} pods while {pod_set.min_available} of pod set "
        f"{pod_set.name} have to start together; "
        f"no node that pod {task.name} may use has enough left"
    )


GONE = frozenset({Status.RELEASING})


def not_ready(job: Job) -> str | None:
    """Why a job cannot start whatever is free: a pod set without enough pods, or pods of a pod
    set that does not exist.
    """
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


def over_quota(job: Job, tasks: Sequence[Task], cluster: Cluster, statement: Statement) -> str | None:
    """Why a job's queue, or one above it, does not let these tasks in.

    None if there is room, or no queues are known.
    """
    if not cluster.queues:
        return None
    queues = {queue.name: queue for queue in cluster.queues}
    if job.queue not in queues:
        return f"queue {job.queue!r} of job {job.name} does not exist"
    wanted = _gpus(tasks)
    for queue in _upwards(queues, job.queue):
        held = [other for other in cluster.jobs if queue in _upwards(queues, other.queue)]
        problem = _over_limit(queue, "limit", queue.max_gpus, wanted, held, statement)
        if problem is None and not job.preemptible:
            held = [other for other in held if not other.preemptible]
            problem = _over_limit(queue, "quota of non-preemptible jobs", queue.deserved_gpus, wanted, held, statement)
        if problem:
            return problem
    return None


def _over_limit(
    queue: Queue, kind: str, limit: float | None, wanted: float, jobs: Sequence[Job], statement: Statement
) -> str | None:
    if limit is None or not wanted:
        return None
    held = _gpus([task for job in jobs for task in job.tasks if statement.status(task) in ACTIVE])
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
