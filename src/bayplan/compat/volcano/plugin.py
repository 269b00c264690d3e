"""`numa-aware` with `compatibility: volcano`: Volcano's answers as they are, CPUs of main containers only
(`compat/volcano/numa/`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import CPU, Role
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.state import ClusterState, ZoneCharge
from bayplan.compat.volcano.numa.nodes import Judged, judged, node_seen
from bayplan.compat.volcano.numa.predicate import Evaluation, Rejection, numa_nodes_needed
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.least_numa import relative_width_scores
from bayplan.engine.numa.placement import ContainerZones, Placement, place_by_amounts
from bayplan.engine.numa.rows import Codes, Rows, Scores
from bayplan.kube.volcano_annotations import NO_POLICIES
from bayplan.plugins.volcano_numa_aware import GateRefusal, NumaAware

_CODES = {
    Rejection.NO_INFO: GateRefusal.NO_REPORT,
    Rejection.NOT_STATIC: GateRefusal.NOT_STATIC,
    Rejection.OTHER_POLICY: GateRefusal.OTHER_POLICY,
    Rejection.NO_SETS: GateRefusal.NO_REPORT,
    Rejection.NO_FREE_CPUS: GateRefusal.NO_FREE_CPUS,
}


@dataclass(frozen=True)
class VolcanoNumaAware(NumaAware):
    """Filter, score and zones as Volcano has them."""

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Volcano's verdict, node by node: it keeps sets of CPUs, not amounts."""
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        return np.array([_code(state, pod, row) for row in numbers], dtype=np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """Volcano's own words."""
        if code < GateRefusal.NO_REPORT:
            return super().cause(pod, code)
        if code >= GateRefusal.OTHER_POLICY:
            return Rejection.OTHER_POLICY.words(pod.numa_policy, Policy(code - GateRefusal.OTHER_POLICY).text)
        if code == GateRefusal.NOT_ASSIGNABLE:
            return "container cannot be assigned by numa"
        return next(rejection for rejection, known in _CODES.items() if known == code).value

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """Volcano scores only pods that ask for a policy."""
        return pod.request.guaranteed and bool(self.settings.weight) and pod.numa_policy not in NO_POLICIES

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """The formula of the plugin, with the NUMA nodes of the CPUs that Volcano would take."""
        needed = np.array([_needed(state, pod, row) for row in rows.tolist()], dtype=np.int64)
        return relative_width_scores(needed, self.settings.weight).astype(np.int32)

    def place(self, state: ClusterState, pod: PodClass, row: int) -> Placement:
        """The zones of each container as Volcano believes that the kubelet will choose them."""
        found = _judged(state, pod, row).evaluation
        if found is None:
            return place_by_amounts(state, row, demand(pod), self._assumptions) or Placement()
        return _placement(state, pod, row, found)


def _code(state: ClusterState, pod: PodClass, row: int) -> int:
    found = _judged(state, pod, row)
    if found.rejection is None:
        return 0 if found.evaluation is None or found.evaluation.admitted else GateRefusal.NOT_ASSIGNABLE
    code = _CODES[found.rejection]
    return code + int(state.columns.policy[row]) if code == GateRefusal.OTHER_POLICY else code


def _judged(state: ClusterState, pod: PodClass, row: int) -> Judged:
    return judged(node_seen(state, row), pod.numa_policy, pod.request)


def _needed(state: ClusterState, pod: PodClass, row: int) -> int:
    """NUMA nodes of the CPUs that Volcano would take; none, which is best, where it would take none."""
    seen = node_seen(state, row)
    found = judged(seen, pod.numa_policy, pod.request).evaluation
    return numa_nodes_needed(seen.cpus.machine, found.cpus) if seen is not None and found is not None else 0


def _placement(state: ClusterState, pod: PodClass, row: int, found: Evaluation) -> Placement:
    """Volcano's CPUs as zones and amounts."""
    report, seen = state.reports[row], node_seen(state, row)
    assert report is not None
    assert seen is not None
    numa_of = seen.cpus.machine.numa_of
    applications = [container.name for container in pod.request.containers if container.role is Role.APP]
    containers = tuple(
        ContainerZones(name, tuple(sorted(set(map(numa_of, result.cpus)))) or None)
        for name, result in zip(applications, found.containers, strict=False)
    )
    taken = Counter(map(numa_of, found.cpus))
    index = state.columns.resource_index[CPU]
    charges = tuple(
        ZoneCharge(index, position, 1000.0 * taken[zone.id])
        for position, zone in enumerate(report.zones)
        if taken[zone.id]
    )
    return Placement(containers, charges)
