"""Gangs placed as another system would: the styles `kueue` (and its other rules) and `kai`, for those who come from there and want the answers they know.

The gang and the cluster are told to `engine/gangs/kueue` or `engine/gangs/kai` in their own words, and their answer becomes a
`GangDecision`. Both count by node sums and do not look into nodes, so a kubelet may refuse a pod that they placed; bayplan's own
search (`gang_cycle.py`) does not have that defect, nor their others. What a style cannot express is told in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.tree import Tree
from bayplan.engine.gangs import kueue
from bayplan.engine.gangs.kai import model as kai
from bayplan.engine.gangs.kai.rounds import Action, run_round
from bayplan.engine.gangs.objective import USUAL
from bayplan.engine.gangs.problem import Status
from bayplan.kube.core_v1 import Node, Pod
from bayplan.kube.podgroup_v2alpha2 import PodSet, SubGroupSet, TopologyConstraint
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group, Seat
from bayplan.scheduling.profile import PASSES, Profile

BAYPLAN, KAI = "bayplan", "kai"
# Kueue's rules by the gates that choose them; without a suffix its defaults.
KUEUE = {
    "kueue": kueue.Settings(),
    "kueue-best-fit": kueue.Settings(profile=kueue.Profile.BEST_FIT),
    "kueue-least-free-capacity": kueue.Settings(profile=kueue.Profile.LEAST_FREE_CAPACITY),
    "kueue-balanced": kueue.Settings(balanced=True),
}
STYLES = (BAYPLAN, *KUEUE, KAI)


def place_in_style(
    style: str, state: ClusterState, tree: Tree, gang: Gang, profile: Profile, answers: ClassAnswers
) -> GangDecision:
    """Where another system would put a gang, or its words for why not."""
    unknown = _not_expressed(style, gang)
    if unknown:
        return _refused(gang, f"style {style}: {unknown} cannot be expressed there; use style bayplan")
    if style in KUEUE:
        return _as_kueue(state, tree, gang)
    return _as_kai(state, tree, gang, profile, answers)


def _not_expressed(style: str, gang: Gang) -> str:
    """What the gang asks for and the other system does not know; an empty text if it knows all of it."""
    whole = gang.whole
    groups = list(whole.every_group())
    asked = {
        "members that run already": any(group.running for group in groups),
        "patience": gang.patience is not None,
        "objective": gang.objective != USUAL,
        "domainPlacement spread": gang.roomiest,
        "minimumGroups": any(group.minimum_groups is not None for group in groups),
        "segments inside groups": any(group.slices for group in groups[1:]),
    }
    if style in KUEUE:
        asked |= {
            "minimum": any(group.minimum is not None and group.minimum < len(group.pods) for group in groups),
            "required and preferred together": any(group.required and group.preferred for group in groups),
            "segments that are apart": any(each.apart for each in whole.slices),
            "segments that are only preferred": any(not each.required for each in whole.slices),
            "placement spread": gang.spread,
        }
    else:
        asked["segments"] = bool(whole.slices)
    return ", ".join(name for name, is_asked in asked.items() if is_asked)


def _refused(gang: Gang, reason: str) -> GangDecision:
    """A "no" that proves nothing: the other system has not found a place, or cannot be asked."""
    return GangDecision(gang.name, Status.LIMIT_REACHED, reason)


def _seated(gang: Gang, tree: Tree, node_of: Mapping[str, str], group_of: Mapping[str, str]) -> GangDecision:
    position_of = {path[-1]: position for position, path in enumerate(tree.paths[tree.node_level])}
    seats = tuple(
        Seat(key, group_of[key], node_of[key], tree.paths[tree.node_level][position_of[node_of[key]]], rank)
        for rank, key in enumerate(map(pod_key, gang.pods))
        if key in node_of
    )
    left_out = tuple(key for key in map(pod_key, gang.pods) if key not in node_of)
    return GangDecision(gang.name, Status.FEASIBLE, f"as {gang.style} would place it", seats, left_out=left_out)


# -- kueue -------------------------------------------------------------------------------------------------------------------


def _as_kueue(state: ClusterState, tree: Tree, gang: Gang) -> GangDecision:
    groups = [group for group in gang.whole.every_group() if group.pods]
    if len(groups) > 2 or any(group.groups and group.pods for group in groups):
        return _refused(gang, f"style {gang.style}: a pod set group is a leader and its workers, no more and no deeper")
    pod_sets = []
    for group in groups:
        classes = {state.classes.of(pod) for pod in group.pods}
        if len(classes) > 1:
            return _refused(gang, f"style {gang.style}: all pods of a group must be equal")
        pod_sets.append(_pod_set(gang, group, classes.pop(), together=len(groups) == 2))
    snapshot = kueue.snapshot_of(tree.name, (*tree.levels, HOSTNAME), _leaves(state, tree))
    outcomes = kueue.place(snapshot, pod_sets, KUEUE[gang.style])
    node_of: dict[str, str] = {}
    group_of: dict[str, str] = {}
    for group, pod_set in zip(groups, pod_sets, strict=True):
        outcome = outcomes.get(pod_set.name, kueue.Outcome(reason="was not reached"))
        if outcome.assignment is None:
            return _refused(gang, outcome.reason or "")
        nodes = [values[-1] for values, count in outcome.assignment.domains for _ in range(count)]
        for pod, node in zip(group.pods, nodes, strict=True):
            node_of[pod_key(pod)] = node
            group_of[pod_key(pod)] = group.name
    return _seated(gang, tree, node_of, group_of)


def _pod_set(gang: Gang, group: Group, pod: PodClass, *, together: bool) -> kueue.PodSet:
    spec = group.pods[0].spec
    whole = gang.whole
    required, preferred = group.required or whole.required, group.preferred or whole.preferred
    slices = tuple(kueue.SliceLayer(each.level, each.size) for each in whole.slices)
    request = kueue.TopologyRequest(
        required=required,
        preferred=None if required else preferred,
        unconstrained=not required and not preferred and not slices,
        slices=slices,
    )
    return kueue.PodSet(
        name=group.name or "main",
        count=len(group.pods),
        requests=dict(pod.request.total),
        topology=request,
        group="gang" if together else None,
        tolerations=tuple(spec.tolerations or ()),
        node_selector=spec.node_selector or {},
        node_affinity=spec.affinity.node_affinity if spec.affinity else None,
    )


def _leaves(state: ClusterState, tree: Tree) -> list[kueue.Leaf]:
    """Every schedulable node of the tree with what is left on it."""
    columns = state.columns
    leaves = []
    for path, row in zip(tree.paths[tree.node_level], tree.rows.tolist(), strict=True):
        node = state.nodes[row]
        if node is None or node.spec.unschedulable:
            continue
        remaining = {name: int(columns.free[index, row]) for name, index in columns.resource_index.items()}
        host = kueue.Host(path[-1], node.metadata.labels or {}, tuple(node.spec.taints or ()))
        leaves.append(kueue.Leaf(path, remaining, host))
    return leaves


# -- kai ---------------------------------------------------------------------------------------------------------------------


def _as_kai(state: ClusterState, tree: Tree, gang: Gang, profile: Profile, answers: ClassAnswers) -> GangDecision:
    nodes = tuple(_kai_node(state, row) for row in state.rows.values())
    tasks: list[kai.Task] = []
    group_of: dict[str, str] = {}
    for group in gang.whole.every_group():
        for pod in group.pods:
            group_of[pod_key(pod)] = group.name
            tasks.append(_task(state, pod, group, profile, answers))
    topology = kai.Topology(tree.name, (*tree.levels, HOSTNAME))
    job = kai.Job(gang.name, _sub_groups(tree.name, gang.whole), tuple(tasks))
    order = kai.NodeOrder.SPREAD if gang.spread else kai.NodeOrder.BINPACK
    outcome = run_round(kai.Cluster((topology,), nodes, (job,), node_order=order), (Action.ALLOCATE,))
    if gang.name in outcome.refused and not outcome.nodes:
        # With the minimum seated, what was refused is only an extra member.
        return _refused(gang, "; ".join(outcome.refused[gang.name]))
    return _seated(gang, tree, outcome.nodes, group_of)


def _kai_node(state: ClusterState, row: int) -> kai.Node:
    columns = state.columns
    free = {name: float(columns.free[index, row]) for name, index in columns.resource_index.items()}
    allocatable = {name: float(columns.allocatable[index, row]) for name, index in columns.resource_index.items()}
    node = state.nodes[row] or Node()
    labels = {HOSTNAME: state.names[row], **(node.metadata.labels or {})}
    return kai.Node(state.names[row], labels, allocatable, free)


def _task(state: ClusterState, pod: Pod, group: Group, profile: Profile, answers: ClassAnswers) -> kai.Task:
    pod_class = state.classes.of(pod)
    node_filters = answers.for_class(pod_class, profile).blocked_by_node
    allowed = None
    if (node_filters != PASSES).any():
        allowed = frozenset(state.names[row] for row in np.flatnonzero(node_filters == PASSES))
    requests = {**{name: float(amount) for name, amount in pod_class.request.total.items()}, PODS: 1.0}
    return kai.Task(pod_key(pod), requests, group.name or "default", allowed_nodes=allowed)


def _sub_groups(topology: str, group: Group) -> SubGroupSet:
    """A group with pods of its own is a pod set; one with groups inside is a set of them."""
    leaves = [inner for inner in group.groups if not inner.groups]
    pod_sets = [PodSet(inner.name, max(inner.least, 1), _constraint(topology, inner)) for inner in leaves]
    if group.pods:
        pod_sets.append(PodSet(group.name or "default", max(group.least, 1)))
    inner_sets = tuple(_sub_groups(topology, inner) for inner in group.groups if inner.groups)
    return SubGroupSet(group.name, _constraint(topology, group), inner_sets, tuple(pod_sets))


def _constraint(topology: str, group: Group) -> TopologyConstraint | None:
    if group.required is None and group.preferred is None:
        return None
    return TopologyConstraint(topology, group.required or "", group.preferred or "")
