"""Slots inside NUMA zones: how many equal pods a kubelet admits so that each bundle of consecutive pods shares a zone.

A kubelet puts each pod into the lowest zone that holds it. So pods share a zone only if the zone of the first has room
for all. A zone with room for 5 pods takes one bundle of 4; the next one would begin there and end in the next zone, so
the count stops.

Amounts decide for pods of one step on regular nodes. Others are replayed, as in `replay.py`. A node whose kubelet
aligns nothing has no such slots.
"""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import UNLIMITED, WORK_OF_AN_ADMISSION, Budget
from bayplan.engine.kubelet import Admission, NodeKnowledge
from bayplan.engine.kubelet.masks import zones_in
from bayplan.engine.numa.admission import wants_of
from bayplan.engine.numa.demand import Demand, demand_of
from bayplan.engine.numa.placement import knowledge_of
from bayplan.engine.slots.outlook import Outlook, after
from bayplan.engine.slots.replay import MOST_REMEMBERED, amounts_that_decide, listed_by_name
from bayplan.engine.slots.reports import reports_of

Counts = NDArray[np.int32]
RowNumbers = NDArray[np.intp]


def slots_in_zones(
    state: ClusterState,
    pod: PodClass,
    assumptions: Assumptions,
    rows: RowNumbers,
    slots: Counts,
    bundle: int,
    budget: Budget = UNLIMITED,
) -> Counts:
    """Of the `slots` of each row those that come in bundles of so many pods in one zone."""
    demand, columns = demand_of(pod.request), state.columns
    counts = np.zeros_like(slots)
    if demand.nothing_to_align:
        return counts
    aligning = (columns.topology[rows] == TOPOLOGY_USABLE) & (columns.policy[rows] != Policy.NONE) & (slots >= bundle)
    by_amounts = aligning & ~reports_of(state).irregular[rows] if _one_step(demand) else np.zeros_like(aligning)
    if by_amounts.any():
        counts[by_amounts] = _by_amounts(state, demand, assumptions, rows[by_amounts], slots[by_amounts], bundle)
    others = np.flatnonzero(aligning & ~by_amounts)
    if len(others):
        counts[others] = _by_replay(state, pod, demand, assumptions, rows[others], slots[others], bundle, budget)
    return counts


def _one_step(demand: Demand) -> bool:
    return not demand.scope_matters and not demand.has_init_containers and len(demand.container_steps) == 1


def _by_amounts(
    state: ClusterState, demand: Demand, assumptions: Assumptions, rows: RowNumbers, slots: Counts, bundle: int
) -> NDArray[np.int64]:
    """Zone after zone, the bundles that each holds; a zone with room left for a pod but for no bundle ends it."""
    columns = state.columns
    times = np.full((columns.zone_available.shape[1], len(rows)), np.inf)
    aligned = np.zeros(len(rows), dtype=np.bool_)
    for index, want, relevant in wants_of(columns, demand.container_steps[0].wants, rows, assumptions):
        available, total = columns.zone_available[index][:, rows], columns.zone_total[index][:, rows]
        here = available / want if want else np.where(total > 0, np.inf, 0.0)
        matters = np.ones(len(rows), dtype=np.bool_) if relevant is None else relevant
        times = np.where(matters, np.minimum(times, here), times)
        aligned |= matters
    held = np.floor(np.where(np.arange(len(times))[:, np.newaxis] < columns.zone_count[rows], times, 0.0))
    counts = np.zeros(len(rows))
    is_open = aligned
    for in_zone in np.minimum(held, slots):
        counts += np.where(is_open, in_zone // bundle * bundle, 0.0)
        is_open = is_open & (in_zone % bundle == 0)
    whole: NDArray[np.int64] = (np.minimum(counts, slots) // bundle * bundle).astype(np.int64)
    return whole


def _by_replay(
    state: ClusterState,
    pod: PodClass,
    demand: Demand,
    assumptions: Assumptions,
    rows: RowNumbers,
    slots: Counts,
    bundle: int,
    budget: Budget,
) -> list[int]:
    waits, seen = state.freshness.waits_for_reports, reports_of(state)
    known = _KNOWN.setdefault(state, {})
    if len(known) > MOST_REMEMBERED:
        known.clear()
    counts = []
    amounts = amounts_that_decide(state.columns, demand, rows, slots.astype(np.float64))
    for row, here, most in zip(rows.tolist(), amounts, slots.tolist(), strict=True):
        if waits and state.is_ahead_of_report(row):
            counts.append(0)  # not remembered: the next report may show the same amounts
            continue
        key = (pod, assumptions, waits, bundle, seen.kind(row), listed_by_name(state, row), here.tobytes())
        if key not in known:
            node = knowledge_of(state, row, assumptions)
            known[key] = 0 if node is None else _in_a_row(node, pod.request, most, bundle, budget, settled_only=waits)
        counts.append(known[key])
    return counts


_KNOWN: WeakKeyDictionary[ClusterState, dict[Hashable, int]] = WeakKeyDictionary()


def _in_a_row(
    node: NodeKnowledge, request: PodRequest, most: int, bundle: int, budget: Budget, *, settled_only: bool
) -> int:
    """Pods in whole bundles that a kubelet admits before a bundle is torn apart."""
    shared: set[int] = set()
    outlook = Outlook(node)
    for number in range(most):
        budget.spend(WORK_OF_AN_ADMISSION if outlook.later is None else 2 * WORK_OF_AN_ADMISSION)
        admission = outlook.admit(request)
        if admission is None or not admission.admitted:
            return number // bundle * bundle
        zones = _zones_held(outlook.now, admission)
        if len(zones) != 1 or (number % bundle and zones != shared):
            return number // bundle * bundle
        shared = zones
        following = outlook.after(request, admission) if settled_only else Outlook(after(outlook.now, admission))
        if following is None:
            return (number + 1) // bundle * bundle
        outlook = following
    return most // bundle * bundle


def _zones_held(node: NodeKnowledge, admission: Admission) -> set[int]:
    """The zones in which a pod's CPUs, memory and devices are.

    Under `best-effort` that need not be the zone it was meant for.

    A device attached to several zones is where the rest of the pod is, if it is attached there.
    """
    zones_of_device = {device.id: set(zones_in(device.zones)) for listed in node.devices.values() for device in listed}
    held: set[int] = set()
    attached: list[set[int]] = []
    for placed in admission.containers:
        held |= {node.cpus.numa[cpu] for cpu in placed.cpus}
        held |= {zone for block in placed.memory for zone in block.zones}
        attached += [zones_of_device[name] for ids in placed.devices.values() for name in ids]
    for zones in sorted(attached, key=len):
        held |= zones if not zones & held else set()
    return held
