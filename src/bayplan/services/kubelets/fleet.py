"""All virtual kubelets of one process, as a state machine without clock and I/O.

In come pods bound to our nodes, and time (`due`). Each new pod is admitted or refused at once, in order of arrival, by
its node's `VirtualKubelet`. Out go `Write`s: a status, a deletion, a report.

A pod has these states, and holds CPUs, memory and devices in all but the last two:

    arrives -> STARTING (init containers run) -> RUNNING -> OVER (refused, succeeded, or ended from outside)
                        any of them, on deletion -> LEAVING, after STOPPING while a preStop hook sleeps
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from itertools import count

from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.cluster.pods.request import Role
from bayplan.kube.duration import NoDuration, seconds_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.kubelets.model import (
    RUNS_FOR_ANNOTATION,
    DeletePod,
    KubeletsSettings,
    RejectedPod,
    SetPodStatus,
    Write,
)
from bayplan.services.kubelets.objects import refused_status, running_status, stopped_status, succeeded_status
from bayplan.services.kubelets.reports import FleetReports
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds
from bayplan.simulate.simulation import STARTS_IN

TERMINAL = ("Succeeded", "Failed")


class PodStage(Enum):
    """The state of a pod in its kubelet."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    OVER = "over"
    LEAVING = "leaving"


HOLDING = (PodStage.STARTING, PodStage.RUNNING, PodStage.STOPPING)


@dataclass(slots=True)
class _Resident:
    """A pod bound to one of our nodes."""

    pod: Pod
    node: str
    stage: PodStage
    started: Seconds = 0.0


