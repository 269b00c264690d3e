"""The cheapest victims on one node: exactly what must leave so that its kubelet admits the pod.

In come the pods that may be evicted there. For each way in which the pod could fit, such as all of it in zone 1, this
module says how much must become free where; `engine/preemption/victims.py` finds the cheapest set that frees it, and
every set is tried out by a dry run of all filters and of the kubelet's admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice, product

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.dry_run import in_every_way, ways_without, without
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import WORK_OF_AN_ADMISSION, Budget
from bayplan.engine.numa.admission import relevant_wants
from bayplan.engine.numa.demand import Step, demand
from bayplan.engine.preemption.victims import (
    NO_COST,
    PRIORITY_OFFSET,
    Candidate,
    Cell,
    Cost,
    GangVictims,
    Needs,
    Victims,
    cheapest_victims,
)
from bayplan.engine.slots.slots import slots
from bayplan.plugins.base import IncomingPod
from bayplan.scheduling.preemption.candidates import EvictionRules, candidates_on, terminating_on
from bayplan.scheduling.profile import PASSES, ClassProfile, Profile

# Pods that conflict with the pod by port, anti-affinity or a claim for one pod: all of them must leave.
CONFLICT: Cell = ("conflicts", None)
# Amounts do not say which pods help: any may.
ANY: Cell = ("any pod", None)
# Where it is not known which pods are in a zone, one that is not there may be needed elsewhere.
DOUBT: Cell = ("zones in doubt", None)
# Containers find their zones one after another: beyond this many ways, any pod may help.
MOST_ASSIGNMENTS = 256
# Sets of victims that free enough and do not help: after this many, all candidates together are tried.
REFUSALS_BEFORE_DOUBT = 4


@dataclass(frozen=True)
class Preemptor:
    """A pod that fits nowhere, with everything that judges it;
    or `count` equal members of a gang that are to share a node.
    """

    pod_class: PodClass
    incoming: IncomingPod | None
    priority: int
    profile: Profile
    count: int = 1

    def for_class(self) -> ClassProfile:
        """The filters that apply to it."""
        return self.profile.for_class(self.pod_class)


def victims_on(
    state: ClusterState,
    row: int,
    preemptor: Preemptor,
    rules: EvictionRules,
    budget: Budget,
    at_most: Cost | None = None,
    floor: int = -PRIORITY_OFFSET,
) -> Victims | None:
    """The cheapest victims on one node; None if none suffice. No victims at all if the pods that are leaving suffice.

    `floor` as in `engine.preemption.victims.cost_of`.
    """
    filters, leaving = preemptor.for_class(), terminating_on(state, row, rules)
    for way in ways_without(state, leaving):
        with without(state, leaving, way):
            if not fits(state, row, preemptor, filters, budget):
                return _more_victims_on(state, row, preemptor, filters, rules, budget, at_most, floor)
    return Victims((), NO_COST)


def _more_victims_on(
    state: ClusterState,
    row: int,
    preemptor: Preemptor,
    filters: ClassProfile,
    rules: EvictionRules,
    budget: Budget,
    at_most: Cost | None,
    floor: int,
) -> Victims | None:
    """The cheapest victims on a node where what is leaving does not suffice."""
    conflicting = _conflicting(state, row, preemptor)
    if conflicting is None:
        return None
    alternatives = list(_alternatives(state, row, preemptor, len(conflicting)))
    cells = {cell for needs in alternatives for cell in needs}
    candidates, gangs = candidates_on(state, row, preemptor.priority, rules, cells)
    if any(each.alike for each in candidates):
        alternatives += [{**needs, DOUBT: 1} for needs in alternatives]
    if conflicting or ANY in cells or any(DOUBT in needs for needs in alternatives):
        candidates = [_with_conflict(each, conflicting) for each in candidates]
        gangs = {name: _gang_with_conflicts(gang, conflicting) for name, gang in gangs.items()}
    trial = _Trial(state, row, preemptor, filters, budget, frozenset(each.key for each in candidates))
    try:
        return cheapest_victims(
            candidates, alternatives, trial.admits, rules.budgets.allowed(), budget, gangs, at_most, floor
        )
    except _NotHelpful:
        return None


class _NotHelpful(Exception):
    """The node refuses the pod even without all candidates."""


@dataclass
class _Trial:
    """Dry runs of evictions on one node."""

    state: ClusterState
    row: int
    preemptor: Preemptor
    filters: ClassProfile
    budget: Budget
    candidates: frozenset[str]
    refusals: int = 0

    def admits(self, victims: frozenset[str]) -> bool:
        """Whether the node takes the pod once these have left."""
        if self._fits_without(victims):
            return True
        self.refusals += 1
        if self.refusals == REFUSALS_BEFORE_DOUBT and not self._fits_without(self.candidates):
            raise _NotHelpful
        return False

    def _fits_without(self, victims: frozenset[str]) -> bool:
        return in_every_way(
            self.state,
            victims,
            lambda: fits(self.state, self.row, self.preemptor, self.filters, self.budget),
        )


def fits(state: ClusterState, row: int, preemptor: Preemptor, filters: ClassProfile, budget: Budget) -> bool:
    """Whether a node takes the pod as it is now, by all filters and its kubelet."""
    budget.spend(WORK_OF_AN_ADMISSION // 5)
    if refusing_filter(state, row, preemptor, filters):
        return False
    topology = preemptor.profile.topology
    if preemptor.count > 1:
        assumptions = topology.arguments.assumptions if topology is not None else Assumptions()
        here = slice(row, row + 1)
        return int(slots(state, preemptor.pod_class, assumptions, here, preemptor.count)[0]) >= preemptor.count
    return topology is None or topology.place(state, preemptor.pod_class, row).refusal is None


def refusing_filter(state: ClusterState, row: int, preemptor: Preemptor, filters: ClassProfile) -> str:
    """The name of the first filter by usage that refuses a node as it is now; empty if none does."""
    blocked = filters.blocked_by_usage_of_one(state, row)
    if blocked != PASSES:
        return preemptor.profile.filter_of(blocked).name
    if preemptor.incoming is not None:
        for _, plugin in preemptor.profile.relation_filters:
            codes = plugin.refusals_of(state, preemptor.incoming)
            if codes is not None and codes[row]:
                return plugin.name
    return ""


# -- what must become free ----------------------------------------------------------------------------------------


def _alternatives(state: ClusterState, row: int, preemptor: Preemptor, conflicts: int) -> Iterator[Needs]:
    """The ways in which the pod could fit, each as the amounts that are missing."""
    columns, request = state.columns, preemptor.pod_class.request
    of_node: dict[Cell, int] = {}
    for name, of_one in (*request.total.items(), (PODS, 1)):
        index = columns.resource_index.get(name)
        amount = of_one * preemptor.count
        missing = amount - (int(columns.free[index, row]) if index is not None else 0)
        if amount and missing > 0:
            of_node[name, None] = missing
    if conflicts:
        of_node[CONFLICT] = conflicts
    in_zones, complete = _missing_in_zones(state, row, preemptor)
    yield from ({**of_node, **missing} for missing in in_zones if missing or of_node)
    if not (complete and columns.policy[row] == Policy.SINGLE_NUMA_NODE):
        # What decides beyond these amounts, such as groups of zones or spread constraints, any victim may change.
        if of_node:
            yield of_node
        yield {**of_node, ANY: 1}


def _missing_in_zones(state: ClusterState, row: int, preemptor: Preemptor) -> tuple[list[dict[Cell, int]], bool]:
    """What is missing in zones, for each way to give zones to containers;
    and whether these are all ways for the pod.
    """
    columns, topology = state.columns, preemptor.profile.topology
    aligned = columns.policy[row] in (Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED)
    asked = demand(preemptor.pod_class)
    if topology is None or not aligned or asked.nothing_to_align or columns.topology[row] != TOPOLOGY_USABLE:
        return [], False
    by_pod = columns.scope[row] == Scope.POD
    steps: tuple[Step, ...] = asked.steps_by_amounts(by_pod=by_pod) or ()
    ways: Iterable[tuple[int, ...]] = product(range(int(columns.zone_count[row])), repeat=len(steps))
    if preemptor.count > 1:
        # Equal pods are interchangeable.
        steps = steps * preemptor.count if len(steps) == 1 else ()
        ways = combinations_with_replacement(range(int(columns.zone_count[row])), len(steps))
    assignments = list(islice(ways, MOST_ASSIGNMENTS + 1)) if steps else []
    if not assignments or len(assignments) > MOST_ASSIGNMENTS:
        return [], False
    wanted = [relevant_wants(columns, step.wants, row, topology.arguments.assumptions) for step in steps]
    found: list[dict[Cell, int]] = []
    for assignment in assignments:
        needed: dict[tuple[int, int], int] = {}
        for zone, wants in zip(assignment, wanted, strict=True):
            for index, want in wants:
                needed[index, zone] = needed.get((index, zone), 0) + want
        if all(want <= columns.zone_total[index, zone, row] for (index, zone), want in needed.items()):
            missing = {
                (columns.resource_names[index], zone): want - int(columns.zone_available[index, zone, row])
                for (index, zone), want in needed.items()
            }
            found.append({cell: amount for cell, amount in missing.items() if amount > 0})
    return found, True


# -- conflicts ----------------------------------------------------------------------------------------------------


def _conflicting(state: ClusterState, row: int, preemptor: Preemptor) -> frozenset[str] | None:
    """The pods of a node that conflict with the pod by port, anti-affinity or a claim for one pod.

    None if such a pod stays whatever is evicted, as does one on another node that holds a claim.
    """
    keys = state.pods_on(row)
    ports = preemptor.pod_class.host_ports
    found = {key for key in keys if any(own.conflicts(other) for own in ports for other in state.pods[key].host_ports)}
    holders = {key for claim in preemptor.pod_class.volumes.in_use for key in state.volumes.holders_of(claim)}
    if not holders <= {*keys}:
        return None
    found |= holders
    incoming = preemptor.incoming
    if incoming is not None:
        neighbours = state.neighbours
        for term in incoming.terms.anti_affinity:
            found.update(key for key in keys if neighbours.meant([key], (term.pods,)))
        for held in neighbours.anti_affinity.against(*incoming.known_by):
            found.update(key for key in keys if neighbours.holder([key], held.term))
    stays = any(_stays(state, key, preemptor.priority) for key in found)
    return None if stays else frozenset(found)


def _stays(state: ClusterState, key: str, priority: int) -> bool:
    pod = state.bound.get(key)
    return pod is None or (pod.spec.priority or 0) >= priority


def _with_conflict(candidate: Candidate, conflicting: frozenset[str]) -> Candidate:
    freed: Mapping[Cell, int] = {**candidate.frees, ANY: 1, **({DOUBT: 1} if candidate.alike else {})}
    if candidate.key in conflicting:
        freed = {**freed, CONFLICT: 1}
    return replace(candidate, frees=freed)


def _gang_with_conflicts(gang: GangVictims, conflicting: frozenset[str]) -> GangVictims:
    return replace(gang, members=tuple(_with_conflict(each, conflicting) for each in gang.members))
