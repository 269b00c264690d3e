"""The nodes of a cluster as Volcano would see them: from bayplan's reports to the sets that its predicate works on.

A node needs a report that lists its CPUs by number: a Numatopology, or a NodeResourceTopology with an inventory. What
has been promised since is known per zone only; as many CPUs are left out there as Volcano itself would have taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bayplan.cluster.pods.request import CPU, PodRequest, Role
from bayplan.cluster.reports.inventory import OFFLINE, CpuLayout
from bayplan.cluster.state import ClusterState
from bayplan.compat.volcano.numa.machine import NO_CPUS, CpuPlace, Cpus, Machine, take_cpus
from bayplan.compat.volcano.numa.predicate import (
    STATIC,
    Evaluation,
    GateResult,
    NodeCpus,
    NodePolicies,
    Rejection,
    evaluate,
    gate,
)
from bayplan.engine.kubelet.masks import MOST_ZONES, zones_in


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node: its policies, its CPUs, and which of them are free, reserved ones among them."""

    policies: NodePolicies
    cpus: NodeCpus
    free: Cpus


@dataclass(frozen=True, slots=True)
class Judged:
    """What Volcano says about a pod on a node: rejected at the gate, evaluated, or neither of it."""

    rejection: Rejection | None = None
    evaluation: Evaluation | None = None


def judged(seen: NodeSeen | None, policy: str, request: PodRequest) -> Judged:
    """The predicate for one pod on one node."""
    policies, free = (seen.policies, seen.free) if seen is not None else (None, None)
    outcome, rejection = gate(policy, policies, free, guaranteed=request.guaranteed)
    if outcome is not GateResult.EVALUATE or seen is None:
        return Judged(rejection)
    asked = [each.requests.get(CPU) for each in request.containers if each.role is Role.APP]
    return Judged(None, evaluate(seen.cpus, seen.policies.topology_manager, seen.free, asked))


def node_seen(state: ClusterState, row: int) -> NodeSeen | None:
    """A row as Volcano would see it; None if nothing tells its CPUs by number."""
    report = state.reports[row]
    if report is None or report.inventory is None or not report.usable or len(report.zones) > MOST_ZONES:
        return None
    inventory, settings = report.inventory, report.settings
    cpus = _node_cpus(inventory.cpus, inventory.kernel_cores, inventory.reserved_cpus.bit_count())
    # What the node does not say is believed to be static, as everywhere.
    cpu_manager = "none" if settings.cpu_static is False else STATIC
    free = frozenset(zones_in(inventory.free_cpus))
    promised: Cpus = NO_CPUS
    index = state.columns.resource_index.get(CPU)
    for position, zone in enumerate(report.zones if index is not None else ()):
        here = free & cpus.machine.in_numa((zone.id,))
        left = int(state.columns.zone_available[index, position, row]) // 1000
        promised |= frozenset(sorted(take_cpus(cpus.machine, here, len(here) - left) or NO_CPUS)[: len(here) - left])
    # Volcano subtracts the CPUs that it believes to be reserved by itself.
    kept = frozenset(zones_in(inventory.reserved_cpus))
    return NodeSeen(NodePolicies(cpu_manager, settings.policy.text), cpus, (free - promised) | kept)


# Nodes of one kind share their layout, and Volcano's idea of what is reserved there.
@lru_cache(maxsize=256)
def _node_cpus(layout: CpuLayout, kernel_cores: tuple[int, ...], reserved: int) -> NodeCpus:
    cores = kernel_cores or layout.core
    places = {
        cpu: CpuPlace(numa, layout.socket[cpu], cores[cpu]) for cpu, numa in enumerate(layout.numa) if numa != OFFLINE
    }
    return NodeCpus(Machine(places), reserved * 1000)
