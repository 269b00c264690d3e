"""Which nodes would refuse a pod even if no other pod ran there: this tells "never" from "not now".

The profile's filters on amounts are asked about an empty cluster. If every node refuses, `too_large` finds out why.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.dry_run import emptied
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet.masks import MOST_ZONES
from bayplan.engine.numa.admission import relevant_wants
from bayplan.engine.numa.demand import Step, demand
from bayplan.engine.numa.rows import Mask
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Blocked, ClassProfile, Profile

Wants = list[tuple[int, int]]


class Where(StrEnum):
    """What is too small for a pod: every node, every NUMA zone, or every set of zones that the policy allows."""

    NODE = "node"
    ZONE = "zone"
    ALLOWED_ZONES = "allowedZones"


class Oversized(Struct, frozen=True):
    """Why no node would hold a pod even if it were empty.

    `resource` is the one that is short by itself: the largest place has `have` of `want`; empty if only the combination
    is. `asked` are the amounts in question, none if only containers together are too large; `zones_needed` the fewest
    zones with enough of each.
    """

    where: Where
    policy: str = ""
    container: str = ""
    resource: str = ""
    have: int = 0
    want: int = 0
    asked: tuple[tuple[str, int], ...] = ()
    zones_needed: tuple[int, ...] = ()


def refusals_when_empty(state: ClusterState, pod: PodClass, profile: Profile) -> Blocked:
    """Return for each row the filter on amounts that refuses the pod on the empty node, as a `blocked` number."""
    filters = profile.for_class(pod).usage_filters
    of_amounts = tuple(each for each in filters if isinstance(each[1], NodeResourcesFit | NodeResourceTopologyMatch))
    rows = slice(0, state.columns.size)
    blocked = ClassProfile(pod, (), of_amounts, ()).blocked_by_usage(emptied(state), rows)
    return np.zeros(state.columns.size, dtype=np.int16) if blocked is None else blocked


def hold_when_empty(state: ClusterState, profile: Profile, refusals: Blocked) -> Mask:
    """Return the rows that would hold the pod if they were empty, or might: nothing, or no zones, are known of them."""
    fits: Mask = refusals == PASSES
    for position, plugin in enumerate(profile.filters):
        if isinstance(plugin, NodeResourceTopologyMatch):
            too_small = np.isin(refusals % CODES_PER_FILTER, plugin.size_rules)
            fits |= (refusals // CODES_PER_FILTER == position) & (refusals != PASSES) & ~too_small
    fits |= ~state.columns.allocatable[:, : len(fits)].any(axis=0)
    return fits & state.columns.present[: len(fits)]


def too_large(state: ClusterState, pod: PodClass, profile: Profile, refusals: Blocked) -> Oversized:
    """Explain why every node refuses a pod even if it is empty."""
    for position, plugin in enumerate(profile.filters):
        rows = np.flatnonzero((refusals // CODES_PER_FILTER == position) & state.columns.present[: len(refusals)])
        if isinstance(plugin, NodeResourceTopologyMatch) and len(rows):
            return _for_zones(state, pod, plugin, rows)
    return _for_nodes(state, pod)


def _for_nodes(state: ClusterState, pod: PodClass) -> Oversized:
    columns = state.columns
    offered = [(columns.allocatable[columns.index_of(name)].max(), name, want) for name, want in asked_of_node(pod)]
    have, name, want = min(offered, key=lambda each: each[0] / each[2])
    asked = tuple((name, want) for _, name, want in offered[1:])
    if have >= want:
        return Oversized(Where.NODE, asked=asked)
    return Oversized(Where.NODE, resource=name, have=int(have), want=want, asked=asked)


def _for_zones(
    state: ClusterState, pod: PodClass, plugin: NodeResourceTopologyMatch, rows: NDArray[np.intp]
) -> Oversized:
    """Look at the first node that is large enough as a whole, and at those with the same policy."""
    columns, row = state.columns, int(rows[0])
    alike = rows[columns.policy[rows] == columns.policy[row]]
    policy = Policy(int(columns.policy[row]))
    asked = demand(pod)
    steps = (asked.pod_step,) if columns.scope[row] == Scope.POD else asked.container_steps
    for step in steps:
        wants = relevant_wants(columns, step.wants, row, plugin.arguments.assumptions)
        found = _of_step(state, step, [each for each in wants if each[1]], policy, alike)
        if found is not None:
            return found
    # Several containers are in each other's way; what else makes a kubelet refuse one is not looked into.
    return Oversized(Where.ALLOWED_ZONES, policy.text, asked=() if len(steps) > 1 else asked.in_sum)


def _of_step(state: ClusterState, step: Step, wants: Wants, policy: Policy, rows: NDArray[np.intp]) -> Oversized | None:
    """Say what is too small for one merge of hints: one zone, or as many zones as `restricted` wants of a resource.

    None if the merge by itself would succeed, as far as amounts tell.
    """
    columns = state.columns
    one_zone = policy is Policy.SINGLE_NUMA_NODE
    asked = tuple((columns.resource_names[index], want) for index, want in wants)
    needed = tuple(1 if one_zone else _zones_needed(columns.total_reach(index)[:, rows], want) for index, want in wants)
    where = Where.ZONE if one_zone else Where.ALLOWED_ZONES
    found = Oversized(where, policy.text, step.container, asked=asked, zones_needed=needed)
    for (index, want), zones in zip(wants, needed, strict=True):
        offered = -np.sort(-columns.zone_offered[index][:, rows], axis=0)[:zones].sum(axis=0)
        if offered.max() < want:
            name = columns.resource_names[index]
            return Oversized(where, policy.text, step.container, name, int(offered.max()), want, asked, needed)
    if len(set(needed)) != 1:
        return found if needed else None
    apart = _apart(state, wants, needed[0], rows)
    asked = tuple((columns.resource_names[index], want) for index, want in apart)
    return (
        Oversized(where, policy.text, step.container, asked=asked, zones_needed=needed[: len(apart)]) if apart else None
    )


def _apart(state: ClusterState, wants: Wants, zones: int, rows: NDArray[np.intp]) -> Wants:
    """Return amounts that no set of so many zones has together, and that some set has without any one of them."""
    offered = np.stack([state.columns.zone_offered[index][:, rows] for index, _ in wants])
    if zones > 1 and offered.shape[1] > MOST_ZONES:
        return wants  # too many sets to look at
    machines = np.unique(offered, axis=2)
    sets = list(combinations(range(offered.shape[1]), zones))
    # By amount: which sets of which machines have it.
    holding = {
        want: np.stack([machines[position, list(each)].sum(axis=0) >= want[1] for each in sets])
        for position, want in enumerate(wants)
    }

    def together(some: Wants) -> bool:
        return bool(np.logical_and.reduce([holding[each] for each in some]).any())

    if together(wants):
        return []
    kept = list(wants)
    for each in wants:
        others = [other for other in kept if other is not each]
        if others and not together(others):
            kept = others
    return kept


def _zones_needed(reach: NDArray[np.float64], want: int) -> int:
    """Return the fewest zones of any of these nodes that hold an amount in total; all zones if none do."""
    return int((reach.max(axis=1) < want).sum()) + 1 if reach.max() >= want else len(reach)
