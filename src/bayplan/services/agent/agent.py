"""The node agent's main loop: woken, it scans the node and offers the report.

    wakers.py  ->  scanner.py  ->  publisher.py
    why to scan    one scan        the newest report to the API server

A failed scan, even by a bug, is reported once (`troubles.py`) and retried soon. It offers nothing, so the last good
report stays and ages. Scans continue while a report cannot be written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from bayplan.kube.client.backoff import Backoff
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.report import Document
from bayplan.services.agent.scanner import SETUP, UNREADABLE, WITHOUT_SOCKET, CannotSee, Scan, Scanner
from bayplan.services.agent.sources.wakers import CONFIGURATION_FILES, FOLDER, SIGNAL, SOCKET, START, TIMER, Wakers
from bayplan.services.agent.troubles import Troubles

# Reasons after which the machine and the kubelet's configuration are read again too.
RESCAN_ALL = frozenset({START, TIMER, SIGNAL, SOCKET, FOLDER, *CONFIGURATION_FILES})
RETRY = "retry"
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
BUG = "bug"
KINDS = ("podresources", "sysfs", BUG)
INPUT, NO_SOCKET = "input", "no-socket"


class ReportReceiver(Protocol):
    """A receiver of reports."""

    def offer(self, document: Document) -> None:
        """The newest report."""

    def doubt(self) -> None:
        """Take the next report even if it is unchanged."""


class Agent:
    """Scans when woken, and offers each report to the publisher."""

    def __init__(
        self,
        scanner: Scanner,
        publisher: ReportReceiver,
        troubles: Troubles,
        metrics: AgentMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scanner = scanner
        self._publisher = publisher
        self._troubles = troubles
        self._metrics = metrics
        self._clock = clock
        self.looked_at: float | None = None
        self.last: Scan | None = None

    async def run(self, wakers: Wakers) -> None:
        """Scan the node until cancelled."""
        backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        loop = asyncio.get_running_loop()
        failed = False
        retry: asyncio.TimerHandle | None = None
        while True:
            reasons = await wakers.next()
            if retry is not None:
                retry.cancel()
            self._metrics.woken(reasons)
            if SIGNAL in reasons:
                self._publisher.doubt()
            # After a failure, cached values may be outdated.
            failed = not await self.look(rescan=failed or not RESCAN_ALL.isdisjoint(reasons))
            if failed:
                retry = loop.call_later(backoff.after_failure(), wakers.wake, RETRY)
            else:
                backoff.reset()

    async def look(self, *, rescan: bool = True) -> bool:
        """Scan once and offer the report; False if the scan failed."""
        began = self._clock()
        try:
            scan = await self._scanner.scan(rescan=rescan)
        except CannotSee as trouble:
            self._metrics.failed()
            self._troubles.note(trouble.kind, trouble.cause, str(trouble))
            return False
        except Exception as error:  # noqa: BLE001 - a node without an agent is worse off
            self._metrics.failed()
            cause = type(error).__name__
            self._troubles.note(BUG, cause, f"a bug in the agent, please report it: {cause}: {error}", error)
            return False
        finally:
            self.looked_at = self._clock()
        self._metrics.seen(scan, self.looked_at - began)
        for kind in KINDS:
            self._troubles.over(kind)
        if scan.old_setup is None:
            self._troubles.over(SETUP)
        else:
            self._troubles.note(SETUP, UNREADABLE, scan.old_setup)
        self._troubles.hold(INPUT, scan.problems)
        self._troubles.hold(NO_SOCKET, (WITHOUT_SOCKET,) if scan.without_socket else ())
        self.last = scan
        self._publisher.offer(scan.document)
        return True
