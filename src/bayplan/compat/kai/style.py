"""A gang in KAI's words: a job with a tree of sub-groups and a task for each pod; and nodes for its pods out of one
round of KAI.

Members that run are active tasks. They count towards the minimum of their pod set, and a required level holds the
others in the domains where they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.compat.kai.scheduler import model as kai
from bayplan.compat.kai.scheduler.rounds import Action, run_round
from bayplan.compat.styles import Nodes, asked, placed
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.kai_scheduling_v2alpha2 import DEFAULT_POD_SET, PodSet, SubGroupSet, TopologyConstraint
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import PASSES, Profile


def place_as_kai(state: ClusterState, tree: Tree, gang: Gang, profile: Profile, answers: ClassAnswers) -> GangDecision:
    """Where KAI would put a gang."""
    return placed(state, tree, gang, _not_expressed, lambda root: _nodes(state, tree, root, profile, answers))


def _not_expressed(gang: Gang) -> Iterator[str]:
    return asked({"segments": bool(gang.root.segments)})


def _nodes(state: ClusterState, tree: Tree, gang: Gang, profile: Profile, answers: ClassAnswers) -> Nodes:
    """The node of each pod that waits and gets one, by its key; or KAI's reasons."""
    nodes = tuple(_node(state, row) for row in state.rows.values())
    tasks: list[kai.Task] = []
    for group in gang.root.every_group():
        pod_set = group.name or DEFAULT_POD_SET
        tasks += [_task(state, pod, pod_set, profile, answers) for pod in group.pods]
        tasks += [_active(state, pod, pod_set) for pod in _running(state, group)]
    topology = kai.Topology(tree.name, (*tree.levels, HOSTNAME))
    namespace, _, name = gang.name.rpartition("/")
    job = kai.Job(name, _sub_groups(state, tree.name, gang.root), tuple(tasks), namespace)
    order = kai.NodeOrder.SPREAD if gang.spread else kai.NodeOrder.BINPACK
    outcome = run_round(kai.Cluster((topology,), nodes, (job,), node_order=order), (Action.ALLOCATE,))
    found = {key: outcome.nodes[key] for key in map(pod_key, gang.pods) if key in outcome.nodes}
    # With the minimum seated, what was refused is only an extra member.
    return found or "; ".join(outcome.refused.get(name, ()))


def _node(state: ClusterState, row: int) -> kai.Node:
    columns = state.columns
    free = {name: float(columns.free[index, row]) for name, index in columns.resource_index.items()}
    allocatable = {name: float(columns.allocatable[index, row]) for name, index in columns.resource_index.items()}
    node = state.nodes[row] or Node()
    labels = {HOSTNAME: state.names[row], **(node.metadata.labels or {})}
    return kai.Node(state.names[row], labels, allocatable, free)


def _task(state: ClusterState, pod: Pod, pod_set: str, profile: Profile, answers: ClassAnswers) -> kai.Task:
    node_filters = answers.for_class(state.classes.of(pod), profile).blocked_by_node
    allowed = None
    if (node_filters != PASSES).any():
        allowed = frozenset(state.names[row] for row in np.flatnonzero(node_filters == PASSES))
    return kai.Task(pod_key(pod), _requests(state, pod), pod_set, allowed_nodes=allowed)


def _active(state: ClusterState, pod: Pod, pod_set: str) -> kai.Task:
    return kai.Task(pod_key(pod), _requests(state, pod), pod_set, kai.Status.RUNNING, pod.spec.node_name or "")


def _requests(state: ClusterState, pod: Pod) -> dict[str, float]:
    total = state.classes.of(pod).request.total
    return {**{name: float(amount) for name, amount in total.items()}, PODS: 1.0}


def _running(state: ClusterState, group: Group) -> list[Pod]:
    """The members of a group that run on a node that is still there."""
    return [pod for pod in group.running if pod.spec.node_name in state.rows]


def _sub_groups(state: ClusterState, topology: str, group: Group) -> SubGroupSet:
    """A group with pods of its own is a pod set; one with groups inside is a set of them."""
    pod_sets = [_pod_set(state, inner, _constraint(topology, inner)) for inner in group.groups if not inner.groups]
    pod_sets.append(_pod_set(state, group, None))
    inner_sets = tuple(_sub_groups(state, topology, inner) for inner in group.groups if inner.groups)
    not_empty = tuple(pod_set for pod_set in pod_sets if pod_set is not None)
    return SubGroupSet(group.name, _constraint(topology, group), inner_sets, not_empty)


def _pod_set(state: ClusterState, group: Group, constraint: TopologyConstraint | None) -> PodSet | None:
    """The pods of a group, of which so many must be there in the end, those that run included; None if it has none."""
    running = _running(state, group)
    if not group.pods and not running:
        return None
    return PodSet(group.name or DEFAULT_POD_SET, max(group.least + len(running), 1), constraint)


def _constraint(topology: str, group: Group) -> TopologyConstraint | None:
    if group.required is None and group.preferred is None:
        return None
    return TopologyConstraint(topology, group.required or "", group.preferred or "")
