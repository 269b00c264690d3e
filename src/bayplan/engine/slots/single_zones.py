"""Pods one after another, each of their steps in the lowest zone that holds it: how many fit, for many nodes at once.

A pod of one step fills zone after zone, so the answer is a sum. With several steps it matters which zone each of them
gets, so pods are sent through all nodes in step: 8 ms for 5,000 nodes that hold four pods of two containers each, where
a replay of every node would take a minute. `engine/slots/slots.py` knows for which nodes this is what their kubelet
does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_USABLE, Columns
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.engine.numa.admission import Want, relevant_wants, without_report
from bayplan.engine.numa.demand import Demand, Step
from bayplan.engine.numa.rows import Mask, Rows

Counts = NDArray[np.float64]


def in_single_zones(columns: Columns, steps: list[list[Want]], rows: Rows, limit: Counts) -> Counts:
    """How many pods fit per node, at most `limit`; `steps` lists what each step wants."""
    if not steps:
        return limit
    if len(steps) == 1:
        return np.minimum(limit, _zone_by_zone(columns, steps[0], rows))
    return _in_step(columns, steps, rows, limit)


def _zone_by_zone(columns: Columns, wants: list[Want], rows: Rows) -> Counts:
    """One step: every zone holds as many as its scarcest resource does."""
    times: Counts | None = None
    for index, want, relevant in wants:
        if want:
            here = columns.zone_available[index][:, rows] / want
        else:
            # Zero devices are at home in any zone that has one, used or not.
            here = np.where(columns.zone_total[index][:, rows] > 0, np.inf, 0.0)
        if relevant is not None:
            here[:, ~relevant] = np.inf
        times = here if times is None else np.minimum(times, here, out=times)
    assert times is not None
    np.floor(times, out=times)
    total: Counts = np.add.reduce(times, axis=0)
    return total


def _in_step(columns: Columns, steps: list[list[Want]], rows: Rows, limit: Counts) -> Counts:
    """Several steps: all nodes take their next pod at the same time, until each has refused one."""
    counts = np.zeros_like(limit)
    nodes = np.nonzero(limit > 0)[0]
    indexes = {index for wants in steps for index, _, _ in wants}
    left = {index: columns.zone_available[index][:, rows][:, nodes] for index in indexes}
    while len(nodes):
        everyone = np.arange(len(nodes))
        admitted = np.ones(len(nodes), dtype=np.bool_)
        for wants in steps:
            fits = _zones_that_fit(columns, wants, left, rows, nodes)
            zone = fits.argmax(axis=0)
            admitted &= fits[zone, everyone]
            for index, want, relevant in wants:
                left[index][zone, everyone] -= want if relevant is None else want * relevant[nodes]
        counts[nodes] += admitted
        staying = admitted & (counts[nodes] < limit[nodes])
        if not staying.all():
            nodes = nodes[staying]
            left = {index: grid[:, staying] for index, grid in left.items()}
    return counts


def _zones_that_fit(
    columns: Columns, wants: list[Want], left: dict[int, Counts], rows: Rows, nodes: NDArray[np.intp]
) -> Mask:
    """fits[zone, node]: the zone holds every amount of a step that matters on the node."""
    fits: Mask | None = None
    for index, want, relevant in wants:
        enough = left[index] >= want if want else columns.zone_total[index][:, rows][:, nodes] > 0
        if relevant is not None:
            enough |= ~relevant[nodes]
        fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
    assert fits is not None
    return fits


Wants = list[tuple[int, int]]


def slots_of_one(
    columns: Columns, asked: Sequence[tuple[int, int]], demand: Demand, row: int, assumptions: Assumptions, most: int
) -> int | None:
    """How many pods a regular node admits one after another; None where single zones are not all it offers.

    `asked` is what each pod takes of the node in sum, as (resource index, amount).
    """
    free = columns.free[:, row].tolist()
    limit = int(max(min(most, *(free[index] // amount for index, amount in asked)), 0))
    topology, policy, scope = int(columns.topology[row]), int(columns.policy[row]), int(columns.scope[row])
    if demand.nothing_to_align or not limit:
        return limit
    if topology <= NO_TOPOLOGY:
        return 0 if without_report(demand, assumptions)[topology < NO_TOPOLOGY] else limit
    if topology != TOPOLOGY_USABLE:
        return 0
    by_pod = demand.scope_matters and scope == Scope.POD and policy != Policy.NONE
    steps = demand.steps_by_amounts(by_pod=by_pod)
    if columns.cpu_group[row] != 1 or steps is None:
        return None
    count = _in_single_zones(columns, _wanted(columns, steps, row, assumptions), row, limit)
    if demand.has_init_containers:
        starting = _wanted(columns, (demand.starting_step,), row, assumptions)
        if count != _in_single_zones(columns, starting, row, limit):
            return None
    # A pod that fits into single zones is not larger than a zone, and `restricted` offers others nothing else.
    settled = count == limit or policy == Policy.SINGLE_NUMA_NODE or (policy == Policy.RESTRICTED and count > 0)
    return count if settled else None


def _wanted(columns: Columns, steps: tuple[Step, ...], row: int, assumptions: Assumptions) -> list[Wants]:
    """What each step wants of the node's zones, without steps that want nothing there."""
    return [wants for step in steps if (wants := relevant_wants(columns, step.wants, row, assumptions))]


def _in_single_zones(columns: Columns, wanted: list[Wants], row: int, limit: int) -> int:
    """Pod after pod, each step in the lowest zone that holds it."""
    zones = int(columns.zone_count[row])
    if not wanted:
        return limit
    if len(wanted) == 1:
        # Every zone holds as many as its scarcest resource does.
        times = [_times(columns, index, want, row, limit)[:zones] for index, want in wanted[0]]
        return int(min(limit, sum(map(min, zip(*times, strict=True)))))
    left = {index: columns.zone_available[index, :zones, row].tolist() for wants in wanted for index, _ in wants}
    total = {index: columns.zone_total[index, :zones, row].tolist() for wants in wanted for index, _ in wants}
    for count in range(limit):
        for wants in wanted:
            for zone in range(zones):
                if all(left[index][zone] >= want if want else total[index][zone] > 0 for index, want in wants):
                    break
            else:
                return count
            for index, want in wants:
                left[index][zone] -= want
    return limit


def _times(columns: Columns, index: int, want: int, row: int, limit: int) -> list[float]:
    """How often each zone holds an amount; zero devices are at home wherever there is one, used or not."""
    if want:
        return [left // want for left in columns.zone_available[index, :, row].tolist()]
    return [limit if total > 0 else 0 for total in columns.zone_total[index, :, row].tolist()]
