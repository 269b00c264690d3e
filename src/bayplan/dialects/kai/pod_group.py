"""KAI-Scheduler's PodGroup (`scheduling.run.ai/v2alpha2`): nested sub-groups, each with a minimum and levels.

KAI's pod grouper writes a pod's PodGroup into an annotation and its sub-group into a label. The tree of sub-groups and
its error messages are KAI's own (`kube/wire/kai_scheduling_v2alpha2.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import Dialect, as_others_prefer, full_name
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.preemptible import NON_PREEMPTIBLE
from bayplan.dialects.progress import Document, Progress
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Topologies, single_label
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import KAI_POD_GROUPS
from bayplan.kube.topology_levels import HOSTNAME, KAI, NUMA, level_meant
from bayplan.kube.wire import kai_scheduling_v2alpha2 as kai
from bayplan.kube.wire.core_v1 import Pod

POD_GROUP = "pod-group-name"
SUB_GROUP = "kai.scheduler/subgroup-name"
DEFAULT_QUEUE = "default-queue"
UNSCHEDULABLE_ON_POOL = "UnschedulableOnNodePool"
# Annotations of workloads and pod templates.
TOPOLOGY = "kai.scheduler/topology"
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
# Of newer versions: the minimum of a Job, and "leave my pods to another component".
BATCH_MIN_MEMBER = "kai.scheduler/batch-min-member"
SKIP_POD_GROUPER = "kai.scheduler/skip-podgrouper"
TOPOLOGY_KEYS = (TOPOLOGY, REQUIRED, PREFERRED, SEGMENT_SIZE, SEGMENT_REQUIRED, SEGMENT_PREFERRED)
NO_CONSTRAINT = kai.WireConstraint()


def group_named(pod: Pod) -> str:
    """The PodGroup of a pod's annotation."""
    return (pod.metadata.annotations or {}).get(POD_GROUP, "")


