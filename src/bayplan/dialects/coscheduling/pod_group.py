"""scheduler-plugins' coscheduling (`scheduling.x-k8s.io/v1alpha1`): `minMember` pods with one label start together.

Timeouts are ignored, because no pod holds a place while it waits for others. So is `minResources`: bayplan counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.dialects.dialect import Dialect, full_name
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.progress import Document, Phase, Progress
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import COSCHEDULING_POD_GROUPS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.coscheduling_v1alpha1 import PodGroup

POD_GROUP = "scheduling.x-k8s.io/pod-group"
COMPLETE = ("Scheduled", "Running", "Unknown", "Finished")


def group_named(pod: Pod) -> str:
    """The PodGroup of a pod's label."""
    return (pod.metadata.labels or {}).get(POD_GROUP, "")


def gang_of(written: PodGroup, pods: Sequence[Pod], _: Topologies) -> Gang | Incomplete:
    """All pods in one group, wherever there is room."""
    name, least = full_name(written.metadata), written.spec.min_member
    if least < 1:
        at = ObjectPath.of(written).child("spec").child("minMember")
        raise InvalidObject(at, f"{least} must be 1 or more")
    members = counted(pods)
    missing = arrived(len(members), least)
    if missing and not has_started(members, was_complete=was_complete(written)):
        return Incomplete(name, missing)
    return Gang(name, group_of(members, least))


def was_complete(written: PodGroup) -> bool:
    """True if the phase follows a complete gang."""
    return written.status is not None and written.status.phase in COMPLETE


def status_of(progress: Progress) -> Document:
    """The phase and the number of running pods; there is no field for a reason."""
    if progress.phase is Phase.WAITING:
        return {}
    phase = "Scheduled" if progress.phase is Phase.COMPLETE else "Unknown" if progress.is_partial else "Pending"
    return {"phase": phase, "running": progress.counts.running}


DIALECT = Dialect(
    "coscheduling",
    PodGroup,
    group_named,
    gang_of,
    was_complete=was_complete,
    least_running=lambda written: written.spec.min_member,
    status_of=status_of,
    conditions=(),
    resource=COSCHEDULING_POD_GROUPS,
)
