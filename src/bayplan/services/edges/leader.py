"""Leader election: one replica works while it holds the lease, the others stand by.

    acquire the lease -> work, renewing it -> finish work in flight -> release it

A replica that loses the lease stops at once, because another may already be working: `LeadershipLost`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from bayplan.config import service_settings
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.lease import LeaderElection, LeaseSettings

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

HoldsLease = Callable[[], bool]
"""Whether the lease is held at this moment by the clock; a frozen process may have lost it unnoticed."""


class LeadershipLost(Exception):
    """The lease is lost; the message says why."""


class OnChange(Protocol):
    """Called when leading begins and ends."""

    def __call__(self, *, leads: bool) -> None:
        """`leads` is True when leading begins."""


class LeaseKeeper:
    """Runs lease requests in the event loop of another thread, or in the current loop if none is given."""

    def __init__(self, client: KubeClient, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client = client
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there and wait for its result."""
        if self._loop is None:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


@asynccontextmanager
async def lease_keeper(access: Access) -> AsyncIterator[LeaseKeeper]:
    """A thread and a client for the lease alone: neither a long decision nor flow control delays a renewal."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="lease", daemon=True)
    thread.start()
    client = KubeClient(access, connections=2)
    keeper = LeaseKeeper(client, loop)
    try:
        await keeper.run(client.__aenter__())
        try:
            yield keeper
        finally:
            await keeper.run(client.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def run_while_leading(
    keeper: LeaseKeeper,
    settings: service_settings.LeaderElectionSettings,
    identity: str,
    work: Callable[[HoldsLease], Coroutine[Any, Any, None]],
    *,
    on_change: OnChange,
    finish: Callable[[], Awaitable[None]] | None = None,
    why_stuck: Callable[[], str | None] = lambda: None,
) -> None:
    """Acquire the lease and run `work` until it ends, this is cancelled, or the lease is lost.

    `work` must call its `HoldsLease` before each action of a leader. `finish` runs after `work` while the lease is
    still held. Before each renewal the lease thread calls `why_stuck`, and releases the lease if it returns a reason.
    Without leader election, `work` starts at once.
    """
    election = _election(keeper.client, settings, identity) if settings.enabled else None
    if election is not None:
        lease = f"{settings.namespace}/{settings.name}"
        logger.info("waiting for lease", extra={"lease": lease, "identity": identity})
        await keeper.run(election.acquire())
    on_change(leads=True)
    lost = False
    renewing = asyncio.create_task(
        keeper.run(election.renew_until_lost(why_stuck)) if election is not None else _never()
    )
    working = asyncio.create_task(work(lambda: election is None or election.leads))
    try:
        await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if renewing.done():
            lost = True
            on_change(leads=False)  # first: nothing must be sent from here on
            raise LeadershipLost(renewing.result())
        await working
    finally:
        try:
            await _cancelled(working)
            if finish is not None and not renewing.done():
                await _unless_lost(finish, renewing)
        finally:
            if not lost:
                on_change(leads=False)
            await _cancelled(renewing)
            if election is not None:
                await keeper.run(election.release())


def _election(client: KubeClient, settings: service_settings.LeaderElectionSettings, identity: str) -> LeaderElection:
    lease = LeaseSettings(
        namespace=settings.namespace,
        name=settings.name,
        identity=identity,
        duration=settings.lease_duration,
        renew_deadline=settings.renew_deadline,
        retry=settings.retry_period,
    )

    def on_holder(holder: str) -> None:
        facts = {"lease": f"{settings.namespace}/{settings.name}", "holder": holder}
        logger.info("acquired lease" if holder == identity else "lease is held by another replica", extra=facts)

    return LeaderElection(client, lease, on_error=logger.warning, on_holder=on_holder)


async def _never() -> str:
    await asyncio.Event().wait()
    return ""


async def _unless_lost(finish: Callable[[], Awaitable[None]], renewing: asyncio.Task[str]) -> None:
    """Finish work in flight, but stop when the lease is lost."""
    finishing = asyncio.ensure_future(finish())
    await asyncio.wait({finishing, renewing}, return_when=asyncio.FIRST_COMPLETED)
    if finishing.done():
        finishing.result()
    await _cancelled(finishing)


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
