"""LeaderWorkerSet: groups of a leader and its workers. Leaders and workers belong to StatefulSets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from bayplan.gangs.ranks.ranks import POD_INDEX, WORKER_INDEX
from bayplan.grouping.raw import RawObject, Reference, WrongValue, annotations_of, look_up
from bayplan.workloads.planned import (
    Around,
    PlannedPod,
    Template,
    count_at,
    exclusive,
    hash_of,
    name_of,
    owned,
    pod_from,
    template_at,
    word_at,
)

LWS = "leaderworkerset.sigs.k8s.io"
STATEFUL_SET = ("apps/v1", "StatefulSet")
TEMPLATE = "spec.leaderWorkerTemplate"
GROUP_KEY, SUBGROUP_KEY = f"{LWS}/group-key", f"{LWS}/subgroup-key"
LEADER_EXCLUDED = "LeaderExcluded"


def leader_worker_set(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """Leaders `serve-0`, workers `serve-0-1` and on."""
    workers = template_at(thing, f"{TEMPLATE}.workerTemplate")
    leader_path = f"{TEMPLATE}.leaderTemplate"
    has_own = look_up(thing, tuple(leader_path.split("."))) is not None
    leaders = template_at(thing, leader_path) if has_own else workers
    size = count_at(thing, f"{TEMPLATE}.size", 1)
    if size < 1:
        raise WrongValue(f"{TEMPLATE}.size", size, "must be 1 or more: the leader counts")
    _check_subgroups(thing, size)
    revision = hash_of([workers.spec, leaders.spec, size])
    of_leaders = owned(thing, *STATEFUL_SET, name_of(thing), {"serviceName": name_of(thing)})
    for group in range(count_at(thing, "spec.replicas", 1)):
        yield from _group(thing, of_leaders, leaders, workers, group, size, revision)


def _group(
    thing: RawObject,
    of_leaders: RawObject,
    leaders: Template,
    workers: Template,
    group: int,
    size: int,
    revision: str,
) -> Iterator[PlannedPod]:
    about = Reference.of(thing)
    leader = f"{about.name}-{group}"
    key = _sha1(about.namespace, leader)
    notes = {f"{LWS}/size": str(size)}
    labels = {
        f"{LWS}/name": about.name,
        f"{LWS}/group-index": str(group),
        GROUP_KEY: key,
        f"{LWS}/template-revision-hash": revision,
    }
    first = {**labels, WORKER_INDEX: "0", POD_INDEX: str(group), "statefulset.kubernetes.io/pod-name": leader}
    leaders, workers = (_in_own_domain(thing, each, key) for each in (leaders, workers))
    in_subgroup, marks = _in_subgroup(thing, leaders, leader, 0, size)
    yield pod_from(in_subgroup, leader, [of_leaders, thing], {**first, **marks}, notes)
    pod: RawObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": leader, "namespace": about.namespace}}
    of_workers = owned(pod, *STATEFUL_SET, leader, {"serviceName": about.name})
    for index in range(1, size):
        name = f"{leader}-{index}"
        own = {**labels, WORKER_INDEX: str(index), POD_INDEX: str(index), "statefulset.kubernetes.io/pod-name": name}
        in_subgroup, marks = _in_subgroup(thing, workers, leader, index, size)
        above = [of_workers, pod, of_leaders, thing]
        yield pod_from(in_subgroup, name, above, {**own, **marks}, {**notes, f"{LWS}/leader-name": leader})


def _in_own_domain(thing: RawObject, template: Template, key: str) -> Template:
    """Exclusive placement: workers follow their leader into its domain, which no other group shares."""
    topology = annotations_of(thing).get(f"{LWS}/exclusive-topology")
    return exclusive(template, GROUP_KEY, key, topology) if topology else template


def _check_subgroups(thing: RawObject, size: int) -> None:
    """Check what LeaderWorkerSet's webhook rejects: subgroups that do not divide the group."""
    policy = f"{TEMPLATE}.subGroupPolicy"
    length = count_at(thing, f"{policy}.subGroupSize", 0)
    excluded = word_at(thing, f"{policy}.subGroupPolicyType") == LEADER_EXCLUDED
    divided = (size - 1,) if excluded else (size, size - 1)
    if length and (length > size or all(number % length for number in divided)):
        allowed = f"must divide {' or '.join(map(str, divided))}, the pods of a group"
        raise WrongValue(f"{policy}.subGroupSize", length, allowed + (" without its leader" if excluded else ""))


def _in_subgroup(
    thing: RawObject, template: Template, leader: str, index: int, size: int
) -> tuple[Template, dict[str, str]]:
    """A pod's template and labels in its subgroup."""
    policy = f"{TEMPLATE}.subGroupPolicy"
    length = count_at(thing, f"{policy}.subGroupSize", 0)
    if not length or (index == 0 and word_at(thing, f"{policy}.subGroupPolicyType") == LEADER_EXCLUDED):
        return template, {}
    # If the leader is one too many, it joins the first subgroup.
    number = 0 if index == 0 else (index - 1 if (size - 1) % length == 0 else index) // length
    key = _sha1(leader, str(number))
    topology = annotations_of(thing).get(f"{LWS}/subgroup-exclusive-topology")
    own = exclusive(template, SUBGROUP_KEY, key, topology) if topology else template
    return own, {f"{LWS}/subgroup-index": str(number), SUBGROUP_KEY: key}


def _sha1(*parts: str) -> str:
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()
