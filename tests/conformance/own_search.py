"""bayplan's own search on clusters that another system recorded: jobs one after another, in their order, as Kubernetes
objects.
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.compat.kai.scheduler.model import Cluster, Job, Status, Task
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.kai_scheduling_v2alpha2 import SubGroupSet, TopologyConstraint
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from tests.conformance.consolidation import Movable, consolidate


def placed_by_bayplan(cluster: Cluster, *, may_move: bool) -> dict[str, str]:
    """The node of every task that has one in the end: where it ran, or where bayplan puts it."""
    state = ClusterState()
    for node in cluster.nodes:
        state.set_node(msgspec.convert(wire_node(node.name, dict(node.labels), dict(node.allocatable)), Node))
    nodes: dict[str, str] = {}
    for job in cluster.jobs:
        for task in job.tasks:
            if task.node and task.status is not Status.RELEASING:
                state.set_pod(wire_pod(job, task, node=task.node))
                nodes[task.name] = task.node
    trees = Trees(state)
    for topology in cluster.topologies:
        trees.set(topology.name, topology.levels)
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    for job in sorted(cluster.jobs, key=lambda job: -job.priority):
        gang = gang_of(job)
        if not gang.pods:
            continue
        decision = schedule_gang(scheduler, gang)
        if decision.placed and assume_gang(scheduler, gang, decision) is not None:
            nodes |= {task_of(seat.pod): seat.node for seat in decision.seats}
        elif may_move:
            found = consolidate(scheduler, gang, [movable(other) for other in cluster.jobs if is_movable(other)])
            for each in (found.decision, *found.moves) if found else ():
                nodes |= {task_of(seat.pod): seat.node for seat in each.seats}
    return nodes


def wire_node(name: str, labels: dict[str, str], allocatable: dict[str, float]) -> dict[str, object]:
    amounts = {
        resource: f"{int(amount)}m" if resource == "cpu" else int(amount) for resource, amount in allocatable.items()
    }
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": 110, **amounts}}}


def wire_pod(job: Job, task: Task, node: str | None = None) -> Pod:
    requests = {
        resource: f"{int(amount)}m" if resource == "cpu" else int(amount)
        for resource, amount in task.requests.items()
        if resource != "pods" and amount
    }
    spec: dict[str, object] = {"containers": [{"name": "main", "resources": {"requests": requests}}], "nodeName": node}
    if task.allowed_nodes is not None:
        names = {"key": "metadata.name", "operator": "In", "values": sorted(task.allowed_nodes)}
        required = {"nodeSelectorTerms": [{"matchFields": [names]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    metadata = {"name": task.name, "namespace": job.namespace or "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def task_of(key: str) -> str:
    return key.partition("/")[2]


def is_movable(job: Job) -> bool:
    return job.preemptible and bool(job.tasks) and all(task.status is Status.RUNNING for task in job.tasks)


def movable(job: Job) -> Movable:
    bound = tuple(wire_pod(job, task, node=task.node) for task in job.tasks)
    return Movable(gang_of(job, anew=True), bound)


def gang_of(job: Job, *, anew: bool = False) -> Gang:
    topology = next((each.topology for each in constraints(job.tree)), "")
    return Gang(f"{job.namespace or 'default'}/{job.name}", group_of(job, job.tree, anew=anew), topology)


def constraints(tree: SubGroupSet) -> list[TopologyConstraint]:
    own = [tree.constraint] if tree.constraint else []
    inner = [each.constraint for each in tree.pod_sets if each.constraint]
    return own + inner + [found for each in tree.sub_groups for found in constraints(each)]


def group_of(job: Job, tree: SubGroupSet, *, anew: bool) -> Group:
    groups = [group_of(job, each, anew=anew) for each in tree.sub_groups]
    for pod_set in tree.pod_sets:
        tasks = [task for task in job.tasks if task.pod_set == pod_set.name]
        waiting = [task for task in tasks if anew or task.status is Status.PENDING]
        running = [task for task in tasks if not anew and task.status in (Status.RUNNING, Status.BINDING)]
        groups.append(
            Group(
                pod_set.name,
                tuple(sorted((wire_pod(job, task) for task in waiting), key=pod_key)),
                required=level(pod_set.constraint, "required"),
                preferred=level(pod_set.constraint, "preferred"),
                minimum=min(max(pod_set.min_available - len(running), 0), len(waiting)),
                running=tuple(wire_pod(job, task, node=task.node) for task in running),
            )
        )
    return Group(
        tree.name,
        groups=tuple(groups),
        required=level(tree.constraint, "required"),
        preferred=level(tree.constraint, "preferred"),
    )


def level(constraint: TopologyConstraint | None, field: str) -> str | None:
    return (getattr(constraint, field) or None) if constraint else None
