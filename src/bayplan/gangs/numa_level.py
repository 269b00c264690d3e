"""The level below the node: `required: numa` puts a group into one NUMA zone, segments at level `numa` one zone each.

To the search, a NUMA zone is a node whose slots are counted zone by zone (`engine/slots/in_zones.py`). This module says
which pods form bundles, what makes a bundle impossible, and whether every seated bundle is in one zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.reports.pod_zones import zones_of_pod
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.numa.demand import demand_of
from bayplan.gangs.model import Gang, Group, Seat
from bayplan.kube.topology_levels import NUMA, level_meant
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision

# For pods that need not share a zone.
NO_BUNDLE = 0


def is_numa(level: str | None, levels: Sequence[str]) -> bool:
    """True if a level means NUMA zones."""
    return level is not None and level_meant(level, levels) == NUMA


def zone_bundles(root: Group, levels: Sequence[str]) -> dict[str, int]:
    """Return, by group, how many pods share a zone: all, those of a segment, or `NO_BUNDLE`."""
    groups = root.every_group()
    named = {group.required for group in groups} | {each.level for group in groups for each in group.segments}
    if not any(is_numa(level, levels) for level in named):
        return dict.fromkeys((group.name for group in groups), NO_BUNDLE)
    return dict(_bundles(root, levels, NO_BUNDLE))


def _bundles(group: Group, levels: Sequence[str], around: int) -> Iterator[tuple[str, int]]:
    own = _number_of_pods(group) if is_numa(group.required, levels) else around
    sliced = next((each.size for each in group.segments if is_numa(each.level, levels)), NO_BUNDLE)
    yield group.name, own or sliced
    for inner in group.groups:
        yield from _bundles(inner, levels, own)


def _number_of_pods(group: Group) -> int:
    return sum(len(each.pods) for each in group.every_group())


def bundle_problem(state: ClusterState, root: Group, bundles: Mapping[str, int]) -> str:
    """Return why pods cannot share a zone on any node; an empty string if nothing prevents it."""
    if not any(bundles.values()):
        return ""
    for group in root.every_group():
        if not bundles[group.name] or not group.pods:
            continue
        classes: dict[PodClass, Pod] = {}
        for pod in group.pods:
            classes.setdefault(state.classes.of(pod), pod)
        if len(classes) > 1:
            return f"{_prefix(group)}pods that share a NUMA zone must be equal, and {_names(classes.values())} differ"
        pod_class, pod = next(iter(classes.items()))
        if demand_of(pod_class.request).nothing_to_align:
            why = "kubelets align whole CPUs and memory of Guaranteed pods, and devices"
            return f"{_prefix(group)}pod {pod_key(pod)} asks for nothing that a kubelet aligns to a NUMA zone: {why}"
    return ""


def bound_with_zones(state: ClusterState, tree: Tree, gang: Gang, bound: str) -> str:
    """Return why a gang does not fit, in terms of NUMA zones if its pods share them; the search speaks of nodes."""
    if is_numa(gang.root.required, tree.levels):
        why = f"no kubelet would put all {len(gang.pods)} pods into one NUMA zone"
        return "; ".join(filter(None, (why, _without_zones(state, tree))))
    bundles = [bundle for bundle in zone_bundles(gang.root, tree.levels).values() if bundle]
    if not bundles:
        return bound
    counted = f"only pods that share a NUMA zone are counted, {bundles[0]} at a time"
    return "; ".join(filter(None, (bound, counted, _without_zones(state, tree))))


def _without_zones(state: ClusterState, tree: Tree) -> str:
    """Say how many nodes do not count because their zones are unknown, or because they align nothing."""
    columns = state.columns
    reported = columns.topology[tree.rows] == TOPOLOGY_USABLE
    unknown = int((~reported).sum())
    unaligned = int((reported & (columns.policy[tree.rows] == Policy.NONE)).sum())
    told = [f"{unknown} without a usable NodeResourceTopology"] if unknown else []
    told += [f"{unaligned} with Topology Manager policy none"] if unaligned else []
    if not told:
        return ""
    left_out = unknown + unaligned
    nodes = "no node counts" if left_out == len(reported) else f"{left_out} of {len(reported)} nodes do not count"
    return f"{nodes}: {' and '.join(told)}"


def _prefix(group: Group) -> str:
    return f'group "{group.name}": ' if group.name else ""


def _names(pods: Iterable[Pod]) -> str:
    return " and ".join(list(map(pod_key, pods))[:2])


def split_bundle(gang: Gang, seats: Sequence[Seat], taken: Mapping[str, Decision], levels: Sequence[str]) -> str:
    """Describe the first required bundle that is not in one zone; an empty string if all are."""
    for name, keys, running in _required_bundles(gang, seats, levels):
        zones = {zone for key in keys for each in taken[key].containers for zone in each.zones or ()}
        zones |= {zone for pod in running for some in zones_of_pod(pod).values() for zone in some}
        if len(zones) != 1:
            where = ", ".join(map(str, sorted(zones))) or "none"
            return f"{name} would be in NUMA zones {where} of {taken[keys[0]].node}"
    return ""


def _required_bundles(
    gang: Gang, seats: Sequence[Seat], levels: Sequence[str]
) -> Iterator[tuple[str, list[str], tuple[Pod, ...]]]:
    """Yield each bundle that must be in one zone: its name, its pods, and running members."""
    for group in gang.root.every_group():
        if is_numa(group.required, levels):
            inside = {each.name for each in group.every_group()}
            running = tuple(pod for each in group.every_group() for pod in each.running)
            keys = [seat.pod for seat in seats if seat.group in inside]
            if keys:
                yield group.name or gang.name, keys, running
        if any(is_numa(each.level, levels) and each.required for each in group.segments):
            segments: dict[int | None, list[str]] = {}
            for seat in seats:
                if seat.group == group.name:
                    segments.setdefault(seat.segment, []).append(seat.pod)
            for number, keys in segments.items():
                yield f"segment {number}", keys, ()
