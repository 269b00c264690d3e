"""What the style `kai` needs to know: topologies, nodes, queues and jobs, as plain data.

Amounts are numbers per resource: `cpu` in milli-CPUs, everything else in whole units; `pods` counts pods, and a task
takes one. A job is a gang with a tree of sub-groups (`kube/wire/kai_scheduling_v2alpha2.py`); its tasks are its pods.
Jobs are in order of creation. `statement.py` keeps what changes while jobs are placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from bayplan.kube.wire.kai_scheduling_v2alpha2 import DEFAULT_POD_SET, SubGroupSet

CPU = "cpu"
GPU = "nvidia.com/gpu"
PODS = "pods"

Amounts = Mapping[str, float]


class Status(Enum):
    """Where a task stands: waiting, promised what is still being freed, bound in this round, running, or leaving."""

    PENDING = "Pending"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    RUNNING = "Running"
    RELEASING = "Releasing"


# A task with one of these counts towards its pod set's minimum.
ACTIVE = frozenset({Status.PIPELINED, Status.BINDING, Status.RUNNING})


class NodeOrder(Enum):
    """Whether a task goes to the fullest node that fits, or to the emptiest."""

    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels are node labels, the widest first. A node without one of them is outside this topology."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """`idle` is free now; `releasing` is held by pods that are leaving. What is in neither is taken."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    idle: Amounts
    releasing: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """GPUs that jobs of a queue (and of the queues below it) may hold: any job `max_gpus`, non-preemptible ones
    `deserved_gpus`.

    None sets no limit.
    """

    name: str
    parent: str = ""
    deserved_gpus: float | None = None
    max_gpus: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A pod. `allowed_nodes` are those that node affinity, taints and other filters leave; None means all."""

    name: str
    requests: Amounts
    pod_set: str = DEFAULT_POD_SET
    status: Status = Status.PENDING
    node: str = ""
    priority: int = 0
    allowed_nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A gang: its pods and the tree of sub-groups that they belong to."""

    name: str
    tree: SubGroupSet
    tasks: tuple[Task, ...]
    namespace: str = ""
    queue: str = ""
    priority: int = 0
    preemptible: bool = True


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything at one moment."""

    topologies: tuple[Topology, ...]
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    queues: tuple[Queue, ...] = ()
    node_order: NodeOrder = NodeOrder.BINPACK


def total(amounts: list[Amounts]) -> dict[str, float]:
    """Resource by resource, the sum."""
    summed: dict[str, float] = {}
    for each in amounts:
        for resource, amount in each.items():
            summed[resource] = summed.get(resource, 0) + amount
    return summed


def fits(request: Amounts, free: Amounts) -> bool:
    """Whether `free` holds the request; what is not asked for does not matter."""
    return all(amount <= free.get(resource, 0) for resource, amount in request.items() if amount)
