"""The condition `PodScheduled=False` on waiting pods, for autoscalers and `kubectl describe`.

The API server itself writes `PodScheduled=True` with the bind. `apply_status` writes the status of other objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.outbox import Outbox, OutboxWriter

# Autoscalers make room for `Unschedulable` pods alone.
Reason = Literal["Unschedulable", "SchedulerError", "GangWaiting"]

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
MAX_REMEMBERED = 50_000
MAX_CONFLICTS = 3
# Characters of a condition's message that is made of other objects' texts.
LONGEST_MESSAGE = 32_768


def timestamp(seconds: float) -> str:
    """A `Time` of the Kubernetes API: whole seconds in UTC."""
    return datetime.fromtimestamp(int(seconds), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class _PodCondition:
    pod: Pod
    reason: Reason
    message: str
    at: float


class ConditionWriter(OutboxWriter[_PodCondition]):
    """`async with ConditionWriter(client) as conditions`, then `conditions.unschedulable(pod, message)`."""

    def __init__(self, client: KubeClient, *, rate: float = 50.0, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Outbox(self._send, rate=rate))
        self._client = client
        self._clock = clock
        # Reason and message written last; the pod's own status shows them only after a while.
        self._written: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_REMEMBERED)

    def unschedulable(self, pod: Pod, message: str, reason: Reason = "Unschedulable") -> None:
        """Report that the pod has no place. Writes only if the condition changes."""
        uid, message = pod.metadata.uid, visible(message)
        if (self._written.get(uid) or _condition_of(pod)) == (reason, message):
            return
        if self.outbox.put(uid, _PodCondition(pod, reason, message, self._clock()), urgent=True):
            self._written[uid] = (reason, message)

    def forget(self, uid: str) -> None:
        """Drop the pending condition of a pod that is about to be bound, or gone."""
        self.outbox.cancel(uid)
        self._written.pop(uid, None)

    async def _send(self, wanted: _PodCondition) -> None:
        try:
            await self._patch(wanted)
        except Exception:
            self._written.pop(wanted.pod.metadata.uid, None)  # so that the next attempt writes it
            raise

    async def _patch(self, wanted: _PodCondition) -> None:
        pod = wanted.pod
        metadata = pod.metadata
        for attempt in range(1, MAX_CONFLICTS + 1):
            try:
                await self._client.patch(
                    PODS, metadata.name, _status_patch(wanted, pod), metadata.namespace, subresource="status"
                )
            except ApiError as error:
                if error.status != 409 or attempt == MAX_CONFLICTS:
                    raise
            else:
                return
            pod = await self._client.get(PODS, metadata.name, metadata.namespace)
            if pod.spec.node_name or pod.metadata.uid != metadata.uid:
                return


async def apply_status(
    client: KubeClient, resource: Resource[Any], metadata: Metadata, status: Mapping[str, Any], field_manager: str
) -> None:
    """Apply the status of one object server-side; its uid keeps it from a successor of the same name."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
        "status": status,
    }
    where = (resource, metadata.name, body, metadata.namespace)
    await client.patch(*where, subresource="status", kind="apply", field_manager=field_manager, force=True)


def disruption_target(pod: Pod, reason: str, message: str, now: float) -> dict[str, object]:
    """The patch that marks a pod which the scheduler removes, as kube-scheduler marks pods that it preempts."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "lastTransitionTime": timestamp(now),
    }
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}


def _condition_of(pod: Pod) -> tuple[str, str] | None:
    """Reason and message of the condition in the pod's own status."""
    for condition in (pod.status and pod.status.conditions) or ():
        if condition.type == POD_SCHEDULED and condition.status == "False":
            return condition.reason, condition.message
    return None


def _status_patch(wanted: _PodCondition, pod: Pod) -> dict[str, object]:
    """A patch with uid and resource version: it conflicts if the pod was bound or replaced meanwhile."""
    condition: dict[str, object] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": wanted.reason,
        "message": wanted.message,
    }
    if _condition_of(pod) is None:  # a new message is no transition
        condition["lastTransitionTime"] = timestamp(wanted.at)
    return {
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": [condition]},
    }
