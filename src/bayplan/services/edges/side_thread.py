"""A thread for work that would block the event loop: watches, probes, binds and events continue meanwhile.

The thread works on objects that the loop otherwise owns. Everything else on the loop that touches these objects
waits: a coroutine awaits `idle`, a plain function goes through `when_idle`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class SideThread:
    """Runs one piece of work at a time. Without `threaded` it runs in place, for tests in virtual time."""

    def __init__(self, *, threaded: bool = True) -> None:
        self.busy = False
        self._threaded = threaded
        self._work: SimpleQueue[_Work] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._deferred: list[Callable[[], None]] = []

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` once the thread is idle. If the caller is cancelled, the work still completes."""
        if not self._threaded:
            return work()
        await self.idle()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="side", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()
        self.busy = True
        self._work.put((work, ended, loop))
        result = await asyncio.shield(ended)
        await self.idle()  # another task may have started work, and the caller uses the same objects
        return result

    async def idle(self) -> None:
        """Wait until no work is in progress. The caller owns the objects until its next await."""
        while self.busy:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def when_idle(self, action: Callable[[], None]) -> None:
        """Run `action` now, or right after the work in progress."""
        if self.busy:
            self._deferred.append(action)
        else:
            action()

    def _serve(self) -> None:
        while True:
            work, ended, loop = self._work.get()
            try:
                deliver = partial(_resolve, ended, work())
            except BaseException as error:  # noqa: BLE001 - the caller handles it
                deliver = partial(_fail, ended, error)
            try:
                loop.call_soon_threadsafe(self._end, deliver)
            except RuntimeError:  # the loop is closed
                return

    def _end(self, deliver: Callable[[], None]) -> None:
        self.busy = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()
        # Waiters run before the caller can start the next piece of work.
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        deliver()


def _resolve(ended: asyncio.Future[Result], result: Result) -> None:
    if not ended.done():
        ended.set_result(result)


def _fail(ended: asyncio.Future[Any], error: BaseException) -> None:
    if not ended.done():
        ended.set_exception(error)
