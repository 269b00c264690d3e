"""The room of a domain as bins, for `engine/preemption/covering.py`.

Bins are zones where the kubelet lets no pod span them, otherwise nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.dry_run import departure_from
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.admission import relevant_wants
from bayplan.engine.numa.demand import demand
from bayplan.engine.preemption.covering import Bin, BinPod, weight_of
from bayplan.engine.preemption.victims import Candidate, Cell
from bayplan.engine.slots.reports import reports_of
from bayplan.gangs.scheduler import GangScheduler
from bayplan.scheduling.preemption.candidates import most_freed_by
from bayplan.scheduling.profile import PASSES

Takes = tuple[tuple[float, ...] | None, ...]


def bins_of(
    scheduler: GangScheduler, rows: Iterable[int], classes: Sequence[PodClass], candidates: Iterable[Candidate]
) -> list[Bin]:
    """The bins of some rows, with the candidates that hold something there."""
    names = sorted({name for pod in classes for name, amount in pod.request.total.items() if amount} | {PODS})
    by_row: dict[int, list[Candidate]] = {}
    for each in candidates:
        by_row.setdefault(scheduler.state.pods[each.key].row, []).append(each)
    blocked = [scheduler.answers.for_class(pod, scheduler.profile).blocked_by_node for pod in classes]
    found: list[Bin] = []
    for row in rows:
        allowed = [codes[row] == PASSES for codes in blocked]
        zones = _zone_wants(scheduler, row, classes)
        arrangements = departure_from(scheduler.state, row).arrangements
        pods = [(each, most_freed_by(scheduler.state, each.key, arrangements)) for each in by_row.get(row, ())]
        if zones is None:
            found.append(_node(scheduler.state, row, names, classes, allowed, pods))
        else:
            found += _zones(scheduler.state, row, names, zones, allowed, pods)
    return found


def _zone_wants(scheduler: GangScheduler, row: int, classes: Sequence[PodClass]) -> list[dict[int, int]] | None:
    """What a member of each class takes of one zone, by resource; None if some class may take it from several."""
    state, topology = scheduler.state, scheduler.profile.topology
    columns = state.columns
    strict = columns.policy[row] in (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED)
    if topology is None or not strict or columns.topology[row] != TOPOLOGY_USABLE or reports_of(state).irregular[row]:
        return None
    found = []
    for pod in classes:
        wants = _of_one_zone(state, row, pod, topology.arguments.assumptions)
        if not wants:
            return None
        found.append(wants)
    return found


def _of_one_zone(state: ClusterState, row: int, pod: PodClass, assumptions: Assumptions) -> dict[int, int]:
    columns, asked = state.columns, demand(pod)
    steps = asked.steps_by_amounts(by_pod=columns.scope[row] == Scope.POD)
    if asked.nothing_to_align or steps is None or len(steps) != 1:
        return {}
    wants = {index: want for index, want in relevant_wants(columns, steps[0].wants, row, assumptions) if want}
    spans = columns.policy[row] == Policy.RESTRICTED and any(
        want > columns.zone_total[index, :, row].max() for index, want in wants.items()
    )
    return {} if spans else wants


def _node(
    state: ClusterState,
    row: int,
    names: Sequence[str],
    classes: Sequence[PodClass],
    allowed: Sequence[bool],
    pods: Sequence[tuple[Candidate, Mapping[Cell, int]]],
) -> Bin:
    columns = state.columns
    indexes = [columns.resource_index.get(name) for name in names]
    free = tuple(0.0 if index is None else float(columns.free[index, row]) for index in indexes)
    takes: Takes = tuple(
        tuple(float(1 if name == PODS else pod.request.total.get(name, 0)) for name in names) if may else None
        for pod, may in zip(classes, allowed, strict=True)
    )
    held = [
        BinPod(each.key, weight_of(each.priority), tuple(float(freed.get((name, None), 0)) for name in names))
        for each, freed in pods
    ]
    return Bin(free, (float("inf"),) * len(names), takes, tuple(each for each in held if any(each.frees)))


def _zones(
    state: ClusterState,
    row: int,
    names: Sequence[str],
    wants: Sequence[Mapping[int, int]],
    allowed: Sequence[bool],
    pods: Sequence[tuple[Candidate, Mapping[Cell, int]]],
) -> list[Bin]:
    columns = state.columns
    aligned = {index for each in wants for index in each}
    # A resource that is not aligned is no matter of zones.
    found = (columns.resource_index.get(name, -1) for name in names)
    indexes = [index if index in aligned else -1 for index in found]
    takes: Takes = tuple(
        tuple(float(each.get(index, 0)) for index in indexes) if may else None
        for each, may in zip(wants, allowed, strict=True)
    )
    zones = range(int(columns.zone_count[row]))
    position = {name: number for number, (name, index) in enumerate(zip(names, indexes, strict=True)) if index >= 0}
    in_zones: list[list[BinPod]] = [[] for _ in zones]
    for each, freed in pods:
        frees: dict[int, list[float]] = {}
        for (name, zone), amount in freed.items():
            if zone is not None and name in position and amount:
                frees.setdefault(zone, [0.0] * len(names))[position[name]] = float(amount)
        for zone, amounts in frees.items():
            in_zones[zone].append(BinPod(each.key, weight_of(each.priority) // len(frees), tuple(amounts)))
    available, total = (
        [[float(column[index, zone, row]) if index >= 0 else 0.0 for index in indexes] for zone in zones]
        for column in (columns.zone_available, columns.zone_total)
    )
    return [Bin(tuple(available[zone]), tuple(total[zone]), takes, tuple(in_zones[zone])) for zone in zones]
