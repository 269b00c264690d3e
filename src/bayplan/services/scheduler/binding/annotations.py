"""Annotations of a bound pod: its NUMA zones, amounts in them, and its seat in a gang.

They contain only what the kubelet will certainly do: no estimated zones, and no memory by zone if a container's memory
spans zones, because the kubelet keeps only the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.cluster.pods.request import CPU, Role, is_memory
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.reports.pod_zones import NUMA_ZONES, holdings_of
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Assignment
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.amounts import canonical
from bayplan.gangs.ranks.ranks import RANK, SEGMENT
from bayplan.kube.volcano_annotations import decision_annotations, policy_in

NUMA_AMOUNTS = "bayplan.io/numa-amounts"
PATH = "bayplan.io/path"


def annotations_of(assignment: Assignment, state: ClusterState) -> dict[str, str]:
    """All annotations of an assignment."""
    written: dict[str, str] = {}
    known = list(_known(assignment, state))
    if known:
        written[NUMA_ZONES] = msgspec.json.encode({each.container: each.zones for each in known}).decode()
        written[NUMA_AMOUNTS] = msgspec.json.encode(_amounts(assignment, state, known)).decode()
        written |= _topology_decision(assignment, state, known)
    seat = assignment.seat
    if seat is not None:
        written[RANK] = str(seat.rank)
        written[PATH] = "/".join(seat.path)
        if seat.segment is not None:
            written[SEGMENT] = str(seat.segment)
    return written


def _known(assignment: Assignment, state: ClusterState) -> Iterator[ContainerZones]:
    """Containers with certain zones."""
    decision = assignment.decision
    report = state.reports[decision.row] if decision.row >= 0 else None
    hidden = report is not None and _hides_memory_groups(state, decision.row, report, pod_key(assignment.pod))
    steps = demand(state.classes.of(assignment.pod)).container_steps
    asks_for_memory = any(want and is_memory(name) for step in steps for name, want in step.wants)
    # Memory groups decide the zones of memory, and so of all later containers.
    if hidden and asks_for_memory:
        return
    wants: dict[str, tuple[tuple[str, int], ...]] = {}
    for step in steps:
        wants.setdefault(step.container, step.wants)
    for each in decision.containers:
        asked = wants.get(each.container, ())
        if each.zones and not each.estimated and not _may_be_elsewhere(state, decision.row, report, asked):
            yield each


def _may_be_elsewhere(
    state: ClusterState, row: int, report: TopologyReport | None, asked: tuple[tuple[str, int], ...]
) -> bool:
    """Whether a container may get devices without a zone: the report does not name them."""
    if report is None or report.inventory is not None:
        return False
    columns = state.columns
    indexes = [columns.index_of(name) for name, want in asked if want and name != CPU and not is_memory(name)]
    return any(columns.allocatable[index, row] > columns.zone_total[index, :, row].sum() > 0 for index in indexes)


def _hides_memory_groups(state: ClusterState, row: int, report: TopologyReport, own: str) -> bool:
    """Whether zones may be in a memory group that the report does not show.

    A kubelet never assigns a single zone of a group. Reports without inventory have no groups; but if every pod's
    memory is known to be in one zone, there are none.
    """
    settings = report.settings
    never = settings.policy is Policy.SINGLE_NUMA_NODE or settings.memory_static is False or len(report.zones) < 2
    if never or report.inventory is not None:
        return False
    for key in state.keys_on(row):
        placed, bound = state.pods[key], state.bound.get(key)
        if key == own or not placed.request.guaranteed:
            continue
        if bound is not None and not holdings_of(bound, placed.request, report)[1]:
            return True
        if bound is None:
            memory = [charge for charge in placed.charges if is_memory(state.columns.resource_names[charge.resource])]
            if len({charge.zone for charge in memory}) > 1:
                return True
    return False


def _amounts(assignment: Assignment, state: ClusterState, known: list[ContainerZones]) -> dict[str, dict[str, object]]:
    """What each container takes in its zones, of resources that the node reports by zone.

    For a container in several zones, this is the sum. Resources with zoneless devices are omitted.
    """
    taken: dict[str, float] = {}
    for charge in assignment.decision.charges:
        name = state.columns.resource_names[charge.resource]
        taken[name] = taken.get(name, 0.0) + charge.amount
    asked = demand(state.classes.of(assignment.pod))
    in_sum = dict(asked.in_sum)
    by_zone = {name for name, amount in taken.items() if amount >= in_sum.get(name, 0)}
    zones_of = {each.container: each.zones for each in known}
    return {
        step.container: {
            "zones": zones_of[step.container],
            "amounts": {name: canonical(name, want) for name, want in step.wants if want and name in by_zone},
        }
        for step in asked.container_steps
        # App containers reuse the resources of init containers.
        if step.container in zones_of and step.role is not Role.INIT
    }


def _topology_decision(assignment: Assignment, state: ClusterState, known: list[ContainerZones]) -> dict[str, str]:
    """Amounts by zone in Volcano's form, if the pod asks for a policy in Volcano's form and all are known."""
    decision = assignment.decision
    report = state.reports[decision.row]
    if report is None or policy_in(assignment.pod.metadata.annotations) in ("", "none"):
        return {}
    placed = [each for each in decision.containers if each.zones]
    if placed != known or not all(each.shares_known for each in placed):
        return {}
    spanning = {each.container for each in placed if len(each.zones or ()) > 1}
    steps = demand(state.classes.of(assignment.pod)).container_steps
    in_sum_only = {name for step in steps if step.container in spanning for name, _ in step.wants if is_memory(name)}
    decided: dict[int, dict[str, str]] = {}
    for charge in decision.charges:
        name, amount = state.columns.resource_names[charge.resource], int(charge.amount)
        if charge.zone < len(report.zones) and name not in in_sum_only:
            decided.setdefault(report.zones[charge.zone].id, {})[name] = f"{amount}m" if name == CPU else str(amount)
    return decision_annotations(decided)
