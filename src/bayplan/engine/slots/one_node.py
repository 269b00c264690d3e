"""Slots of one node in plain Python: after a placement one row has changed, and a loop over a few dozen numbers is faster than NumPy.

Measured for a node with eight zones: 12 us instead of 25 us for a pod of one container, 45 us instead of 300 us for two. Only what
amounts decide is counted here; everything else is None, and `engine/slots/slots.py` looks closer. `tests/properties` holds both
forms to the same counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_USABLE, Columns
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.engine.numa.admission import relevant_wants, without_report
from bayplan.engine.numa.demand import Demand, Step

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
