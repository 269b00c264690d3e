"""Do something only while holding the lease: of several instances one works, the others stand by.

    wait for the lease -> work, renewing it -> finish what was begun -> release it

Told to stop (cancelled), an instance finishes while the lease is still its own, and only then gives it up, so that the next one finds nothing half done.
An instance that loses the lease stops at once without finishing anything, because another may already be at work: `LeadershipLost`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from bayplan.kube.access import Access
from bayplan.kube.client import KubeClient
from bayplan.kube.lease import LeaderElection, LeaseSettings
from bayplan.scheduling import service_settings

logger = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """The lease is no longer ours; the message says how that came about."""


class OnChange(Protocol):
    """Is told when leading begins and ends."""

    def __call__(self, *, leads: bool) -> None:
        """`leads` is whether it begins."""


Holds = Callable[[], bool]
"""Whether the lease is ours at this moment, by the clock: a process that was frozen may not have had time to notice that it is not."""


def lease_client(access: Access) -> KubeClient:
    """A client for the lease alone: a renewal must wait neither for binds and events nor for their flow control."""
    return KubeClient(access, connections=2)


async def run_while_leading(
    client: KubeClient,
    settings: service_settings.LeaderElection,
    identity: str,
    work: Callable[[Holds], Coroutine[Any, Any, None]],
    *,
    on_change: OnChange,
    finish: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Wait for the lease and run `work` until it ends, or until this is cancelled, or until the lease is lost.

    `work` is given a `Holds`, to be asked before anything that only a leader may do. `finish` runs after `work` while the lease is still held. Without leader election there is nothing to wait for and nothing to lose.
    """
    election = _election(client, settings, identity) if settings.enabled else None
    if election is not None:
        lease = f"{settings.namespace}/{settings.name}"
        logger.info("waiting for the lease", extra={"lease": lease, "identity": identity})
        await election.acquire()
    on_change(leads=True)
    lost = False
    renewing = asyncio.create_task(election.renew_until_lost() if election is not None else _never())
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
                await election.release()


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
