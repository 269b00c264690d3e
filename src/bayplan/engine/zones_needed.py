"""How many zones a pod would need on each node: what Volcano's score is about, for every resource that is aligned there.

In come a `Demand` and the rows that are left, out goes a number per row. Containers (or, at pod scope, the pod) take the narrowest set of zones that
holds them, one after the other, and the zones of all of them are counted. A node that holds a container in no set needs all of its zones. Where
nothing is aligned, nobody can say: `NOT_KNOWN`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import TOPOLOGY_USABLE, Columns
from bayplan.cluster.hardware import HardwareClass
from bayplan.cluster.kubelet_settings import Assumptions, Policy, Scope
from bayplan.engine.admission import wants_of
from bayplan.engine.demand import Demand, Step
from bayplan.engine.least_numa import narrowest_sets, take_from_sets

NOT_KNOWN = -1


def zones_needed(
    columns: Columns,
    hardware: list[HardwareClass],
    demand: Demand,
    rows: NDArray[np.intp],
    assumptions: Assumptions,
) -> NDArray[np.int64]:
    """Zones that a pod needs on each of the rows, or `NOT_KNOWN`."""
    needed = np.full(len(rows), NOT_KNOWN, dtype=np.int64)
    aligning = (columns.topology[rows] == TOPOLOGY_USABLE) & (columns.policy[rows] != Policy.NONE)
    by_pod = columns.scope[rows] == Scope.POD
    classes = columns.hardware_class[rows]
    for number in np.unique(classes[aligning]):
        for chosen, steps in ((by_pod, (demand.pod_step,)), (~by_pod, demand.container_steps)):
            here = aligning & chosen & (classes == number)
            if here.any():
                needed[here] = _in_class(columns, hardware[number], steps, rows[here], assumptions)
    return needed


def _in_class(
    columns: Columns,
    hardware: HardwareClass,
    steps: tuple[Step, ...],
    rows: NDArray[np.intp],
    assumptions: Assumptions,
) -> NDArray[np.int64]:
    used = np.zeros(len(rows), dtype=np.uint64)
    short = np.zeros(len(rows), dtype=np.bool_)
    aligned = np.zeros(len(rows), dtype=np.bool_)
    left: dict[str, NDArray[np.float64]] = {}
    for step in steps:
        wants = wants_of(columns, step.wants, rows, assumptions)
        if not wants:
            continue
        amounts: dict[str, int] = {}
        reported: dict[str, NDArray[np.uint64]] = {}
        concerned = np.zeros(len(rows), dtype=np.bool_)
        for index, want, relevant in wants:
            name = columns.resource_names[index]
            matters = np.ones(len(rows), dtype=np.bool_) if relevant is None else relevant
            amounts[name] = want
            # Where a resource is not aligned, every zone has enough of it.
            grid = left.get(name, columns.zone_available[index][:, rows])
            left[name] = np.where(matters, grid, np.inf)
            every_zone = np.uint64(2**hardware.zone_count - 1)
            reported[name] = np.where(matters, columns.zone_reported[index][rows], every_zone)
            concerned |= matters
        sets = narrowest_sets(hardware, left, reported, amounts, guaranteed=True)
        take_from_sets(left, amounts, np.where(concerned, sets.bits, np.uint64(0)))
        used |= np.where(concerned, sets.bits, np.uint64(0))
        short |= concerned & (sets.bits == 0)
        aligned |= concerned
    count = np.where(short, hardware.zone_count, np.bitwise_count(used).astype(np.int64))
    return np.where(aligned, count, NOT_KNOWN)
