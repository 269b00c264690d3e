"""Best-effort writes to the API server: a few workers send them at a limited rate, and callers never wait.

Events, conditions and PodGroup statuses go through here. Binds do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar
from zlib import crc32

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import TIME_MAY_HEAL, ApiError, Unreachable

logger = logging.getLogger(__name__)

Message = TypeVar("Message")

MAX_ATTEMPTS = 5
FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0


class Outbox(Generic[Message]):
    """Sends messages with `send`, which raises ApiError or Unreachable. `async with` runs the workers.

    A newer message replaces a waiting one of the same key; messages of one key stay in order. At most `most` wait, and
    further ones are dropped and counted. Transient errors are retried. On exit the outbox sends the rest without
    pacing, for at most `flush_seconds`. `rate` is messages per second over all workers.
    """

    def __init__(
        self,
        send: Callable[[Message], Awaitable[None]],
        *,
        workers: int = 2,
        most: int = 10_000,
        rate: float = 50.0,
        flush_seconds: float = 5.0,
    ) -> None:
        self.sent = 0
        self.dropped = 0
        self.failed = 0
        self._send = send
        self._most_per_lane = max(1, most // workers)
        self._interval = workers / rate
        self._flush_seconds = flush_seconds
        self._lanes: list[_Lane[Message]] = [_Lane() for _ in range(workers)]
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()

    def put(self, key: str, message: Message, *, urgent: bool = False) -> bool:
        """Queue a message, ahead of all others if `urgent`. False if it was dropped."""
        lane = self._lane(key)
        if key not in lane and (self._closing.is_set() or len(lane) >= self._most_per_lane):
            self.dropped += 1
            return False
        lane.put(key, message, urgent=urgent)
        return True

    def cancel(self, key: str) -> None:
        """Neither send nor retry the outdated message of this key."""
        self._lane(key).cancel(key)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(lane)) for lane in self._lanes]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for lane in self._lanes:
            lane.filled.set()
        _, unfinished = await asyncio.wait(self._tasks, timeout=self._flush_seconds)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.dropped += sum(len(lane) for lane in self._lanes)

    def _lane(self, key: str) -> _Lane[Message]:
        return self._lanes[crc32(key.encode()) % len(self._lanes)]

    async def _work(self, lane: _Lane[Message]) -> None:
        loop = asyncio.get_running_loop()
        free_at = loop.time()
        while True:
            while not len(lane):
                if self._closing.is_set():
                    return
                lane.filled.clear()
                await lane.filled.wait()
            # A burst of one second's worth goes out at once; further messages are paced.
            free_at = max(free_at, loop.time() - 1.0) + self._interval
            await self._sleep(free_at - loop.time())
            if len(lane):  # it may have been cancelled meanwhile
                await self._deliver(lane)

    async def _deliver(self, lane: _Lane[Message]) -> None:
        key, message = lane.take()
        backoff = Backoff(first=FIRST_WAIT, longest=LONGEST_WAIT)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._send(message)
            except (ApiError, Unreachable) as error:
                permanent = isinstance(error, ApiError) and error.status not in TIME_MAY_HEAL
                if permanent or attempt == MAX_ATTEMPTS or self._closing.is_set():
                    self.failed += 1
                    logger.debug("write failed", extra={"key": key, "error": str(error)})
                    return
                retry_after = (isinstance(error, ApiError) and error.retry_after) or 0.0
                await self._sleep(max(backoff.after_failure(), min(retry_after, LONGEST_WAIT)))
                if lane.sending != key or key in lane:  # cancelled, or replaced by a newer message
                    return
            except Exception:
                # A bug in one message must not block the others.
                self.failed += 1
                logger.exception("write failed", extra={"key": key})
                return
            else:
                self.sent += 1
                return

    async def _sleep(self, seconds: float) -> None:
        """Sleep, or return early when the outbox closes."""
        if seconds > 0 and not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)


class OutboxWriter(Generic[Message]):
    """Base of writers that send through an outbox, which runs from `async with` to its end."""

    def __init__(self, outbox: Outbox[Message]) -> None:
        self.outbox = outbox

    async def __aenter__(self) -> Self:
        await self.outbox.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.outbox.__aexit__(kind, error, trace)


class _Lane(Generic[Message]):
    """The messages of one worker, urgent ones first. All messages of one key are in one lane, in order."""

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.sending: str | None = None
        self._urgent: dict[str, Message] = {}
        self._others: dict[str, Message] = {}

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)

    def __contains__(self, key: str) -> bool:
        return key in self._urgent or key in self._others

    def put(self, key: str, message: Message, *, urgent: bool) -> None:
        self._others.pop(key, None)
        (self._urgent if urgent else self._others)[key] = message
        self.filled.set()

    def take(self) -> tuple[str, Message]:
        messages = self._urgent or self._others
        self.sending = next(iter(messages))
        return self.sending, messages.pop(self.sending)

    def cancel(self, key: str) -> None:
        self._urgent.pop(key, None)
        self._others.pop(key, None)
        if self.sending == key:
            self.sending = None