@dataclass
class FleetCounts:
    """Counts since the start."""

    admitted: int = 0
    ended: int = 0
    deleted: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Fleet:
    """The kubelets of all nodes. The cost of an event does not depend on the number of nodes."""

    def __init__(self, settings: KubeletsSettings) -> None:
        self.agents = {
            node.name: NodeAgent(
                node.name,
                VirtualKubelet(node.machine, node.kubelet),
                node.labels,
                node.taints,
                unschedulable=node.unschedulable,
            )
            for node in settings.nodes
        }
        self.reports = FleetReports(self.agents, delay=settings.report_delay, complete=settings.complete)
        self.tally = FleetCounts()
        self.remarks: list[str] = []
        self._runs_for = settings.runs_for
        self._classes = PodClasses()
        self._residents: dict[str, _Resident] = {}
        self._timers: list[tuple[Seconds, int, str, str]] = []
        self._ticket = count()

    @property
    def holding(self) -> int:
        """The number of pods that hold resources."""
        return self.tally.admitted - self.tally.ended

    @property
    def next_moment(self) -> Seconds | None:
        """When `due` has something to do next, or None."""
        moments = [self._timers[0][0] if self._timers else None, self.reports.next_moment]
        return min((moment for moment in moments if moment is not None), default=None)

    # -- events --------------------------------------------------------------------------------------------------------

    def pods_listed(self, pods: Iterable[Pod], now: Seconds, unreadable: Collection[str] = ()) -> list[Write]:
        """Process all bound pods; known pods that are neither listed nor unreadable are gone.

        As in a kubelet after a restart, running pods are admitted first, by start time, then new ones by creation.
        """
        ours = {_key(pod): pod for pod in pods if pod.spec.node_name in self.agents}
        for key in [key for key in self._residents if key not in ours and key not in unreadable]:
            self.pod_gone(key, now)
        writes: list[Write] = []
        for pod in sorted(ours.values(), key=_after_restart):
            writes += self.pod_changed(pod, now)
        return writes

    def pod_changed(self, pod: Pod, now: Seconds) -> list[Write]:
        """A pod was bound or changed, or is being deleted."""
        if pod.spec.node_name not in self.agents:
            return []
        key = _key(pod)
        resident = self._residents.get(key)
        if resident is not None and resident.pod.metadata.uid != pod.metadata.uid:
            self.pod_gone(key, now)  # replaced by another pod of the same name
            resident = None
        if pod.metadata.deletion_timestamp is not None:
            return self._leave(key, pod, resident, now)
        phase = pod.status.phase if pod.status else None
        if phase in TERMINAL:
            if resident is not None:
                self._release(key, resident, now)
            return []
        if resident is None:
            return self._arrive(key, pod, now)
        if resident.stage is PodStage.RUNNING and _is_marked_unready(pod):
            return [self._status(resident, running_status(pod, resident.started, now))]
        return []

    def pod_gone(self, key: str, now: Seconds) -> None:
        """A pod is gone: free its resources."""
        resident = self._residents.pop(key, None)
        if resident is not None:
            self._release(key, resident, now)

    def due(self, now: Seconds) -> list[Write]:
        """Process timers: init containers and pods that end, reports that are due."""
        writes: list[Write] = []
        while self._timers and self._timers[0][0] <= now:
            _, _, key, uid = heapq.heappop(self._timers)
            resident = self._residents.get(key)
            if resident is None or resident.pod.metadata.uid != uid:
                continue
            if resident.stage is PodStage.STARTING:
                writes.append(self._start(key, resident, now, now))
            elif resident.stage is PodStage.RUNNING:
                writes.append(self._end(key, resident, now))
            elif resident.stage is PodStage.STOPPING:
                writes.append(self._stop(key, resident.pod, resident, now))
        return [*writes, *self.reports.due(now)]

    # -- one pod -------------------------------------------------------------------------------------------------------

    def _arrive(self, key: str, pod: Pod, now: Seconds) -> list[Write]:
        node = pod.spec.node_name or ""
        kubelet = self.agents[node].kubelet
        try:
            request = self._classes.request_of(pod)
        except InvalidObject as error:
            return [self._refuse(key, pod, "UnexpectedAdmissionError", str(error), now)]
        admission = kubelet.admit(key, request)
        if not admission.admitted:
            return [self._refuse(key, pod, admission.reason, admission.message, now)]
        resident = self._residents[key] = _Resident(pod, node, PodStage.STARTING)
        self.tally.admitted += 1
        self.reports.changed(node, now)
        if (since := _running_since(pod)) is not None:
            self._start(key, resident, since, now)
            return []  # its status is already right
        if any(container.role is Role.INIT for container in request.containers):
            self._remind(now + STARTS_IN, key, pod)
            return []
        return [self._start(key, resident, now, now)]

    def _refuse(self, key: str, pod: Pod, reason: str, message: str, now: Seconds) -> Write:
        node = pod.spec.node_name or ""
        self._residents[key] = _Resident(pod, node, PodStage.OVER)
        self.tally.refused[reason] += 1
        metadata = pod.metadata
        return SetPodStatus(
            metadata.namespace or "",
            metadata.name,
            metadata.uid,
            refused_status(reason, message, now),
            RejectedPod(key, node, reason, message),
        )

    def _start(self, key: str, resident: _Resident, since: Seconds, now: Seconds) -> Write:
        self.agents[resident.node].kubelet.start(key)
        resident.stage = PodStage.RUNNING
        resident.started = since
        self.reports.changed(resident.node, now)
        self._end_in_time(key, resident)
        return self._status(resident, running_status(resident.pod, since, since))

    def _end(self, key: str, resident: _Resident, now: Seconds) -> Write:
        self._release(key, resident, now)
        return self._status(resident, succeeded_status(resident.pod, resident.started, now))

    def _leave(self, key: str, pod: Pod, resident: _Resident | None, now: Seconds) -> list[Write]:
        """Delete the pod: its containers stop at once, whatever its grace period, unless a preStop hook sleeps."""
        if resident is not None and resident.stage in (PodStage.STOPPING, PodStage.LEAVING):
            return []
        if resident is None:
            resident = self._residents[key] = _Resident(pod, pod.spec.node_name or "", PodStage.OVER)
        until = _stops_at(pod, now)
        if resident.stage in HOLDING and until > now:
            resident.pod, resident.stage = pod, PodStage.STOPPING
            self._remind(until, key, pod)
            return []
        return [self._stop(key, pod, resident, now)]

    def _stop(self, key: str, pod: Pod, resident: _Resident, now: Seconds) -> Write:
        """The containers have stopped. The pod's last phase is terminal."""
        self._release(key, resident, now)
        resident.stage = PodStage.LEAVING
        self.tally.deleted += 1
        phase = pod.status.phase if pod.status else None
        is_last_status_due = phase not in TERMINAL and not _vanishes_at_once(pod)
        status = stopped_status(pod, resident.started or now, now) if is_last_status_due else None
        return DeletePod(pod.metadata.namespace or "", pod.metadata.name, pod.metadata.uid, status)

    def _release(self, key: str, resident: _Resident, now: Seconds) -> None:
        """Free the resources of a pod, if it holds any."""
        if resident.stage in HOLDING:
            self.agents[resident.node].kubelet.remove(key)
            self.tally.ended += 1
            self.reports.changed(resident.node, now)
            resident.stage = PodStage.OVER

    def _status(self, resident: _Resident, status: dict[str, object]) -> Write:
        metadata = resident.pod.metadata
        return SetPodStatus(metadata.namespace or "", metadata.name, metadata.uid, status)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _end_in_time(self, key: str, resident: _Resident) -> None:
        runs_for = self._time_to_run(key, resident.pod)
        if runs_for is not None:
            self._remind(resident.started + runs_for, key, resident.pod)

    def _time_to_run(self, key: str, pod: Pod) -> Seconds | None:
        """The duration in the pod's annotation, or else the default."""
        text = (pod.metadata.annotations or {}).get(RUNS_FOR_ANNOTATION)
        if text is None:
            return self._runs_for
        try:
            return seconds_of(text)
        except NoDuration as error:
            self.remarks.append(
                f"Pod {key}: annotation {RUNS_FOR_ANNOTATION}: {error}; the pod runs until it is deleted"
            )
            return None

    def _remind(self, moment: Seconds, key: str, pod: Pod) -> None:
        heapq.heappush(self._timers, (moment, next(self._ticket), key, pod.metadata.uid))


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def _vanishes_at_once(pod: Pod) -> bool:
    """Is the pod being deleted without a grace period and without finalizers?

    The API server would answer a status of such a pod by deleting what has its name by then. Where a finalizer holds
    the pod, its controller waits for this status: the Job controller removes its own only from pods that are over.
    """
    return pod.metadata.deletion_grace_period_seconds == 0 and not pod.metadata.finalizers


