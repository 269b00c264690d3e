"""bayplan's own PodGroup (`bayplan.io/v1alpha1`), with pods that name it by label: `dialects/own/members.py` as a dialect.

It names its Topology itself. One that the pod grouper made from a Kubernetes Workload may name none: there a level is any node label, as everywhere in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bayplan.dialects.dialect import OWN, Dialect, asked_by_label, topology_for
from bayplan.dialects.own.members import POD_GROUP, Incomplete, gang_of_members, was_complete
from bayplan.dialects.progress import Document, Phase, Progress
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import ObjectPath
from bayplan.kube.resources import POD_GROUPS
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import DEGRADED, ENDED, SCHEDULED, STARTED, WAITING, PodGroup

# On a PodGroup that the pod grouper made: the Kubernetes Workload that its minimum and its levels are from.
KUBERNETES_WORKLOAD = "bayplan.io/workload"


def group_named(pod: Pod) -> str:
    """The PodGroup of a pod's label."""
    return (pod.metadata.labels or {}).get(POD_GROUP, "")


def gang_of(written: PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """The gang of a PodGroup and its pods."""
    gang = gang_of_members(written, pods)
    by_label = KUBERNETES_WORKLOAD in (written.metadata.annotations or {}) and not written.spec.topology
    if isinstance(gang, Incomplete) or not by_label:
        return gang
    at = ObjectPath.of(written).child("spec").child("required")
    topology = topology_for(written.metadata, gang.levels, topologies, at)
    return replace(gang, topology=topology, asked_in=asked_by_label(topology, at, topologies))


def remarks(written: PodGroup) -> tuple[str, ...]:
    """A group that holds nothing together."""
    if written.spec.size or written.spec.groups:
        return ()
    return ("size: 0, and there are no groups: the PodGroup waits for nobody, and its pods start as they come",)


def complete_since(written: object) -> str:
    """Since when the gang is complete according to its status, in the API server's time format; empty if the status does not say so."""
    if not isinstance(written, PodGroup) or written.status is None:
        return ""
    conditions = written.status.conditions or ()
    times = (each.last_transition_time for each in conditions if each.type == STARTED and each.status == "True")
    return next(times, None) or ""


def status_of(progress: Progress) -> Document:
    """The phase, counts, a message, the condition Scheduled (now) and Started (once set, permanent)."""
    phase = WAITING
    if progress.phase is Phase.COMPLETE:
        phase = SCHEDULED
    elif progress.phase is Phase.ENDED:
        phase = ENDED
    elif progress.is_partial:
        phase = DEGRADED
    conditions = [progress.condition(SCHEDULED, holds=progress.phase is Phase.COMPLETE)]
    if progress.was_complete:
        said = {"reason": "Complete", "message": "all pods that the gang needs had nodes"}
        conditions.append({"type": STARTED, "status": "True", **said})
    counted = progress.counts
    counts = {"members": counted.members, "scheduled": counted.scheduled, "running": counted.running}
    return {"phase": phase, "message": visible(progress.message), **counts, "conditions": conditions}


def least_running(written: PodGroup) -> int | None:
    """The minimum; groups inside a group stay together."""
    return None if written.spec.groups else written.spec.minimum


DIALECT = Dialect(
    OWN,
    PodGroup,
    group_named,
    gang_of,
    remarks,
    was_complete,
    least_running=least_running,
    status_of=status_of,
    conditions=(SCHEDULED, STARTED),
    resource=POD_GROUPS,
)
