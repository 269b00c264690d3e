"""Kubernetes' own PodGroup (`scheduling.k8s.io`): a policy, and one node label whose value all pods share.

Policy `gang` starts `minCount` pods at the same time. Policy `basic` starts each pod when it can, all in the domain
that the constraint requires. The label is a level of a Topology that has it, so that ranks follow the tree. Otherwise
nodes with the same value are a domain.

Workload templates have the same fields (`GroupAsked`). The PodGroup wins over its template; `workloads.py` compares
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.dialects.dialect import Dialect, asked_by_label, full_name, topology_for
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.progress import Document, Phase, Progress
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import KUBERNETES_POD_GROUPS
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import (
    DISRUPTION_MODES,
    INITIALLY_SCHEDULED,
    SCHEDULED,
    V1ALPHA2,
    AskedOfAnyGroup,
    GroupAsked,
    PodGroup,
)

# The dialect of CompositePodGroups (`composite_pod_group.py`).
COMPOSITE = "kubernetes-composite"
# The condition has another name in each version.
CONDITIONS = (SCHEDULED, INITIALLY_SCHEDULED)


def group_named(pod: Pod) -> str:
    """`spec.schedulingGroup.podGroupName`."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else ""


def gang_of(written: PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """All pods in one group, in one domain of the label if the PodGroup names one."""
    at = ObjectPath.of(written).child("spec")
    least = least_of(written.spec, at)
    required = label_of(written.spec, at)
    where = at.child("schedulingConstraints").child("topology").item(0).child("key")
    topology = topology_for(written.metadata, [required], topologies, where) if required else ""
    name, members = full_name(written.metadata), counted(pods)
    missing = arrived(len(members), least)
    if missing and not has_started(members, was_complete=was_complete(written)):
        return Incomplete(name, missing)
    group = group_of(members, least, required=required)
    return Gang(name, group, topology, asked_in=asked_by_label(topology, where, topologies))


def least_of(asked: GroupAsked, at: ObjectPath) -> int:
    """The number of pods that must start together; one with policy `basic`."""
    policy = asked.scheduling_policy
    where = at.child("schedulingPolicy")
    if policy.basic is not None and policy.gang is not None:
        raise InvalidObject(where, "has both basic and gang; only one is allowed")
    if policy.basic is None and policy.gang is None:
        raise InvalidObject(where, "needs one of basic and gang")
    if policy.gang is None:
        return 1
    if policy.gang.min_count < 1:
        raise InvalidObject(where.child("gang").child("minCount"), f"{policy.gang.min_count} must be 1 or more")
    return policy.gang.min_count


def least_running(written: PodGroup) -> int | None:
    """The number of members that must keep running.

    None if they leave together (`disruptionMode` all, before 1.37 `PodGroup`), as with a mode that is not known.

    The API server fills in `single` (`Pod`), so it asks for nothing: a gang is never left below its minimum.
    """
    if written.spec.evicts != "single" and written.spec.disruption_mode:
        return None
    return least_of(written.spec, ObjectPath.of(written).child("spec"))


def label_of(asked: AskedOfAnyGroup, at: ObjectPath) -> str | None:
    """The node label whose value all pods share, if any."""
    constraints = asked.scheduling_constraints
    labels = (constraints.topology or []) if constraints is not None else []
    where = at.child("schedulingConstraints").child("topology")
    if len(labels) > 1:
        raise InvalidObject(where, f"has {len(labels)} entries: must be at most 1")
    if not labels:
        return None
    if not labels[0].key:
        raise InvalidObject(where.item(0).child("key"), "is missing: which node label do all pods share?")
    return labels[0].key


def parent(written: PodGroup) -> str:
    """The key of the CompositePodGroup that a PodGroup is a part of; empty if it stands alone."""
    return parent_of(written.metadata, written.spec.parent_composite_pod_group_name)


def parent_of(metadata: Metadata, name: str | None) -> str:
    """The key of a CompositePodGroup of this name in the same namespace; empty without a name."""
    return f"{COMPOSITE} {metadata.namespace or 'default'}/{name}" if name else ""


def without_effect(asked: AskedOfAnyGroup) -> Iterator[tuple[str, object, str]]:
    """Field, value and reason of each request without effect. API server defaults request nothing."""
    if asked.priority or (asked.priority is None and asked.priority_class_name):
        value = asked.priority_class_name or asked.priority
        yield "priorityClassName", value, "has no effect on the group: the highest priority of its pods counts"
    if asked.disruption_mode and not asked.evicts:
        mode = asked.disruption_mode if isinstance(asked.disruption_mode, str) else "{}"
        allowed = " or ".join(DISRUPTION_MODES) if isinstance(asked.disruption_mode, str) else "single or all"
        yield "disruptionMode", mode, f"is not known: must be {allowed}; all members are evicted together"
    if isinstance(asked, GroupAsked) and asked.resource_claims:
        names = ", ".join(claim.name for claim in asked.resource_claims)
        yield "resourceClaims", names, "are not allocated by bayplan: pods that use them wait"


def remarks(written: PodGroup) -> tuple[str, ...]:
    """One sentence each for what has no effect."""
    return tuple(f'{field}: "{value}" {why}' for field, value, why in without_effect(written.spec))


def was_complete(written: PodGroup) -> bool:
    """True if the condition that its version has for this holds."""
    conditions = (written.status.conditions or []) if written.status is not None else []
    return any(each.type in CONDITIONS and each.status == "True" for each in conditions)


def status_of(progress: Progress) -> Document:
    """The condition of the version: once true it stays true, and its message describes the present."""
    holds = progress.phase is not Phase.WAITING
    reason = "Scheduled" if holds else progress.reason
    named = SCHEDULED if progress.api_version == V1ALPHA2 else INITIALLY_SCHEDULED
    return {"conditions": [{**progress.condition(named, holds=holds), "reason": reason}]}


DIALECT = Dialect(
    "kubernetes",
    PodGroup,
    group_named,
    gang_of,
    remarks,
    was_complete,
    least_running=least_running,
    status_of=status_of,
    conditions=CONDITIONS,
    resource=KUBERNETES_POD_GROUPS,
    parent=parent,
)
