"""What the placement styles of other systems share: `compat/kueue/style.py` and `compat/kai/style.py`.

A style translates the gang and the cluster for the other system's rules and their answer into a `GangDecision`. These
rules count by node sums and do not look into nodes, so a kubelet may refuse a pod that they placed; bayplan's own
search does not have that defect. What a style cannot express is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, USUAL
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import BAYPLAN, Gang, GangDecision, Group, Seat
from bayplan.kube.topology_levels import NUMA, level_meant

Nodes = dict[str, str] | str
"""The node of each pod by its key, or the other system's reason for placing none."""


def placed(
    state: ClusterState,
    tree: Tree,
    gang: Gang,
    not_expressed: Callable[[Gang], Iterator[str]],
    place: Callable[[Gang], Nodes],
) -> GangDecision:
    """Where another system would put a gang, or its words for why not."""
    gang = replace(gang, root=_with_whole_labels(gang.root, tree))
    unknown = ", ".join([*_never_expressed(gang), *not_expressed(gang)])
    if unknown:
        return _refused(gang, f"{unknown} cannot be expressed there; use style {BAYPLAN}")
    nodes = place(gang)
    return _refused(gang, nodes) if isinstance(nodes, str) else _seated(state, tree, gang, nodes)


def _with_whole_labels(group: Group, tree: Tree) -> Group:
    """The same group with whole labels instead of short names: other systems know no short names."""

    def label(name: str | None) -> str | None:
        return None if name is None else level_meant(name, tree.levels) or name

    return replace(
        group,
        required=label(group.required),
        preferred=label(group.preferred),
        segments=tuple(replace(each, level=label(each.level) or each.level) for each in group.segments),
        groups=tuple(_with_whole_labels(inner, tree) for inner in group.groups),
    )


def _never_expressed(gang: Gang) -> Iterator[str]:
    """What the gang asks for and no other system knows."""
    groups = list(gang.root.every_group())
    yield from asked(
        {
            "patience": gang.patience is not None,
            "objective": gang.objective not in (USUAL, LOWEST_COMMON_DOMAIN),
            "domainPlacement spread": gang.roomiest,
            "minimumGroups": any(group.minimum_groups is not None for group in groups),
            "segments inside groups": any(group.segments for group in groups[1:]),
            f"the level {NUMA}": any(level_meant(level, ()) == NUMA for level in gang.levels),
        }
    )


def asked(features: Mapping[str, bool]) -> Iterator[str]:
    """The names of the features that are asked for."""
    return (name for name, is_asked in features.items() if is_asked)


def _refused(gang: Gang, reason: str) -> GangDecision:
    """A "no" that proves nothing: the other system has not found a place, or cannot be asked."""
    bound = f"cannot be placed in style {gang.style}: {reason}"
    return GangDecision(gang.name, Status.LIMIT_REACHED, bound, style=gang.style)


def _seated(state: ClusterState, tree: Tree, gang: Gang, node_of: Mapping[str, str]) -> GangDecision:
    position_of = {state.names[row]: position for position, row in enumerate(tree.rows.tolist())}
    paths = tree.paths[tree.node_level]
    seats = [
        Seat(key, group.name, node_of[key], paths[position_of[node_of[key]]], gang.ranks[key])
        for group in gang.root.every_group()
        for key in map(pod_key, group.pods)
        if key in node_of
    ]
    preferred_domains = None
    if gang.root.preferred is not None and (level := tree.level_number(gang.root.preferred)) is not None:
        running = (pod.spec.node_name or "" for group in gang.root.every_group() for pod in group.running)
        nodes = {node for node in (*node_of.values(), *running) if node in position_of}
        preferred_domains = len({int(tree.domain_at[level][position_of[node]]) for node in nodes})
    return GangDecision(
        gang.name,
        Status.FEASIBLE,
        f"as {gang.style} would place it",
        tuple(sorted(seats, key=lambda seat: seat.rank)),
        left_out=tuple(key for key in map(pod_key, gang.pods) if key not in node_of),
        preferred_domains=preferred_domains,
        style=gang.style,
    )
