"""Slots: how many equal pods the kubelet of each node would admit one after another, for all nodes at once.

In comes a class of pods and the rows to look at, out goes one number per row; racks and blocks are sums of these.
Nothing here asks node by node as long as amounts decide:

* the node's own sums bound every count, whatever its kubelet does with zones;
* `single-numa-node` admits as many as its zones hold, each by itself: a sum over zones. `restricted` does the same,
  unless a pod is larger than a zone;
* `best-effort` and `none` take CPUs and devices from anywhere: what the zones hold in sum. Memory has zones of its own;
* containers that are aligned one by one are sent through all nodes in step, pod after pod, lowest zone first.

This gives two bounds per node, what is certain and what is possible. Where they differ, the kubelet is replayed
(`engine/slots/replay.py`).

A count is never above the truth, as far as the report tells it. It is below where the filter refuses what a kubelet
would take (1 in 1,000 random nodes, mostly `align-by-socket`), and where a strict policy at pod scope aligns the memory
of several containers and nothing else: a kubelet that finds no zones for the sum tries container by container, which is
not counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_EXPECTED, TOPOLOGY_USABLE, Columns
from bayplan.cluster.pods.pod_class import PodClass, kept_with_class
from bayplan.cluster.pods.request import CPU, PODS, is_memory
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import UNLIMITED, Budget
from bayplan.engine.numa.admission import Verdict, Want, verdicts, wants_of, without_report
from bayplan.engine.numa.demand import Demand, Step, demand
from bayplan.engine.numa.rows import Mask, Rows, among, count
from bayplan.engine.slots.replay import replayed_slots
from bayplan.engine.slots.reports import reports_of
from bayplan.engine.slots.single_zones import Counts, in_single_zones, slots_of_one

Wants = tuple[tuple[str, int], ...]
# With so few names, checking for one that no node has does not pay.
FEW_NAMES = 16


def slots(
    state: ClusterState, pod: PodClass, assumptions: Assumptions, rows: Rows, most: int, budget: Budget = UNLIMITED
) -> NDArray[np.int32]:
    """Per node in `rows` how many pods of a class, at most `most`, its kubelet would admit one after another."""
    if isinstance(rows, slice) and rows.stop - rows.start == 1 and pod.most_zones is None:
        count = _of_one(state, pod, assumptions, rows.start, most)
        if count is not None:
            return np.array([count], dtype=np.int32)
    certain, possible = slot_bounds(state, pod, assumptions, rows, most)
    if pod.most_zones is not None:
        # Which zones the containers of a pod share is seen only by admitting one after another.
        wide = (state.columns.topology[rows] == TOPOLOGY_USABLE) & (state.columns.zone_count[rows] > pod.most_zones)
        certain = np.where(wide, 0.0, certain)
    counts = certain.astype(np.int32)
    if possible is certain:
        return counts
    undecided = np.nonzero(certain < possible)[0]
    if not len(undecided):
        return counts
    asked = demand(pod)
    refused = verdicts(state.columns, asked, _numbers(rows)[undecided], assumptions)
    if refused is not None:
        undecided = undecided[refused == Verdict.ADMITTED]
    counts[undecided] = replayed_slots(
        state, pod, asked, assumptions, _numbers(rows)[undecided], certain[undecided], possible[undecided], budget
    )
    return counts


def slot_bounds(
    state: ClusterState, pod: PodClass, assumptions: Assumptions, rows: Rows, most: int
) -> tuple[Counts, Counts]:
    """Per node how many pods certainly fit and how many at most, from amounts alone; equal on most nodes."""
    columns = state.columns
    certain = _by_node_sums(columns, pod, rows, most)
    asked = demand(pod)
    if asked.nothing_to_align:
        return certain, certain
    unreported, expected = without_report(asked, assumptions)
    if columns.everywhere("topology") == NO_TOPOLOGY and not unreported:
        return certain, certain
    possible = certain.copy()
    for chosen, policy, scope in _parts(columns, asked, rows):
        part = rows if chosen is None else among(rows, chosen)
        here = slice(None) if chosen is None else chosen
        certain[here], possible[here] = _Part(state, asked, part, assumptions, certain[here]).bounds(policy, scope)
    topology = columns.topology[rows]
    if columns.everywhere("topology") != TOPOLOGY_USABLE:
        refused = topology > TOPOLOGY_USABLE
        refused |= ((topology == NO_TOPOLOGY) & bool(unreported)) | ((topology == TOPOLOGY_EXPECTED) & bool(expected))
        certain[refused] = possible[refused] = 0
    return certain, possible


def _numbers(rows: Rows) -> NDArray[np.intp]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _of_one(state: ClusterState, pod: PodClass, assumptions: Assumptions, row: int, most: int) -> int | None:
    """The count of one node if it is regular and amounts decide."""
    columns, seen = state.columns, reports_of(state)
    if seen.irregular[row] or (seen.distributing[row] and int(columns.policy[row]) == Policy.NONE):
        return None
    names, amounts = _asked_of_node(pod)
    asked = list(zip(columns.indexes(names).tolist(), amounts[:, 0].tolist(), strict=True))
    return slots_of_one(columns, asked, demand(pod), row, assumptions, min(most, 1) if pod.host_ports else most)


@kept_with_class
def _asked_of_node(pod: PodClass) -> tuple[tuple[str, ...], Counts]:
    asked = {PODS: 1} | {name: amount for name, amount in pod.request.total.items() if amount}
    return tuple(asked), np.array([[float(amount)] for amount in asked.values()])


def _by_node_sums(columns: Columns, pod: PodClass, rows: Rows, most: int) -> Counts:
    """How many pods the node's allocatable holds beside what is on it; with host ports one at most."""
    names, amounts = _asked_of_node(pod)
    indexes = columns.indexes(names)
    if len(names) > FEW_NAMES and columns.of_no_node in indexes:
        return np.zeros(count(rows))
    free = columns.free[indexes, rows] if isinstance(rows, slice) else columns.free[indexes[:, np.newaxis], rows]
    times: Counts = np.minimum.reduce(free / amounts, axis=0)
    np.floor(times, out=times)
    np.minimum(times, float(min(most, 1) if pod.host_ports else most), out=times)
    return np.maximum(times, 0.0, out=times)


