"""Slots by replay: admit a pod, take what it got, admit the next, until the node's kubelet refuses one.

`engine/slots/slots.py` comes here with the nodes where amounts alone do not tell: pods with init containers or larger
than a zone, memory that may span zones, machines that are not regular. An admission takes about a millisecond on eight
zones, but racks are full of equal nodes: what has been counted once is remembered under everything that decided it.

Two cautions make the count smaller than it could be. A node with more zones than can be replayed has the slots that
were found until then. And a scheduler that waits for reports (`cluster/reports/freshness.py`) replays only nodes whose
report shows every pod, and counts a pod only if the kubelet's verdict is the same whether init containers of those
before it have ended or not (`outlook.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import CPU, PodRequest, is_memory
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import UNLIMITED, WORK_OF_AN_ADMISSION, Budget
from bayplan.engine.kubelet import NodeKnowledge
from bayplan.engine.numa.demand import Demand
from bayplan.engine.numa.placement import knowledge_of, zones_held
from bayplan.engine.slots.outlook import Outlook, after
from bayplan.engine.slots.reports import reports_of

RowNumbers = NDArray[np.intp]

# Entries of about 500 bytes. Nothing is lost but time when they are thrown away.
MOST_REMEMBERED = 65_536


def replayed_slots(
    state: ClusterState,
    pod: PodClass,
    demand: Demand,
    assumptions: Assumptions,
    rows: RowNumbers,
    certain: NDArray[np.float64],
    possible: NDArray[np.float64],
    budget: Budget = UNLIMITED,
) -> list[int]:
    """Per node in `rows` how many pods its kubelet admits, at least `certain` and at most `possible`."""
    waits = state.freshness.waits_for_reports
    if waits:
        behind = np.array([state.is_ahead_of_report(row) for row in rows.tolist()])
        possible = np.where(behind, certain, possible)
    seen, counted = reports_of(state), _counted_before(state)
    counts = []
    amounts = amounts_that_decide(state.columns, demand, rows, possible)
    for row, here, least, most in zip(rows.tolist(), amounts, certain.tolist(), possible.tolist(), strict=True):
        if least == most:
            counts.append(int(least))
            continue
        key = (pod, assumptions, waits, seen.kind(row), listed_by_name(state, row), here.tobytes())
        count = counted.get(key)
        if count is None:
            node = knowledge_of(state, row, assumptions)
            assert node is not None
            count = admitted_in_a_row(
                node, pod.request, int(most), settled_only=waits, most_zones=pod.most_zones, budget=budget
            )
            count = counted[key] = max(count, int(least))
        counts.append(count)
    return counts


def admitted_in_a_row(
    node: NodeKnowledge,
    request: PodRequest,
    most: int,
    *,
    settled_only: bool = False,
    most_zones: int | None = None,
    budget: Budget = UNLIMITED,
) -> int:
    """How many equal pods, at most `most`, a kubelet admits one after another, each in at most `most_zones`.

    With `settled_only`, whenever their init containers end.
    """
    outlook = Outlook(node)
    for number in range(most):
        budget.spend(WORK_OF_AN_ADMISSION if outlook.later is None else 2 * WORK_OF_AN_ADMISSION)
        admission = outlook.admit(request)
        if admission is None or not admission.admitted:
            return number
        if most_zones is not None:
            zones: set[int] = set().union(*(zones_held(outlook.now, placed) for placed in admission.containers))
            if len(zones) > most_zones:
                return number
        following = outlook.after(request, admission) if settled_only else Outlook(after(outlook.now, admission))
        if following is None:
            return number + 1
        outlook = following
    return most


_COUNTED: WeakKeyDictionary[ClusterState, dict[Hashable, int]] = WeakKeyDictionary()


def _counted_before(state: ClusterState) -> dict[Hashable, int]:
    counted = _COUNTED.setdefault(state, {})
    if len(counted) > MOST_REMEMBERED:
        counted.clear()
    return counted


def amounts_that_decide(
    columns: Columns, demand: Demand, rows: RowNumbers, possible: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The deciding numbers, one line per node: what its zones have left, its total devices, and the limit."""
    blocks = [possible[np.newaxis, :]]
    for name, _ in demand.in_sum:
        index = columns.index_of(name)
        blocks.append(columns.zone_available[index][:, rows])
        if name != CPU and not is_memory(name):
            blocks.append(columns.allocatable[index : index + 1, rows])
            blocks.append(columns.free[index : index + 1, rows])
    return np.ascontiguousarray(np.concatenate(blocks).T)


def listed_by_name(state: ClusterState, row: int) -> Hashable:
    """What a node lists by name and would be replayed with; None where only amounts are known."""
    report = state.reports[row]
    if report is None or report.inventory is None or state.is_ahead_of_report(row):
        return None
    return report.inventory.free_cpus, tuple(report.inventory.devices.items())
