"""Volcano's predicate: may a pod use a node, and which CPUs would it get there?

First the gate: the policy that the pod asks for against what the node's kubelet is configured to do. If it leads to an evaluation, it is
the *node's* policy that decides, for one main container after the other, each seeing what the earlier ones took. Out goes an
`Evaluation`, which `score.py` counts NUMA nodes of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bayplan.engine.kubelet.merge import Hint
from bayplan.engine.volcano.cpus import NodeCpus, allocate, cpu_hints, whole_cpus
from bayplan.engine.volcano.machine import NO_CPUS, Cpus
from bayplan.engine.volcano.policy import judge

NO_POLICIES = ("", "none")
STATIC = "static"
CPU = "cpu"


class Outcome(Enum):
    """What the gate says."""

    UNCHECKED = "pass-unchecked"
    EVALUATE = "evaluate"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class NodePolicies:
    """What a node's Numatopology object says about its kubelet, as text."""

    cpu_manager: str = ""
    topology_manager: str = ""


@dataclass(frozen=True, slots=True)
class ContainerResult:
    """One container: its hints (None: nothing to align), the merged one, and the CPUs it gets if it is admitted."""

    hints: list[Hint] | None
    best: Hint
    admitted: bool
    cpus: Cpus = NO_CPUS


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All containers up to the first that is not admitted."""

    containers: tuple[ContainerResult, ...]

    @property
    def admitted(self) -> bool:
        """Whether every container is."""
        return all(container.admitted for container in self.containers)

    @property
    def cpus(self) -> Cpus:
        """What the pod would own."""
        return NO_CPUS.union(*(container.cpus for container in self.containers))


def gate(policy: str, policies: NodePolicies | None, free: Cpus | None, *, guaranteed: bool) -> tuple[Outcome, str]:
    """Whether a node is looked at for a pod, and Volcano's own words if it is rejected.

    `policies` is None for a node without a Numatopology object, `free` for one that the session knows no CPUs of.
    """
    if not guaranteed:
        return Outcome.UNCHECKED, ""
    if policy in NO_POLICIES:
        aligns = policies and policies.cpu_manager == STATIC and policies.topology_manager not in NO_POLICIES
        return (Outcome.EVALUATE if aligns else Outcome.UNCHECKED), ""
    if policies is None:
        return Outcome.REJECT, "numa info is empty"
    if policies.cpu_manager != STATIC:
        return Outcome.REJECT, "cpu manager policy isn't static"
    if policies.topology_manager != policy:
        return Outcome.REJECT, f"task topology policy[{policy}] is different with node[{policies.topology_manager}]"
    if free is None:
        return Outcome.REJECT, "no topo information"
    if not free:
        return Outcome.REJECT, "cpu allocatable map is empty"
    return Outcome.EVALUATE, ""


def evaluate(node: NodeCpus, policy: str, free: Cpus, milli_cpus: Sequence[int | None]) -> Evaluation:
    """One pod on one node under the node's policy; `milli_cpus` has the request of each main container, None if it has none."""
    results: list[ContainerResult] = []
    left = free
    for milli in milli_cpus:
        count = whole_cpus(milli)
        hints = cpu_hints(node, left, count)
        best, admitted = judge(policy, node.machine.numa_ids, [None if hints is None else {CPU: hints}])
        cpus = allocate(node, left, count, best) if admitted else NO_CPUS
        results.append(ContainerResult(hints, best, admitted, cpus))
        if not admitted:
            break
        left -= cpus
    return Evaluation(tuple(results))
