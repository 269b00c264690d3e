"""A round of KAI and the cluster that the next one finds: the entry point for callers outside this package.

cluster = Cluster(topologies, nodes, jobs)
outcome = run_round(cluster)
outcome.nodes          # {"train-0": "node7", ...}: tasks that have a node, or are promised one
outcome.refused        # {"train": ("topology ... couldn't be satisfied ...",)}
run_round(outcome.next_cluster)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from bayplan.compat.kai.scheduler.allocate import Why, allocate, open_session
from bayplan.compat.kai.scheduler.consolidate import consolidate
from bayplan.compat.kai.scheduler.model import ACTIVE, Cluster, Job, Status, Task, total
from bayplan.compat.kai.scheduler.statement import Statement, add


class Action(Enum):
    """What KAI does in a round, in this order: place what fits, then move pods that run so that more fits."""

    ALLOCATE = "allocate"
    CONSOLIDATE = "consolidation"


@dataclass(frozen=True, slots=True)
class RoundResult:
    """Where every task stands after a round, its node, and why jobs were not placed."""

    statuses: dict[str, Status]
    nodes: dict[str, str]
    refused: dict[str, Why]
    next_cluster: Cluster


def run_round(cluster: Cluster, actions: Sequence[Action] = tuple(Action)) -> RoundResult:
    """Let KAI's actions run once over a cluster."""
    refused = _mistaken_for_others(cluster.jobs)
    session = open_session(replace(cluster, jobs=tuple(job for job in cluster.jobs if job.name not in refused)))
    if Action.ALLOCATE in actions:
        refused |= allocate(session)
    if Action.CONSOLIDATE in actions:
        for helped in consolidate(session):
            refused.pop(helped, None)
    places = session.statement.places
    return RoundResult(
        {name: place.status for name, place in places.items()},
        {name: place.node for name, place in places.items() if place.status in ACTIVE},
        refused,
        next_cluster(session.cluster, session.statement),
    )


def _mistaken_for_others(jobs: Sequence[Job]) -> dict[str, Why]:
    """Jobs that cannot be told from each other, by their own name or by that of a pod."""
    job_names = Counter(job.name for job in jobs)
    pod_names = Counter(task.name for job in jobs for task in job.tasks)
    refused: dict[str, Why] = {}
    for job in jobs:
        if job_names[job.name] > 1:
            refused[job.name] = (f"there are {job_names[job.name]} jobs called {job.name}",)
            continue
        twice = next((task.name for task in job.tasks if pod_names[task.name] > 1), None)
        if twice is not None:
            refused[job.name] = (f"there are {pod_names[twice]} pods called {twice}",)
    return refused


def next_cluster(cluster: Cluster, statement: Statement) -> Cluster:
    """The cluster as the next round finds it: bound tasks run.

    Leaving tasks are gone and wait again, as do promised ones.

    The owner of an evicted pod recreates it, so it is the same task, pending.
    """
    idle = {node.name: total([node.idle, node.releasing]) for node in cluster.nodes}
    jobs = tuple(replace(job, tasks=tuple(_settled(task, statement) for task in job.tasks)) for job in cluster.jobs)
    for held, sign in ((cluster.jobs, 1), (jobs, -1)):
        for task in (task for job in held for task in job.tasks):
            if task.status in (Status.BINDING, Status.RUNNING) and task.node in idle:
                add(idle[task.node], task.requests, sign)
    nodes = tuple(replace(node, idle=idle[node.name], releasing={}) for node in cluster.nodes)
    return replace(cluster, jobs=jobs, nodes=nodes)


def _settled(task: Task, statement: Statement) -> Task:
    place = statement.places[task.name]
    if place.status in (Status.BINDING, Status.RUNNING):
        return replace(task, status=Status.RUNNING, node=place.node)
    return replace(task, status=Status.PENDING, node="")