def _parts(columns: Columns, demand: Demand, rows: Rows) -> list[tuple[Mask | None, Policy, Scope]]:
    """The nodes by policy and scope, without those that have no usable report; None stands for all of them."""
    if all(columns.everywhere(name) is not None for name in ("topology", "policy", "scope")):
        if columns.everywhere("topology") != TOPOLOGY_USABLE:
            return []
        return [(None, Policy(columns.everywhere("policy") or 0), Scope(columns.everywhere("scope") or 0))]
    usable = columns.topology[rows] == TOPOLOGY_USABLE
    policies, scopes = columns.policy[rows], columns.scope[rows]
    parts: list[tuple[Mask | None, Policy, Scope]] = []
    for policy in Policy:
        of_policy = usable & (policies == policy)
        if policy is Policy.NONE or not demand.scope_matters:
            parts.append((of_policy, policy, Scope.CONTAINER))
        else:
            parts += [(of_policy & (scopes == scope), policy, scope) for scope in Scope]
    return [part for part in parts if part[0] is not None and part[0].any()]


class _Part:
    """Nodes of one policy and scope, and `limit`: how many pods they hold by their own sums."""

    def __init__(
        self, state: ClusterState, demand: Demand, rows: Rows, assumptions: Assumptions, limit: Counts
    ) -> None:
        self.columns = state.columns
        self.demand = demand
        self.rows = rows
        self.assumptions = assumptions
        self.limit = limit
        seen = reports_of(state)
        self.irregular = seen.irregular[rows]
        self.distributing = seen.distributing[rows]
        self.waits = state.freshness.waits_for_reports

    def bounds(self, policy: Policy, scope: Scope) -> tuple[Counts, Counts]:
        """What is certain and what is possible."""
        demand = self.demand
        by_pod = demand.scope_matters and scope is Scope.POD and policy is not Policy.NONE
        steps = demand.steps_by_amounts(by_pod=by_pod)
        if steps is None:
            certain, possible = np.zeros_like(self.limit), self.in_sum(demand.in_sum)
        elif policy is Policy.SINGLE_NUMA_NODE:
            certain = possible = self.in_single_zones(steps)
        elif policy is Policy.RESTRICTED:
            certain = possible = self.in_single_zones(steps)
            spanning = self.may_span(steps)
            if spanning.any():
                possible = np.where(spanning, self.in_sum(demand.in_sum), certain)
        elif policy is Policy.BEST_EFFORT:
            certain, possible = self.bounds_of_best_effort(steps)
        else:
            certain, possible = self.bounds_without_alignment()
        if steps is not None and demand.has_init_containers:
            certain = np.minimum(certain, self.in_single_zones((demand.starting_step,)))
        if self.irregular.any():
            # A device in two zones, a CPU handed out twice: the zones' sums do not bound what is possible either.
            certain = np.where(self.irregular, 0.0, certain)
            possible = np.where(self.irregular, self.limit, possible)
        return self.in_whole_cores(certain), self.in_whole_cores(possible)

    def bounds_of_best_effort(self, steps: tuple[Step, ...]) -> tuple[Counts, Counts]:
        """Single zones first. Then CPUs and devices come from anywhere, so only memory leaves anything open."""
        in_sum = self.in_sum(self.demand.in_sum)
        memory = tuple(want for want in self.demand.in_sum if is_memory(want[0]))
        settled = ~self.matters(self.wants(memory)) & ~self.distributing
        if settled.all() and not self.waits:
            return in_sum, in_sum
        certain = self.in_single_zones(steps)
        return (certain if self.waits else np.where(settled, in_sum, certain)), in_sum

    def bounds_without_alignment(self) -> tuple[Counts, Counts]:
        """Policy none: CPUs and devices from anywhere, each container's memory in the lowest zone that holds it."""
        in_sum = self.in_sum(self.demand.in_sum)
        memory_steps = tuple(
            Step(step.container, step.role, tuple((name, want) for name, want in step.wants if is_memory(name)))
            for step in self.demand.container_steps
        )
        memory = self.in_single_zones(tuple(step for step in memory_steps if step.wants))
        return np.where(self.distributing, 0.0, np.minimum(in_sum, memory)), in_sum

    def wants(self, wants: Wants) -> list[Want]:
        return wants_of(self.columns, wants, self.rows, self.assumptions)

    def matters(self, question: list[Want]) -> Mask:
        """Nodes that align any of these amounts."""
        found = np.zeros(len(self.limit), dtype=np.bool_)
        for _, _, relevant in question:
            found |= True if relevant is None else relevant
        return found

    def in_sum(self, asked: Wants) -> Counts:
        """How many times the zones of a node hold the amounts together; devices in no zone count as well."""
        times = self.limit.copy()
        for index, want, relevant in self.wants(asked):
            name = self.columns.resource_names[index]
            left = self.columns.zone_available_sum[index][self.rows]
            if name != CPU and not is_memory(name):
                left = left + self.devices_in_no_zone(index, left)
            here = np.floor(left / want)
            np.minimum(times, here if relevant is None else np.where(relevant, here, np.inf), out=times)
        return times

    def devices_in_no_zone(self, index: int, in_zones: Counts) -> Counts:
        """Free devices that the node has beyond those of its zones."""
        columns, rows = self.columns, self.rows
        beyond = columns.allocatable[index][rows] - columns.zone_total[index][:, rows].sum(axis=0)
        unplaced: Counts = np.clip(columns.free[index][rows] - in_zones, 0.0, np.maximum(beyond, 0.0))
        return unplaced

    def in_single_zones(self, steps: tuple[Step, ...]) -> Counts:
        """How many pods fit one after another if each step takes the lowest zone that holds it."""
        wanted = [wants for step in steps if (wants := self.wants(step.wants))]
        return in_single_zones(self.columns, wanted, self.rows, self.limit)

    def may_span(self, steps: tuple[Step, ...]) -> Mask:
        """Nodes with policy `restricted` where some step is larger than a zone for every manager that is asked."""
        found = np.zeros(len(self.limit), dtype=np.bool_)
        for step in steps:
            asked, in_a_zone = np.zeros_like(found), np.zeros_like(found)
            for question in _questions(self.columns, self.wants(step.wants)):
                matters = self.matters(question)
                asked |= matters
                in_a_zone |= matters & self.fits_a_whole_zone(question)
            found |= asked & ~in_a_zone
        return found

    def fits_a_whole_zone(self, question: list[Want]) -> Mask:
        """Nodes with a zone that would hold all of it if nothing were in use."""
        if len(question) == 1:
            index, want, _ = question[0]
            enough: Mask = self.columns.zone_total_largest[index][self.rows] >= want
            return enough
        holds = [
            (self.columns.zone_total[index][:, self.rows] >= want) | (False if relevant is None else ~relevant)
            for index, want, relevant in question
        ]
        found: Mask = np.logical_and.reduce(holds).any(axis=0)
        return found

    def in_whole_cores(self, counts: Counts) -> Counts:
        """None at all where `full-pcpus-only` would have to split a core."""
        if self.columns.everywhere("cpu_group") == 1:
            return counts
        for step in self.demand.container_steps:
            for _, want, relevant in self.wants(tuple(want for want in step.wants if want[0] == CPU)):
                split = np.mod(want // 1000, self.columns.cpu_group[self.rows], dtype=np.float64) != 0
                counts = np.where(split if relevant is None else split & relevant, 0.0, counts)
        return counts


def _questions(columns: Columns, wants: list[Want]) -> list[list[Want]]:
    """As the kubelet's managers ask: every resource by itself, but all kinds of memory together."""
    memory = [want for want in wants if is_memory(columns.resource_names[want[0]])]
    others = [[want] for want in wants if not is_memory(columns.resource_names[want[0]])]
    return [*others, memory] if memory else others
