"""Placement of a workload's pod sets in the style of Kueue's Topology Aware Scheduling: `place` is the way in.

Pod sets are placed one after the other, each seeing what the earlier ones took; two pod sets of one group are placed
together. The first that does not fit ends it. A user who comes from Kueue finds the same assignment here, or the same
reason, word for word; where Kueue would leave pods out of an assignment or crash, there is a reason of our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.compat.kueue.tas.model import AssignmentResult, PodSet, RunningWorkload, Settings
from bayplan.compat.kueue.tas.running import Placed, place_elastic, placed_group, replace_node
from bayplan.compat.kueue.tas.search import search
from bayplan.compat.kueue.tas.snapshot import Snapshot

_DEFAULTS = Settings()


def place(
    snapshot: Snapshot,
    pod_sets: Sequence[PodSet],
    settings: Settings = _DEFAULTS,
    running: RunningWorkload | None = None,
) -> dict[str, AssignmentResult]:
    """An outcome per pod set by name; pod sets after one that does not fit have none.

    With a `running` workload that has unhealthy nodes, its pods on them get a new place instead.
    """
    if running is not None and running.unhealthy_nodes:
        return _replace(snapshot, pod_sets, settings, running)
    outcomes: dict[str, AssignmentResult] = {}
    for group in _groups(pod_sets):
        placed = _place_group(snapshot, settings, group)
        if isinstance(placed, Mapping):
            return outcomes | placed
        outcomes |= {name: AssignmentResult(assignment) for name, assignment in placed.assignments.items()}
        snapshot = placed.snapshot
    return outcomes


def _groups(pod_sets: Sequence[PodSet]) -> list[list[PodSet]]:
    groups: dict[str | int, list[PodSet]] = {}
    for index, pod_set in enumerate(pod_sets):
        groups.setdefault(pod_set.group if pod_set.group is not None else index, []).append(pod_set)
    return list(groups.values())


def _place_group(snapshot: Snapshot, settings: Settings, group: list[PodSet]) -> Placed | dict[str, AssignmentResult]:
    reason = _no_group(group)
    if reason is not None:
        return {pod_set.name: AssignmentResult(reason=reason) for pod_set in group}
    workers, leader = leader_apart(group)
    if settings.elastic:
        grown = place_elastic(snapshot, settings, workers, leader)
        if isinstance(grown, str):
            return {workers.name: AssignmentResult(reason=grown)}
        if grown is not None:
            return grown
    found = search(snapshot, settings, workers, leader)
    if isinstance(found, str):
        return {pod_set.name: AssignmentResult(reason=found) for pod_set in group}
    return placed_group(snapshot, found, workers, leader)


def leader_apart(group: Sequence[PodSet]) -> tuple[PodSet, PodSet | None]:
    """Workers and leader: the smaller pod set leads, of equals the second."""
    if len(group) == 1:
        return group[0], None
    first, second = group
    return (second, first) if second.count > first.count else (first, second)


def _no_group(group: Sequence[PodSet]) -> str | None:
    if len(group) > 2:
        return f'pod set group "{group[0].group}" has {len(group)} pod sets; a leader and its workers are allowed'
    _, leader = leader_apart(group)
    if leader is not None and leader.count != 1:
        return f'pod set group "{leader.group}" has a leader of {leader.count} pods; one is allowed'
    return None


def _replace(
    snapshot: Snapshot, pod_sets: Sequence[PodSet], settings: Settings, running: RunningWorkload
) -> dict[str, AssignmentResult]:
    outcomes: dict[str, AssignmentResult] = {}
    for pod_set in (each for group in _groups(pod_sets) for each in group):
        existing = running.assignments.get(pod_set.name)
        if existing is None:
            continue
        if settings.single_pods_stay and running.owned_by_single_pod:
            # Such a pod cannot move and its workload ends with it, so the assignment goes on saying where it runs.
            outcomes[pod_set.name] = AssignmentResult(existing)
            continue
        placed = replace_node(snapshot, settings, pod_set, existing, running.unhealthy_nodes[0])
        if isinstance(placed, str):
            return outcomes | {pod_set.name: AssignmentResult(reason=placed)}
        outcomes[pod_set.name] = AssignmentResult(placed.assignments[pod_set.name])
        snapshot = placed.snapshot
    return outcomes
