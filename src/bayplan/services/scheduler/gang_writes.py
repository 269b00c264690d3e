"""What is written about gangs beside binds: how far one has come, and that one which cannot be completed makes room.

`GangStatusWriter` applies the status of PodGroups server-side, so that fields of others stay as they are, and only if it says something new. Nothing depends
on these writes while this instance runs: one that fails is told in the log and tried again when there is news of the gang.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from bayplan.cluster.state import pod_key
from bayplan.kube.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import ALL_POD_GROUPS, PODS
from bayplan.scheduling.dialects.table import AnyPodGroup, dialect_of, key_of
from bayplan.scheduling.todo import Release
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.edges.outbox import Outbox
from bayplan.services.scheduler.gang_status import Progress, status_of

logger = logging.getLogger(__name__)

FIELD_MANAGER = "bayplan-scheduler"
MOST_REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A status that a PodGroup should have."""

    written: AnyPodGroup
    progress: Progress


class GangStatusWriter:
    """`async with GangStatusWriter(client) as gangs`, then `gangs.waits(written, message, members)`."""

    def __init__(self, client: KubeClient, *, rate: float = 50.0, clock: Callable[[], float] = time.time) -> None:
        self.outbox = Outbox(self._send, rate=rate)
        self._client = client
        self._clock = clock
        # What was last written about each gang, by the uid of its PodGroup.
        self._told: dict[str, Progress] = {}

    def waits(self, written: AnyPodGroup, message: str, members: int, *, invalid: bool = False) -> None:
        """A gang has no place. One that was complete stays so: late members have conditions of their own."""
        told = self._told.get(written.metadata.uid)
        if not dialect_of(written).was_complete(written) and not (told is not None and told.complete):
            since = self._since(told)
            self._put(written, Progress(complete=False, since=since, message=message, members=members, invalid=invalid))

    def complete(self, written: AnyPodGroup, running: int, members: int) -> None:
        """All pods that a gang needs have nodes; whoever schedules later knows by it that the gang was whole once."""
        message = f"{running} pods have nodes"
        since = self._since(None)
        self._put(written, Progress(complete=True, since=since, message=message, members=members, running=running))

    def _since(self, told: Progress | None) -> str:
        """When the present state began: a new message is not a new state."""
        if told is not None:
            return told.since
        return datetime.fromtimestamp(self._clock(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _put(self, written: AnyPodGroup, progress: Progress) -> None:
        uid = written.metadata.uid
        if self._told.get(uid) == progress or not status_of(type(written), progress):
            return
        if self.outbox.put(key_of(written), _Wanted(written, progress)):
            self._told.pop(uid, None)
            self._told[uid] = progress
            if len(self._told) > MOST_REMEMBERED:
                self._told.pop(next(iter(self._told)))

    async def _send(self, wanted: _Wanted) -> None:
        written, resource = wanted.written, ALL_POD_GROUPS[type(wanted.written)]
        metadata = written.metadata
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "status": status_of(type(written), wanted.progress),
        }
        try:
            await self._client.patch(
                resource,
                metadata.name,
                body,
                metadata.namespace,
                subresource="status",
                kind="apply",
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except (ApiError, Unreachable) as error:
            self._told.pop(metadata.uid, None)
            logger.warning("cannot write the status of a gang", extra={"gang": key_of(written), "problem": str(error)})
            raise

    async def __aenter__(self) -> Self:
        await self.outbox.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.outbox.__aexit__(kind, error, trace)


async def release(client: KubeClient, events: EventRecorder, todo: Release, holds_lease: Callable[[], bool]) -> None:
    """Delete the bound pods of a gang that cannot be completed; whoever owns them creates new ones, which wait together.

    Each only while the lease is ours: another leader may be completing the gang.
    """
    for pod in todo.pods:
        if not holds_lease():
            return
        metadata = pod.metadata
        note = f"gang {todo.gang} cannot be completed, its pods make room: {todo.reason}"
        events.record(Subject.pod(pod), "Warning", "GangReleased", "Releasing", note)
        try:
            await client.delete(PODS, metadata.name, metadata.namespace or "default", uid=metadata.uid)
        except (ApiError, Unreachable) as error:
            # It is tried again: the gang is still half bound.
            logger.warning("cannot release a pod", extra={"pod": pod_key(pod), "problem": str(error)})
