"""Start an agent and stop it: connection, health, signals; the parts themselves are told about in `agent.py`.

`run_agent` looks and publishes until SIGTERM or SIGINT. `publish_once` is `--oneshot`: one look, one write, and an error if either fails;
`look_once` and `print_reports` are the same for people who want to see a report and have no API server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bayplan.kube.access import Access
from bayplan.kube.client import KubeClient
from bayplan.services.agent.agent import Agent
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.own_pods import OwnPods
from bayplan.services.agent.publisher import Publisher
from bayplan.services.agent.report import Document, substance
from bayplan.services.agent.scanner import Scan, Scanner
from bayplan.services.agent.settings import AgentSettings
from bayplan.services.agent.troubles import Troubles
from bayplan.services.agent.wakers import POD, Wakers
from bayplan.services.edges.health import Certificate, serve_health
from bayplan.services.edges.signals import until_a_signal

logger = logging.getLogger(__name__)

# After so many timers without a look the loop is taken for dead, and a restart would heal it.
MISSED_TIMERS = 5
LEAST_PATIENCE = 120.0


class NotPublished(Exception):
    """A single report could not be made or written; the message says why."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Where health and metrics are served."""

    address: str
    certificate: Certificate | None = None


async def look_once(settings: AgentSettings) -> Scan:
    """One look, without an API server; raises `CannotSee`."""
    return await Scanner(settings).scan()


async def print_reports(settings: AgentSettings, show: Callable[[Document], None]) -> None:
    """Look until a signal comes and show every report that says something new."""
    troubles = Troubles()
    shown = _Shown(show)
    agent = Agent(Scanner(settings), shown, troubles, AgentMetrics(troubles))
    async with Wakers(settings.state_folder, socket=settings.socket, interval=settings.timer) as wakers:
        await until_a_signal(agent.run(wakers))


class _Shown:
    """Takes reports in place of a publisher."""

    def __init__(self, show: Callable[[Document], None]) -> None:
        self._show = show
        self._last: bytes | None = None

    def doubt(self) -> None:
        """Show the next one even if it is not new."""
        self._last = None

    def offer(self, document: Document) -> None:
        """Show it if it is new."""
        says = substance(document)
        if says != self._last:
            self._last = says
            self._show(document)


async def publish_once(access: Access, settings: AgentSettings) -> Scan:
    """One look and one write; raises `CannotSee` or `NotPublished`."""
    scan = await look_once(settings)
    troubles = Troubles()
    async with KubeClient(access, connections=2) as client:
        publisher = Publisher(client, settings.node, troubles)
        publisher.offer(scan.document)
        if not await publisher.write():
            raise NotPublished("; ".join(trouble.message for trouble in troubles.current.values()))
    return scan


async def run_agent(access: Access, settings: AgentSettings, health: HealthSettings) -> None:
    """Look and publish until a signal comes."""
    troubles = Troubles()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(access, connections=2))
        metrics = AgentMetrics(troubles)
        publisher = Publisher(client, settings.node, troubles, heartbeat=settings.heartbeat, on_written=metrics.written)
        wakers = Wakers(settings.state_folder, socket=settings.socket, interval=settings.timer)
        own_pods = OwnPods(
            client, settings.node, troubles, lambda: wakers.wake(POD), required=bool(settings.watch_pods)
        )
        agent = Agent(Scanner(settings, known_pods=own_pods.known), publisher, troubles, metrics)
        port = await stack.enter_async_context(
            serve_health(
                health.address,
                live={"looking": lambda: _stuck(agent, settings)},
                ready={"report": lambda: _not_ready(publisher, troubles)},
                metrics=metrics.text,
                certificate=health.certificate,
            )
        )
        await stack.enter_async_context(wakers)
        logger.info("at work", extra={"node": settings.node, "server": access.server, "health_port": port})
        work = [agent.run(wakers), publisher.run()]
        if settings.timer:
            work.append(publisher.watch_over(settings.timer))
        if settings.watch_pods is not False:
            work.append(own_pods.run())
        await until_a_signal(*work)


def _stuck(agent: Agent, settings: AgentSettings) -> str | None:
    if agent.looked_at is None or not settings.timer:
        return None
    silent = time.monotonic() - agent.looked_at
    patience = max(MISSED_TIMERS * settings.timer, LEAST_PATIENCE)
    return f"the node was last looked at {silent:.0f} s ago" if silent > patience else None


def _not_ready(publisher: Publisher, troubles: Troubles) -> str | None:
    """Ready: the API server has this node's report, and nothing keeps the next one from being made."""
    if troubles.current:
        return "; ".join(trouble.message for trouble in troubles.current.values())
    return None if publisher.written is not None else "no report has been written yet"
