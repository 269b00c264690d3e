"""Volcano's one hint provider: which NUMA nodes could serve a number of CPUs, and which CPUs a container gets on the hint that was chosen.

In comes a `NodeCpus`, what one node's Numatopology object says. Hints go to `policy.py`, the allocation to `predicate.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from bayplan.compat.volcano.numa.cpu_picker import take_cpus
from bayplan.compat.volcano.numa.machine import NO_CPUS, Cpus, Machine
from bayplan.engine.kubelet.masks import subsets, sums_over, zones_in
from bayplan.engine.kubelet.merge import Hint


@dataclass(frozen=True)
class NodeCpus:
    """The CPUs of one node, and how much of them is kept for the system, in milli-CPUs; None if nothing is said about that."""

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
