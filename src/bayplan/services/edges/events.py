"""Events (`events.k8s.io/v1`) about pods and gangs: what `kubectl describe` shows below them.

`record` takes a sentence about an object and returns at once; an `Outbox` sends it. If the same sentence about the same object repeats within six minutes,
it is no new event: the first one becomes a series whose count and last time are patched, at most once a minute. An object with ever-changing sentences
gets 25 of them at once and then one in five minutes, as in kube-scheduler. Events are best effort: if too many wait, they are
dropped and counted, and binding never waits for them. Intervals are measured by a monotonic clock; only the times in the events are wall-clock times.
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
from bayplan.kube.resources import EVENTS
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.outbox import Outbox

EventType = Literal["Normal", "Warning"]

LONGEST_NOTE = 1024
LONGEST_NAME = 253
SERIES_ENDS_AFTER = 360.0
SERIES_PATCHED_EVERY = 60.0
SENTENCES_AT_ONCE = 25
SECONDS_PER_SENTENCE = 300.0
SWEEP_EVERY = 15.0
SWEPT_AT_ONCE = 500
MOST_SERIES = 20_000
# A worker waits for each answer, and a busy API server takes 20 ms.
SENT_BY_ONE_WORKER = 50.0
FEWEST_WORKERS, MOST_WORKERS = 2, 16


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about; `namespace` is "" for what belongs to the whole cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def event_namespace(self) -> str:
        """Where events about the object are kept."""
        return self.namespace or "default"

    @classmethod
    def pod(cls, pod: Pod) -> Subject:
        """A pod as a subject."""
        return cls("v1", "Pod", pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid)


@dataclass(slots=True)
class _Series:
    """One event and its repetitions."""

    name: str
    subject: Subject
    type: EventType
    reason: str
    action: str
    note: str
    first: datetime
    last: datetime
    heard_at: float
    """When it was last said, by the monotonic clock."""
    count: int = 1
    told: int = 0
    """The count that is about to be sent, or was."""
    told_at: float = 0.0
    exists: bool = False


class EventRecorder:
    """`async with EventRecorder(client, instance="bayplan-7d9f") as events`, then `events.record(...)`."""

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str = "bayplan",
        instance: str,
        rate: float = 50.0,
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        workers = min(max(round(rate / SENT_BY_ONE_WORKER), FEWEST_WORKERS), MOST_WORKERS)
        self.outbox = Outbox(self._send, workers=workers, rate=rate, most=most_waiting)
        self._client = client
        self._component = component
        self._instance = instance[:128]
        self._clock = clock
        self._wall_clock = wall_clock
        self._series: dict[tuple[Subject, str, str], _Series] = {}
        self._sentences: dict[str, _Sentences] = {}
        self._made = 0
        self._sweeping: asyncio.Task[None] | None = None

    def scheduled(self, pod: Pod, node: str, remark: str = "") -> None:
        """The pod was bound to the node; `remark` says what its user should know about that."""
        metadata = pod.metadata
        note = f"Successfully assigned {metadata.namespace}/{metadata.name} to {node}" + (
            f"; {remark}" if remark else ""
        )
        self.record(Subject.pod(pod), "Normal", "Scheduled", "Binding", note)

    def failed_scheduling(self, pod: Pod, note: str) -> None:
        """The pod has no place now, and why."""
        self.record(Subject.pod(pod), "Warning", "FailedScheduling", "Scheduling", note)

    def record(self, subject: Subject, type_: EventType, reason: str, action: str, note: str) -> None:
        """Say a sentence about an object. Warnings go before what is normal, and only they are counted as repetitions."""
        now, moment = self._clock(), self._wall_clock()
        note = shortened(visible(note))
        key = (subject, reason, note)
        known = self._series.get(key)
        if known is not None and now - known.heard_at < SERIES_ENDS_AFTER:
            known.count += 1
            known.last, known.heard_at = moment, now
            if now - known.told_at >= SERIES_PATCHED_EVERY:
                self._tell(known, now)
            return
        self._made += 1
        name = event_name(subject.name, moment.timestamp(), self._made)
        series = _Series(name, subject, type_, reason, action, note, moment, moment, now)
        # What is normal happens once and needs no memory: a thousand pods a second may be bound.
        if type_ == "Warning":
            if not self._may_speak(subject, now):
                self.outbox.dropped += 1
                return
            self._remember(key, series)
        self._tell(series, now)

    async def __aenter__(self) -> Self:
        await self.outbox.__aenter__()
        self._sweeping = asyncio.create_task(self._sweep_now_and_then())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        for series in self._series.values():
            if series.count > series.told:
                self._tell(series, self._clock())
        await self.outbox.__aexit__(kind, error, trace)

    async def _sweep_now_and_then(self) -> None:
        """Send repetitions that are due, and forget what has ended; a few at a time, so that callers do not wait for it."""
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            now = self._clock()
            known = list(self._series.items())
            for first in range(0, len(known), SWEPT_AT_ONCE):
                for key, series in known[first : first + SWEPT_AT_ONCE]:
                    self._sweep(key, series, now)
                await asyncio.sleep(0)
            self._sentences = {uid: said for uid, said in self._sentences.items() if not said.all_left(now)}

    def _sweep(self, key: tuple[Subject, str, str], series: _Series, now: float) -> None:
        ended = now - series.heard_at >= SERIES_ENDS_AFTER
        if series.count > series.told and (ended or now - series.told_at >= SERIES_PATCHED_EVERY):
            self._tell(series, now)
        if ended and self._series.get(key) is series:
            del self._series[key]

    def _remember(self, key: tuple[Subject, str, str], series: _Series) -> None:
        if len(self._series) >= MOST_SERIES:
            self._series.pop(next(iter(self._series)))
        self._series[key] = series

    def _may_speak(self, subject: Subject, now: float) -> bool:
        """Whether another new sentence about this object is not too much."""
        sentences = self._sentences.get(subject.uid)
        if sentences is None:
            sentences = self._sentences[subject.uid] = _Sentences(now)
        return sentences.take(now)

    def _tell(self, series: _Series, now: float) -> None:
        series.told, series.told_at = series.count, now
        self.outbox.put(series.name, series, urgent=series.type == "Warning")

    async def _send(self, series: _Series) -> None:
        """Create the event; if it exists, patch its count. Events expire after an hour, so it may be gone again."""
        if not (series.exists and await self._patch(series)):
            await self._create(series)
        series.exists = True

    async def _patch(self, series: _Series) -> bool:
        """Whether the event was still there."""
        patch = {"series": _series_fields(series)}
        try:
            await self._client.patch(EVENTS, series.name, patch, series.subject.event_namespace, kind="merge")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _create(self, series: _Series) -> None:
        try:
            await self._client.create(EVENTS, self._body(series), series.subject.event_namespace)
        except ApiError as error:
            # It arrived when we thought that it had not.
            if error.status != 409:
                raise

    def _body(self, series: _Series) -> dict[str, object]:
        subject = series.subject
        body: dict[str, object] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": subject.event_namespace},
            "eventTime": micro_time(series.first),
            "type": series.type,
            "reason": series.reason,
            "action": series.action,
            "note": series.note,
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
        }
        if series.count > 1:
            body["series"] = _series_fields(series)
        return body


class _Sentences:
    """How many new sentences may still be said about one object."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left = float(SENTENCES_AT_ONCE)
        self._at = now

    def take(self, now: float) -> bool:
        self._left = self._left_at(now)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def all_left(self, now: float) -> bool:
        """Whether nothing is worth remembering."""
        return self._left_at(now) >= SENTENCES_AT_ONCE

    def _left_at(self, now: float) -> float:
        return min(SENTENCES_AT_ONCE, self._left + (now - self._at) / SECONDS_PER_SENTENCE)


def _series_fields(series: _Series) -> dict[str, object]:
    return {"count": series.count, "lastObservedTime": micro_time(series.last)}


def event_name(about: str, now: float, number: int) -> str:
    """A name that no other event has: the object's, the time and a number."""
    unique = f".{int(now * 1e9) + number:x}"
    return about[: LONGEST_NAME - len(unique)].rstrip("-.") + unique


def shortened(note: str) -> str:
    """At most as many bytes as the API server takes."""
    raw = note.encode()
    return note if len(raw) <= LONGEST_NOTE else raw[: LONGEST_NOTE - 3].decode(errors="ignore") + "..."
