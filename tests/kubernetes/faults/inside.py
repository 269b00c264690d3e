"""A scheduler inside the test's process, on an event loop of its own: it does all that `bayplan scheduler` does, and
can be looked into.

For faults that a program survives. It takes part in no leader election, and it is impatient: a watch is silent after
two seconds, a request lost after three.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bayplan.config.configuration import configuration_of
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.service import SchedulerService
from tests.builders.services import scheduler_service
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.loop_thread import LoopThread

Result = TypeVar("Result")
IMPATIENT = WatchSettings(silence=2.0, absent_retry=0.5, first_backoff=0.05, longest_backoff=0.5)
NO_ANSWER_AFTER = 3.0


class InsideScheduler:
    """A running scheduler; `service` belongs to its loop, so it is only touched by what `run` runs there."""

    service: SchedulerService
    client: KubeClient

    def __init__(self, loop: LoopThread) -> None:
        self.run = loop.run
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, kubeconfig: Path) -> None:
        """Begin to follow and to lead."""
        client = self.client = KubeClient(find_access(str(kubeconfig)), timeout=NO_ANSWER_AFTER, connections=64)
        await self._stack.enter_async_context(client)
        events = await self._stack.enter_async_context(EventRecorder(client, instance="inside"))
        conditions = await self._stack.enter_async_context(ConditionWriter(client))
        gangs = await self._stack.enter_async_context(GangStatusWriter(client))
        dispatcher = Dispatcher(
            configuration_of({}).profiles, initial_backoff=0.2, max_backoff=1.0, stopwatch=time.perf_counter
        )
        self.service = scheduler_service(client, dispatcher, events, conditions, gangs, watching=IMPATIENT)
        work: tuple[Coroutine[Any, Any, None], ...] = (self.service.follow(), self.service.lead())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def leads(self) -> bool:
        """Whether it decides; raises what ended it, if something did."""
        for task in self._tasks:
            if task.done():
                task.result()
        return self.service.leading

    async def stop(self) -> None:
        """End it as a signal would."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.service.finish(5.0)
        await self._stack.aclose()
        for each in ended:
            if isinstance(each, Exception):
                raise each


class _Complaints(logging.Handler):
    """Errors that must not happen, whatever happens around them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"{record.getMessage()} {record.exc_info}")


@contextmanager
def inside_scheduler(kubeconfig: Path) -> Iterator[InsideScheduler]:
    """A scheduler that decides already; ended afterwards. A bug that it only logged fails the test."""
    complaints = _Complaints()
    logger = logging.getLogger("bayplan")
    logger.addHandler(complaints)
    try:
        with LoopThread() as loop:
            scheduler = InsideScheduler(loop)
            loop.run(scheduler.start(kubeconfig))
            try:
                wait_until(lambda: loop.run(scheduler.leads()), "the scheduler decides")
                yield scheduler
            finally:
                loop.run(scheduler.stop())
    finally:
        logger.removeHandler(complaints)
    assert complaints.heard == []
