"""`bayplan scheduler`, wired: watches feed the dispatcher, its decisions become binds, events and conditions.

`follow` processes watch events from startup on, so a standby already knows the cluster. `lead` decides and binds while
this replica holds the lease. Decisions run in short slices; longer work (gangs, explanations) runs in a side thread.
Meanwhile binds, health and metrics continue, and watch events are read but not applied.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from bayplan.dispatch.actions import INTERNAL_ERROR, Action, Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.services.edges.health import IterationHealth
from bayplan.services.edges.metrics import AttemptResult, SchedulerMetrics
from bayplan.services.edges.process import freeze_gc, in_slices
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.binding.unit_binder import UnitBinder
from bayplan.services.scheduler.evicting import Evictor
from bayplan.services.scheduler.intake import Intake
from bayplan.services.scheduler.nominating import NominationWriter
from bayplan.services.scheduler.releasing import Released, Releaser
from bayplan.services.scheduler.tracing import DecisionTrace
from bayplan.services.scheduler.watching import ClusterWatcher, Listener

logger = logging.getLogger(__name__)

# Seconds of decisions before other tasks of the loop get their turn, and of explanations before the next decisions.
DECIDING_SLICE = 0.005
EXPLAINING_SLICE = 0.003
# Waking runs in the side thread if it took longer than this the last time.
MAX_WAKING_IN_LOOP = 0.01
MAX_REST = 5.0
# Back off after a repeated bug, to spare the log and the CPU.
PAUSE_AFTER_BUG = 1.0
# Above this number, invalid pods that left the queue are dropped from the set.
MAX_INVALID_PODS = 10_000


def steady_clock(
    wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """Monotonic seconds since the epoch, immune to clock changes."""
    offset = wall() - steady()
    return lambda: steady() + offset


class SchedulerService:
    """One scheduler. `clock` is seconds since the epoch and never goes back; `listener` also gets all watch events.

    It is wide because the parts of the scheduler are wired here and nowhere else.
    """

    def __init__(
        self,
        client: KubeClient,
        dispatcher: Dispatcher,
        intake: Intake,
        announcer: Announcer,
        nominees: NominationWriter,
        *,
        metrics: SchedulerMetrics,
        watching: WatchSettings = WatchSettings(),  # noqa: B008 - immutable
        clock: Callable[[], float] | None = None,
        side_thread: SideThread | None = None,
        listener: Listener = lambda *_: (),
        trace: DecisionTrace | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.announcer = announcer
        self._intake = intake
        self.leading = False
        self.iterations = IterationHealth()
        # Waiting pods with invalid specs; some may have left the queue.
        self.invalid_pods: set[PodUnit] = set()
        self._metrics = metrics
        self._trace = trace
        self._clock = clock or steady_clock()
        self._side_thread = side_thread or SideThread(threaded=False)
        self._news = asyncio.Event()
        self._holds_lease: Callable[[], bool] = lambda: True
        self._tasks: set[asyncio.Task[None]] = set()
        self.watcher = ClusterWatcher(
            client,
            intake,
            metrics=metrics.cluster,
            clock=self._clock,
            side_thread=self._side_thread,
            on_news=self.wake,
            listener=listener,
            settings=watching,
        )
        self._binder = UnitBinder(
            client,
            dispatcher,
            announcer,
            metrics=metrics,
            clock=self._clock,
            side_thread=self._side_thread,
            may_write=self._may_write,
            on_rest=self.wake,
        )
        self._nominees = nominees
        self._releaser = Releaser(client, announcer.events, on_deleted=metrics.binds.released.inc)
        self._evictor = Evictor(
            client,
            dispatcher,
            announcer.events,
            nominees,
            metrics=metrics.preemption,
            clock=self._clock,
            side_thread=self._side_thread,
            may_write=self._may_write,
        )

    @property
    def now(self) -> float:
        """Seconds since the epoch; never goes back."""
        return self._clock()

    def wake(self) -> None:
        """Start the next iteration now."""
        self._news.set()

    def change(self, action: Callable[[float], None]) -> None:
        """Apply a change to the dispatcher once the side thread is idle, and start the next iteration."""
        self._side_thread.when_idle(lambda: action(self.now))
        self.wake()

    async def follow(self) -> None:
        """Process the cluster's watch events until cancelled."""
        await self.watcher.follow()

    async def lead(self, holds_lease: Callable[[], bool] = lambda: True) -> None:
        """Decide and bind until cancelled. Starts from a new list of pods: the last leader may have just bound some."""
        await self.watcher.refresh_pods()
        self._holds_lease = holds_lease
        freeze_gc()
        self.leading = True
        logger.info(
            "leading", extra={"nodes": len(self.dispatcher.state.rows), "waiting": len(self.dispatcher.waiting)}
        )
        resynced = self.now
        self.iterations.succeeded(resynced)
        while True:
            self._news.clear()
            await self._side_thread.idle()
            try:
                if self.now - resynced >= self.dispatcher.reports.resync_period:
                    resynced = self.now
                    self.dispatcher.resync(resynced)
                more = await self._iterate()
                self.iterations.succeeded(self.now)
            except Exception:
                # A restart would most likely meet the same bug, and lose the binds in flight.
                logger.exception("scheduling iteration failed, retrying")
                self.iterations.failed()
                await asyncio.sleep(PAUSE_AFTER_BUG)
                continue
            if more:
                await asyncio.sleep(0)
            else:
                await self._rest()

    async def _iterate(self) -> bool:
        """Decide, explain and report for a moment; True if there is more to decide now."""
        more = await self.decide_for(DECIDING_SLICE)
        self.announcer.room_ended(self.dispatcher.late.take_ended())
        self.announcer.gangs.count(self.dispatcher.gangs.to_count(), self.now)
        await self.announcer.explain_for(EXPLAINING_SLICE, self.now, self._side_thread)
        self.announcer.remarks.report(self._intake.problems, self.dispatcher.state.remarks)
        self.announcer.gangs.admit(self._intake.volcano_queue.due())
        return more

    def why_stuck(self) -> str | None:
        """Why a restart or another leader may help, or None. Safe to call from any thread."""
        return self.iterations.why_stuck(self.now)

    async def finish(self, seconds: float) -> None:
        """After the last decision, let binds in flight finish, so that their outcome is known."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self.step_down()

    def step_down(self) -> None:
        """Send nothing more: another replica may lead."""
        self.leading = False
        self.iterations.stopped()
        self.announcer.withdraw_all()

    async def decide_for(self, seconds: float) -> bool:
        """Decide for a moment; True if there is more to decide now. Does nothing once the lease is lost."""
        if not self._holds_lease():
            return False
        dispatcher = self.dispatcher
        if dispatcher.waker.took > MAX_WAKING_IN_LOOP:
            await self._side_thread.run(partial(dispatcher.wake, self.now))
        else:
            dispatcher.wake(self.now)
        end = time.perf_counter() + seconds
        while True:
            began, now = time.perf_counter(), self.now
            at_limit = self._binder.namespaces_at_limit()
            decide = partial(dispatcher.decide, now, at_limit)
            action = await self._side_thread.run(decide) if dispatcher.next_may_be_long(now, at_limit) else decide()
            self._evictor.withdraw_nominations()
            if action is None:
                return False
            took = time.perf_counter() - began
            self._metrics.attempts.decision_seconds.observe(took)
            undecided = isinstance(action, Unschedulable) and action.undecided
            if isinstance(action, Bind | Unschedulable) and isinstance(action.unit, GangUnit) and not undecided:
                self._metrics.attempts.gang("scheduled" if isinstance(action, Bind) else "unschedulable", took)
            if self._trace is not None:
                self._trace.write(action, now, took)
            await self._carry_out(action, began)
            await self._side_thread.idle()
            if time.perf_counter() > end:
                return True

    async def _carry_out(self, action: Action, began: float) -> None:
        """Start what an action asks for. Per-pod work is done in slices."""
        match action:
            case Bind():
                self._mark_invalid(action.unit, invalid=False)
                self._start(self._binder.bind(action, began))
                self.announcer.placed(action.unit)
                await in_slices(self._withdraw_news(action))
            case Unschedulable():
                if action.traceback:
                    is_ours = action.reason.startswith(INTERNAL_ERROR)
                    logger.error(
                        "decision failed on an internal error" if is_ours else "decision failed in an extension",
                        extra={"unit": str(action.unit), "traceback": action.traceback},
                    )
                self._mark_invalid(action.unit, invalid=action.invalid)
                self.announcer.refused(action, self.now)
                evictions = self._evictor.take(action)
                if evictions is not None:
                    self._start(evictions)
                if not action.undecided:
                    await in_slices(self._count_refused(action, time.perf_counter() - began))
            case Complete():
                self.announcer.complete(action)
            case Release():
                self._start(self._release(action))

    def _withdraw_news(self, action: Bind) -> Iterator[None]:
        """Pods are being bound: their pending events are obsolete."""
        for each in action.assignments:
            self._nominees.withdraw(each.pod)
            self.announcer.pod_placed(each.pod)
            yield

    def _count_refused(self, action: Unschedulable, seconds: float) -> Iterator[None]:
        result: AttemptResult = "error" if action.invalid else "unschedulable"
        for pod in action.pods:
            self._metrics.attempts.pod(result, pod.spec.scheduler_name or "", seconds)
            yield

    def _mark_invalid(self, unit: Unit, *, invalid: bool) -> None:
        if isinstance(unit, GangUnit):
            return
        (self.invalid_pods.add if invalid else self.invalid_pods.discard)(unit)
        if len(self.invalid_pods) > MAX_INVALID_PODS:
            self.invalid_pods = {each for each in self.invalid_pods if self.dispatcher.queue.get(each) is not None}

    async def _rest(self) -> None:
        """Wait for a watch event, the end of a bind or of a backoff, or an explanation that is due."""
        times = (self.dispatcher.next_time(), self.announcer.next_time, 0.0 if self._intake.problems.has_news else None)
        longest = min(MAX_REST, self.dispatcher.reports.resync_period)
        due = min((moment for moment in times if moment is not None), default=self.now + longest)
        # Not `wait_for`: before Python 3.12 it loses a cancellation that arrives together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(due - self.now, 0.001), longest)):
                await self._news.wait()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.wake()
        if not task.cancelled() and task.exception() is not None:
            logger.error("background task failed", exc_info=task.exception())

    def _may_write(self) -> bool:
        return self.leading and self._holds_lease()

    async def _release(self, action: Release) -> None:
        outcome = Released(refused=True)
        try:
            outcome = await self._releaser.release(action, self._may_write)
        finally:
            # Also after a bug: the gang is undecided until then.
            await self._side_thread.idle()
            self.dispatcher.gangs.released(action, outcome.left, self.now, refused=outcome.refused)
