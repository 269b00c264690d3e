"""Gangs as victims: how many members a running gang can lose,
and which pods are protected by their gang or by themselves.
"""

from __future__ import annotations

from bayplan.cluster.state import pod_key
from bayplan.dialects.preemptible import forbids_eviction
from bayplan.dialects.registry import AnyPodGroup, dialect_of_gang
from bayplan.dispatch.roster import GangRoster
from bayplan.extensions import BrokenExtension
from bayplan.kube.errors import InvalidObject
from bayplan.kube.validation.pod import MIRROR
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import ObstacleKind, Protection, RunningGang


def running_gang(roster: GangRoster, key: str) -> RunningGang | None:
    """The gang of a pod, with its members that run on; one whose minimum is unknown can lose none by itself."""
    name = roster.gang_of(key)
    if not name:
        return None
    running = [pod_key(pod) for pod in roster.running(name) if pod.metadata.deletion_timestamp is None]
    written = roster.groups.get(name)
    try:
        least = None if written is None else dialect_of_gang(name).least_running(written)
    except (InvalidObject, BrokenExtension):
        least = None
    return RunningGang(name, tuple(running), 0 if least is None else max(len(running) - least, 0))


def protection_of(roster: GangRoster, pod: Pod) -> Protection | None:
    """Why a pod must not be evicted for others: it or its gang says so, or its kubelet would create it again."""
    gang = roster.gang_of(pod_key(pod))
    written = roster.groups.get(gang) if gang else None
    if written is not None and not _may_be_evicted(gang, written):
        return Protection(ObstacleKind.PROTECTED, f"PodGroup {gang.rpartition(' ')[2]} forbids it")
    if MIRROR in (pod.metadata.annotations or {}):
        return Protection(ObstacleKind.STATIC)
    said = forbids_eviction(pod)
    return Protection(ObstacleKind.PROTECTED, said) if said else None


def _may_be_evicted(gang: str, written: AnyPodGroup) -> bool:
    try:
        return dialect_of_gang(gang).may_be_evicted(written)
    except BrokenExtension:
        return False  # said when the object came in
