"""Kubernetes' CompositePodGroup (`scheduling.k8s.io/v1alpha3`): groups inside groups, of which `minGroupCount` start
together.

The gang is that of the outermost group. Its PodGroups and inner CompositePodGroups become groups inside it, each with
the label that its pods share. Policy `basic` starts each group when it can, all in the domain that the constraint
requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.dialects.dialect import Dialect, GroupContents, asked_by_label, full_name, topology_for
from bayplan.dialects.kubernetes import pod_group
from bayplan.dialects.kubernetes.pod_group import label_of, least_of
from bayplan.dialects.members import Incomplete, counted, group_of, has_started
from bayplan.dialects.progress import Document, Phase, Progress
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import KUBERNETES_COMPOSITE_POD_GROUPS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.k8s_scheduling_v1alpha3 import INITIALLY_SCHEDULED, CompositePodGroup
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup

NAME = pod_group.COMPOSITE
ALONE = "is a group of groups, and is read with them"
AnyGroup = CompositePodGroup | PodGroup


def gang_of_groups(root: CompositePodGroup, inside: GroupContents, topologies: Topologies) -> Gang | Incomplete:
    """The whole tree of groups as one gang."""
    at = _label_at(root)
    every = [root, *_below(root, inside)]
    levels = {label: None for each in every if (label := label_of(each.spec, _spec_of(each)))}
    topology = topology_for(root.metadata, list(levels), topologies, at) if levels else ""
    name, members = full_name(root.metadata), [pod for each in every for pod in counted(_pods(each, inside))]
    started = has_started(members, was_complete=was_complete(root))
    missing = _missing(root, inside)
    if missing and not started:
        return Incomplete(name, missing)
    top = _group(root, inside, started=started, is_root=True)
    return Gang(name, top, topology, asked_in=asked_by_label(topology, at, topologies))


def least_groups(written: CompositePodGroup) -> int:
    """The number of groups that must start together; one with policy `basic`."""
    policy, where = written.spec.scheduling_policy, _spec_of(written).child("schedulingPolicy")
    if (policy.basic is None) == (policy.gang is None):
        raise InvalidObject(where, "needs one of basic and gang")
    if policy.gang is None:
        return 1
    if policy.gang.min_group_count < 1:
        problem = f"{policy.gang.min_group_count} must be 1 or more"
        raise InvalidObject(where.child("gang").child("minGroupCount"), problem)
    return policy.gang.min_group_count


def _spec_of(written: AnyGroup) -> ObjectPath:
    return ObjectPath.of(written).child("spec")


def _label_at(written: AnyGroup) -> ObjectPath:
    return _spec_of(written).child("schedulingConstraints").child("topology").item(0).child("key")


def _key(written: AnyGroup) -> str:
    dialect = DIALECT if isinstance(written, CompositePodGroup) else pod_group.DIALECT
    return dialect.key(full_name(written.metadata))


def _groups(written: AnyGroup, inside: GroupContents) -> Sequence[AnyGroup]:
    """The groups directly inside, in the order of their names."""
    return inside.groups.get(_key(written), ())


def _below(written: AnyGroup, inside: GroupContents) -> Iterator[AnyGroup]:
    for each in _groups(written, inside):
        yield each
        yield from _below(each, inside)


def _pods(written: AnyGroup, inside: GroupContents) -> Sequence[Pod]:
    return inside.pods.get(_key(written), ()) if isinstance(written, PodGroup) else ()


def _missing(written: AnyGroup, inside: GroupContents) -> str:
    """What a group still waits for; empty if enough of it has arrived."""
    name = written.metadata.name
    if isinstance(written, PodGroup):
        here, least = len(counted(_pods(written, inside))), least_of(written.spec, _spec_of(written))
        return f"waits for pods: {here} of {least} in PodGroup {name} have arrived" if here < least else ""
    waiting = [missing for each in _groups(written, inside) if (missing := _missing(each, inside))]
    here, least = len(_groups(written, inside)) - len(waiting), least_groups(written)
    if here >= least:
        return ""
    detail = f"; {waiting[0]}" if waiting else ""
    return f"waits for groups: {here} of {least} in CompositePodGroup {name} have all pods that they need{detail}"


def _group(written: AnyGroup, inside: GroupContents, *, started: bool, is_root: bool = False) -> Group:
    """The groups that have arrived; if the gang has `started`, also those that run in part."""
    required = label_of(written.spec, _spec_of(written))
    if isinstance(written, PodGroup):
        least = least_of(written.spec, _spec_of(written))
        return group_of(counted(_pods(written, inside)), least, name=_name(written), required=required)
    inner = [
        _group(each, inside, started=started)
        for each in _groups(written, inside)
        if not _missing(each, inside) or (started and _has_started(each, inside))
    ]
    least = min(least_groups(written), len(inner))
    name = "" if is_root else _name(written)
    return Group(name, groups=tuple(inner), minimum_groups=least, required=required)


def _name(written: AnyGroup) -> str:
    """A PodGroup and a CompositePodGroup inside one gang can have the same name."""
    return written.metadata.name if isinstance(written, PodGroup) else f"{written.metadata.name} (composite)"


def _has_started(written: AnyGroup, inside: GroupContents) -> bool:
    pods = [pod for each in (written, *_below(written, inside)) for pod in _pods(each, inside)]
    return has_started(pods, was_complete=True)


def parent(written: CompositePodGroup) -> str:
    """The key of the CompositePodGroup that this one is a part of."""
    return pod_group.parent_of(written.metadata, written.spec.parent_composite_pod_group_name)


def remarks(written: CompositePodGroup) -> tuple[str, ...]:
    """One sentence each for what has no effect."""
    return tuple(f'{field}: "{value}" {why}' for field, value, why in pod_group.without_effect(written.spec))


def was_complete(written: CompositePodGroup) -> bool:
    """True if its condition holds."""
    conditions = (written.status.conditions or []) if written.status is not None else []
    return any(each.type == INITIALLY_SCHEDULED and each.status == "True" for each in conditions)


def status_of(progress: Progress) -> Document:
    """Its condition: once true it stays true, and its message describes the present."""
    holds = progress.phase is not Phase.WAITING
    reason = "Scheduled" if holds else progress.reason
    return {"conditions": [{**progress.condition(INITIALLY_SCHEDULED, holds=holds), "reason": reason}]}


def gang_of(written: CompositePodGroup, _pods: Sequence[Pod], _topologies: Topologies) -> Incomplete:
    """Without its groups, nothing can be said about it."""
    return Incomplete(full_name(written.metadata), ALONE)


DIALECT = Dialect(
    NAME,
    CompositePodGroup,
    lambda _: "",
    gang_of,
    remarks,
    was_complete,
    status_of=status_of,
    conditions=(INITIALLY_SCHEDULED,),
    resource=KUBERNETES_COMPOSITE_POD_GROUPS,
    parent=parent,
    gang_of_groups=gang_of_groups,
)
