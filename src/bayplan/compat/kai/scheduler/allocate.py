"""Places one job as KAI does: down its tree of sub-groups, and for each the first node set in which everything finds a node.

`place_job` takes the tasks that a job has to start together and goes through its tree: inner sub-groups by name, then pod sets.
Each gets its own node sets out of the one that the sub-group above it tries (`subset_nodes.py`). What fits in the first set is
kept. If a part fails in all its sets, the sub-group above goes on to its own next set; what an earlier part took within one set
is never reconsidered for the sake of a later one.

In a real round (`pretend=False`) a task is bound if what is idle suffices and otherwise waits for what is being released; when a
pod set cannot start with what is idle, the whole job waits. In a rehearsal (`pretend=True`, for `consolidate.py`) every task is
promised its place, and tasks that were made to leave look for one too.

`allocate` goes through all waiting jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.compat.kai.scheduler.books import Books
from bayplan.compat.kai.scheduler.limits import not_ready, over_quota
from bayplan.compat.kai.scheduler.model import ACTIVE, Cluster, Job, Node, Status, Task, fits
from bayplan.compat.kai.scheduler.order import jobs_in_order, nodes_in_order, pod_sets_in_order, tasks_in_order
from bayplan.compat.kai.scheduler.subset_nodes import Asker, NodeSets, subset_nodes
from bayplan.compat.kai.scheduler.tree import TopologyTree, build_tree
from bayplan.kube.wire.podgroup_v2alpha2 import PodSet, SubGroupSet

Scores = Mapping[str, float] | None
Why = tuple[str, ...]

PLACED: Why = ()


@dataclass(frozen=True, slots=True)
class Session:
    """One round: the cluster as it was, its topologies as trees, and the books that are written in."""

    cluster: Cluster
    trees: Mapping[str, TopologyTree]
    books: Books


def open_session(cluster: Cluster) -> Session:
    """Trees and books for a cluster."""
    trees = {topology.name: build_tree(topology, cluster.nodes) for topology in cluster.topologies}
    return Session(cluster, trees, Books(cluster))


def allocate(session: Session) -> dict[str, Why]:
    """Place every job that waits, one after another; for each that could not be placed, by name, why not.

    A job that reached its minimum stands in line again for each of its further pods.
    """
    refused: dict[str, Why] = {}
    waiting = [job for job in session.cluster.jobs if session.books.waiting(job, evicted=False)]
    line = jobs_in_order(waiting, session.books)
    while line:
        job = line.pop(0)
        why = _place_for_real(session, job)
        if why:
            refused[job.name] = why
        elif session.books.waiting(job, evicted=False):
            line = jobs_in_order([job, *line], session.books)
    return refused


def _place_for_real(session: Session, job: Job) -> Why:
    problem = not_ready(job)
    if problem:
        return (problem,)
    why = place_job(session, job, session.cluster.nodes, pretend=False)
    if not why and _must_wait(job, session.books):
        for task in job.tasks:
            if session.books.status(task) is Status.BINDING:
                session.books.pipeline(task, session.books.places[task.name].node)
    return why


def _must_wait(job: Job, books: Books) -> bool:
    """Whether a pod set has tasks that wait for releases and cannot start without them."""
    for pod_set in job.tree.all_pod_sets():
        statuses = [books.status(task) for task in job.tasks if task.pod_set == pod_set.name]
        started = sum(1 for status in statuses if status in ACTIVE and status is not Status.PIPELINED)
        if Status.PIPELINED in statuses and started < pod_set.min_available:
            return True
    return False


def place_job(session: Session, job: Job, nodes: Sequence[Node], *, pretend: bool) -> Why:
    """Place the tasks that a job has to start together, all or none."""
    tasks = tasks_to_place(job, session.books, evicted=pretend)
    problem = over_quota(job, tasks, session.cluster, session.books)
    if problem:
        return (problem,)
    return _place_sub_group_set(_Placing(session, job, pretend), job.tree, nodes, tasks, None)


def tasks_to_place(job: Job, books: Books, *, evicted: bool) -> list[Task]:
    """What is missing to the minimum of each pod set; if nothing is, one more pod of the first pod set that has one."""
    waiting = tasks_in_order(books.waiting(job, evicted=evicted))
    ordered = pod_sets_in_order(list(job.tree.all_pod_sets()), job, books)
    missing: list[Task] = []
    for pod_set in ordered:
        lacks = pod_set.min_available - sum(1 for _ in books.active(job, pod_set.name))
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
        books = self.session.books
        active_on = frozenset(
            books.places[task.name].node for pod_set in pod_sets for task in books.active(self.job, pod_set.name)
        )
        asker = Asker(self.job.namespace, self.job.name, part.name, part.constraint, active_on)
        return subset_nodes(asker, tasks, nodes, self.session.trees, books.free)


def _place_sub_group_set(
    placing: _Placing, sub_group: SubGroupSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    books = placing.session.books
    found = placing.node_sets(sub_group, list(sub_group.all_pod_sets()), tasks, nodes)
    own_scores = scores if found.scores is None else found.scores
    why = found.problems
    for node_set in found.sets:
        mark = books.checkpoint()
        why = _place_parts(placing, sub_group, node_set, tasks, own_scores)
        if not why:
            return PLACED
        books.rollback(mark)
    return why


def _place_parts(
    placing: _Placing, sub_group: SubGroupSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    for child in sorted(sub_group.sub_groups, key=lambda each: each.name):
        names = {pod_set.name for pod_set in child.all_pod_sets()}
        why = _place_sub_group_set(placing, child, nodes, [task for task in tasks if task.pod_set in names], scores)
        if why:
            return why
    for pod_set in pod_sets_in_order(sub_group.pod_sets, placing.job, placing.session.books):
        why = _place_pod_set(placing, pod_set, nodes, [task for task in tasks if task.pod_set == pod_set.name], scores)
        if why:
            return why
    return PLACED


def _place_pod_set(
    placing: _Placing, pod_set: PodSet, nodes: Sequence[Node], tasks: Sequence[Task], scores: Scores
) -> Why:
    books = placing.session.books
    found = placing.node_sets(pod_set, [pod_set], tasks, nodes)
    own_scores = scores if found.scores is None else found.scores
    why = found.problems
    for node_set in found.sets:
        mark = books.checkpoint()
        failed = next(
            (number for number, task in enumerate(tasks) if not _place_task(placing, task, node_set, own_scores)), None
        )
        if failed is None:
            return PLACED
        books.rollback(mark)
        why = (_no_node(placing.job, pod_set, tasks[failed], failed, books),)
    return why


def _place_task(placing: _Placing, task: Task, nodes: Sequence[Node], scores: Scores) -> bool:
    session = placing.session
    books = session.books
    for node in nodes_in_order(task, nodes, books, scores, session.cluster.node_order):
        if not fits(task.requests, books.free(node.name)):
            continue
        if task.allowed_nodes is not None and node.name not in task.allowed_nodes:
            continue
        if not placing.pretend and books.fits_now(task, node.name):
            books.bind(task, node.name)
        else:
            books.pipeline(task, node.name)
        return True
    return False


def _no_node(job: Job, pod_set: PodSet, task: Task, placed: int, books: Books) -> str:
    alone = all(each.min_available <= 1 for each in job.tree.all_pod_sets())
    if alone or sum(1 for _ in books.active(job, pod_set.name)) >= pod_set.min_available:
        return f"Resources were not found for pod {task.name}: no node that it may use has enough left"
    return (
        f"Resources were found for {placed} pods while {pod_set.min_available} of pod set {pod_set.name} have to start together; "
        f"no node that pod {task.name} may use has enough left"
    )
