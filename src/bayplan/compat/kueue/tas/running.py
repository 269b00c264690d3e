"""Elastic workloads: pods that run already stay where they are (Kueue's gate ElasticJobsViaWorkloadSlicesWithTAS).

A workload slice replaces an earlier one with another number of pods. More pods: only the new ones are placed. Fewer:
the assignment is cut from its end. None means that the earlier assignment is of no use, and all pods are placed afresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayplan.compat.kueue.tas.model import Assignment, PodSet, Settings, SliceLayer, TopologyRequest
from bayplan.compat.kueue.tas.request import wanted_level
from bayplan.compat.kueue.tas.search import Found, Within, search
from bayplan.compat.kueue.tas.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Placed:
    """Assignments by pod set, and what is left after them."""

    snapshot: Snapshot
    assignments: dict[str, Assignment]


def placed_group(snapshot: Snapshot, found: Found, workers: PodSet, leader: PodSet | None) -> Placed:
    """What a search found, for the workers and the leader if there is one."""
    assignments = {workers.name: snapshot.assignment(found.leaves, found.pods)}
    after = snapshot.minus(workers.amounts_per_pod, found.leaves, found.pods)
    if leader is not None and found.leader_at is not None:
        leaf, one = np.array([found.leader_at]), np.ones(1, dtype=np.int64)
        assignments[leader.name] = snapshot.assignment(leaf, one)
        after = after.minus(leader.amounts_per_pod, leaf, one)
    return Placed(after, assignments)


def charge(snapshot: Snapshot, pod_set: PodSet, assignment: Assignment) -> Snapshot:
    """The snapshot with the pods of an assignment in it."""
    return snapshot.minus(pod_set.amounts_per_pod, *snapshot.leaves_of(assignment))


def merged(snapshot: Snapshot, assignment: Assignment, found: Found) -> Assignment:
    """An assignment with more pods, in the order of names; pods of one domain are added up."""
    leaves, pods = snapshot.leaves_of(assignment)
    together = np.zeros(len(snapshot.paths), dtype=np.int64)
    together[leaves] += pods
    together[found.leaves] += found.pods
    used = np.flatnonzero(together)
    return snapshot.assignment(used, together[used])


def place_elastic(
    snapshot: Snapshot, settings: Settings, workers: PodSet, leader: PodSet | None
) -> Placed | str | None:
    """The new assignments, the reason why the additional pods do not fit, or None for a fresh placement."""
    before = workers.previous
    if before is None or not _is_usable(snapshot, workers, leader):
        return None
    if workers.count <= before.pods:
        if leader is not None and leader.previous is None:
            return None
        return _kept(snapshot, workers, truncated(before, workers.count), leader)
    snapshot = charge(snapshot, workers, before)
    kept_leader = None
    if leader is not None and leader.previous is not None:
        kept_leader = leader.previous
        snapshot = charge(snapshot, leader, kept_leader)
    additional = replace(workers, count=workers.count - before.pods, previous=None)
    found = search(snapshot, settings, additional, leader if kept_leader is None else None)
    if isinstance(found, str):
        return found
    placed = placed_group(snapshot, found, workers, leader if kept_leader is None else None)
    placed.assignments[workers.name] = merged(snapshot, before, found)
    if leader is not None and kept_leader is not None:
        placed.assignments[leader.name] = kept_leader
    return placed


def truncated(assignment: Assignment, pods: int) -> Assignment:
    """The first `pods` pods of an assignment."""
    counts = np.array([count for _, count in assignment.domains], dtype=np.int64)
    kept = np.clip(pods - (np.cumsum(counts) - counts), 0, counts)
    domains = zip(assignment.domains, kept.tolist(), strict=True)
    return replace(assignment, domains=tuple((values, count) for (values, _), count in domains if count))


def _is_usable(snapshot: Snapshot, workers: PodSet, leader: PodSet | None) -> bool:
    """Every domain still exists, and slices stay whole."""
    earlier = [each.previous for each in (workers, leader) if each is not None and each.previous is not None]
    if any(snapshot.stale_domain(assignment) is not None for assignment in earlier):
        return False
    layers = workers.topology.slices if workers.topology else ()
    size = max(layers[0].size, 1) if layers else 1
    return workers.count % size == 0 and earlier[0].pods % size == 0


def _kept(snapshot: Snapshot, workers: PodSet, assignment: Assignment, leader: PodSet | None) -> Placed:
    assignments = {workers.name: assignment}
    snapshot = charge(snapshot, workers, assignment)
    if leader is not None and leader.previous is not None:
        assignments[leader.name] = leader.previous
        snapshot = charge(snapshot, leader, leader.previous)
    return Placed(snapshot, assignments)


def replace_node(
    snapshot: Snapshot, settings: Settings, pod_set: PodSet, existing: Assignment, node: str
) -> Placed | str:
    """The assignment with a new place for the pods of `node`, or the reason why there is none."""
    kept = replace(existing, domains=tuple(domain for domain in existing.domains if domain[0][-1:] != (node,)))
    stale = snapshot.stale_domain(kept)
    if stale is not None:
        return (
            "Cannot replace the node, because the existing topologyAssignment is invalid, "
            f"as it contains the stale domain {stale}"
        )
    request = pod_set.topology or TopologyRequest()
    lost = replace(pod_set, count=existing.pods - kept.pods)
    sensible = all(layer.size > 0 for layer in request.slices)
    within = _where_to_stay(snapshot, lost, kept) if sensible else None
    if within is not None and request.slices and lost.count % request.slices[0].size:
        lost = replace(lost, topology=replace(request, slices=_innermost_dividing(request.slices, lost.count)))
    found = search(snapshot, settings, lost, within=within)
    if isinstance(found, str):
        return found
    if not found.pods.any():
        return f"cannot find replacement assignment for unhealthy node: {node}"
    after = snapshot.minus(lost.amounts_per_pod, found.leaves, found.pods)
    return Placed(after, {pod_set.name: merged(snapshot, kept, found)})


def _where_to_stay(snapshot: Snapshot, lost: PodSet, kept: Assignment) -> Within | None:
    """The domain that the new place must be in; None if it may be anywhere."""
    label = wanted_level(lost, snapshot.levels)
    level = snapshot.level_of(label) if label is not None else None
    if level is None or not kept.domains:
        return None
    request = lost.topology or TopologyRequest()
    layers = request.slices
    if layers and lost.count % layers[0].size:
        torn = next(layer for layer in reversed(layers) if lost.count % layer.size)
        return _incomplete_domain(snapshot, lost.count, kept, torn)
    if request.required is None:
        return None
    leaf = snapshot.leaf_of[kept.domains[0][0]]
    return Within(level, snapshot.tree.ancestor(leaf, level))


def _incomplete_domain(snapshot: Snapshot, lost: int, kept: Assignment, layer: SliceLayer) -> Within | None:
    """The first domain, by name, in which the lost pods make its slices whole again."""
    level = snapshot.level_of(layer.level)
    if level is None:
        return None
    pods: dict[int, int] = {}
    for values, count in kept.domains:
        domain = snapshot.tree.ancestor(snapshot.leaf_of[values], level)
        pods[domain] = pods.get(domain, 0) + count
    whole_again = [domain for domain, count in sorted(pods.items()) if (count + lost) % layer.size == 0]
    return Within(level, whole_again[0]) if whole_again else None


def _innermost_dividing(layers: tuple[SliceLayer, ...], pods: int) -> tuple[SliceLayer, ...]:
    """The finest layer that the lost pods still fill: with it, pods that were together on a host stay together."""
    return next(((layer,) for layer in reversed(layers) if pods % layer.size == 0), ())
