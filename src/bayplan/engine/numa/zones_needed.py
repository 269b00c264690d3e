"""The number of zones that a pod would get on each node, and their closeness: the kubelet's choice, from amounts.

Containers (or, at pod scope, the pod) take the narrowest set of zones that holds them, one after the other, in the
kubelet's order: lowest-numbered, or closest under `prefer-closest-numa-nodes`. Later containers reuse what an init
container held. Only resources that the node's managers align count, not those that no zone reports.

`kubelet_least_numa_scores` is the strategy LeastNUMANodes in mode `Kubelet`; Volcano's score uses `zones_needed`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE, Columns
from bayplan.cluster.columns.hardware import HardwareClass
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.engine.numa.admission import Want, ZoneWalk, single_zones, wants_of
from bayplan.engine.numa.demand import Demand, Step
from bayplan.engine.numa.least_numa import kubelets_sets, normalized_score
from bayplan.engine.numa.rows import MOST_SCORE, Mask, Rows, Scores, among, count

NOT_KNOWN = -1


@dataclass(frozen=True, slots=True)
class ZonesPicked:
    """Per node: the widest set of any container, all zones as bits, and whether each set is the closest of its size.

    `short` marks nodes whose zones do not hold the pod, `aligned` those whose kubelet aligns some of it.
    """

    width: NDArray[np.int64]
    zones: NDArray[np.uint64]
    closest: Mask
    short: Mask
    aligned: Mask


def kubelet_least_numa_scores(
    columns: Columns, hardware: list[HardwareClass], demand: Demand, rows: Rows, assumptions: Assumptions
) -> Scores:
    """100 less a step per zone, half a step back if the zones that the kubelet would pick are the closest.

    A pod that is in no zone at all gets 100; one whose CPUs and memory are in zones but not pinned there may use all of
    them.
    """
    if demand.nothing_to_align:
        return np.full(count(rows), MOST_SCORE, dtype=np.int32)
    scores = np.zeros(count(rows), dtype=np.int32)
    for chosen, number, steps in _alike(columns, demand, rows):
        here = rows if chosen is None else among(rows, chosen)
        found = _scores_of_class(columns, hardware[number], steps, here, assumptions)
        if chosen is None:
            scores = found
        else:
            scores[chosen] = found
    return scores


def kubelet_least_numa_score(
    columns: Columns, hardware: list[HardwareClass], demand: Demand, row: int, assumptions: Assumptions
) -> int:
    """The same for one node; a pod in single zones needs no tables."""
    if demand.nothing_to_align:
        return MOST_SCORE
    if columns.topology[row] != TOPOLOGY_USABLE:
        return 0
    distances = hardware[columns.hardware_class[row]].distances
    if len({distances[zone][zone] for zone in range(len(distances))}) == 1:
        found = single_zones(columns, demand, row, assumptions)
        if found is not None and any(wants for _, _, wants in found):
            step = MOST_SCORE // int(columns.max_numa_nodes[row])
            return max(MOST_SCORE - step + step // 2, 0)
    return int(kubelet_least_numa_scores(columns, hardware, demand, slice(row, row + 1), assumptions)[0])


def zones_needed(
    columns: Columns,
    hardware: list[HardwareClass],
    demand: Demand,
    rows: NDArray[np.intp],
    assumptions: Assumptions,
) -> NDArray[np.int64]:
    """Zones of all containers of a pod on each of the rows.

    A node that does not hold the pod in its zones, or does not align it, may use all of them. `NOT_KNOWN` without a
    usable report.
    """
    needed = np.full(len(rows), NOT_KNOWN, dtype=np.int64)
    for chosen, number, steps in _alike(columns, demand, rows):
        here = rows if chosen is None else rows[chosen]
        picked = zones_picked(columns, hardware[number], steps, here, assumptions)
        zones = np.bitwise_count(picked.zones).astype(np.int64)
        anywhere = picked.short | ~picked.aligned | (columns.policy[here] == Policy.NONE)
        zones[anywhere] = hardware[number].zone_count
        needed[slice(None) if chosen is None else chosen] = zones
    return needed


def zones_picked(
    columns: Columns, hardware: HardwareClass, steps: tuple[Step, ...], rows: Rows, assumptions: Assumptions
) -> ZonesPicked:
    """What the kubelets of nodes of one hardware class would pick for a sequence of merges."""
    nodes = count(rows)
    width = np.zeros(nodes, dtype=np.int64)
    used = np.zeros(nodes, dtype=np.uint64)
    closest = np.ones(nodes, dtype=np.bool_)
    short = np.zeros(nodes, dtype=np.bool_)
    aligned = np.zeros(nodes, dtype=np.bool_)
    walk = ZoneWalk(columns, rows, steps)
    for number, step in enumerate(steps, start=1):
        wants = wants_of(columns, step.wants, rows, assumptions)
        if not wants:
            continue
        sets = kubelets_sets(
            hardware,
            {
                columns.resource_names[index]: _grid(columns, walk, (index, want, relevant))
                for index, want, relevant in wants
            },
            {columns.resource_names[index]: want or 1 for index, want, _ in wants},
            including=walk.zones_held(wants),
        )
        concerned: Mask | None = None
        if all(relevant is not None for _, _, relevant in wants):
            concerned = np.logical_or.reduce([relevant for _, _, relevant in wants if relevant is not None])
        bits = sets.bits if concerned is None else np.where(concerned, sets.bits, np.uint64(0))
        closest &= sets.closest if concerned is None else sets.closest | ~concerned
        short |= sets.bits == 0 if concerned is None else concerned & (sets.bits == 0)
        aligned |= True if concerned is None else concerned
        width = np.maximum(width, sets.width if concerned is None else np.where(concerned, sets.width, 0))
        used |= bits
        if number < len(steps):
            placed = np.nonzero(bits)[0]
            walk.take_from_sets(step, wants, placed, bits[placed])
    return ZonesPicked(width, used, closest, short, aligned)


def _grid(columns: Columns, walk: ZoneWalk, asked: Want) -> NDArray[np.float64]:
    """What is free for one resource [zone, node]; where it is not aligned, every zone has enough of it."""
    index, want, relevant = asked
    # Zero devices are at home in any zone that has one, used or not.
    grid = walk.usable(index) if want else columns.zone_total[index][:, walk.rows]
    return grid if relevant is None else np.where(relevant, grid, float(want or 1))


def _alike(columns: Columns, demand: Demand, rows: Rows) -> list[tuple[Mask | None, int, tuple[Step, ...]]]:
    """Nodes with usable reports by hardware class and scope, with their steps; None means all rows."""
    scored = columns.topology[rows] == TOPOLOGY_USABLE
    classes = columns.hardware_class[rows]
    by_pod = columns.scope[rows] == Scope.POD
    found: list[tuple[Mask | None, int, tuple[Step, ...]]] = []
    for number in np.unique(classes[scored]).tolist():
        in_class = scored & (classes == number)
        for of_scope, steps in ((by_pod, (demand.pod_step,)), (~by_pod, demand.container_steps)):
            chosen = in_class & of_scope
            if chosen.any():
                found.append((None if chosen.all() else chosen, number, steps))
    return found


def _scores_of_class(
    columns: Columns, hardware: HardwareClass, steps: tuple[Step, ...], rows: Rows, assumptions: Assumptions
) -> Scores:
    picked = zones_picked(columns, hardware, steps, rows, assumptions)
    scores = normalized_score(picked.width, picked.closest, columns.max_numa_nodes[rows].astype(np.int64))
    if not picked.aligned.all():
        names = {name for step in steps for name, _ in step.wants if name in columns.resource_index}
        in_zones = np.zeros(len(scores), dtype=np.bool_)
        for name in names:
            in_zones |= columns.zone_aligned[columns.resource_index[name]][rows]
        afloat = normalized_score(
            np.full(len(scores), hardware.zone_count),
            np.zeros_like(in_zones),
            columns.max_numa_nodes[rows].astype(np.int64),
        )
        scores = np.where(picked.aligned, scores, np.where(in_zones, afloat, MOST_SCORE))
    scores[picked.short] = 0
    # More zones than the kubelet's limit cannot be worth less than nothing.
    return np.clip(scores, 0, MOST_SCORE).astype(np.int32)
