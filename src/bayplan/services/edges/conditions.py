"""The condition `PodScheduled=False` on pods that wait, with the reason; what autoscalers and `kubectl describe` look at.

`unschedulable` is called after every failed attempt and returns at once; a patch of `pods/status` is sent, through an `Outbox`, only if the condition
says something else than before. The patch carries the pod's uid and resource version, so that a pod which was bound or replaced meanwhile never gets
a condition that is no longer true: on a conflict the pod is read, and if it still waits the patch is made again. `PodScheduled=True` is written by
the API server itself with the bind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self

from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import PODS
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.outbox import Outbox

Reason = Literal["Unschedulable", "SchedulerError"]

POD_SCHEDULED = "PodScheduled"
MOST_REMEMBERED = 50_000
MOST_CONFLICTS = 3


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A condition that a pod should have."""

    pod: Pod
    reason: Reason
    message: str
    at: float


class ConditionWriter:
    """`async with ConditionWriter(client) as conditions`, then `conditions.unschedulable(pod, message)`."""

    def __init__(
        self,
        client: KubeClient,
        *,
        rate: float = 50.0,
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.outbox = Outbox(self._send, rate=rate, most=most_waiting)
        self._client = client
        self._clock = clock
        # What each pod was told last: its own status shows it only after a while.
        self._told: dict[str, tuple[str, str]] = {}

    def unschedulable(self, pod: Pod, message: str, reason: Reason = "Unschedulable") -> None:
        """The pod has no place now; `reason` is SchedulerError where the trouble is not the pod's."""
        uid, message = pod.metadata.uid, visible(message)
        if (self._told.get(uid) or _condition_of(pod)) == (reason, message):
            return
        if self.outbox.put(uid, _Wanted(pod, reason, message, self._clock()), urgent=True):
            self._told.pop(uid, None)
            self._told[uid] = (reason, message)
            if len(self._told) > MOST_REMEMBERED:
                self._told.pop(next(iter(self._told)))

    def forget(self, uid: str) -> None:
        """The pod is about to be bound, or gone: what waits for it is no longer true."""
        self.outbox.cancel(uid)
        self._told.pop(uid, None)

    async def __aenter__(self) -> Self:
        await self.outbox.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.outbox.__aexit__(kind, error, trace)

    async def _send(self, wanted: _Wanted) -> None:
        try:
            await self._patch(wanted)
        except Exception:
            # The pod was not told after all: the next attempt tells it.
            self._told.pop(wanted.pod.metadata.uid, None)
            raise

    async def _patch(self, wanted: _Wanted) -> None:
        pod = wanted.pod
        metadata = pod.metadata
        for attempt in range(1, MOST_CONFLICTS + 1):
            try:
                await self._client.patch(
                    PODS, metadata.name, _status_patch(wanted, pod), metadata.namespace, subresource="status"
                )
            except ApiError as error:
                if error.status != 409 or attempt == MOST_CONFLICTS:
                    raise
            else:
                return
            pod = await self._client.get(PODS, metadata.name, metadata.namespace)
            if pod.spec.node_name or pod.metadata.uid != metadata.uid:
                return


def _condition_of(pod: Pod) -> tuple[str, str] | None:
    """Reason and message with which the pod waits, as its own status shows it."""
    for condition in (pod.status and pod.status.conditions) or ():
        if condition.type == POD_SCHEDULED and condition.status == "False":
            return condition.reason, condition.message
    return None


def _status_patch(wanted: _Wanted, pod: Pod) -> dict[str, object]:
    condition: dict[str, object] = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": wanted.reason,
        "message": wanted.message,
    }
    # The time is that of the change from true to false, not of every new message.
    if _condition_of(pod) is None:
        moment = datetime.fromtimestamp(wanted.at, tz=UTC)
        condition["lastTransitionTime"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = pod.metadata
    return {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "status": {"conditions": [condition]},
    }