def gang_of(written: kai.PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """The gang of a PodGroup, in the Topology that it names or in the only one."""
    at = ObjectPath.of(written).child("spec")
    spec = _with_one_constraint(written.spec)
    _check_minima(spec, at)
    topology = _topology(spec, topologies, at)
    constraint = msgspec.structs.replace(spec.topology_constraint, topology=topology)
    tree = kai.gang_tree(msgspec.structs.replace(spec, topology_constraint=constraint))
    if isinstance(tree, str):
        raise InvalidObject(at.child("subGroups"), tree)
    _check_min_sub_groups(tree, at)
    by_group: dict[str, list[Pod]] = {}
    members = counted(pods)
    for pod in members:
        by_group.setdefault((pod.metadata.labels or {}).get(SUB_GROUP, kai.DEFAULT_POD_SET), []).append(pod)
    known = {pod_set.name for pod_set in tree.all_pod_sets()}
    stray = next((name for name in by_group if name not in known), None)
    if stray is not None:
        first, names = pod_key(by_group[stray][0]), ", ".join(sorted(known))
        problem = f'pod {first} names the subgroup "{stray}", which does not exist; known: {names}'
        raise InvalidObject(at.child("subGroups"), problem)
    started = has_started(members, was_complete=was_complete(written))
    name, missing = full_name(written.metadata), _missing(tree, by_group)
    if missing and not started:
        return Incomplete(name, missing)
    root = _group(tree, by_group, started=started)
    return Gang(name, root, topology, objective=as_others_prefer(root), system=KAI)


def _check_minima(spec: kai.PodGroupSpec, at: ObjectPath) -> None:
    """KAI takes 0 for 1; an API server refuses what is below."""
    minima = [(spec.min_member, at)]
    minima += [(each.min_member, at.child("subGroups").item(n)) for n, each in enumerate(spec.sub_groups or ())]
    for least, place in minima:
        if least < 0:
            raise InvalidObject(place.child("minMember"), f"{least} must be 1 or more")


def _check_min_sub_groups(tree: kai.SubGroupSet, at: ObjectPath) -> None:
    """KAI's `minSubGroup` must not be more than the sub-groups directly inside."""
    inside = len(tree.sub_groups) + len(tree.pod_sets)
    if tree.min_sub_groups is not None and not 1 <= tree.min_sub_groups <= inside:
        where = f' of "{tree.name}"' if tree.name else ""
        raise InvalidObject(
            at.child("minSubGroup"),
            f"{tree.min_sub_groups}{where} must be between 1 and the {inside} sub-groups inside",
        )
    for inner in tree.sub_groups:
        _check_min_sub_groups(inner, at)


def _with_one_constraint(spec: kai.PodGroupSpec) -> kai.PodGroupSpec:
    """Either constraint as `topologyConstraint`, which wins if both are given."""
    own = spec.topology_constraint if spec.topology_constraint != NO_CONSTRAINT else spec.topology_constraints
    sub_groups = [
        msgspec.structs.replace(each, topology_constraint=each.topology_constraint or each.topology_constraints)
        for each in spec.sub_groups or ()
    ]
    return msgspec.structs.replace(
        spec, topology_constraint=own or NO_CONSTRAINT, sub_groups=None if spec.sub_groups is None else sub_groups
    )


def _topology(spec: kai.PodGroupSpec, topologies: Topologies, at: ObjectPath) -> str:
    """The one Topology that PodGroup and sub-groups name; the only one if they name levels and no Topology."""
    named = {spec.topology_constraint.topology: at.child("topologyConstraint")}
    for index, sub_group in enumerate(spec.sub_groups or ()):
        constraint = sub_group.topology_constraint
        if constraint is not None:
            named.setdefault(constraint.topology, at.child("subGroups").item(index).child("topologyConstraint"))
    named.pop("", None)
    if len(named) > 1:
        first, second = list(named)[:2]
        raise InvalidObject(
            named[second].child("topology"), f'"{second}" is not "{first}": bayplan places a gang in one Topology'
        )
    constraints = [spec.topology_constraint, *(each.topology_constraint for each in spec.sub_groups or ())]
    levels = [level for each in constraints if each is not None for level in _levels(each) if level]
    if named or not levels:
        return next(iter(named), "")
    if all(level_meant(level, ()) in (HOSTNAME, NUMA) for level in levels):
        return single_label(HOSTNAME)  # every cluster has nodes and NUMA zones
    found = topologies.only(levels, KAI)
    if found:
        return found
    known = f"known: {', '.join(topologies.levels)}" if topologies.levels else "the cluster has no Topology"
    raise InvalidObject(
        at.child("topologyConstraint").child("topology"), f'is missing for level "{levels[0]}"; {known}'
    )


def _missing(tree: kai.SubGroupSet, by_group: dict[str, list[Pod]]) -> str:
    """What the first incomplete sub-group lacks; with a minimum of sub-groups, the others can be absent."""
    inner = [_missing(each, by_group) for each in tree.sub_groups]
    for pod_set in tree.pod_sets:
        shown = "" if pod_set.name == kai.DEFAULT_POD_SET else pod_set.name
        inner.append(arrived(len(by_group.get(pod_set.name, ())), pod_set.min_available, shown))
    missing = [text for text in inner if text]
    most_absent = 0 if tree.min_sub_groups is None else len(inner) - tree.min_sub_groups
    return missing[0] if len(missing) > most_absent else ""


def _group(tree: kai.SubGroupSet, by_group: dict[str, list[Pod]], *, started: bool) -> Group:
    """The groups that have arrived.

    If the gang has `started`, also those that were there once: all, or with a minimum of sub-groups those that have
    started.
    """
    inner = []
    for each in tree.sub_groups:
        pods = [pod for pod_set in each.all_pod_sets() for pod in by_group.get(pod_set.name, ())]
        inner_started = started and (tree.min_sub_groups is None or has_started(pods, was_complete=True))
        if inner_started or not _missing(each, by_group):
            inner.append(_group(each, by_group, started=inner_started))
    for pod_set in tree.pod_sets:
        own = by_group.get(pod_set.name, ())
        inner_started = started and (tree.min_sub_groups is None or has_started(own, was_complete=True))
        if inner_started or len(own) >= pod_set.min_available:
            required, preferred = _levels(pod_set.constraint)
            inner.append(
                group_of(own, pod_set.min_available, name=pod_set.name, required=required, preferred=preferred)
            )
    required, preferred = _levels(tree.constraint)
    needs = None if tree.min_sub_groups is None else min(tree.min_sub_groups, len(inner))
    return Group(tree.name, groups=tuple(inner), minimum_groups=needs, required=required, preferred=preferred)


def _levels(constraint: kai.TopologyConstraint | kai.WireConstraint | None) -> tuple[str | None, str | None]:
    if constraint is None:
        return None, None
    if isinstance(constraint, kai.WireConstraint):
        return constraint.required_topology_level or None, constraint.preferred_topology_level or None
    return constraint.required or None, constraint.preferred or None


def remarks(written: kai.PodGroup) -> tuple[str, ...]:
    """Queues, which bayplan does not have, and minima and constraints that have no effect."""
    spec, found = written.spec, []
    least = _least_in_sub_groups(spec)
    if least and spec.min_member not in (1, least):
        found.append(f"minMember: {spec.min_member} has no effect beside subGroups, whose minimums add up to {least}")
    if spec.queue not in ("", DEFAULT_QUEUE):
        found.append(f'queue: "{spec.queue}" is kept, but bayplan has no queues or quotas')
    places = [("", spec.topology_constraint, spec.topology_constraints)]
    for index, each in enumerate(spec.sub_groups or ()):
        places.append((f"subGroups[{index}].", each.topology_constraint or NO_CONSTRAINT, each.topology_constraints))
    for prefix, counts, other in places:
        if other is not None and NO_CONSTRAINT != counts != other:
            found.append(
                f"{prefix}topologyConstraints: has no effect: {prefix}topologyConstraint says otherwise and counts"
            )
    return tuple(found)


def _least_in_sub_groups(spec: kai.PodGroupSpec) -> int:
    """How many pods the sub-groups need together; 0 if they cannot be counted."""
    tree = kai.sub_group_tree(spec)
    return 0 if isinstance(tree, str) else sum(pod_set.min_available for pod_set in tree.all_pod_sets())


def was_complete(written: kai.PodGroup) -> bool:
    """True if the condition that bayplan writes is true."""
    conditions = (written.status.conditions or []) if written.status is not None else []
    return any(each.type == kai.SCHEDULED and each.status == "True" for each in conditions)


def status_of(progress: Progress) -> Document:
    """The conditions. KAI's scheduler never wrote phases or counts, and newer PodGroups have no fields for them."""
    written = {"conditions": [progress.condition(kai.SCHEDULED, holds=progress.was_complete)]}
    if not progress.waits:
        return {**written, "schedulingConditions": []}
    condition = progress.condition(UNSCHEDULABLE_ON_POOL, holds=True)
    return {**written, "schedulingConditions": [{**condition, "nodePool": "default", "transitionID": ""}]}


DIALECT = Dialect(
    "kai",
    kai.PodGroup,
    group_named,
    gang_of,
    remarks,
    was_complete,
    least_running=lambda written: None if written.spec.sub_groups else max(written.spec.min_member, 1),
    may_be_evicted=lambda written: written.spec.preemptibility != NON_PREEMPTIBLE,
    status_of=status_of,
    conditions=(kai.SCHEDULED, UNSCHEDULABLE_ON_POOL),
    resource=KAI_POD_GROUPS,
)
