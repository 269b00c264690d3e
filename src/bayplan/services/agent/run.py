"""Start and stop an agent: connection, health, signals. `agent.py` explains the parts.

`run_agent` scans and publishes until SIGTERM or SIGINT. `publish_once` (`--oneshot`) makes one scan and one write.
`look_once` and `print_reports` show the report instead; they use an API server only to learn which pods are alive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.services.agent.agent import Agent
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.publisher import Publisher
from bayplan.services.agent.report import Document, substance
from bayplan.services.agent.scanner import Scan, Scanner
from bayplan.services.agent.settings import AgentSettings
from bayplan.services.agent.sources.own_pods import KIND as PODS
from bayplan.services.agent.sources.own_pods import OwnPods
from bayplan.services.agent.sources.wakers import POD, Wakers
from bayplan.services.agent.troubles import Troubles
from bayplan.services.edges.health import Certificate, serve_health
from bayplan.services.edges.process import run_until_signal

logger = logging.getLogger(__name__)

# After this many timers without a scan, a restart may help.
MISSED_TIMERS = 5
MIN_PATIENCE = 120.0


class NotPublished(Exception):
    """A single report could not be made or written; the message says why."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Where health and metrics are served."""

    address: str
    certificate: Certificate | None = None


async def look_once(settings: AgentSettings, access: Access | None = None) -> Scan:
    """Scan once; raises `CannotSee`. Without an API server (None) it is unknown which pods are alive."""
    if access is None:
        return await Scanner(settings).scan()
    async with KubeClient(access, connections=2) as client:
        return await _look(client, settings, Troubles())


async def _look(client: KubeClient, settings: AgentSettings, troubles: Troubles) -> Scan:
    own_pods = _own_pods(client, settings, troubles)
    if settings.watch_pods is not False:
        await own_pods.ask_once()
    return await Scanner(settings, known_pods=own_pods.known).scan()


async def print_reports(
    settings: AgentSettings, show: Callable[[Document], None], access: Access | None = None
) -> None:
    """Scan until a signal, and show every report with new content."""
    troubles = Troubles()
    async with AsyncExitStack() as stack:
        wakers = _wakers(settings)
        own_pods = None
        if access is not None:
            client = await stack.enter_async_context(KubeClient(access, connections=2))
            own_pods = _own_pods(client, settings, troubles, wakers)
        agent = Agent(_scanner(settings, own_pods), _Shown(show), troubles, AgentMetrics(troubles))
        await stack.enter_async_context(wakers)
        await run_until_signal(*_looking(agent, wakers, own_pods))


class _Shown:
    """Shows reports instead of publishing them."""

    def __init__(self, show: Callable[[Document], None]) -> None:
        self._show = show
        self._last: bytes | None = None

    def doubt(self) -> None:
        """Show the next report even if it is unchanged."""
        self._last = None

    def offer(self, document: Document) -> None:
        """Show a report with new content."""
        content = substance(document)
        if content != self._last:
            self._last = content
            self._show(document)


async def publish_once(access: Access, settings: AgentSettings) -> Scan:
    """Scan and write once; raises `CannotSee` or `NotPublished`."""
    troubles = Troubles()
    async with KubeClient(access, connections=2) as client:
        scan = await _look(client, settings, troubles)
        publisher = Publisher(client, settings.node, troubles)
        publisher.offer(scan.document)
        if not await publisher.write():
            raise NotPublished("; ".join(trouble.message for trouble in troubles.current.values()))
    return scan


async def run_agent(access: Access, settings: AgentSettings, health: HealthSettings) -> None:
    """Scan and publish until a signal."""
    troubles = Troubles()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(access, connections=2))
        metrics = AgentMetrics(troubles)
        publisher = Publisher(client, settings.node, troubles, heartbeat=settings.heartbeat, on_written=metrics.written)
        wakers = _wakers(settings)
        own_pods = _own_pods(client, settings, troubles, wakers) if settings.watch_pods is not False else None
        agent = Agent(_scanner(settings, own_pods), publisher, troubles, metrics)
        port = await stack.enter_async_context(
            serve_health(
                health.address,
                live={"looking": lambda: _stuck(agent, settings)},
                ready={"report": lambda: _not_ready(publisher, troubles, settings)},
                metrics=metrics.text,
                certificate=health.certificate,
            )
        )
        await stack.enter_async_context(wakers)
        logger.info("agent started", extra={"node": settings.node, "server": access.server, "health_port": port})
        work = [*_looking(agent, wakers, own_pods), publisher.run()]
        if settings.timer:
            work.append(publisher.watch_over(settings.timer))
        await run_until_signal(*work)


# -- parts -----------------------------------------------------------------------------------------------------------


def _wakers(settings: AgentSettings) -> Wakers:
    return Wakers(settings.state_folder, socket=settings.socket, interval=settings.timer)


def _scanner(settings: AgentSettings, own_pods: OwnPods | None) -> Scanner:
    return Scanner(settings) if own_pods is None else Scanner(settings, known_pods=own_pods.known)


def _own_pods(client: KubeClient, settings: AgentSettings, troubles: Troubles, wakers: Wakers | None = None) -> OwnPods:
    def on_change() -> None:
        if wakers is not None:
            wakers.wake(POD)

    return OwnPods(client, settings.node, troubles, on_change, required=bool(settings.watch_pods))


def _looking(agent: Agent, wakers: Wakers, own_pods: OwnPods | None) -> list[Coroutine[Any, Any, None]]:
    """The tasks that scan the node. The first scan waits for the API server's first answer about pods."""
    if own_pods is None:
        return [agent.run(wakers)]

    async def look() -> None:
        await own_pods.first_answer()
        await agent.run(wakers)

    return [look(), own_pods.run()]


def _stuck(agent: Agent, settings: AgentSettings) -> str | None:
    if agent.looked_at is None or not settings.timer:
        return None
    silent = time.monotonic() - agent.looked_at
    patience = max(MISSED_TIMERS * settings.timer, MIN_PATIENCE)
    return f"the last scan was {silent:.0f} s ago" if silent > patience else None


def _not_ready(publisher: Publisher, troubles: Troubles, settings: AgentSettings) -> str | None:
    """Ready once the API server has this node's report, while nothing prevents the next one."""
    hinders = [each.message for kind, each in troubles.current.items() if kind != PODS or settings.watch_pods]
    if hinders:
        return "; ".join(hinders)
    return None if publisher.written is not None else "no report has been written yet"
