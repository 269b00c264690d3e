"""Start an extender and stop it gracefully: connection, server, health, signals.

    follow the cluster -> serve kube-scheduler -> (a signal) answer requests in progress, finish binds

Replicas need no lease: each follows the cluster, and the API server accepts a bind once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from bayplan.config.configuration import Configuration
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.services.edges.health import serve_health
from bayplan.services.edges.process import freeze_gc, run_until_signal, tune_gc
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.server import serve_extender
from bayplan.services.extender.service import ExtenderService, ExtenderSettings
from bayplan.services.extender.tls import ServingFiles, ServingTls, Token, reload_on_change
from bayplan.services.scheduler.cluster_metrics import refresh_cluster_metrics, why_unreadable
from bayplan.services.scheduler.service import steady_clock

logger = logging.getLogger(__name__)

SHUTDOWN_PATIENCE = 10.0
# Seconds until the side thread yields to the event loop.
SWITCH_INTERVAL = 0.0005


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """Options of the command line."""

    address: str
    health_address: str
    files: ServingFiles = field(default_factory=ServingFiles)
    settings: ExtenderSettings = field(default_factory=ExtenderSettings)
    most_bytes: int = 32 << 20


def run_extender(access: Access, configuration: Configuration, options: ExtenderOptions) -> None:
    """Run until a signal; raises `AddressError` if it cannot serve."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    asyncio.run(_run(access, configuration, options))


async def _run(access: Access, configuration: Configuration, options: ExtenderOptions) -> None:
    tune_gc()
    clock, metrics, files = steady_clock(), ExtenderMetrics(), options.files
    tls = ServingTls(files) if files.certificate else None
    token = Token(files.token) if files.token else None
    limits = configuration.services.client
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(access, qps=limits.qps, burst=limits.burst, connections=64))
        service = ExtenderService(
            client,
            dict(configuration.profiles),
            options.settings,
            metrics=metrics,
            clock=clock,
            side_thread=SideThread(),
        )
        stack.push_async_callback(service.binder.finish, SHUTDOWN_PATIENCE)
        health_port = await stack.enter_async_context(
            serve_health(
                options.health_address,
                live={"watches": lambda: service.watcher.health.why_restart(clock())},
                ready={
                    "lists": service.why_not_ready,
                    "watches-work": lambda: service.watcher.health.why_not_ready(clock()),
                    "api-versions": lambda: why_unreadable(service.watcher),
                },
                metrics=lambda: _metrics_text(metrics, service),
            )
        )
        port = await stack.enter_async_context(
            serve_extender(options.address, service, metrics, most_bytes=options.most_bytes, tls=tls, token=token)
        )
        logger.info("serving extender", extra={"port": port, "health_port": health_port, "server": access.server})
        await run_until_signal(service.follow(), _freeze_when_listed(service), *_reloads(files, tls, token))


def _reloads(files: ServingFiles, tls: ServingTls | None, token: Token | None) -> list[Coroutine[Any, Any, None]]:
    found: list[Coroutine[Any, Any, None]] = []
    if tls is not None:
        names = [name for name in (files.certificate, files.key, files.client_ca) if name is not None]
        found.append(reload_on_change(names, tls.reload))
    if token is not None and files.token is not None:
        found.append(reload_on_change([files.token], token.reload, what="token"))
    return found


async def _freeze_when_listed(service: ExtenderService) -> None:
    """Exclude the first lists from garbage collection, which would block requests for 100 ms at a time."""
    await service.listed.wait()
    freeze_gc()
    logger.info("ready", extra={"nodes": len(service.cluster.state.rows), "pods": len(service.cluster.state.pods)})
    await asyncio.Event().wait()


def _metrics_text(metrics: ExtenderMetrics, service: ExtenderService) -> bytes:
    refresh_cluster_metrics(metrics.cluster, service.cluster.state, service.watcher, service.clock())
    return metrics.text()
