"""Gangs placed as another system would: the styles `kueue` (and its other rules) and `kai`, for those who come from there and want the answers they know.

The gang and the cluster are told to those systems' rules in their own words (`gangs/styles/kueue.py`, `gangs/styles/kai.py`), and their answer becomes a
`GangDecision`. Both count by node sums and do not look into nodes, so a kubelet may refuse a pod that they placed; bayplan's own
search (`gangs/cycle.py`) does not have that defect, nor their others. Members that come back join those that run as they would there: Kueue's
replacement of a failed node, KAI's rule for pods that are active. What a style cannot express is told in one sentence, never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs import kueue
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, USUAL
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import Gang, GangDecision, Group, Seat
from bayplan.gangs.styles.kai import place_as_kai
from bayplan.gangs.styles.kueue import place_as_kueue
from bayplan.kube.topology_levels import NUMA, level_meant
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile

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
    gang = replace(gang, whole=_with_whole_labels(gang.whole, tree))
    unknown = ", ".join(_not_expressed(style, gang))
    if unknown:
        return _refused(gang, f"{unknown} cannot be expressed there; use style bayplan")
    if style in KUEUE:
        nodes = place_as_kueue(state, tree, gang, KUEUE[style])
    else:
        nodes = place_as_kai(state, tree, gang, profile, answers)
    return _refused(gang, nodes) if isinstance(nodes, str) else _seated(state, tree, gang, nodes)


def _with_whole_labels(group: Group, tree: Tree) -> Group:
    """The same group with whole labels instead of short names: other systems know no short names."""

    def label(name: str | None) -> str | None:
        return None if name is None else level_meant(name, tree.levels) or name

    return replace(
        group,
        required=label(group.required),
        preferred=label(group.preferred),
        slices=tuple(replace(each, level=label(each.level) or each.level) for each in group.slices),
        groups=tuple(_with_whole_labels(inner, tree) for inner in group.groups),
    )


def _not_expressed(style: str, gang: Gang) -> Iterator[str]:
    """What the gang asks for and the other system does not know."""
    whole = gang.whole
    groups = list(whole.every_group())
    asked = {
        "patience": gang.patience is not None,
        "objective": gang.objective not in (USUAL, LOWEST_COMMON_DOMAIN),
        "domainPlacement spread": gang.roomiest,
        "minimumGroups": any(group.minimum_groups is not None for group in groups),
        "segments inside groups": any(group.slices for group in groups[1:]),
        f"the level {NUMA}": any(level_meant(level, ()) == NUMA for level in gang.levels),
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
    yield from (name for name, is_asked in asked.items() if is_asked)
    if style in KUEUE:
        yield from _inside_others(whole)


def _inside_others(group: Group, around: str = "") -> Iterator[str]:
    """Levels that a group asks for inside a group that asks for one: Kueue knows a single level for a pod set."""
    asks = "required" if group.required else "preferred" if group.preferred else ""
    who = f'of group "{group.name}"' if group.name else "of the gang"
    if asks and around:
        yield f"{asks} {who} beside {around}"
    for inner in group.groups:
        yield from _inside_others(inner, f"{asks} {who}" if asks else around)


def _refused(gang: Gang, reason: str) -> GangDecision:
    """A "no" that proves nothing: the other system has not found a place, or cannot be asked."""
    bound = f"cannot be placed in style {gang.style}: {reason}"
    return GangDecision(gang.name, Status.LIMIT_REACHED, bound, style=gang.style)


def _seated(state: ClusterState, tree: Tree, gang: Gang, node_of: Mapping[str, str]) -> GangDecision:
    position_of = {state.names[row]: position for position, row in enumerate(tree.rows.tolist())}
    paths = tree.paths[tree.node_level]
    seats = [
        Seat(key, group.name, node_of[key], paths[position_of[node_of[key]]], gang.ranks[key])
        for group in gang.whole.every_group()
        for key in map(pod_key, group.pods)
        if key in node_of
    ]
    preferred_domains = None
    if gang.whole.preferred is not None and (level := tree.level_number(gang.whole.preferred)) is not None:
        running = (pod.spec.node_name or "" for group in gang.whole.every_group() for pod in group.running)
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
