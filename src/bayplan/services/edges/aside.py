"""Work that takes longer than a turn of the event loop may, in a thread beside it. Watches, health, binds and events go on meanwhile.

The thread works on objects that the loop otherwise owns, so everything else on the loop that touches these objects waits: a coroutine for `idle`, a plain function through
`when_idle`. There is one thread and one piece of work at a time.
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


class Aside:
    """A thread for long work; without `threaded` the work is done in place, for tests in virtual time."""

    def __init__(self, *, threaded: bool = True) -> None:
        self.busy = False
        self._threaded = threaded
        self._work: SimpleQueue[_Work] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._later: list[Callable[[], None]] = []

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do something aside, when its turn comes. The work goes on if the caller is cancelled, and nothing else is let in before it has ended."""
        if not self._threaded:
            return work()
        await self.idle()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="aside", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()
        self.busy = True
        self._work.put((work, ended, loop))
        result = await asyncio.shield(ended)
        await self.idle()  # Another task may have been faster, and the caller goes on with the same objects.
        return result

    async def idle(self) -> None:
        """Wait until no work is under way. The caller has the loop until it awaits something."""
        while self.busy:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def when_idle(self, action: Callable[[], None]) -> None:
        """Act now, or right after the work that is under way."""
        if self.busy:
            self._later.append(action)
        else:
            action()

    def _serve(self) -> None:
        while True:
            work, ended, loop = self._work.get()
            try:
                tell = partial(_resolve, ended, work())
            except BaseException as error:  # noqa: BLE001 - the caller handles it
                tell = partial(_fail, ended, error)
            try:
                loop.call_soon_threadsafe(self._end, tell)
            except RuntimeError:  # The loop is closed.
                return

    def _end(self, tell: Callable[[], None]) -> None:
        self.busy = False
        later, self._later = self._later, []
        for action in later:
            action()
        # Those who waited have their turn before the caller can begin the next piece of work.
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        tell()


def _resolve(ended: asyncio.Future[Result], result: Result) -> None:
    if not ended.done():
        ended.set_result(result)


def _fail(ended: asyncio.Future[Any], error: BaseException) -> None:
    if not ended.done():
        ended.set_exception(error)
