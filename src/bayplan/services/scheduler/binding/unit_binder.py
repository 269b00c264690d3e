"""Bind the pods of one unit: in come `Bind` actions, out go binds, events, metrics and the dispatcher's outcome."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial

from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Assignment, Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.gang_units import LARGE_GANG
from bayplan.dispatch.sub_queues import QueuedUnit
from bayplan.kube.client.client import KubeClient
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.binding.annotations import annotations_of
from bayplan.services.scheduler.binding.binder import Binder, BindResult, Ending, NodeTurn, UnitBinds
from bayplan.services.scheduler.binding.volume_binder import VolumeBinder

logger = logging.getLogger(__name__)

# Concurrent binds per namespace. More would only wait for the API server, ahead of every later decision.
MAX_IN_FLIGHT = 256
# Binds started, and outcomes reported, in one iteration of the loop.
BINDS_PER_ITERATION = 32


class UnitBinder:
    """Binds whole units; `may_write` says whether this replica still leads."""

    def __init__(
        self,
        client: KubeClient,
        dispatcher: Dispatcher,
        announcer: Announcer,
        *,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
        side_thread: SideThread,
        may_write: Callable[[], bool],
        on_rest: Callable[[], None],
    ) -> None:
        self.in_flight: Counter[str] = Counter()  # pods by namespace
        self._dispatcher = dispatcher
        self._announcer = announcer
        self._metrics = metrics
        self._clock = clock
        self._side_thread = side_thread
        self._may_write = may_write
        self._binder = Binder(client, still_wanted=self._still_wanted, on_rest=on_rest)
        self._volumes = VolumeBinder(
            client, dispatcher, clock=clock, side_thread=side_thread, still_wanted=self._still_wanted
        )
        self._on_rest = on_rest

    def namespaces_at_limit(self) -> set[str]:
        """Namespaces with the maximum of binds in flight; binds that wait for a retry do not count."""
        resting = self._binder.resting
        return {name for name, count in self.in_flight.items() if count - resting[name] >= MAX_IN_FLIGHT}

    def bind(self, action: Bind, began: float) -> Coroutine[None, None, None]:
        """Reserve the unit's turns on its nodes now, and return the coroutine that binds it."""
        self.in_flight[namespace_of(action.assignments[0].pod)] += len(action.assignments)
        # A unit that waits for volumes takes its turns later: binds to its nodes need not wait for a provisioner.
        waits = any(each.decision.volumes for each in action.assignments)
        turns = [] if waits else [self._binder.turn_on(each.node) for each in action.assignments]
        # Read the queue now: watch events remove the unit while its binds are in flight.
        return self._bind(action, began, self._dispatcher.queue.get(action.unit), turns)

    async def _bind(self, action: Bind, began: float, queued: QueuedUnit | None, turns: list[NodeTurn]) -> None:
        attempts, first_seen = (queued.attempts, queued.first_seen) if queued is not None else (1, self._clock())
        together = self._together(action)
        try:
            results = await (self._bind_all(action, together, turns) if turns else self._bind_later(action, together))
        finally:
            self.in_flight[namespace_of(action.assignments[0].pod)] -= len(action.assignments)
            self.in_flight += Counter()  # drops namespaces without binds
        await self._side_thread.idle()
        outcomes = list(zip(action.assignments, results, strict=True))
        failed = [(assignment, result) for assignment, result in outcomes if result.ending is not Ending.BOUND]
        await self._report(action, [assignment for assignment, _ in failed])
        seconds = time.perf_counter() - began
        for position, (assignment, result) in enumerate(outcomes, start=1):
            if position % BINDS_PER_ITERATION == 0:
                await asyncio.sleep(0)
            bound = result.ending is Ending.BOUND
            profile = assignment.pod.spec.scheduler_name or ""
            self._metrics.attempts.pod("scheduled" if bound else "error", profile, seconds)
            if bound:
                self._metrics.attempts.pod_bound(attempts, self._clock() - first_seen)
        for position, (assignment, result) in enumerate(failed, start=1):
            if position % BINDS_PER_ITERATION == 0:
                await asyncio.sleep(0)
            if result.ending is Ending.GONE:
                continue
            if result.ending is not Ending.BUG:
                logger.warning("bind failed", extra={"pod": pod_key(assignment.pod), "problem": result.message})
            if not together.ended.is_set():  # else `on_end` has reported it on all pods
                self._announcer.events.failed_scheduling(assignment.pod, f"binding failed: {result.message}")

    async def _report(self, action: Bind, failed: list[Assignment]) -> None:
        """Tell the dispatcher. Giving back ten thousand places takes 0.15 s: too long for the event loop."""
        now = self._clock()
        dispatcher = self._dispatcher
        tell = partial(dispatcher.not_bound, action, failed, now) if failed else partial(dispatcher.bound, action, now)
        if len(action.assignments) > LARGE_GANG:
            await self._side_thread.run(tell)
        else:
            tell()

    async def _bind_later(self, action: Bind, together: UnitBinds) -> list[BindResult]:
        """Bind the claims of a unit, then its pods."""
        problem = await self._bind_volumes(action)
        if problem:
            together.end(action.assignments[0].pod, problem)
            return [BindResult(Ending.REFUSED, problem)] * len(action.assignments)
        return await self._bind_all(action, together, [self._binder.turn_on(each.node) for each in action.assignments])

    async def _bind_volumes(self, action: Bind) -> str:
        """Bind the claims of a unit; returns what went wrong. Meanwhile its pods do not count as binds in flight."""
        tenant = namespace_of(action.assignments[0].pod)
        self._binder.resting[tenant] += len(action.assignments)
        self._on_rest()
        try:
            return await self._volumes.bind(action)
        except Exception as error:
            logger.exception("binding volumes failed on an internal error", extra={"unit": str(action.unit)})
            return f"internal error: {type(error).__name__}: {error} (please report)"
        finally:
            self._binder.resting[tenant] -= len(action.assignments)
            self._binder.resting += Counter()  # drops namespaces without any

    async def _bind_all(self, action: Bind, together: UnitBinds, turns: list[NodeTurn]) -> list[BindResult]:
        binds: list[asyncio.Task[BindResult]] = []
        async with asyncio.TaskGroup() as tasks:
            for assignment, turn in zip(action.assignments, turns, strict=True):
                if binds and len(binds) % BINDS_PER_ITERATION == 0:
                    await asyncio.sleep(0)
                    # Each bind waits for the side thread: those of ten thousand pods would all go on in one iteration.
                    await self._side_thread.idle()
                binds.append(tasks.create_task(self._bind_one(assignment, together, turn)))
        return [bind.result() for bind in binds]

    def _together(self, action: Bind) -> UnitBinds:
        """The binds of a unit. Events report the first refusal and the final one as they happen."""

        def on_refusal(pod: Pod, message: str) -> None:
            logger.warning("bind failed, retrying", extra={"pod": pod_key(pod), "problem": message})
            self._announcer.events.failed_scheduling(pod, f"binding failed, retrying: {message}")

        def on_end(refused: Pod, message: str) -> None:
            others = (each.pod for each in action.assignments if each.pod is not refused)
            pods = (refused, *(pod for pod in others if pod.metadata.uid not in together.bound))
            which = f"of pod {refused.metadata.name} " if len(action.assignments) > 1 else ""
            self._announcer.not_bound(Unschedulable(action.unit, pods, f"binding {which}failed: {message}"))

        together = UnitBinds(patient=len(action.assignments) > 1, on_refusal=on_refusal, on_end=on_end)
        return together

    async def _bind_one(self, assignment: Assignment, together: UnitBinds, turn: NodeTurn) -> BindResult:
        began = time.perf_counter()
        pod = assignment.pod
        logger.debug("binding pod", extra={"pod": pod_key(pod), "node": assignment.node})
        try:
            await self._side_thread.idle()
            annotations = annotations_of(assignment, self._dispatcher.state)
            result = await self._binder.bind(pod, assignment.node, annotations, together, turn)
        except Exception as error:
            # The unit needs an outcome, or its room would stay taken. If the bind succeeded, the watch shows it.
            logger.exception("bind failed on an internal error", extra={"pod": pod_key(pod)})
            result = BindResult(Ending.BUG, f"internal error: {type(error).__name__}: {error} (please report)")
            self._binder.end_turn(turn)
            together.end(pod, result.message)
        self._metrics.binds.bind(result.ending.value, time.perf_counter() - began)
        logger.debug("bind ended", extra={"pod": pod_key(pod), "node": assignment.node, "result": result.ending.value})
        if result.ending is Ending.BOUND:
            self._announcer.events.scheduled(assignment.pod, assignment.node, assignment.decision.remark)
        return result

    def _still_wanted(self, pod: Pod, node: str) -> bool:
        return self._may_write() and self._dispatcher.pods.is_assumed(pod, node)
