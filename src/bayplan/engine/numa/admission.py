"""Would the kubelet admit this pod? The Topology Manager's verdict for all nodes at once, from per-zone amounts.

In comes a `Demand` and the rows to look at, out goes one code per node (0 = admitted). The kubelet builds lists of
hints and merges their cross product; none of that is needed for the verdict:

* one zone that holds every wanted amount gives equal, preferred masks, so it is admitted by every policy;
* `single-numa-node` admits nothing else;
* `restricted` admits a larger set only if that set is the smallest possible for *every* resource, and "possible" is
  judged by totals, not by what is free: that is why a request between free and total is refused (kubernetes #132187);
* `none` and `best-effort` take what there is: the zones must hold the pod in sum.

Containers of a pod are handled in order, each seeing what the earlier ones took (container scope), or as one sum (pod
scope). Which CPUs of a zone are taken is not modelled here; where that could matter, the node that was chosen is
replayed exactly (`engine/numa/placement.py`) before the decision stands.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_EXPECTED,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_UNCLEAR,
    TOPOLOGY_USABLE,
    UNKNOWN,
    Columns,
)
from bayplan.cluster.pods.request import CPU, Role, is_memory
from bayplan.cluster.reports.kubelet_settings import Assumptions, MissingReport, Policy, Scope
from bayplan.cluster.reports.kubelet_version import KubeletVersion
from bayplan.engine.numa.demand import Demand, Step
from bayplan.engine.numa.one_node import lowest_zone_that_holds
from bayplan.engine.numa.rows import Codes, Mask, Rows, among, count
from bayplan.engine.numa.zone_sets import ManagerQuestion, sets_for_all

ZoneGrid = NDArray[np.float64]
Want = tuple[int, int, Mask | None]

# From this version on zero devices draw a container to zones that host such devices; before, any zone would do.
ZERO_DEVICES_DRAW = KubeletVersion.V1_36


class Verdict(IntEnum):
    """Why a node's kubelet would refuse, 0 if it would not."""

    ADMITTED = 0
    DATA_INVALID = 1
    DATA_STALE = 2
    NOT_IN_ONE_ZONE = 3
    NO_COMMON_SET = 4
    ZONES_SHORT = 5
    NOT_WHOLE_CORES = 6
    NO_REPORT = 7
    REPORT_EXPECTED = 8


def verdicts(columns: Columns, demand: Demand, rows: Rows, assumptions: Assumptions) -> Codes | None:
    """One `Verdict` per node in `rows`, or None if all of them admit the pod.

    Nodes without topology data pass, unless `without_report` says otherwise.
    """
    if demand.nothing_to_align:
        return None
    plain = columns.everywhere("topology") == TOPOLOGY_USABLE and columns.everywhere("cpu_group") == 1
    if plain and not demand.scope_matters:
        # Most pods have one container, and most nodes a zone for it: then no policy has to be looked at.
        wants = wants_of(columns, demand.pod_step.wants, rows, assumptions)
        if not wants or np.logical_and.reduce(ZoneWalk(columns, rows).in_one_zone(wants)):
            return None
    unreported, expected = without_report(demand, assumptions)
    if columns.everywhere("topology") == NO_TOPOLOGY:
        return np.full(count(rows), unreported, dtype=np.uint8) if unreported else None
    codes = np.zeros(count(rows), dtype=np.uint8)
    topology = columns.topology[rows]
    for index, want, relevant in wants_of(columns, demand.in_sum, rows, assumptions):
        if not _only_in_zones(columns.resource_names[index]):
            continue
        short = columns.zone_available_sum[index][rows] < want
        codes[short if relevant is None else short & relevant] = Verdict.ZONES_SHORT
    if not demand.scope_matters:
        _judge_steps(columns, (demand.pod_step,), rows, assumptions, codes)
    else:
        by_pod = columns.scope[rows] == Scope.POD
        for chosen, steps in ((by_pod, (demand.pod_step,)), (~by_pod, demand.container_steps)):
            if chosen.all():
                _judge_steps(columns, steps, rows, assumptions, codes)
            elif chosen.any():
                part = codes[chosen]
                _judge_steps(columns, steps, among(rows, chosen), assumptions, part)
                codes[chosen] = part
    _judge_whole_cores(columns, demand, rows, assumptions, codes)
    codes[topology == TOPOLOGY_STALE] = Verdict.DATA_STALE
    codes[(topology == TOPOLOGY_INVALID) | (topology == TOPOLOGY_UNCLEAR)] = Verdict.DATA_INVALID
    codes[topology == NO_TOPOLOGY] = unreported
    codes[topology == TOPOLOGY_EXPECTED] = expected
    return codes


