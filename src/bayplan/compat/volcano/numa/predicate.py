"""Volcano's predicate: may a pod use a node, and which CPUs would it get there?

First the gate: the policy that the pod asks for against what the node's kubelet is configured to do. If it leads to an
evaluation, it is the *node's* policy that decides, for one main container after the other, each seeing what the earlier
ones took. Out goes an `Evaluation`, whose NUMA nodes `plugins/volcano_numa_aware.py` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product

from bayplan.compat.volcano.numa.machine import NO_CPUS, Cpus, Machine, take_cpus
from bayplan.engine.kubelet.masks import mask_of, subsets, sums_over, zones_in
from bayplan.engine.kubelet.merge import IMPOSSIBLE, NO_PREFERENCE, Hint, ProviderHints
from bayplan.kube.volcano_annotations import NO_POLICIES

BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE = "best-effort", "restricted", "single-numa-node"
ALIGNING_POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
"""Any other text, known or not, is a policy that aligns nothing."""


def judge(policy: str, numa_ids: Sequence[int], providers: Iterable[ProviderHints]) -> tuple[Hint, bool]:
    """The merged hint under a node's policy, and whether the policy admits it."""
    if policy not in ALIGNING_POLICIES:
        return Hint(None, preferred=False), True
    lists = _one_list_per_resource(providers)
    if policy == SINGLE_NUMA_NODE:
        lists = [
            [hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)]
            for hints in lists
        ]
    merged = _merged(mask_of(numa_ids), lists)
    return merged, merged.preferred or policy == BEST_EFFORT


def _one_list_per_resource(providers: Iterable[ProviderHints]) -> list[Sequence[Hint]]:
    lists: list[Sequence[Hint]] = []
    for provider in providers:
        if not provider:
            lists.append((NO_PREFERENCE,))
        lists += [(NO_PREFERENCE,) if hints is None else hints or (IMPOSSIBLE,) for hints in (provider or {}).values()]
    return lists


def _merged(everywhere: int, lists: Sequence[Sequence[Hint]]) -> Hint:
    best = Hint(everywhere, preferred=False)
    for combination in product(*lists):
        mask = everywhere
        for hint in combination:
            mask &= everywhere if hint.mask is None else hint.mask
        merged = Hint(mask, preferred=all(hint.preferred for hint in combination))
        if mask and _order(merged) < _order(best):
            best = merged
    return best


def _order(hint: Hint) -> tuple[bool, int, int]:
    """Preferred first, then narrow, then the lowest zones."""
    mask = hint.mask or 0
    return not hint.preferred, mask.bit_count(), mask


@dataclass(frozen=True)
class NodeCpus:
    """The CPUs of one node, and how much of them is kept for the system, in milli-CPUs.

    None if nothing is said about that.
    """

    machine: Machine
    reserved_milli: int | None = None

    @cached_property
    def reserved(self) -> Cpus:
        """The CPUs that Volcano believes the kubelet to reserve: as many as the amount, rounded up."""
        return take_cpus(self.machine, self.machine.cpus, -(-(self.reserved_milli or 0) // 1000)) or NO_CPUS


def whole_cpus(milli: int | None) -> int:
    """How many CPUs a container would own; 0 if it asks for none or for a fraction."""
    return milli // 1000 if milli and milli % 1000 == 0 else 0


def cpu_hints(node: NodeCpus, free: Cpus, count: int) -> list[Hint] | None:
    """Sets of NUMA nodes that have `count` CPUs free, small sets first; None if there is nothing to align.

    Preferred are those of the size that would do if nothing were in use.
    """
    if not count:
        return None
    numa_ids, numa_of = node.machine.numa_ids, node.machine.numa_of
    masks = subsets(numa_ids).masks
    there = sums_over(masks, Counter(map(numa_of, node.machine.cpus)))
    usable = sums_over(masks, Counter(map(numa_of, free - node.reserved)))
    smallest = min((mask.bit_count() for mask in masks if there[mask] >= count), default=len(numa_ids))
    return [Hint(mask, preferred=mask.bit_count() == smallest) for mask in masks if usable[mask] >= count]


def allocate(node: NodeCpus, free: Cpus, count: int, hint: Hint) -> Cpus:
    """The CPUs of a container on the hint that was chosen, then from anywhere; nothing at all if they cannot be had.

    That nothing is no refusal: a best-effort node that is starved admits the pod and takes no CPU for it.
    """
    usable = free - node.reserved
    taken: Cpus = NO_CPUS
    if hint.mask is not None:
        aligned = usable & node.machine.in_numa(zones_in(hint.mask))
        found = take_cpus(node.machine, aligned, min(count, len(aligned)))
        if found is None:
            return NO_CPUS
        taken = found
    rest = take_cpus(node.machine, usable - taken, count - len(taken))
    return NO_CPUS if rest is None else taken | rest


STATIC = "static"
CPU = "cpu"


class GateResult(Enum):
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
) -> tuple[GateResult, Rejection | None]:
    """Whether a node is looked at for a pod, and if not, why.

    `policies` is None for a node without a Numatopology object, `free` for one that the session knows no CPUs of.
    """
    if not guaranteed:
        return GateResult.UNCHECKED, None
    if policy in NO_POLICIES:
        aligns = policies and policies.cpu_manager == STATIC and policies.topology_manager not in NO_POLICIES
        return (GateResult.EVALUATE if aligns else GateResult.UNCHECKED), None
    rejection = _rejection(policy, policies, free)
    return (GateResult.EVALUATE if rejection is None else GateResult.REJECT), rejection


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
    """One pod on one node under the node's policy.

    `milli_cpus` has the request of each main container, None if it has none.
    """
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


def numa_nodes_needed(machine: Machine, cpus: Cpus) -> int:
    """On how many NUMA nodes a pod's CPUs lie; none if it got none, also where it should have got some."""
    return len({machine.numa_of(cpu) for cpu in cpus})
