"""bayplan's own PodGroup (`bayplan.io/v1alpha1`) as a dialect.

It names its Topology. A PodGroup that the pod grouper made from a Kubernetes Workload, or for exclusive placement, can
name none: its levels are node labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bayplan.dialects.dialect import OWN, Dialect, asked_by_label, topology_for
from bayplan.dialects.members import Incomplete
from bayplan.dialects.own.members import POD_GROUP, gang_with_pods, was_complete
from bayplan.dialects.progress import Document, Phase, Progress
from bayplan.gangs.checks import Naming
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import ObjectPath
from bayplan.kube.resources import POD_GROUPS
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant
from bayplan.kube.visible import visible
from bayplan.kube.wire.bayplan_v1alpha1 import (
    DEGRADED,
    ENDED,
    SCHEDULED,
    STARTED,
    WAITING,
    GroupSpec,
    PodGroup,
    PodGroupSpec,
)
from bayplan.kube.wire.core_v1 import Pod

# Annotation of the pod grouper: the Kubernetes Workload that the minimum and the levels are from.
KUBERNETES_WORKLOAD = "bayplan.io/workload"
# Annotation of the pod grouper: the node label by which a JobSet's Jobs or a LeaderWorkerSet's groups are exclusive.
EXCLUSIVE_TOPOLOGY = "bayplan.io/exclusive-topology"
# Annotation of the pod grouper: the system in whose words the workload asks for levels, which means its Topologies.
TOPOLOGY_KIND = "bayplan.io/topology-kind"


def group_named(pod: Pod) -> str:
    """The PodGroup of a pod's label."""
    return (pod.metadata.labels or {}).get(POD_GROUP, "")


def gang_of(written: PodGroup, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """The gang of a PodGroup and its pods."""
    gang = gang_with_pods(written, pods)
    notes = written.metadata.annotations or {}
    system = notes.get(TOPOLOGY_KIND, "")
    if system and isinstance(gang, Gang):
        gang = replace(gang, system=system)
    by_label = not written.spec.topology and (KUBERNETES_WORKLOAD in notes or EXCLUSIVE_TOPOLOGY in notes)
    if isinstance(gang, Incomplete) or not by_label:
        return gang
    at = ObjectPath.of(written).child("spec").child("required")
    topology = topology_for(written.metadata, gang.levels, topologies, at, system)
    return replace(gang, topology=topology, asked_in=asked_by_label(topology, at, topologies))


def remarks(written: PodGroup) -> tuple[str, ...]:
    """A PodGroup without pods."""
    if written.spec.size or written.spec.groups:
        return ()
    return ("size: 0 without groups: the PodGroup waits for no pods, and each pod starts alone",)


def complete_since(written: object) -> str:
    """When the gang became complete, as an API server timestamp; empty if its status does not show it."""
    if not isinstance(written, PodGroup) or written.status is None:
        return ""
    conditions = written.status.conditions or ()
    times = (each.last_transition_time for each in conditions if each.type == STARTED and each.status == "True")
    return next(times, None) or ""


def status_of(progress: Progress) -> Document:
    """The phase, counts, a message, and the conditions Scheduled (now) and Started (permanent once set)."""
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


# -- levels without effect --------------------------------------------------------------------------------------------


def redundant_levels(spec: PodGroupSpec, topologies: Topologies) -> Iterator[Naming]:
    """The redundant levels of a PodGroup, in the Topology that it names or the only one; the widest level is first."""
    levels = topologies.levels.get(topologies.named(spec.topology) if spec.topology else topologies.only())
    return iter(()) if levels is None else _in_group(spec, (*levels, HOSTNAME, NUMA), None)


def _in_group(group: PodGroupSpec | GroupSpec, levels: Sequence[str], around: str | None) -> Iterator[Naming]:
    """`around` is the level that the pods share because of an outer group."""
    if _is_wider(group.required, around, levels):
        yield _in_vain("required", group.required, around)
        shared = around
    else:
        shared = group.required or around
    if _is_wider(group.preferred, shared, levels):
        yield _in_vain("preferred", group.preferred, shared)
    for segment in group.segments or ():
        if _is_wider(segment.level, shared, levels):
            yield _in_vain("segments", segment.level, shared)
    for inner in group.groups or ():
        yield from _in_group(inner, levels, shared)


def _is_wider(level: str | None, shared: str | None, levels: Sequence[str]) -> bool:
    wide, narrow = level_meant(level or "", levels), level_meant(shared or "", levels)
    return wide is not None and narrow is not None and levels.index(wide) < levels.index(narrow)


def _in_vain(field: str, level: str | None, shared: str | None) -> Naming:
    said = f'"{level}" has no effect: it is wider than {shared}, which is required already'
    return Naming(field, level or "", said)