def without_report(demand: Demand, assumptions: Assumptions) -> tuple[Verdict, Verdict]:
    """The verdict on a node without a report, and on one whose first report is expected."""
    if not demand.needs_report or assumptions.missing_report is MissingReport.ALLOW:
        return Verdict.ADMITTED, Verdict.ADMITTED
    refuses = assumptions.missing_report is MissingReport.REFUSE
    return Verdict.NO_REPORT if refuses else Verdict.ADMITTED, Verdict.REPORT_EXPECTED


def admits_in_single_zones(columns: Columns, demand: Demand, row: int, assumptions: Assumptions) -> bool:
    """True if one node certainly admits a pod because each step fits into one zone; False means: look closer."""
    if columns.topology[row] != TOPOLOGY_USABLE or columns.cpu_group[row] != 1:
        return False
    return single_zones(columns, demand, row, assumptions) is not None


def single_zones(
    columns: Columns, demand: Demand, row: int, assumptions: Assumptions
) -> list[tuple[Step, int, list[tuple[int, int]]]] | None:
    """For each step in turn the lowest zone (position) that holds it, and what it takes there; None if one finds none.

    None also where amounts are not all that decides (`Demand.steps_by_amounts`).
    """
    by_pod = demand.scope_matters and int(columns.scope[row]) == Scope.POD
    steps = demand.steps_by_amounts(by_pod=by_pod)
    if steps is None:
        return None
    found: list[tuple[Step, int, list[tuple[int, int]]]] = []
    taken: dict[tuple[int, int], float] = {}
    for step in steps:
        wants = relevant_wants(columns, step.wants, row, assumptions)
        position = lowest_zone_that_holds(columns, wants, row, taken)
        if position is None:
            return None
        if demand.has_init_containers:
            starting = relevant_wants(columns, demand.starting_step.wants, row, assumptions)
            if lowest_zone_that_holds(columns, starting, row, taken) != position:
                return None
        for index, want in wants:
            taken[index, position] = taken.get((index, position), 0.0) + want
        found.append((step, position, wants))
    return found


def smallest_set_on(columns: Columns, demand: Demand, row: int, assumptions: Assumptions) -> int:
    """The zones (as bits) that a `restricted` node takes for a pod of one step that no single zone holds; 0 if none."""
    rows = slice(row, row + 1)
    wants = wants_of(columns, demand.pod_step.wants, rows, assumptions)
    found = _try_larger_sets(
        columns, ZoneWalk(columns, rows), wants, np.ones(1, dtype=np.bool_), assumptions, np.zeros(1, dtype=np.uint8)
    )
    return int(found[1][0]) if found is not None and len(found[1]) else 0


def relevant_wants(
    columns: Columns, wants: tuple[tuple[str, int], ...], row: int, assumptions: Assumptions
) -> list[tuple[int, int]]:
    """The (resource index, amount) pairs of `wants` that one node's managers would look at."""
    found = wants_of(columns, wants, slice(row, row + 1), assumptions)
    return [(index, want) for index, want, relevant in found if relevant is None or relevant[0]]


def wants_of(columns: Columns, wants: tuple[tuple[str, int], ...], rows: Rows, assumptions: Assumptions) -> list[Want]:
    """Which nodes care about which amount; None means all of them.

    A resource that no zone of a node reports is not aligned there: a device without topology, or an agent that
    does not report memory. CPUs and memory matter only where the static managers run (or are assumed to).
    """
    key = (wants, assumptions)
    known: list[Want] | None = columns.layout_cache.get(key)
    if known is not None:
        return known
    found: list[Want] = []
    for name, want in wants:
        index = columns.resource_index.get(name)
        if index is None:
            continue
        everywhere = columns.aligned_everywhere(index) and _managed_everywhere(columns, name, assumptions)
        if everywhere and (want or (columns.everywhere("kubelet") or 0) >= ZERO_DEVICES_DRAW):
            found.append((index, want, None))
            continue
        relevant = columns.zone_aligned[index][rows]
        if not want:
            relevant = relevant & (columns.kubelet[rows] >= ZERO_DEVICES_DRAW)
        if name == CPU:
            relevant = relevant & _believed(columns.cpu_static[rows], assumptions.cpu_manager_static)
        elif is_memory(name):
            relevant = relevant & _believed(columns.memory_static[rows], assumptions.memory_manager_static)
        if relevant.any():
            found.append((index, want, relevant))
    if all(relevant is None for _, _, relevant in found) and len(found) == len(wants):
        columns.layout_cache[key] = found  # true of any rows
    return found


def _only_in_zones(name: str) -> bool:
    """True if all of a resource is in zones. Devices may have no topology at all; the node's own sum counts those."""
    return name == CPU or is_memory(name)


