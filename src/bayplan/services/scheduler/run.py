"""Start a scheduler and stop it gracefully: connection, lease, health, signals.

    follow the cluster -> hold the lease -> decide and bind -> (a signal) finish binds, flush, release the lease

A scheduler that loses its lease exits with an error at once; its supervisor restarts it as a standby.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, TextIO

from bayplan.config.configuration import Configuration
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.late_room import End
from bayplan.dispatch.sub_queues import UnitState
from bayplan.grouping.group import GroupingSettings, asks_for_group, awaits_look
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.lease import unique_identity
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.health import Certificate, serve_health
from bayplan.services.edges.leader import HoldsLease, LeaseKeeper, lease_keeper, run_while_leading
from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.edges.metrics_access import MetricsGuard
from bayplan.services.edges.process import LoopMonitor, run_until_signal, tune_gc
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.grouper import PodGrouper
from bayplan.services.pod_grouper.reporting import GrouperMetrics
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.capacity_metrics import GangShapes, keep_measuring
from bayplan.services.scheduler.cluster_metrics import refresh_cluster_metrics, why_unreadable
from bayplan.services.scheduler.grouping import EmbeddedGrouperResults, GroupedElsewhere
from bayplan.services.scheduler.intake import Intake
from bayplan.services.scheduler.nominating import NominationWriter
from bayplan.services.scheduler.refusals import keep_counting
from bayplan.services.scheduler.service import SchedulerService, steady_clock
from bayplan.services.scheduler.tracing import DecisionTrace

logger = logging.getLogger(__name__)

SHUTDOWN_PATIENCE = 10.0
# Seconds until the side thread yields to the event loop.
SWITCH_INTERVAL = 0.0005
# Imported before the loop starts: by `np.unique` in the first decision it would block the loop for 60 ms, by the first
# exact search for 50 ms.
IMPORTED_AT_FIRST_USE = ("numpy.ma", "highspy")
QUEUES = {
    "active": UnitState.ACTIVE,
    "backoff": UnitState.BACKOFF,
    "unschedulable": UnitState.PARKED,
    "gated": UnitState.GATED,
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line."""

    health_address: str
    certificate: Certificate | None = None
    gangs_complete_in: float = 60.0
    keep_room_for: float = 300.0
    events_per_second: float = 50.0
    # None: another component groups pods, and owned pods wait for it unless `place_ungrouped`.
    grouping: GroupingSettings | None = None
    place_ungrouped: bool = False
    authenticates_metrics: bool = False
    # Where decisions are traced, if at all.
    trace: TextIO | None = None
    # Shapes of pods whose largest gangs become metrics, by their descriptions.
    gang_shapes: Mapping[str, Pod] = field(default_factory=dict)


def run_scheduler(access: Access, configuration: Configuration, options: Options) -> None:
    """Run until a signal; raises `LeadershipLost` if the lease is lost."""
    for name in IMPORTED_AT_FIRST_USE:
        with suppress(ImportError):  # highspy is optional
            import_module(name)
    loop = LoopMonitor()
    sys.setswitchinterval(SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=loop.new_loop) as runner:
        runner.run(_run(access, configuration, options, loop))


