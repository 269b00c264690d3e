"""Exclusive placement of JobSet and LeaderWorkerSet: each Job, or each group, has a domain to itself.

Their webhooks give the leader pod affinity to its own pods and anti-affinity to others, and create the followers only
after the leader has a node. So leaders start first, where their followers have room; these start together and follow:

    JobSet           a group for each Job in one domain, with its leader and its followers as groups inside
    LeaderWorkerSet  one gang for each group already, in one domain; it is staged, as with `startupPolicy: LeaderReady`
"""

from __future__ import annotations

from bayplan.grouping.expressions import amount_of
from bayplan.grouping.raw import annotations_of, list_at, map_at
from bayplan.grouping.workload import OwningWorkload, RoleSpec
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec

JOB_SET = "jobset.x-k8s.io"
LEADER_WORKER_SET = "leaderworkerset.x-k8s.io"
JOB_SET_KEY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
# With this annotation, users label the nodes for each Job, and no pod is created late.
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
LEADER_WORKER_SET_KEY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LEADER, FOLLOWERS = "leader", "followers"
# Leaves room for the number of the Job and the role in it.
LONGEST_PREFIX = 45


def level_of_groups(workload: OwningWorkload) -> str:
    """The node label by which each group of a LeaderWorkerSet has a domain to itself; empty for none."""
    if workload.about.group != LEADER_WORKER_SET:
        return ""
    return annotations_of(workload.thing).get(LEADER_WORKER_SET_KEY, "")


def level_of_jobs(workload: OwningWorkload, part: RoleSpec) -> str:
    """The node label by which each Job of a JobSet's part has a domain to itself; empty for none."""
    if workload.about.group != JOB_SET:
        return ""
    notes = {**annotations_of(workload.thing), **annotations_of(map_at(part.source, ("template",)))}
    return "" if NODE_SELECTOR in notes else notes.get(JOB_SET_KEY, "")


def exclusive_level(workload: OwningWorkload) -> str:
    """The node label of exclusive placement, for the gang or one of its parts; empty for none."""
    of_parts = (level_of_jobs(workload, part) for part in workload.parts)
    return level_of_groups(workload) or next(filter(None, of_parts), "")


def exclusive_source(workload: OwningWorkload) -> tuple[str, str]:
    """The level of exclusive placement and the path of its annotation in the workload; both empty for none."""
    level = exclusive_level(workload)
    if not level:
        return "", ""
    key = LEADER_WORKER_SET_KEY if workload.about.group == LEADER_WORKER_SET else JOB_SET_KEY
    if annotations_of(workload.thing).get(key) == level:
        return level, f'metadata.annotations["{key}"]'
    jobs = enumerate(list_at(workload.thing, ("spec", "replicatedJobs")))
    of_job = (n for n, job in jobs if annotations_of(map_at(job, ("template",))).get(key) == level)
    return level, f'spec.replicatedJobs[{next(of_job, 0)}].template.metadata.annotations["{key}"]'


def groups_of_jobs(part: RoleSpec, level: str) -> tuple[list[GroupSpec], int | None]:
    """A group for each Job of a part, which starts with its leader, and the number of Jobs that are not finished."""
    jobs = _jobs_in(part)
    size = max(part.size // jobs, 1)
    groups = [_job(_name_of_job(part, number), size, level) for number in range(jobs)]
    unfinished = -(-part.coming // size)
    return groups, None if unfinished >= jobs else unfinished


def place_in_job(part: RoleSpec, index: int) -> str:
    """The group of a pod by its index in the part."""
    job, own = divmod(index, amount_of(part.role.rank[0].times).value(part.source) or 1)
    name = _name_of_job(part, job)
    if part.size <= _jobs_in(part):
        return name
    return f"{name}-{LEADER if own == 0 else FOLLOWERS}"


def _jobs_in(part: RoleSpec) -> int:
    return max(amount_of("replicas|1").value(part.source) or 0, 1)


def _name_of_job(part: RoleSpec, number: int) -> str:
    return f"{part.name[:LONGEST_PREFIX]}-{number}"


def _job(name: str, size: int, level: str) -> GroupSpec:
    if size == 1:
        return GroupSpec(name=name, size=1, required=level)
    inside = [GroupSpec(name=f"{name}-{LEADER}", size=1), GroupSpec(name=f"{name}-{FOLLOWERS}", size=size - 1)]
    return GroupSpec(name=name, required=level, groups=inside, minimum_groups=1)
