"""Who comes first in KAI: among jobs, among the pod sets of a job, among tasks, and among nodes for a task.

Jobs of several queues stand in one line here; KAI would also weigh how much of its share each queue has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.compat.kai.scheduler.model import CPU, GPU, Job, Node, NodeOrder, Task
from bayplan.compat.kai.scheduler.statement import Statement
from bayplan.kube.wire.kai_scheduling_v2alpha2 import PodSet

FITS_NOW_SCORE = 100.0
CPU_ONLY_SCORE = 10.0
DENSITY_SCORE = 9.0


def jobs_in_order(jobs: Sequence[Job], statement: Statement) -> list[Job]:
    """Higher priority first; then jobs below their minimum, those at it, those above; then the older one."""
    return sorted(jobs, key=lambda job: (-job.priority, _elastic_rank(job, statement), statement.age[job.name]))


def _elastic_rank(job: Job, statement: Statement) -> int:
    active = wanted = 0
    for pod_set in job.tree.all_pod_sets():
        here = sum(1 for _ in statement.active(job, pod_set.name))
        if here < pod_set.min_available:
            return 0
        active, wanted = active + here, wanted + pod_set.min_available
    return 1 if active == wanted else 2


def pod_sets_in_order(pod_sets: Sequence[PodSet], job: Job, statement: Statement) -> list[PodSet]:
    """Those below their minimum first, then the one that is furthest from a multiple of it; ties by name."""

    def key(pod_set: PodSet) -> tuple[bool, float, str]:
        active = sum(1 for _ in statement.active(job, pod_set.name))
        satisfied = active >= pod_set.min_available
        return satisfied, active / max(pod_set.min_available, 1) if satisfied else 0.0, pod_set.name

    return sorted(pod_sets, key=key)


def tasks_in_order(tasks: Sequence[Task]) -> list[Task]:
    """Higher priority first, ties by name."""
    return sorted(tasks, key=lambda task: (-task.priority, task.name))


def nodes_in_order(
    task: Task,
    nodes: Sequence[Node],
    statement: Statement,
    topology_scores: Mapping[str, float] | None,
    node_order: NodeOrder,
) -> list[Node]:
    """Nodes by score, ties by name; with topology scores, nodes that have none are left out."""
    resource = GPU if task.requests.get(GPU, 0) > 0 else CPU
    density = _density_scores(resource, nodes, statement, node_order)
    scored = []
    for node in nodes:
        if topology_scores is not None and node.name not in topology_scores:
            continue
        score = density[node.name] + (topology_scores or {}).get(node.name, 0.0)
        if resource == CPU and not node.allocatable.get(GPU, 0):
            score += CPU_ONLY_SCORE
        if statement.fits_now(task, node.name):
            score += FITS_NOW_SCORE
        scored.append((-score, node.name, node))
    return [node for _, _, node in sorted(scored, key=lambda entry: entry[:2])]


def _density_scores(
    resource: str, nodes: Sequence[Node], statement: Statement, node_order: NodeOrder
) -> dict[str, float]:
    """Packing: 9 for the fullest of these nodes, 0 for the emptiest. Spreading: the free share of each."""
    free = {
        node.name: statement.free_amount(node.name, resource) for node in nodes if node.allocatable.get(resource, 0)
    }
    scores = dict.fromkeys((node.name for node in nodes), 0.0)
    if node_order is NodeOrder.SPREAD:
        return scores | {node.name: free[node.name] / node.allocatable[resource] for node in nodes if node.name in free}
    least, most = min(free.values(), default=0), max(free.values(), default=0)
    for name, amount in free.items():
        if most > 0:
            scores[name] = DENSITY_SCORE * (1 - (amount - least) / (most - least)) if most > least else DENSITY_SCORE
    return scores