async def _run(access: Access, configuration: Configuration, options: Options, loop: LoopMonitor) -> None:
    tune_gc()
    settings = configuration.services
    cache = None if options.grouping is None else GrouperCache(options.grouping, configuration.profiles)
    expects_elsewhere = asks_for_group if options.place_ungrouped else awaits_look
    dispatcher = Dispatcher(
        configuration.profiles,
        initial_backoff=settings.initial_backoff,
        max_backoff=settings.max_backoff,
        completes_in=options.gangs_complete_in,
        keeps_room_for=options.keep_room_for,
        expects_group=expects_elsewhere if cache is None else cache.expects_group,
        why_gang_waits=(lambda _: "") if cache is None else cache.wanted.why_gang_waits,
        stopwatch=time.perf_counter,
    )
    identity = unique_identity()
    metrics = SchedulerMetrics()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(access, qps=settings.client.qps, burst=settings.client.burst, connections=64)
        )
        keeper = await stack.enter_async_context(lease_keeper(access))
        events = await stack.enter_async_context(
            EventRecorder(client, instance=identity, rate=options.events_per_second)
        )
        conditions = await stack.enter_async_context(ConditionWriter(client))
        gangs = await stack.enter_async_context(GangStatusWriter(client))
        nominees = await stack.enter_async_context(NominationWriter(client))
        clock, intake = steady_clock(), Intake(dispatcher)
        announcer = Announcer(
            dispatcher,
            events,
            conditions,
            gangs,
            where_asked=(lambda *_: "") if cache is None else cache.wanted.where_asked,
            unlike_template=intake.workloads.unlike_template,
        )
        elsewhere = GroupedElsewhere(configuration.profiles, expects_elsewhere, announcer, clock)
        side_thread = SideThread()
        service = SchedulerService(
            client,
            dispatcher,
            intake,
            announcer,
            nominees,
            metrics=metrics,
            clock=clock,
            side_thread=side_thread,
            listener=elsewhere.take_in_steps if cache is None else cache.take_in_steps,
            trace=None if options.trace is None else DecisionTrace(dispatcher, options.trace),
        )
        metrics.expose_requests(client.counts)
        metrics.expose_outbox("events", events.outbox)
        metrics.expose_outbox("conditions", conditions.outbox)
        metrics.expose_outbox("gang_statuses", gangs.outbox)
        metrics.expose_outbox("nominations", nominees.outbox)
        metrics.expose_in_vain(lambda: dispatcher.preempting.in_vain)
        metrics.expose_ends_of_room(lambda: {how.value: dispatcher.late.ends[how] for how in End})
        metrics.expose_costs(dispatcher.queue.tenants.spent)
        metrics.before_scrape.append(lambda: _refresh_metrics(metrics, service))
        metrics.before_scrape.append(lambda: metrics.longest_turn.set(loop.longest(time.monotonic())))
        metrics.before_scrape.append(lambda: metrics.longest_turn_cpu.set(loop.longest_cpu(time.monotonic())))
        port = await stack.enter_async_context(
            serve_health(
                options.health_address,
                live={
                    "turns": service.why_stuck,
                    "watches": lambda: service.watcher.health.why_restart(service.now),
                },
                ready={
                    "lists": lambda: _not_listed(service),
                    "watches-work": lambda: service.watcher.health.why_not_ready(service.now),
                    "api-versions": lambda: why_unreadable(service.watcher),
                },
                metrics=metrics.text,
                certificate=options.certificate,
                guard=MetricsGuard(client) if options.authenticates_metrics else None,
            )
        )
        logger.info("serving health", extra={"port": port, "server": access.server})
        grouper = None
        if cache is not None:
            results = EmbeddedGrouperResults(service)
            grouper = PodGrouper(
                client, cache, events=events, metrics=GrouperMetrics(metrics.registry), results=results
            )
        first_profile = next(iter(configuration.profiles.values()))
        shapes = GangShapes(dispatcher.state, dispatcher.trees, first_profile, options.gang_shapes)
        measures = (
            partial(keep_measuring, dispatcher.state, dispatcher.trees, shapes, metrics.capacity, side_thread),
            partial(keep_counting, client, configuration.profiles.keys(), metrics.refusals),
        )
        await _follow_and_lead(service, grouper, measures, configuration, keeper, identity, metrics)


async def _follow_and_lead(
    service: SchedulerService,
    grouper: PodGrouper | None,
    measures: Iterable[Callable[[], Coroutine[Any, Any, None]]],
    configuration: Configuration,
    keeper: LeaseKeeper,
    identity: str,
    metrics: SchedulerMetrics,
) -> None:
    election = configuration.services.leader_election

    def on_change(*, leads: bool) -> None:
        metrics.leading.labels(election.name).set(leads)
        if not leads:
            service.step_down()

    async def lead(holds_lease: HoldsLease) -> None:
        async with asyncio.TaskGroup() as work:
            work.create_task(service.lead(holds_lease))
            for measure in measures:
                work.create_task(measure())
            if grouper is not None:
                work.create_task(grouper.work(holds_lease))

    metrics.leading.labels(election.name).set(False)
    await run_until_signal(
        service.follow(),
        run_while_leading(
            keeper,
            election,
            identity,
            lead,
            on_change=on_change,
            finish=lambda: service.finish(SHUTDOWN_PATIENCE),
            why_stuck=service.why_stuck,
        ),
    )


def _not_listed(service: SchedulerService) -> str | None:
    waiting = list(service.watcher.intake.not_listed_yet())
    return f"waiting for {', '.join(waiting)}" if waiting else None


def _refresh_metrics(metrics: SchedulerMetrics, service: SchedulerService) -> None:
    """Set metrics that are computed on each scrape."""
    dispatcher = service.dispatcher
    state = dispatcher.state
    counts = dispatcher.queue.counts()
    for queue, unit_state in QUEUES.items():
        metrics.pending.labels(queue).set(counts[unit_state])
    metrics.kept_room.set(dispatcher.late.members)
    metrics.namespaces_in_debt.set(dispatcher.queue.tenants.number_in_debt(service.now))
    refresh_cluster_metrics(metrics.cluster, state, service.watcher, service.now)
    # Waiting pods are validated when they are decided.
    waiting = sum(dispatcher.queue.get(unit) is not None for unit in service.invalid_pods)
    metrics.cluster.broken_objects.labels(str(PODS)).inc(waiting)
