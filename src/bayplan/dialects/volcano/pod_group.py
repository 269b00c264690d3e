"""Volcano's PodGroup (`scheduling.volcano.sh/v1beta1`): minima of all pods and of tasks, and sub-groups by label.

    minMember, minTaskMember   a group for each task, or one for all if only the sum counts
    subGroupPolicy             pods by selector, in sub-groups of one size by label, with a minimum of sub-groups
    networkTopology            levels of a tree (`network_topology.py`), for the gang and for each sub-group

Volcano's controllers write a pod's PodGroup into an annotation and its task into a label or annotation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bayplan.cluster.pods.label_selectors import EVERYTHING, selector_of
from bayplan.dialects.dialect import Dialect, full_name
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.progress import UNSCHEDULABLE, Document, Phase, Progress
from bayplan.dialects.volcano.network_topology import AllowedTiers, Tiers
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import VOLCANO_POD_GROUPS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup, SubGroupPolicy

GROUP_NAMES = ("scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name")
TASK = "volcano.sh/task-spec"
# Of Volcano's plugin task-topology.
TASK_TOPOLOGY = tuple(f"volcano.sh/task-topology-{name}" for name in ("affinity", "anti-affinity", "task-order"))
DEFAULT_QUEUE = "default"
COMPLETE = ("Running", "Unknown", "Completed")


def group_named(pod: Pod) -> str:
    """The PodGroup of a pod's annotation."""
    annotations = pod.metadata.annotations or {}
    return next((annotations[key] for key in GROUP_NAMES if annotations.get(key)), "")


