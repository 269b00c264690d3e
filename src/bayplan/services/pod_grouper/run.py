"""`bayplan pod-grouper`: a pod grouper in its own process, with its own connection, lease, health and signals.

    follow pods, PodGroups and Workloads -> hold the lease -> examine pods -> (a signal) release the lease

The scheduler embeds a grouper that shares its watches and lease (`services/scheduler/run.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

from prometheus_client import Gauge, generate_latest

from bayplan.config.service_settings import (
    DEFAULT_BURST,
    DEFAULT_LEASE_NAMESPACE,
    DEFAULT_QPS,
    LeaderElectionSettings,
)
from bayplan.grouping.group import GroupingSettings
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.lease import unique_identity
from bayplan.kube.client.watch import follow
from bayplan.kube.resources import KUBERNETES_WORKLOADS, PODS, Resource
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.health import Certificate, serve_health
from bayplan.services.edges.leader import LeaseKeeper, lease_keeper, run_while_leading
from bayplan.services.edges.metrics import leader_gauge, new_registry
from bayplan.services.edges.process import in_slices, run_until_signal
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.grouper import PodGrouper
from bayplan.services.pod_grouper.reporting import GrouperMetrics
from bayplan.services.scheduler.intake import ALIVE

logger = logging.getLogger(__name__)

LEASE = "bayplan-pod-grouper"


@dataclass(frozen=True, slots=True)
class GrouperOptions:
    """Options of the command line."""

    grouping: GroupingSettings
    scheduler_names: Collection[str]
    health_address: str
    certificate: Certificate | None = None
    leader_elect: bool = True
    lease_namespace: str = DEFAULT_LEASE_NAMESPACE


async def run_pod_grouper(access: Access, options: GrouperOptions) -> None:
    """Run until a signal; raises `LeadershipLost` if the lease is lost."""
    identity = unique_identity()
    cache = GrouperCache(options.grouping, options.scheduler_names)
    registry = new_registry()
    leading = leader_gauge(registry)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(access, qps=DEFAULT_QPS, burst=DEFAULT_BURST))
        keeper = await stack.enter_async_context(lease_keeper(access))
        events = await stack.enter_async_context(
            EventRecorder(client, component="bayplan-pod-grouper", instance=identity)
        )
        grouper = PodGrouper(client, cache, events=events, metrics=GrouperMetrics(registry), marks_alone=True)
        port = await stack.enter_async_context(
            serve_health(
                options.health_address,
                live={},
                ready={"lists": lambda: None if cache.ready else "waiting for pods, PodGroups and Workloads"},
                metrics=lambda: generate_latest(registry),
                certificate=options.certificate,
            )
        )
        logger.info("serving health", extra={"port": port, "server": access.server})
        await _follow_and_lead(client, keeper, grouper, options, identity, leading)


async def _follow_and_lead(
    client: KubeClient,
    keeper: LeaseKeeper,
    grouper: PodGrouper,
    options: GrouperOptions,
    identity: str,
    leading: Gauge,
) -> None:
    def on_change(*, leads: bool) -> None:
        leading.labels(LEASE).set(int(leads))

    on_change(leads=False)
    election = LeaderElectionSettings(options.leader_elect, 15.0, 10.0, 2.0, LEASE, options.lease_namespace)
    await run_until_signal(
        *(_follow(client, each, grouper.cache) for each in grouper.cache.followed),
        run_while_leading(keeper, election, identity, grouper.work, on_change=on_change),
    )


async def _follow(client: KubeClient, resource: Resource[Any], cache: GrouperCache) -> None:
    def on_error(text: str) -> None:
        logger.warning("watch failed, retrying", extra={"resource": str(resource), "problem": text})

    news = follow(
        client,
        resource,
        field_selector=ALIVE if resource == PODS else "",
        on_error=on_error,
        forbidden_is_absent=resource == KUBERNETES_WORKLOADS,
    )
    async with aclosing(news):
        async for each in news:
            await in_slices(cache.take_in_steps(resource, each))
