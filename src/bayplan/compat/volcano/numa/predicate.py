"""Volcano's predicate: may a pod use a node, and which CPUs would it get there?

First the gate: the policy that the pod asks for against what the node's kubelet is configured to do. If it leads to an evaluation, it is
the *node's* policy that decides, for one main container after the other, each seeing what the earlier ones took. Out goes an
`Evaluation`, which `score.py` counts NUMA nodes of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bayplan.compat.volcano.numa.cpus import NodeCpus, allocate, cpu_hints, whole_cpus
from bayplan.compat.volcano.numa.machine import NO_CPUS, Cpus
from bayplan.compat.volcano.numa.policy import judge
from bayplan.engine.kubelet.merge import Hint
from bayplan.kube.wire.volcano_annotations import NO_POLICIES

STATIC = "static"
CPU = "cpu"


class Outcome(Enum):
    """What the gate says."""

    UNCHECKED = "pass-unchecked"
    EVALUATE = "evaluate"
    REJECT = "reject"


class Rejection(Enum):
    """Why the gate rejects a node; the value is Volcano's text."""

    NO_INFO = "numa info is empty"
    NOT_STATIC = "cpu manager policy isn't static"
    OTHER_POLICY = "task topology policy[{asked}] is different with node[{of_node}]"
    NO_SETS = "no topo information"
    NO_FREE_CPUS = "cpu allocatable map is empty"

    def words(self, asked: str, of_node: str) -> str:
        """The sentence about a pod that asks for a policy and a node that has another."""
        return self.value.format(asked=asked, of_node=of_node)


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


def gate(
    policy: str, policies: NodePolicies | None, free: Cpus | None, *, guaranteed: bool
) -> tuple[Outcome, Rejection | None]:
    """Whether a node is looked at for a pod, and if not, why.

    `policies` is None for a node without a Numatopology object, `free` for one that the session knows no CPUs of.
    """
    if not guaranteed:
        return Outcome.UNCHECKED, None
    if policy in NO_POLICIES:
        aligns = policies and policies.cpu_manager == STATIC and policies.topology_manager not in NO_POLICIES
        return (Outcome.EVALUATE if aligns else Outcome.UNCHECKED), None
    rejection = _rejection(policy, policies, free)
    return (Outcome.EVALUATE if rejection is None else Outcome.REJECT), rejection


def _rejection(policy: str, policies: NodePolicies | None, free: Cpus | None) -> Rejection | None:
    if policies is None:
        return Rejection.NO_INFO
    if policies.cpu_manager != STATIC:
        return Rejection.NOT_STATIC
    if policies.topology_manager != policy:
        return Rejection.OTHER_POLICY
    if free is None:
        return Rejection.NO_SETS
    return None if free else Rejection.NO_FREE_CPUS


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
