"""Start an agent and stop it: connection, health, signals; the parts themselves are told about in `agent.py`.

`run_agent` looks and publishes until SIGTERM or SIGINT. `publish_once` is `--oneshot`: one look, one write, and an error if either fails;
`look_once` and `print_reports` are the same for people who want to see a report. These need no API server, but are told by it which pods live if there
is one: the report is the one that would be published.
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

# After this many timers without a look, the loop counts as dead, and a restart would fix it.
MISSED_TIMERS = 5
LEAST_PATIENCE = 120.0


class NotPublished(Exception):
    """A single report could not be made or written; the message says why."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Where health and metrics are served."""

    address: str
    certificate: Certificate | None = None


async def look_once(settings: AgentSettings, access: Access | None = None) -> Scan:
    """One look; raises `CannotSee`. Without an API server (None) it is unknown which pods are alive."""
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
    """Look until a signal comes and show every report that says something new."""
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
    troubles = Troubles()
    async with KubeClient(access, connections=2) as client:
        scan = await _look(client, settings, troubles)
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
        logger.info("at work", extra={"node": settings.node, "server": access.server, "health_port": port})
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
    """The long-running tasks that look at the node. The first look waits for the first answer about pods, so that it is as good as the next one."""
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
    patience = max(MISSED_TIMERS * settings.timer, LEAST_PATIENCE)
    return f"the node was last looked at {silent:.0f} s ago" if silent > patience else None


def _not_ready(publisher: Publisher, troubles: Troubles, settings: AgentSettings) -> str | None:
    """Ready: the API server has this node's report, and nothing keeps the next one from being made as it was asked for."""
    hinders = [each.message for kind, each in troubles.current.items() if kind != PODS or settings.watch_pods]
    if hinders:
        return "; ".join(hinders)
    return None if publisher.written is not None else "no report has been written yet"
