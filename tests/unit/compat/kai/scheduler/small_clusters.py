"""Small clusters in one line each: `nodes("z1/r1: 4 4, z1/r2: 2")` are three nodes n0, n1, n2 with so many free GPUs of
8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.compat.kai.scheduler.model import CPU, GPU, PODS, Cluster, Job, Node, Status, Task, Topology
from bayplan.kube.wire.kai_scheduling_v2alpha2 import DEFAULT_POD_SET, PodSet, SubGroupSet, TopologyConstraint

LEVELS = ("zone", "rack")
TOPOLOGY = Topology("dc", LEVELS)


def nodes(layout: str, levels: Sequence[str] = LEVELS) -> tuple[Node, ...]:
    """Nodes with 8 GPUs, 64 CPUs and room for 110 pods; only the GPUs are partly taken."""
    made: list[Node] = []
    for domain in layout.split(","):
        path, _, free = domain.partition(":")
        labels = dict(zip(levels, path.strip().split("/"), strict=True))
        made += [node(f"n{len(made) + place}", labels, int(gpus)) for place, gpus in enumerate(free.split())]
    return tuple(made)


def node(name: str, labels: Mapping[str, str], gpus: int, *, of: int = 8) -> Node:
    host = {CPU: 64_000, PODS: 110}
    return Node(name, labels, {GPU: of, **host}, {GPU: gpus, **host})


def within(required: str = "", preferred: str = "", topology: str = TOPOLOGY.name) -> TopologyConstraint:
    return TopologyConstraint(topology, required, preferred)


def tasks(*gpus: int, pod_set: str = DEFAULT_POD_SET, on: str = "", name: str = "") -> tuple[Task, ...]:
    """Pods that ask for so many GPUs each; `on` a node they run already."""
    status = Status.RUNNING if on else Status.PENDING
    return tuple(
        Task(f"{name or pod_set}-{place:02}", {GPU: each, CPU: 1000, PODS: 1}, pod_set, status, on)
        for place, each in enumerate(gpus)
    )


def job(
    name: str,
    constraint: TopologyConstraint | None,
    *gpus: int,
    minimum: int | None = None,
    on: str = "",
    priority: int = 50,
) -> Job:
    """A gang of one pod set; all its pods start together unless a smaller `minimum` is given."""
    tree = SubGroupSet("", constraint, pod_sets=(PodSet(DEFAULT_POD_SET, len(gpus) if minimum is None else minimum),))
    return Job(name, tree, tasks(*gpus, on=on, name=name), priority=priority, preemptible=priority < 100)


def job_of_parts(
    constraint: TopologyConstraint | None, parts: Mapping[str, tuple[TopologyConstraint | None, Sequence[int]]]
) -> Job:
    """A gang of several pod sets, each with its own constraint and pods."""
    pod_sets = tuple(PodSet(name, len(gpus), own) for name, (own, gpus) in parts.items())
    pods = tuple(task for name, (_, gpus) in parts.items() for task in tasks(*gpus, pod_set=name))
    return Job("parts", SubGroupSet("", constraint, pod_sets=pod_sets), pods)


def cluster(layout: str | Sequence[Node], *jobs: Job, levels: Sequence[str] = LEVELS) -> Cluster:
    made = nodes(layout, levels) if isinstance(layout, str) else tuple(layout)
    return Cluster((Topology(TOPOLOGY.name, tuple(levels)),), made, jobs)