def gang_of(written: PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """The gang of a PodGroup. Raises `InvalidObject` if it is invalid."""
    at = ObjectPath.of(written).child("spec")
    _check_minima(written, at)
    tiers = Tiers.of(written.metadata, topologies)
    closeness = tiers.closeness(written.spec.network_topology, at.child("networkTopology"))
    members = counted(pods)
    started = has_started(members, was_complete=was_complete(written))
    name, missing = full_name(written.metadata), arrived(len(members), written.spec.min_member)
    if missing and not started:
        return Incomplete(name, missing)
    sub_groups, rest = _by_policy(written, members, tiers, at)
    divided = {_task(pod) for pod in members} - {_task(pod) for pod in rest}
    parts = [*_by_task(written, rest, sum(part.least for part in sub_groups), divided), *sub_groups]
    missing = next((part.missing for part in parts if part.missing), "")
    if missing and not started:
        return Incomplete(name, missing)
    root = _whole(parts, written.spec.min_member, closeness)
    return Gang(name, root, tiers.tree_for(root))


def _check_minima(written: PodGroup, at: ObjectPath) -> None:
    spec = written.spec
    if spec.min_member < 0:
        raise InvalidObject(at.child("minMember"), f"{spec.min_member} is negative: must be 0 or more")
    for task, least in (spec.min_task_member or {}).items():
        if least < 0:
            raise InvalidObject(at.child("minTaskMember").key(task), f"{least} is negative: must be 0 or more")


@dataclass(frozen=True, slots=True)
class _Part:
    """A top-level group of the gang, the number of its pods that must get nodes, and what has not arrived."""

    group: Group
    least: int
    missing: str = ""


def _by_task(written: PodGroup, pods: Sequence[Pod], elsewhere: int, divided: Collection[str]) -> list[_Part]:
    """A group for each task with a minimum, and one for all other pods; `divided` tasks are in sub-groups.

    Volcano drops the minima of tasks if they exceed the overall minimum. If they fall short, the other pods make up the
    difference first, then the tasks in order; in Volcano that depends on timing.
    """
    minima = {task: least for task, least in (written.spec.min_task_member or {}).items() if task not in divided}
    own = max(written.spec.min_member - elsewhere, 0)
    by_task: dict[str, list[Pod]] = {}
    for pod in pods:
        task = _task(pod)
        by_task.setdefault(task if task in minima else "", []).append(pod)
    wanted = {task: least for task, least in minima.items() if least or by_task.get(task)}
    if sum(wanted.values()) > own or not wanted:
        by_task, wanted = {"": list(pods)}, {}
    more = own - sum(wanted.values())
    parts: list[_Part] = []
    for task in ("", *wanted):
        here, least = by_task.get(task, []), wanted.get(task, 0)
        extra = min(more, max(len(here) - least, 0))
        more -= extra
        if here or least:
            group = group_of(here, least + extra, name=task)
            parts.append(_Part(group, least + extra, arrived(len(here), least, task)))
    return parts


def _task(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(TASK) or (pod.metadata.annotations or {}).get(TASK, "")


def _by_policy(
    written: PodGroup, pods: Sequence[Pod], tiers: Tiers, at: ObjectPath
) -> tuple[list[_Part], Sequence[Pod]]:
    """A group for each policy with its sub-groups inside, and the pods that no policy selects."""
    parts: list[_Part] = []
    rest = pods
    for index, policy in enumerate(written.spec.sub_group_policy or ()):
        where = at.child("subGroupPolicy").item(index)
        selector = EVERYTHING if policy.label_selector is None else selector_of(policy.label_selector)
        meant = [pod for pod in rest if selector.matches(pod.metadata.labels or {})]
        rest = [pod for pod in rest if not selector.matches(pod.metadata.labels or {})]
        closeness = tiers.closeness(policy.network_topology, where.child("networkTopology"))
        parts.append(_policy_part(policy, meant, len(pods) - len(meant), closeness, written, where))
    return parts, rest


def _policy_part(
    policy: SubGroupPolicy, pods: Sequence[Pod], others: int, closeness: AllowedTiers, written: PodGroup, at: ObjectPath
) -> _Part:
    """The sub-groups of a policy; `others` is the number of members that it does not select."""
    size = 1 if policy.sub_group_size is None else policy.sub_group_size
    if size < 1:
        raise InvalidObject(at.child("subGroupSize"), f"{size} must be 1 or more")
    if (policy.min_sub_groups or 0) < 0:
        raise InvalidObject(at.child("minSubGroups"), f"{policy.min_sub_groups} is negative: must be 0 or more")
    by_values: dict[tuple[str, ...], list[Pod]] = {}
    for pod in pods:
        labels = pod.metadata.labels or {}
        by_values.setdefault(tuple(labels.get(key, "") for key in policy.match_label_keys or ()), []).append(pod)
    least = _least_sub_groups(policy, size, pods, others, written)
    # If the gang was complete, the sub-groups that it needed were, too; of the others, those that have started.
    complete, needed = was_complete(written), len(by_values) <= least
    full = {
        values: some
        for values, some in by_values.items()
        if len(some) >= size or has_started(pods if needed else some, was_complete=complete)
    }
    inner = tuple(
        replace(
            group_of(some, size, name="-".join((policy.name or "sub-group", *filter(None, values)))),
            required=closeness.required,
            preferred=closeness.preferred,
        )
        for values, some in full.items()
    )
    missing = arrived(len(full), least, policy.name).replace("pods:", f"sub-groups of {size} pods:")
    needs = min(least, len(inner))
    return _Part(Group(policy.name or "sub-groups", groups=inner, minimum_groups=needs), least * size, missing)


def _least_sub_groups(policy: SubGroupPolicy, size: int, pods: Sequence[Pod], others: int, written: PodGroup) -> int:
    """The number of sub-groups that must start, by the policy and by the minima of their tasks and of all pods."""
    minima = written.spec.min_task_member or {}
    of_tasks = sum(minima.get(task, 0) for task in {_task(pod) for pod in pods})
    of_all = max(written.spec.min_member - others, 0)
    return max(policy.min_sub_groups or 0, -(-of_tasks // size), -(-of_all // size))


def _whole(parts: Sequence[_Part], least: int, closeness: AllowedTiers) -> Group:
    """The whole gang; a single nameless group is the gang itself."""
    if len(parts) == 1 and not parts[0].group.name:
        group = parts[0].group
        # With a minimum of zero, each pod can start alone: then one of them begins.
        begins = group.minimum or (0 if least or group.running else min(1, len(group.pods)))
        return replace(group, minimum=begins, required=closeness.required, preferred=closeness.preferred)
    own = next((part.group for part in parts if not part.group.name), Group(minimum=0))
    inner = tuple(part.group for part in parts if part.group.name)
    return replace(own, groups=inner, required=closeness.required, preferred=closeness.preferred)


def remarks(written: PodGroup) -> tuple[str, ...]:
    """Queues, minima that bayplan reads more strictly, and annotations without effect."""
    spec = written.spec
    found = []
    if spec.queue not in ("", DEFAULT_QUEUE):
        found.append(f'queue: "{spec.queue}" is kept, but bayplan has no queues or quotas')
    tasks = sum((spec.min_task_member or {}).values())
    if spec.min_task_member and tasks < spec.min_member:
        found.append(
            f"minMember: {spec.min_member} is more than the {tasks} of minTaskMember: "
            "the first tasks provide the difference"
        )
    if spec.min_task_member and tasks > spec.min_member:
        found.append(
            f"minTaskMember: has no effect, as in Volcano: its sum {tasks} is more than minMember {spec.min_member}"
        )
    why = "has no effect: bayplan does not place tasks by affinity to each other"
    found += [f'annotation "{key}": {why}' for key in TASK_TOPOLOGY if key in (written.metadata.annotations or {})]
    return tuple(found)


def was_complete(written: PodGroup) -> bool:
    """True if its phase says so."""
    return written.status is not None and written.status.phase in COMPLETE


def status_of(progress: Progress) -> Document:
    """The phase, the number of running pods, and the condition Unschedulable or Scheduled."""
    if progress.phase is Phase.ENDED:
        # Volcano's controllers can recreate the pods.
        return {"phase": "Inqueue", "running": 0, "conditions": []}
    if progress.phase is Phase.COMPLETE:
        phase, kind, reason = "Running", "Scheduled", "tasks in gang are ready to be scheduled"
    else:
        phase = "Unknown" if progress.is_partial else "Inqueue"
        kind, reason = UNSCHEDULABLE, "NotEnoughResources"
    condition = {**progress.condition(kind, holds=True), "reason": reason, "transitionID": ""}
    return {"phase": phase, "running": progress.counts.running, "conditions": [condition]}


DIALECT = Dialect(
    "volcano",
    PodGroup,
    group_named,
    gang_of,
    remarks,
    was_complete,
    least_running=lambda written: None if written.spec.min_task_member else written.spec.min_member,
    status_of=status_of,
    conditions=(UNSCHEDULABLE, "Scheduled"),
    resource=VOLCANO_POD_GROUPS,
)
