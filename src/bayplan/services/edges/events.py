"""Events (`events.k8s.io/v1`) about pods, gangs and nodes: what `kubectl describe` shows.

Events are best effort: `record` returns at once and an `Outbox` sends them. Repetitions of a warning within six minutes
become one series, whose count is patched at most once a minute. As in kube-scheduler, an object gets a burst of 25
different warnings, then one in five minutes. Intervals use the monotonic clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self

from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.lease import micro_time
from bayplan.kube.resources import EVENTS, PODS
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.outbox import Outbox, OutboxWriter

EventType = Literal["Normal", "Warning"]

LONGEST_NOTE = 1024
LONGEST_NAME = 253
SERIES_ENDS_AFTER = 360.0
SERIES_PATCHED_EVERY = 60.0
WARNING_BURST = 25
SECONDS_PER_WARNING = 300.0
SWEEP_EVERY = 15.0
SWEEP_BATCH = 500
MAX_SERIES = 20_000
# A worker waits for each response; a busy API server takes 20 ms.
EVENTS_PER_WORKER = 50.0
MIN_WORKERS, MAX_WORKERS = 2, 16


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of an event; `namespace` is "" for cluster-scoped objects."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def event_namespace(self) -> str:
        """The namespace of the event itself."""
        return self.namespace or "default"

    @classmethod
    def of(cls, api_version: str, kind: str, metadata: Metadata) -> Subject:
        """An object of the API server."""
        return cls(api_version, kind, metadata.namespace or "default", metadata.name, metadata.uid)

    @classmethod
    def pod(cls, pod: Pod) -> Subject:
        """A pod."""
        return cls.of(PODS.api_version, PODS.kind, pod.metadata)


@dataclass(slots=True)
class _Series:
    """One event and its repetitions; `last_seen_at` and `sent_at` are monotonic."""

    name: str
    subject: Subject
    type: EventType
    reason: str
    action: str
    note: str
    first: datetime
    last: datetime
    last_seen_at: float
    count: int = 1
    sent_count: int = 0
    sent_at: float = 0.0
    exists: bool = False

    def body(self, component: str, instance: str) -> dict[str, object]:
        """The event as the API server expects it."""
        subject = self.subject
        body: dict[str, object] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": self.name, "namespace": subject.event_namespace},
            "eventTime": micro_time(self.first),
            "type": self.type,
            "reason": self.reason,
            "action": self.action,
            "note": self.note,
            "reportingController": component,
            "reportingInstance": instance,
            "regarding": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
        }
        return body | self.repetitions() if self.count > 1 else body

    def repetitions(self) -> dict[str, object]:
        """The fields that repetitions change."""
        return {"series": {"count": self.count, "lastObservedTime": micro_time(self.last)}}


class EventRecorder(OutboxWriter[_Series]):
    """`async with EventRecorder(client, instance="bayplan-7d9f") as events`, then `events.record(...)`."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str = "bayplan",
        instance: str,
        rate: float = 50.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        workers = min(max(round(rate / EVENTS_PER_WORKER), MIN_WORKERS), MAX_WORKERS)
        super().__init__(Outbox(self._send, workers=workers, rate=rate))
        self._client = client
        self._component = component
        self._instance = instance[:128]
        self._clock = clock
        self._wall_clock = wall_clock
        self._series: BoundedDict[tuple[Subject, str, str], _Series] = BoundedDict(MAX_SERIES)
        # Token buckets by uid.
        self._budgets: BoundedDict[str, _Budget] = BoundedDict(MAX_SERIES)
        self._created = 0
        self._sweeping: asyncio.Task[None] | None = None

    def scheduled(self, pod: Pod, node: str, remark: str = "") -> None:
        """The pod was bound to the node."""
        note = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node}"
        self.record(Subject.pod(pod), "Normal", "Scheduled", "Binding", f"{note}; {remark}" if remark else note)

    def failed_scheduling(self, pod: Pod, note: str) -> None:
        """The pod was not placed or bound."""
        self.record(Subject.pod(pod), "Warning", "FailedScheduling", "Scheduling", note)

    def record(self, subject: Subject, type_: EventType, reason: str, action: str, note: str) -> None:
        """Record an event. Warnings are sent first; only their repetitions are counted."""
        now, moment = self._clock(), self._wall_clock()
        note = shortened(visible(note))
        key = (subject, reason, note)
        known = self._series.get(key)
        if known is not None and now - known.last_seen_at < SERIES_ENDS_AFTER:
            known.count += 1
            known.last, known.last_seen_at = moment, now
            if now - known.sent_at >= SERIES_PATCHED_EVERY:
                self._put(known, now)
            return
        self._created += 1
        name = event_name(subject.name, moment.timestamp(), self._created)
        series = _Series(name, subject, type_, reason, action, note, moment, moment, now)
        # Normal events do not repeat, and a thousand pods per second may be bound: do not remember them.
        if type_ == "Warning":
            budget = self._budgets.get(subject.uid) or _Budget(now)
            self._budgets[subject.uid] = budget
            if not budget.take(now):
                self.outbox.dropped += 1
                return
            self._series[key] = series
        self._put(series, now)

    async def __aenter__(self) -> Self:
        self._sweeping = asyncio.create_task(self._sweep_periodically())
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        for series in self._series.values():
            if series.count > series.sent_count:
                self._put(series, self._clock())
        await super().__aexit__(kind, error, trace)

    async def _sweep_periodically(self) -> None:
        """Send due repetitions and forget ended series, in batches that do not block callers."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            now = self._clock()
            known = list(self._series.items())
            for first in range(0, len(known), SWEEP_BATCH):
                for key, series in known[first : first + SWEEP_BATCH]:
                    self._sweep(key, series, now)
                await asyncio.sleep(0)
            for uid in [uid for uid, budget in self._budgets.items() if budget.is_full(now)]:
                del self._budgets[uid]

    def _sweep(self, key: tuple[Subject, str, str], series: _Series, now: float) -> None:
        ended = now - series.last_seen_at >= SERIES_ENDS_AFTER
        if series.count > series.sent_count and (ended or now - series.sent_at >= SERIES_PATCHED_EVERY):
            self._put(series, now)
        if ended and self._series.get(key) is series:
            del self._series[key]

    def _put(self, series: _Series, now: float) -> None:
        series.sent_count, series.sent_at = series.count, now
        self.outbox.put(series.name, series, urgent=series.type == "Warning")

    async def _send(self, series: _Series) -> None:
        """Create the event, or patch its count. Events expire after an hour, so an existing one may be gone again."""
        if not (series.exists and await self._patch(series)):
            await self._create(series)
        series.exists = True

    async def _patch(self, series: _Series) -> bool:
        """False if the event has expired."""
        namespace = series.subject.event_namespace
        try:
            await self._client.patch(EVENTS, series.name, series.repetitions(), namespace, kind="merge")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _create(self, series: _Series) -> None:
        body = series.body(self._component, self._instance)
        try:
            await self._client.create(EVENTS, body, series.subject.event_namespace)
        except ApiError as error:
            if error.status != 409:  # an earlier attempt arrived although its response did not
                raise


class _Budget:
    """A token bucket for the warnings about one object."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left = float(WARNING_BURST)
        self._at = now

    def take(self, now: float) -> bool:
        self._left = self._left_at(now)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_full(self, now: float) -> bool:
        return self._left_at(now) >= WARNING_BURST

    def _left_at(self, now: float) -> float:
        return min(WARNING_BURST, self._left + (now - self._at) / SECONDS_PER_WARNING)


def event_name(subject: str, now: float, number: int) -> str:
    """A unique event name: the object's name, the time and a number."""
    unique = f".{int(now * 1e9) + number:x}"
    return subject[: LONGEST_NAME - len(unique)].rstrip("-.") + unique


def shortened(note: str) -> str:
    """The note cut to the API server's limit in bytes."""
    raw = note.encode()
    return note if len(raw) <= LONGEST_NOTE else raw[: LONGEST_NOTE - 3].decode(errors="ignore") + "..."