def _stops_at(pod: Pod, now: Seconds) -> Seconds:
    """When the containers of a pod that is being deleted stop: after their preStop pause, but within the grace period,
    whose end is the time of deletion.
    """
    hooks = [each.lifecycle.pre_stop for each in pod.spec.containers or () if each.lifecycle is not None]
    longest = max((hook.sleep.seconds for hook in hooks if hook is not None and hook.sleep is not None), default=0)
    if not longest or pod.metadata.deletion_timestamp is None:
        return now
    return min(now + longest, datetime.fromisoformat(pod.metadata.deletion_timestamp).timestamp())


def _running_since(pod: Pod) -> Seconds | None:
    """The start time of a running pod; None for a new one."""
    if pod.status is None or pod.status.phase != "Running" or pod.status.start_time is None:
        return None
    return datetime.fromisoformat(pod.status.start_time).timestamp()


def _is_marked_unready(pod: Pod) -> bool:
    """Whether the node controller marked a pod as not ready, as it does with all pods of a NotReady node."""
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return any(each.type == "Ready" and each.status != "True" for each in conditions)


def _after_restart(pod: Pod) -> tuple[int, str, str]:
    """Running pods before new ones; the API's times sort as text."""
    runs = _running_since(pod) is not None
    moment = pod.status.start_time if runs and pod.status else pod.metadata.creation_timestamp
    return (0 if runs else 1), moment or "", _key(pod)
