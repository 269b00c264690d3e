"""Follow the cluster: one watch per resource feeds the intake, in slices that keep the event loop responsive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import Absent, Changes, WatchSettings, follow
from bayplan.kube.resources import PODS, Resource
from bayplan.services.edges.health import WatchHealth
from bayplan.services.edges.metrics import ClusterMetrics
from bayplan.services.edges.process import SLICE, in_slices
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.intake import Entry, News, WatchIntake, takes_long

logger = logging.getLogger(__name__)

# Processes watch events step by step.
Listener = Callable[[Resource[Any], News], Iterable[None]]

ENDED = object()


class ClusterWatcher:
    """Applies watch events to the intake, and calls `on_news` after each batch.

    `listener` receives the same events before the intake does.
    """

    def __init__(
        self,
        client: KubeClient,
        intake: WatchIntake,
        *,
        metrics: ClusterMetrics,
        clock: Callable[[], float],
        side_thread: SideThread,
        on_news: Callable[[], None],
        listener: Listener,
        settings: WatchSettings,
    ) -> None:
        self.intake = intake
        self.health = WatchHealth()
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._side_thread = side_thread
        self._on_news = on_news
        self._listener = listener
        self._settings = settings
        self._listed = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._following: dict[Resource[Any], asyncio.Task[None]] = {}
        # What the lists of a resource are applied after, and what is set once one of them is applied.
        self._order: dict[Resource[Any], tuple[asyncio.Event | None, asyncio.Event]] = {}

    async def follow(self) -> None:
        """Process the cluster's watch events until cancelled."""
        async with self._tasks:
            applied: asyncio.Event | None = None
            for entry in self.intake.entries:
                listed = asyncio.Event()
                self._order[entry.resource] = applied, listed
                self._restart(entry)
                if entry.required:
                    applied = listed

    async def refresh_pods(self) -> None:
        """List pods from now on and watch from there, and wait for the first lists.

        List and watch are one stream: a separate list would be older than some watch events and undo them. A first list
        that is under way is abandoned, not finished: with 50,000 pods the first bind comes in half the time.
        """
        restarted = self._restart(self.intake.entry(PODS)) if PODS in self._following else None
        await self._listed.wait()
        if restarted is not None:
            await restarted.wait()

    def _restart(self, entry: Entry) -> asyncio.Event:
        """Follow a resource from a new list on; the event is set once that list is applied.

        All resources are listed concurrently. Each list, or its first page, is applied after the lists it builds on.
        """
        running = self._following.get(entry.resource)
        if running is not None:
            running.cancel()
        after, listed = self._order[entry.resource]
        if listed.is_set():
            self._order[entry.resource] = after, (listed := asyncio.Event())
        self._following[entry.resource] = self._tasks.create_task(self._follow(entry, listed, after))
        return listed

    async def _follow(self, entry: Entry, listed: asyncio.Event, after: asyncio.Event | None) -> None:
        name = str(entry.resource)
        self._metrics.watch_restarts.labels(name)  # a rate needs a series that begins at 0

        def on_error(text: str) -> None:
            self.health.failed(name, self._clock())
            self._metrics.watch_restarts.labels(name).inc()
            logger.warning("watch failed, retrying", extra={"resource": name, "problem": text})

        batches = follow(
            self._client,
            entry.resource,
            field_selector=entry.field_selector,
            settings=self._settings,
            on_error=on_error,
            on_progress=lambda: self.health.worked(name, self._clock()),
            forbidden_is_absent=entry.foreign,
            # A page adds objects before those that are gone are dropped: harmless only while nothing is decided.
            by_page=not self.intake.is_listed(entry.resource),
        )
        async with aclosing(batches):
            async for news in batches:
                if after is not None:
                    await after.wait()
                if isinstance(news, Absent):
                    logger.info("resource not served, continuing without it", extra={"resource": name})
                try:
                    await in_slices(self._listener(entry.resource, news))
                except Exception:
                    logger.exception("listener failed to process watch event", extra={"resource": name})
                await self._apply(entry, news)
                if not isinstance(news, Changes):
                    listed.set()
                if self.intake.ready:
                    self._listed.set()
                self._on_news()

    async def _apply(self, entry: Entry, news: News) -> None:
        """Apply news in slices: a list may have a hundred thousand objects, and one object may be large."""
        await self._side_thread.idle()
        end = time.perf_counter() + SLICE
        step = partial(next, self.intake.take_in_steps(entry.resource, news, self._clock), ENDED)
        coming = step()
        while coming is not ENDED:
            coming = await self._side_thread.run(step) if takes_long(coming) else step()
            if time.perf_counter() > end:
                await asyncio.sleep(0)
                await self._side_thread.idle()
                end = time.perf_counter() + SLICE
