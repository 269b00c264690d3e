"""Elastic workloads: pods that run already stay where they are (Kueue's gate ElasticJobsViaWorkloadSlicesWithTAS).

A workload slice replaces an earlier one with another number of pods. More pods: only the new ones are placed. Fewer: the
assignment is cut from its end. None means that the earlier assignment is of no use, and all pods are placed afresh.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayplan.compat.kueue.tas.model import Assignment, PodSet, Settings
from bayplan.compat.kueue.tas.result import Placed, charge, merged, placed_group
from bayplan.compat.kueue.tas.search import search
from bayplan.compat.kueue.tas.snapshot import Snapshot


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
