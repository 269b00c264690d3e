"""What is written about gangs beside binds: how far one has come.

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

import msgspec

from bayplan.dialects.progress import Document, MemberCounts, Phase, Progress, has_ended, says, with_times
from bayplan.dialects.registry import AnyPodGroup, dialect_of, key_of
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.services.edges.outbox import Outbox

logger = logging.getLogger(__name__)

FIELD_MANAGER = "bayplan-scheduler"
MOST_REMEMBERED = 50_000
WAITS_FOR_PODS = "waits for its pods"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A status that a PodGroup should have; `was_complete` if by it the gang was complete once."""

    written: AnyPodGroup
    status: Document
    was_complete: bool


class GangStatusWriter:
    """`async with GangStatusWriter(client) as gangs`, then `gangs.waits(written, message, counts)`."""

    def __init__(self, client: KubeClient, *, rate: float = 50.0, clock: Callable[[], float] = time.time) -> None:
        self.outbox = Outbox(self._send, rate=rate)
        self._client = client
        self._clock = clock
        # What was last written about each gang, by the uid of its PodGroup: the news of it may come later.
        self._told: dict[str, _Wanted] = {}

    def waits(self, written: AnyPodGroup, message: str, counts: MemberCounts, *, invalid: bool = False) -> None:
        """Pods that a gang needs have no place. One that was complete is told so still, beside what it waits for."""
        phase = Phase.DEGRADED if self._was_complete(written) else Phase.WAITING
        if phase is Phase.DEGRADED and counts.scheduled:
            message = f"{counts.scheduled} of {counts.members} pods have nodes: {message}"
        self._put(written, Progress(phase, message, counts, invalid))

    def complete(self, written: AnyPodGroup, counts: MemberCounts) -> None:
        """Record that all pods that a gang needs now have nodes; later schedulers read from it that the gang was complete once."""
        self._put(written, Progress(Phase.COMPLETE, _in_words(counts), counts), anew=True)

    def stands(self, written: AnyPodGroup, counts: MemberCounts, message: str = "") -> None:
        """A gang that is complete has other pods now, or as many in another state; others that would join it wait, as `message` says."""
        self._put(written, Progress(Phase.COMPLETE, "; ".join(filter(None, (_in_words(counts), message))), counts))

    def has_nobody(self, written: AnyPodGroup) -> None:
        """Record that a gang has no pods: it has ended, perhaps before this instance started, or still waits for them.

        A waiting gang without conditions is left as it is.
        """
        before = self._before(written)
        if self._was_complete(written) or has_ended(before):
            self._put(written, Progress(Phase.ENDED, "no pods are left"))
        elif before.get("conditions"):
            self._put(written, Progress(Phase.WAITING, WAITS_FOR_PODS))

    def _before(self, written: AnyPodGroup) -> Document:
        """What a PodGroup says, or will say as soon as the last write arrives there."""
        told = self._told.get(written.metadata.uid)
        if told is not None:
            return told.status
        return {} if written.status is None else msgspec.to_builtins(written.status)

    def _was_complete(self, written: AnyPodGroup) -> bool:
        told = self._told.get(written.metadata.uid)
        return dialect_of(written).was_complete(written) if told is None else told.was_complete

    def _put(self, written: AnyPodGroup, progress: Progress, *, anew: bool = False) -> None:
        """Write a status if it says something else than before; what holds `anew` does so since now."""
        dialect, uid, before = dialect_of(written), written.metadata.uid, self._before(written)
        status = dialect.status_of(progress)
        if not status or (says(before, status, dialect.conditions) and not anew):
            return
        now = datetime.fromtimestamp(self._clock(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = _Wanted(written, with_times(status, {} if anew else before, now), progress.was_complete)
        if self.outbox.put(key_of(written), wanted):
            self._told.pop(uid, None)
            self._told[uid] = wanted
            if len(self._told) > MOST_REMEMBERED:
                self._told.pop(next(iter(self._told)))

    async def _send(self, wanted: _Wanted) -> None:
        written, resource = wanted.written, dialect_of(wanted.written).resource
        assert resource is not None  # pods alone have no status
        metadata = written.metadata
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "status": wanted.status,
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


def _in_words(counts: MemberCounts) -> str:
    have = "1 pod has a node" if counts.scheduled == 1 else f"{counts.scheduled} pods have nodes"
    return f"{have}, {counts.running} {'runs' if counts.running == 1 else 'run'}"