def _managed_everywhere(columns: Columns, name: str, assumptions: Assumptions) -> bool:
    """True if every node's manager for this resource is static, or all are silent and assumed to be."""
    if name == CPU:
        reported, assumed = columns.everywhere("cpu_static"), assumptions.cpu_manager_static
    elif is_memory(name):
        reported, assumed = columns.everywhere("memory_static"), assumptions.memory_manager_static
    else:
        return True
    return reported == 1 or (reported == UNKNOWN and assumed)


def _believed(reported: NDArray[np.int8], assumed: bool) -> Mask:  # noqa: FBT001 - reads as a sentence
    return np.not_equal(reported, 0) if assumed else np.equal(reported, 1)


def _judge_whole_cores(columns: Columns, demand: Demand, rows: Rows, assumptions: Assumptions, codes: Codes) -> None:
    """Under `full-pcpus-only` a container gets whole cores or nothing, whatever the policy."""
    if columns.everywhere("cpu_group") == 1:
        return
    for cpus in {want // 1000 for step in demand.container_steps for name, want in step.wants if name == CPU}:
        split = np.mod(cpus, columns.cpu_group[rows], dtype=np.float64) != 0
        for _, _, relevant in wants_of(columns, ((CPU, cpus * 1000),), rows, assumptions):
            codes[split if relevant is None else split & relevant] = Verdict.NOT_WHOLE_CORES


def _judge_steps(columns: Columns, steps: tuple[Step, ...], rows: Rows, assumptions: Assumptions, codes: Codes) -> None:
    """Write the verdict of the strict policies for a sequence of merges into `codes`."""
    policy = columns.policy[rows]
    if not (policy >= Policy.RESTRICTED).any():
        return
    walk = ZoneWalk(columns, rows, steps)
    for number, step in enumerate(steps, start=1):
        wants = wants_of(columns, step.wants, rows, assumptions)
        if not wants:
            continue
        fits = walk.zones_that_fit(wants)
        in_one_zone: Mask = np.logical_or.reduce(fits, axis=0)
        refused = ~in_one_zone & (codes == Verdict.ADMITTED)
        codes[refused & (policy == Policy.SINGLE_NUMA_NODE)] = Verdict.NOT_IN_ONE_ZONE
        widened = _try_larger_sets(columns, walk, wants, refused & (policy == Policy.RESTRICTED), assumptions, codes)
        if number < len(steps):
            walk.take_from_one_zone(step, wants, fits, in_one_zone)
            if widened is not None:
                walk.take_from_sets(step, wants, *widened)


class ZoneWalk:
    """What is left in the zones while containers take their share one after another.

    With a single step nothing is taken, so the columns are read in place; only sequences pay for a copy.
    """

    def __init__(self, columns: Columns, rows: Rows, steps: tuple[Step, ...] = ()) -> None:
        self._columns = columns
        self.rows = rows
        self._left: dict[int, ZoneGrid] = {}
        self._reusable: dict[int, ZoneGrid] = {}
        self._reuses = any(step.role is Role.INIT for step in steps) and len(steps) > 1

    def left(self, index: int) -> ZoneGrid:
        """What is free of a resource [zone, node]."""
        grid = self._left.get(index)
        return self._columns.zone_available[index][:, self.rows] if grid is None else grid

    def usable(self, index: int) -> ZoneGrid:
        """What is left plus what the pod's finished init containers hold and later ones take over."""
        held = self._reusable.get(index)
        return self.left(index) if held is None else self.left(index) + held

    def zones_held(self, wants: list[Want]) -> NDArray[np.uint64] | None:
        """Per node, the zones of finished init containers, as bits that a mask must include; None if there are none."""
        found: NDArray[np.uint64] | None = None
        for index, _, relevant in wants:
            held = self._reusable.get(index)
            if held is None or is_memory(self._columns.resource_names[index]):
                continue
            bits = (held > 0).T.astype(np.uint64) @ (np.uint64(1) << np.arange(len(held), dtype=np.uint64))
            bits = bits if relevant is None else np.where(relevant, bits, np.uint64(0))
            found = bits if found is None else found | bits
        return found

    def in_one_zone(self, wants: list[Want]) -> Mask:
        """Per node: some zone alone holds every amount that matters there."""
        found: Mask = np.logical_or.reduce(self.zones_that_fit(wants), axis=0)
        return found

    def zones_that_fit(self, wants: list[Want]) -> Mask:
        """fits[zone, node]: the zone alone holds every amount that matters on the node."""
        fits: Mask | None = None
        for index, want, relevant in wants:
            enough = self.usable(index) >= want if want else self._columns.zone_total[index][:, self.rows] > 0
            held = self._reusable.get(index)
            if held is not None and not is_memory(self._columns.resource_names[index]):
                # CPUs and devices to be taken over must all lie inside the mask.
                enough &= held == held.sum(axis=0)
            if relevant is not None:
                enough |= ~relevant
            fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
        assert fits is not None
        return fits

    def take_from_one_zone(self, step: Step, wants: list[Want], fits: Mask, where: Mask) -> None:
        """Charge the lowest zone that fits, on the nodes where one does."""
        zone = fits.argmax(axis=0)
        nodes = np.nonzero(where)[0]
        for index, want, relevant in wants:
            chosen = nodes if relevant is None else nodes[relevant[nodes]]
            self._take(step, index, zone[chosen], chosen, np.full(len(chosen), float(want)))

    def take_from_sets(self, step: Step, wants: list[Want], nodes: NDArray[np.intp], bits: NDArray[np.uint64]) -> None:
        """Charge sets of zones, lowest zone first: the order of the Memory Manager, an approximation for CPUs."""
        for index, want, relevant in wants:
            inside = nodes if relevant is None else nodes[relevant[nodes]]
            masks = bits if relevant is None else bits[relevant[nodes]]
            open_amount = np.full(len(inside), float(want))
            for zone in range(self.left(index).shape[0]):
                member = (masks >> np.uint64(zone)) & np.uint64(1) == 1
                share = np.where(member, np.minimum(self.usable(index)[zone, inside], open_amount), 0.0)
                self._take(step, index, np.full(len(inside), zone), inside, share)
                open_amount -= share

    def _take(
        self, step: Step, index: int, zone: NDArray[np.intp], nodes: NDArray[np.intp], amount: NDArray[np.float64]
    ) -> None:
        if index not in self._left:
            self._left[index] = self.left(index).copy()
            if self._reuses:
                self._reusable[index] = np.zeros_like(self._left[index])
        left, held = self._left[index], self._reusable.get(index)
        if held is None:
            left[zone, nodes] -= amount
            return
        taken_over = np.minimum(held[zone, nodes], amount)
        left[zone, nodes] -= amount - taken_over
        held[zone, nodes] += (amount - taken_over) if step.role is Role.INIT else -taken_over


def _try_larger_sets(
    columns: Columns, walk: ZoneWalk, wants: list[Want], candidates: Mask, assumptions: Assumptions, codes: Codes
) -> tuple[NDArray[np.intp], NDArray[np.uint64]] | None:
    """`restricted` nodes without a single zone that fits: is there a larger set that is minimal for every resource?

    Refusals are written into `codes`; returned are the nodes that were admitted and the set each one takes.
    """
    codes[candidates] = Verdict.NO_COMMON_SET
    of_memory = [want for want in wants if is_memory(columns.resource_names[want[0]])]
    of_others = [want for want in wants if not is_memory(columns.resource_names[want[0]])]
    # If one zone's total suffices for a resource, it prefers single zones, and none of them fits.
    for index, want, relevant in of_others if len(of_memory) > 1 else wants:
        needs_more = columns.zone_total_largest[index][walk.rows] < want
        candidates = candidates & (needs_more if relevant is None else needs_more | ~relevant)
    nodes = np.nonzero(candidates)[0]
    if not len(nodes):
        return None
    everywhere = len(nodes) == len(candidates)
    here: Rows = slice(0, len(nodes)) if everywhere else nodes
    absolute = walk.rows if everywhere else among(walk.rows, candidates)

    def question(asked: list[Want], *, closed_when_used: bool = False) -> ManagerQuestion:
        alone = len(asked) == 1
        totals = [columns.zone_total[index][:, absolute] for index, _, _ in asked if closed_when_used or not alone]
        left = [walk.usable(index)[:, here] for index, _, _ in asked]
        if closed_when_used:
            # A zone with memory in use may belong to single-zone pods: closed to anything that spans zones.
            left = [np.where(grid < total, 0.0, grid) for grid, total in zip(left, totals, strict=True)]
        amounts = [
            np.full(len(nodes), float(want)) if relevant is None else np.where(relevant[here], float(want), 0.0)
            for _, want, relevant in asked
        ]
        reach = columns.total_reach(asked[0][0])[:, absolute] if alone else None
        return ManagerQuestion(left, amounts, reach, totals)

    questions = [question([want]) for want in of_others]
    if of_memory:
        questions.append(question(of_memory, closed_when_used=assumptions.strict_memory_groups))
    bits = sets_for_all(questions)
    found = bits != 0
    codes[nodes[found]] = Verdict.ADMITTED
    return nodes[found], bits[found]
