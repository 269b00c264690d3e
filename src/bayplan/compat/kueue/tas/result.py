"""From leaves found to assignments, and to the snapshot that the next pod set sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.model import Assignment, PodSet
from bayplan.compat.kueue.tas.search import Found
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
