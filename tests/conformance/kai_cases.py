"""KAI's recorded cases as plain data, for every placement style that is to be held against them.

`recorded_run` reads a case of the allocate, integration and consolidation families, `recorded_scenario` one of the
end-to-end scenarios; both give a `Cluster`. A placement of it, task by task, is judged by `placement_problem` (the very
same nodes), `domain_problem` (as close together as recorded, whatever the nodes) or `scenario_problem` (numbers of
distinct domains).

Recorded CPUs are whole cores in the tables that these cases came from; here they are milli-CPUs, like everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.compat.kai.scheduler.model import (
    CPU,
    GPU,
    Amounts,
    Cluster,
    Job,
    Node,
    NodeOrder,
    Queue,
    Status,
    Task,
    Topology,
)
from bayplan.kube.wire.kai_scheduling_v2alpha2 import DEFAULT_POD_SET, PodSet, SubGroupSet, TopologyConstraint

Json = dict[str, Any]
# By job, pod set (or the whole job) and level: label values.
DomainsUsed = dict[str, dict[str, dict[str, set[str]]]]

# Jobs of a lower priority may be moved or evicted unless they say otherwise.
FIRST_NON_PREEMPTIBLE_PRIORITY = 100
WHOLE_JOB = "*job*"
STATUS_BY_TEXT = {
    **{status.value: status for status in Status},
    "Allocated": Status.BINDING,
    "Bound": Status.RUNNING,
}


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A cluster, what was done with it, and where tasks and jobs stood afterwards.

    After a single action the tasks stand as it left them. Where all actions ran in rounds, they stand as the next round
    finds them, and stay so for some rounds more.
    """

    cluster: Cluster
    actions: tuple[str, ...]
    rounds: int
    rounds_after: int
    tasks: Mapping[str, Json]
    jobs: Mapping[str, Json]
    domains_used: DomainsUsed = field(default_factory=dict)

    @property
    def in_rounds(self) -> bool:
        """Whether all actions ran one after another, round by round."""
        return len(self.actions) > 1


def recorded_run(case: Json) -> RecordedRun:
    """A case of the allocate, integration or consolidation families."""
    nodes = tuple(node_of(node) for node in case["nodes"])
    cluster = Cluster(
        tuple(Topology(each["name"], tuple(each["levels"])) for each in case["topologies"]),
        nodes,
        tuple(job_of(job, nodes) for job in case["jobs"]),
        tuple(queue_of(queue) for queue in [*(case.get("queues") or []), *(case.get("departments") or [])]),
    )
    used = case.get("derived", {}).get("domainsUsed") or {}
    return RecordedRun(
        cluster,
        tuple(case["actions"]),
        case["roundsUntilMatch"],
        case.get("roundsAfterMatch", 0),
        case["expected"].get("tasks") or {},
        case["expected"].get("jobs") or {},
        {
            job: {part: {level: set(values) for level, values in levels.items()} for part, levels in parts.items()}
            for job, parts in used.items()
        },
    )


def node_of(node: Json) -> Node:
    return Node(
        node["name"],
        node.get("labels") or {},
        amounts(node["allocatable"]),
        amounts(node.get("idle") or node["allocatable"]),
        amounts(node.get("releasing") or {}),
    )


def job_of(job: Json, nodes: tuple[Node, ...]) -> Job:
    return Job(
        job["name"],
        sub_group_set(job["rootSubGroupSet"]),
        tuple(task_of(task, nodes) for task in job["tasks"]),
        queue=job.get("queue", ""),
        priority=job.get("priority", 0),
        preemptible=job.get("priority", 0) < FIRST_NON_PREEMPTIBLE_PRIORITY,
    )


def task_of(task: Json, nodes: tuple[Node, ...]) -> Task:
    affinity = task.get("requiredNodeAffinity")
    allowed = None
    if affinity:
        allowed = frozenset(
            node.name for node in nodes if all(node.labels.get(label) in values for label, values in affinity.items())
        )
    return Task(
        task["name"],
        amounts(task["requests"]),
        task.get("subGroup") or DEFAULT_POD_SET,
        STATUS_BY_TEXT[task["state"]],
        task.get("node", ""),
        task.get("priority") or 0,
        allowed,
    )


def sub_group_set(tree: Json) -> SubGroupSet:
    return SubGroupSet(
        tree.get("name", ""),
        constraint_of(tree.get("topologyConstraint")),
        tuple(sub_group_set(child) for child in tree.get("subGroups") or ()),
        tuple(
            PodSet(each["name"], each["minAvailable"], constraint_of(each.get("topologyConstraint")))
            for each in tree.get("podSets") or ()
        ),
    )


