"""A gang in Kueue's words: a pod set, or a leader and its workers, on a snapshot of the nodes; and nodes for its pods
out of Kueue's assignment.

Members that are missing in a gang that runs are to Kueue the pods of a node that has failed: all others stay, and the
lost ones get a place that keeps what the workload was promised (`compat/kueue/tas/running.py`). Which node it was does
not matter to the rules, so all lost ones were on one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Path, Tree
from bayplan.compat.kueue import tas as kueue
from bayplan.compat.styles import Nodes, asked, placed
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile

# Where lost members were; no node can have this name.
LOST = "(lost)"


@dataclass(frozen=True)
class KueueStyle:
    """Kueue's rules, as its feature gates choose them."""

    settings: kueue.Settings

    def __call__(
        self,
        state: ClusterState,
        tree: Tree,
        gang: Gang,
        profile: Profile,
        answers: ClassAnswers,
    ) -> GangDecision:
        """Where Kueue would put a gang."""
        return placed(state, tree, gang, _not_expressed, lambda root: _nodes(state, tree, root, self.settings))


DEFAULT = KueueStyle(kueue.Settings())
BEST_FIT = KueueStyle(kueue.Settings(profile=kueue.Profile.BEST_FIT))
LEAST_FREE_CAPACITY = KueueStyle(kueue.Settings(profile=kueue.Profile.LEAST_FREE_CAPACITY))
BALANCED = KueueStyle(kueue.Settings(balanced=True))


def _not_expressed(gang: Gang) -> Iterator[str]:
    root = gang.root
    groups = list(root.every_group())
    yield from asked(
        {
            "minimum": any(group.minimum is not None and group.minimum < len(group.pods) for group in groups),
            "required and preferred together": any(group.required and group.preferred for group in groups),
            "segments that are apart": any(each.apart for each in root.segments),
            "segments that are only preferred": any(not each.required for each in root.segments),
            "placement spread": gang.spread,
        }
    )
    yield from _inside_others(root)


def _inside_others(group: Group, around: str = "") -> Iterator[str]:
    """Levels that a group asks for inside a group that asks for one: Kueue knows a single level for a pod set."""
    asks = "required" if group.required else "preferred" if group.preferred else ""
    who = f'of group "{group.name}"' if group.name else "of the gang"
    if asks and around:
        yield f"{asks} {who} beside {around}"
    for inner in group.groups:
        yield from _inside_others(inner, f"{asks} {who}" if asks else around)


def _nodes(state: ClusterState, tree: Tree, gang: Gang, settings: kueue.Settings) -> Nodes:
    """The node of each pod that waits, by its key; or Kueue's reason."""
    groups = [group for group in gang.root.every_group() if group.pods or group.running]
    if len(groups) > 2 or any(group.groups for group in groups):
        return "a pod set group is a leader and its workers, no more and no deeper"
    asked = {_asked_by(gang.root, group) for group in groups}
    if len(asked) > 1:
        one, other = (f'"{group.name}"' for group in groups)
        return f"a leader and its workers have one level; groups {one} and {other} ask for different ones"
    waiting = [group for group in groups if group.pods]
    classes = [{state.classes.of(pod) for pod in group.pods} for group in waiting]
    if any(len(each) > 1 for each in classes):
        return "all pods of a group must be equal"
    request = _request(gang, *asked.pop())
    pod_sets = [
        _pod_set(group, of_group.pop(), request, together=len(groups) == 2)
        for group, of_group in zip(waiting, classes, strict=True)
    ]
    snapshot = kueue.snapshot_of(tree.name, (*tree.levels, HOSTNAME), list(_leaves(state, tree, gang, request)))
    running = None
    if any(group.running for group in groups):
        assignments = {_name(group): _as_it_was(group) for group in waiting}
        running = kueue.RunningWorkload(assignments, (LOST,))
    outcomes = kueue.place(snapshot, pod_sets, settings, running)
    node_of: dict[str, str] = {}
    for group in waiting:
        outcome = outcomes.get(_name(group), kueue.AssignmentResult(reason="was not reached"))
        if outcome.assignment is None:
            return outcome.reason or ""
        node_of |= dict(zip(map(pod_key, group.pods), _new_nodes(group, outcome.assignment), strict=True))
    return node_of


def _name(group: Group) -> str:
    return group.name or "main"


def _asked_by(root: Group, group: Group) -> tuple[str | None, str | None]:
    """The required and the preferred level that a group's pods are under, its own or that of a group around it.

    There is one at most.
    """
    around = [each for each in root.every_group() if any(inner is group for inner in each.every_group())]
    required = next((each.required for each in around if each.required), None)
    return required, next((each.preferred for each in around if each.preferred), None)


def _request(gang: Gang, required: str | None, preferred: str | None) -> kueue.TopologyRequest:
    slices = tuple(kueue.SliceLayer(each.level, each.size) for each in gang.root.segments)
    unconstrained = not required and not preferred and not slices
    return kueue.TopologyRequest(required, preferred, unconstrained, slices)


def _pod_set(group: Group, pod: PodClass, request: kueue.TopologyRequest, *, together: bool) -> kueue.PodSet:
    spec = group.pods[0].spec
    return kueue.PodSet(
        name=_name(group),
        count=len(group.pods) + len(group.running),
        requests=dict(pod.request.total),
        topology=request,
        group="gang" if together else None,
        tolerations=tuple(spec.tolerations or ()),
        node_selector=spec.node_selector or {},
        node_affinity=spec.affinity.node_affinity if spec.affinity else None,
    )


def _as_it_was(group: Group) -> kueue.Assignment:
    """Where the members of a group were before it lost those that wait now."""
    nodes = Counter(pod.spec.node_name or "" for pod in group.running)
    domains = tuple(((node,), number) for node, number in sorted(nodes.items()))
    return kueue.Assignment((HOSTNAME,), (*domains, ((LOST,), len(group.pods))))


def _new_nodes(group: Group, assignment: kueue.Assignment) -> list[str]:
    """The nodes of an assignment in its order, each for so many pods, without those for members that run."""
    new = Counter({values[-1]: number for values, number in assignment.domains})
    new -= Counter(pod.spec.node_name or "" for pod in group.running)
    return list(new.elements())


def _leaves(state: ClusterState, tree: Tree, gang: Gang, request: kueue.TopologyRequest) -> Iterator[kueue.Leaf]:
    """Every schedulable node of the tree with what is left on it.

    Beside members that run, only of the required domain where they do.

    A node that was cordoned under members stays where it is, with nothing left on it.
    """
    columns = state.columns
    occupied = {pod.spec.node_name for group in gang.root.every_group() for pod in group.running}
    level = None if request.required is None else tree.level_number(request.required)
    depth = 0 if level is None else level + 1
    paths = tree.paths[tree.node_level]
    homes: set[Path] = {path[:depth] for path in paths if path[-1] in occupied}
    for path, row in zip(paths, tree.rows.tolist(), strict=True):
        node = state.nodes[row]
        if node is None or (homes and path[:depth] not in homes):
            continue
        remaining = {name: int(columns.free[index, row]) for name, index in columns.resource_index.items()}
        if node.spec.unschedulable:
            if path[-1] not in occupied:
                continue
            remaining = {}
        host = kueue.Host(path[-1], node.metadata.labels or {}, tuple(node.spec.taints or ()))
        yield kueue.Leaf(path, remaining, host)
