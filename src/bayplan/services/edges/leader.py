"""Do something only while holding the lease: of several instances one works, the others stand by.

    wait for the lease -> work, renewing it -> finish what was begun -> release it

Told to stop (cancelled), an instance finishes while the lease is still its own, and only then gives it up, so that the next one finds nothing half done.
An instance that loses the lease stops at once without finishing anything, because another may already be at work: `LeadershipLost`.

The lease is renewed in a thread with an event loop and a client of its own (`lease_keeper`), so that a long decision cannot delay a renewal. The same thread asks before each
renewal whether the work makes progress, and releases the lease if it does not.
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


class LeadershipLost(Exception):
    """The lease is no longer ours; the message says how that came about."""


class OnChange(Protocol):
    """Is told when leading begins and ends."""

    def __call__(self, *, leads: bool) -> None:
        """`leads` is whether it begins."""


Holds = Callable[[], bool]
"""Whether the lease is ours at this moment, by the clock: a process that was frozen may not have had time to notice that it is not."""


Result = TypeVar("Result")


class LeaseKeeper:
    """Where requests about the lease are made: in the event loop of another thread, or without one in the loop that runs."""

    def __init__(self, client: KubeClient, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client = client
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something there and wait for it."""
        if self._loop is None:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


@asynccontextmanager
async def lease_keeper(access: Access) -> AsyncIterator[LeaseKeeper]:
    """A thread for the lease alone. A renewal waits neither for decisions nor for binds and events and their flow control."""
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
    settings: service_settings.LeaderElection,
    identity: str,
    work: Callable[[Holds], Coroutine[Any, Any, None]],
    *,
    on_change: OnChange,
    finish: Callable[[], Awaitable[None]] | None = None,
    why_stuck: Callable[[], str | None] = lambda: None,
) -> None:
    """Wait for the lease and run `work` until it ends, or until this is cancelled, or until the lease is lost.

    `work` is given a `Holds`, to be asked before anything that only a leader may do. `finish` runs after `work` while the lease is still held. Without leader election there is nothing to wait for and nothing to lose.
    `why_stuck` says why the work makes no progress, None if it does. It is asked from the thread of the lease, and the lease is given up for what it says.
    """
    election = _election(keeper.client, settings, identity) if settings.enabled else None
    if election is not None:
        lease = f"{settings.namespace}/{settings.name}"
        logger.info("waiting for the lease", extra={"lease": lease, "identity": identity})
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
            on_change(leads=False)  # At once: nothing may be sent any more.
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


def _election(client: KubeClient, settings: service_settings.LeaderElection, identity: str) -> LeaderElection:
    lease = LeaseSettings(
        namespace=settings.namespace,
        name=settings.name,
        identity=identity,
        duration=settings.lease_duration,
        renew_deadline=settings.renew_deadline,
        retry=settings.retry_period,
    )

    def on_holder(holder: str) -> None:
        named = {"lease": f"{settings.namespace}/{settings.name}", "holder": holder}
        logger.info("the lease is ours" if holder == identity else "another instance holds the lease", extra=named)

    return LeaderElection(client, lease, on_trouble=logger.warning, on_holder=on_holder)


async def _never() -> str:
    await asyncio.Event().wait()
    return ""


async def _unless_lost(finish: Callable[[], Awaitable[None]], renewing: asyncio.Task[str]) -> None:
    """Finish what was begun, but not after the lease is lost."""
    finishing = asyncio.ensure_future(finish())
    await asyncio.wait({finishing, renewing}, return_when=asyncio.FIRST_COMPLETED)
    if finishing.done():
        finishing.result()
    await _cancelled(finishing)


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