def constraint_of(constraint: Json | None) -> TopologyConstraint | None:
    if constraint is None:
        return None
    return TopologyConstraint(
        constraint.get("topology", ""), constraint.get("required", ""), constraint.get("preferred", "")
    )


def queue_of(queue: Json) -> Queue:
    return Queue(
        queue["Name"], queue.get("ParentQueue", ""), queue.get("DeservedGPUs"), queue.get("MaxAllowedGPUs") or None
    )


def amounts(recorded: Mapping[str, float]) -> Amounts:
    return {name: amount * 1000 if name == CPU else amount for name, amount in recorded.items()}


# -- the end-to-end scenarios -----------------------------------------------------------------------------------------


def recorded_scenario(case: Json) -> Cluster:
    """One job of equal pods on empty nodes."""
    group = case["podGroup"]
    tree = SubGroupSet(
        "", constraint_of(group.get("topologyConstraint")), pod_sets=(PodSet(DEFAULT_POD_SET, group["minMember"]),)
    )
    tasks = tuple(Task(f"pod-{number}", {GPU: case["gpusPerPod"]}) for number in range(case["pods"]))
    return Cluster(
        (Topology(case["topology"]["name"], tuple(case["topology"]["levels"])),),
        tuple(node_of(node) for node in case["nodes"]),
        (Job("job", tree, tasks),),
        node_order=NodeOrder(case.get("placementStrategy", "binpack")),
    )


def scenario_problem(case: Json, cluster: Cluster, nodes: Mapping[str, str]) -> str | None:
    """Whether all pods have a node, in as many distinct domains as recorded."""
    unplaced = [task.name for job in cluster.jobs for task in job.tasks if task.name not in nodes]
    if unplaced:
        return f"no node for {unplaced}"
    labels = {node.name: node.labels for node in cluster.nodes}
    expected = case["expected"]
    unknown = expected.keys() - {"distinct", "distinctAtLeast", "distinctAtMost"}
    if unknown:
        return f"cannot judge {unknown}"
    for kind, counts in expected.items():
        for level, count in counts.items():
            distinct = len({labels[node].get(level) for node in nodes.values()})
            right = {
                "distinct": distinct == count,
                "distinctAtLeast": distinct >= count,
                "distinctAtMost": distinct <= count,
            }
            if not right[kind]:
                return f"{distinct} domains of {level}, recorded {kind} {count}"
    return None


# -- judging ----------------------------------------------------------------------------------------------------------


def placement_problem(run: RecordedRun, statuses: Mapping[str, Status], nodes: Mapping[str, str]) -> str | None:
    """Whether every task stands as recorded, on the recorded node."""
    expected = dict(run.tasks)
    for job in run.cluster.jobs:
        if job.name in run.jobs:
            expected |= {task.name: run.jobs[job.name] for task in job.tasks}
    for name, recorded in expected.items():
        got = {"status": statuses[name].value, "node": nodes.get(name, "")}
        if any(recorded[key] != got[key] for key in got if recorded.get(key)):
            return f"{name}: got {got}, recorded {recorded}"
    return None


def domain_problem(run: RecordedRun, nodes: Mapping[str, str]) -> str | None:
    """Whether the same jobs are placed as recorded, none of their parts in more domains of any level."""
    used = domains_used(run.cluster, nodes)
    # A job may be recorded as running without its nodes.
    running = {name for name, recorded in run.jobs.items() if recorded.get("status") == "Running"}
    if used.keys() != run.domains_used.keys() | running:
        return f"placed {sorted(used)}, recorded {sorted(run.domains_used.keys() | running)}"
    for job, parts in run.domains_used.items():
        for part, levels in parts.items():
            for level, values in levels.items():
                got = used[job].get(part, {}).get(level, set())
                if len(got) > len(values):
                    return f"{job}, {part}: {len(got)} domains of {level} {sorted(got)}, recorded {sorted(values)}"
    return None


def domains_used(cluster: Cluster, nodes: Mapping[str, str]) -> DomainsUsed:
    """Label values by job, part and level, of the nodes where tasks are; jobs without a node are left out."""
    labels = {node.name: node.labels for node in cluster.nodes}
    levels = {level for topology in cluster.topologies for level in topology.levels}
    used: DomainsUsed = {}
    for job in cluster.jobs:
        for task in job.tasks:
            here = labels.get(nodes.get(task.name, ""), {})
            for part in (WHOLE_JOB, task.pod_set):
                for level in levels & here.keys():
                    used.setdefault(job.name, {}).setdefault(part, {}).setdefault(level, set()).add(here[level])
    return used
