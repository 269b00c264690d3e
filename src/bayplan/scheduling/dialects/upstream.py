"""Kubernetes' own PodGroup (`scheduling.k8s.io/v1alpha2`): a policy, and one node label whose value all pods share.

Policy `gang`: `minCount` pods at the same time. Policy `basic`: each pod when it can, but all of them in the one domain that the constraint asks for. The label
is a level of a Topology where one has it, so that ranks follow the tree; where none does, nodes with the same value are a domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.kube.core_v1 import Pod
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.scheduling_v1alpha2 import SCHEDULED, PodGroup
from bayplan.scheduling.dialects.dialect import Dialect, Topologies, full_name, topology_for
from bayplan.scheduling.dialects.members import arrived, counted, group_of, has_begun
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_members import Incomplete


def group_named(pod: Pod) -> str:
    """`spec.schedulingGroup.podGroupName`."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else ""


def gang_of(written: PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """All pods in one group, in one domain of the label if the PodGroup names one."""
    at = ObjectPath.of(written).child("spec")
    least = _least(written, at)
    required, topology = _domain(written, topologies, at.child("schedulingConstraints").child("topology"))
    name, members = full_name(written.metadata), counted(pods)
    missing = arrived(len(members), least)
    if missing and not has_begun(members, was_complete=was_complete(written)):
        return Incomplete(name, missing)
    return Gang(name, group_of(members, least, required=required), topology)


def _least(written: PodGroup, at: ObjectPath) -> int:
    """How many pods must start together; with policy `basic` a single one may begin."""
    policy = written.spec.scheduling_policy
    where = at.child("schedulingPolicy")
    if (policy.basic is None) == (policy.gang is None):
        raise InvalidObject(where, "needs one of basic and gang")
    if policy.gang is None:
        return 1
    if policy.gang.min_count < 1:
        raise InvalidObject(where.child("gang").child("minCount"), f"{policy.gang.min_count} must be 1 or more")
    return policy.gang.min_count


def _domain(written: PodGroup, topologies: Topologies, at: ObjectPath) -> tuple[str | None, str]:
    """The label that all pods share, and the Topology that it belongs to."""
    constraints = written.spec.scheduling_constraints
    asked = (constraints.topology or []) if constraints is not None else []
    if len(asked) > 1:
        raise InvalidObject(at, f"has {len(asked)} entries: must be at most 1")
    if not asked:
        return None, ""
    label, where = asked[0].key, at.item(0).child("key")
    if not label:
        raise InvalidObject(where, "is missing: which node label do all pods share?")
    return label, topology_for(written.metadata, [label], topologies, where)


def was_complete(written: PodGroup) -> bool:
    """True if the condition `PodGroupScheduled` holds."""
    conditions = (written.status.conditions or []) if written.status is not None else []
    return any(each.type == SCHEDULED and each.status == "True" for each in conditions)


DIALECT = Dialect("kubernetes", PodGroup, group_named, gang_of, was_complete=was_complete)
