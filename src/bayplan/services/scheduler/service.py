"""`bayplan scheduler`, wired: watches feed the dispatcher, its decisions become binds, events and conditions.

Two things run side by side in one event loop. `follow` processes all watch events from startup on: a standby that is told
to lead already knows the cluster. `lead` decides and binds, for as long as this instance holds the lease. Decisions run in short slices, so
that events and answers are never kept waiting. Work that may exceed a slice (a gang, an explanation) runs in a thread beside the loop
(`services/edges/side_thread.py`); meanwhile binds, health and metrics go on, and watch events are read but not applied. All other requests to the API server
(events, conditions) may wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from bayplan.cluster.pods.pod_class import is_large
from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import GANG, Action, Assignment, Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.unit import Unit
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings, follow
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.health import WatchHealth
from bayplan.services.edges.metrics import AttemptResult, SchedulerMetrics
from bayplan.services.edges.process import freeze_gc
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.annotations import annotations_of
from bayplan.services.scheduler.announcer import Announcer
from bayplan.services.scheduler.binder import Binder, BindResult, Ending, NodeTurn, UnitBinds
from bayplan.services.scheduler.gang_writes import GangStatusWriter
from bayplan.services.scheduler.intake import Entry, Intake, News
from bayplan.services.scheduler.releasing import Released, Releaser

logger = logging.getLogger(__name__)

# How long decisions may run before events and answers get their turn, and explanations of a "no" before the next decisions do.
SLICE = 0.005
EXPLAINING = 0.003
# Pods of one namespace that are being bound at the same time; more would only wait for the API server, and no later decision could go first.
MOST_IN_FLIGHT = 256
# How many binds start in one turn of the loop, and how many outcomes are reported.
BINDS_A_TURN = 32
# Checking which units an event helps runs in the side thread if the last check took longer than this.
LONGEST_LOOK = 0.01
ENDED = object()
LONGEST_REST = 5.0
# Back off after a repeated bug, to spare the log and the CPU.
AFTER_A_BUG = 1.0
# After this long without a successful turn, a restart may help.
MOST_TIME_WITHOUT_A_TURN = 60.0
# Then those that have gone are looked for.
MOST_INVALID_KEPT = 10_000


def steady_clock(
    wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """Monotonic seconds since the epoch, immune to clock changes."""
    offset = wall() - steady()
    return lambda: steady() + offset


class SchedulerService:
    """One scheduler; `clock` is seconds since 1970 and never goes back."""

    def __init__(
        self,
        client: KubeClient,
        dispatcher: Dispatcher,
        *,
        events: EventRecorder,
        conditions: ConditionWriter,
        gangs: GangStatusWriter,
        metrics: SchedulerMetrics,
        watching: WatchSettings = WatchSettings(),  # noqa: B008 - immutable
        clock: Callable[[], float] | None = None,
        aside: SideThread | None = None,
    ) -> None:
        self.client = client
        self.dispatcher = dispatcher
        self.intake = Intake(dispatcher)
        self.watches = WatchHealth()
        self.leading = False
        self.announcer = Announcer(dispatcher, events, conditions, gangs)
        self.announcer.unlike_template = self.intake.workloads.unlike_template
        self._metrics = metrics
        # Another consumer of the same watch events, called before they are applied here.
        self.also_tell: Callable[[Resource[Any], News], None] = lambda *_: None
        self._watching = watching
        self._clock = clock or steady_clock()
        self._something_happened = asyncio.Event()
        self._binder = Binder(client, still_wanted=self._still_wanted, on_rest=self._something_happened.set)
        self._releaser = Releaser(client, events, on_deleted=metrics.binds.released.inc)
        self._listed = asyncio.Event()
        self._followers = asyncio.TaskGroup()
        self._following: dict[Resource[Any], asyncio.Task[None]] = {}
        self._holds_lease: Callable[[], bool] = lambda: True
        self._aside = aside or SideThread(threaded=False)
        # Pods whose binds are under way, by namespace.
        self._in_flight: Counter[str] = Counter()
        # When leading began or the last turn ended well; None while another instance leads.
        self._turned_at: float | None = None
        self._turns_fail = False
        # Pods that wait and say what cannot be; those that have gone since are among them.
        self.invalid_pods: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> float:
        """The time, which never goes back."""
        return self._clock()

    # -- following ------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Process the cluster's watch events until cancelled."""
        async with self._followers:
            for entry in self.intake.entries:
                listed = self._begin_to_follow(entry)
                if entry.required:
                    await listed.wait()

    def _begin_to_follow(self, entry: Entry) -> asyncio.Event:
        """Follow a resource, from a list on; says when that list has been taken over."""
        before = self._following.get(entry.resource)
        if before is not None:
            before.cancel()
        listed = asyncio.Event()
        self._following[entry.resource] = self._followers.create_task(self._follow(entry, listed))
        return listed

    async def _follow(self, entry: Entry, listed: asyncio.Event) -> None:
        name = str(entry.resource)

        def on_trouble(text: str) -> None:
            self.watches.failed(name, self.now)
            self._metrics.cluster.watch_restarts.labels(name).inc()
            logger.warning("watch in trouble", extra={"resource": name, "problem": text})

        news = follow(
            self.client,
            entry.resource,
            field_selector=entry.field_selector,
            settings=self._watching,
            on_trouble=on_trouble,
            on_progress=lambda: self.watches.worked(name, self.now),
            forbidden_is_absent=entry.foreign,
        )
        async with aclosing(news):
            async for each in news:
                try:
                    self.also_tell(entry.resource, each)
                except Exception:
                    logger.exception("somebody else cannot take news over", extra={"resource": name})
                await self._take(entry, each)
                listed.set()
                if self.intake.ready:
                    self._listed.set()
                self._something_happened.set()

    async def _take(self, entry: Entry, news: News) -> None:
        """Take news over in slices: a list may have a hundred thousand objects, and one object may be large."""
        await self._aside.idle()
        end = time.perf_counter() + SLICE
        steps = self.intake.take_in_steps(entry.resource, news, lambda: self.now)
        take = partial(next, steps, ENDED)
        coming = take()
        while coming is not ENDED:
            coming = await self._aside.run(take) if isinstance(coming, Pod) and is_large(coming) else take()
            if time.perf_counter() > end:
                await asyncio.sleep(0)
                await self._aside.idle()
                end = time.perf_counter() + SLICE

    # -- what the pod grouper found out ---------------------------------------------------------------------------

    def stands_alone(self, pod: Pod) -> None:
        """A pod is in no gang: it is placed by itself."""
        self.announcer.withdraw(pod_key(pod))
        self._aside.when_idle(lambda: self.dispatcher.stands_alone(pod_key(pod), self.now))
        self._something_happened.set()

    def is_held(self, pod: Pod, why: str) -> None:
        """A pod waits because its gang cannot be determined."""
        self.announcer.refused(Unschedulable(pod_key(pod), (pod,), why), self.now)
        self._something_happened.set()

    def awaits_grouper(self, pod: Pod, why: str) -> None:
        """A pod waits for a pod grouper elsewhere."""
        self.announcer.not_grouped(Unschedulable(pod_key(pod), (pod,), why), self.now)
        self._something_happened.set()

    def gang_is_free(self, gang: str) -> None:
        """A gang's PodGroup is what its owner means."""
        self._aside.when_idle(lambda: self.dispatcher.gangs.touch(gang, self.now))
        self._something_happened.set()

    def is_free(self, key: str) -> None:
        """A pod waits for that no longer: it is grouped, bound or gone."""
        self.announcer.withdraw(key)

    # -- leading --------------------------------------------------------------------------------------------------

    async def lead(self, holds_lease: Callable[[], bool] = lambda: True) -> None:
        """Decide and bind until cancelled. Begins with a list of pods as they are now: another instance may have bound some a moment ago.

        The list and what follows it are one stream. A list taken beside a watch would be older than some of the news and would undo them.
        """
        await self._listed.wait()
        await self._begin_to_follow(self.intake.entry(PODS)).wait()
        self._holds_lease = holds_lease
        freeze_gc()
        self.leading = True
        logger.info(
            "deciding", extra={"nodes": len(self.dispatcher.state.rows), "waiting": len(self.dispatcher.waiting)}
        )
        self._turned_at = resynced = self.now
        while True:
            self._something_happened.clear()
            await self._aside.idle()
            try:
                if self.now - resynced >= self.dispatcher.reports.resync_period:
                    resynced = self.now
                    self.dispatcher.resync(resynced)
                more = await self._decide_for(SLICE)
                self.announcer.count(self.dispatcher.gangs.to_count(), self.now)
                await self.announcer.explain_for(EXPLAINING, self.now, self._aside)
                self.announcer.tell_problems(self.intake.problems, self.dispatcher.state.problems)
                self.announcer.let_in(self.intake.volcano_queue.due())
                self._turned_at, self._turns_fail = self.now, False
            except Exception:
                # A bug of ours. A restart would most likely meet it again; meanwhile binds that are under way would be lost.
                logger.exception("a turn failed, the next one follows")
                self._turns_fail = True
                await asyncio.sleep(AFTER_A_BUG)
                continue
            if more:
                await asyncio.sleep(0)
            else:
                await self._rest()

    def why_stuck(self) -> str | None:
        """For those who may restart us or lead instead: what is wrong if no turn has ended well for long, else None. May be asked from any thread."""
        since = self._turned_at
        if since is None or self.now - since < MOST_TIME_WITHOUT_A_TURN:
            return None
        why = "every turn fails, see the log" if self._turns_fail else "one decision does not end"
        return f"no decision for {self.now - since:.0f} s: {why}"

    async def finish(self, seconds: float) -> None:
        """After the last decision: let binds in flight finish, so that their outcome is known."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self.step_down()

    def step_down(self) -> None:
        """Another instance may lead from now on: nothing more is sent."""
        self.leading = False
        self._turned_at = None
        self._turns_fail = False
        self.announcer.withdraw_all()

    async def _decide_for(self, seconds: float) -> bool:
        """Decide for a moment; True if there is more to decide right away. One that was frozen and lost its lease decides nothing more."""
        if not self._holds_lease():
            return False
        dispatcher = self.dispatcher
        if dispatcher.waking_takes > LONGEST_LOOK:
            await self._aside.run(partial(dispatcher.wake, self.now))
        else:
            dispatcher.wake(self.now)
        end = time.perf_counter() + seconds
        while True:
            began, now = time.perf_counter(), self.now
            at_limit = self._at_limit()
            decide = partial(dispatcher.decide, now, at_limit)
            action = await self._aside.run(decide) if dispatcher.next_may_be_long(now, at_limit) else decide()
            if action is None:
                return False
            took = time.perf_counter() - began
            self._metrics.attempts.decision_seconds.observe(took)
            undecided = isinstance(action, Unschedulable) and action.undecided
            if isinstance(action, Bind | Unschedulable) and action.unit.startswith(GANG) and not undecided:
                self._metrics.attempts.gang("scheduled" if isinstance(action, Bind) else "unschedulable", took)
            self._carry_out(action, began)
            if time.perf_counter() > end:
                return True

    def _at_limit(self) -> set[str]:
        """The namespaces that have as many binds under way as they may; those that were refused and wait for their next try do not count."""
        resting = self._binder.resting
        return {name for name, count in self._in_flight.items() if count - resting[name] >= MOST_IN_FLIGHT}

    def _carry_out(self, action: Action, began: float) -> None:
        match action:
            case Bind():
                self._note_invalid(action.unit, invalid=False)
                self._in_flight[namespace_of(action.assignments[0].pod)] += len(action.assignments)
                # How long it waited is asked now: news of its pods take it out of the queue while the binds are under way.
                turns = [self._binder.turn_on(each.node) for each in action.assignments]
                self._start(self._bind(action, began, self.dispatcher.queue.get(action.unit), turns))
                self.announcer.placed(action.unit, [each.pod for each in action.assignments])
            case Unschedulable():
                if action.traceback:
                    logger.error(
                        "a unit cannot be decided about", extra={"unit": action.unit, "traceback": action.traceback}
                    )
                self._note_invalid(action.unit, invalid=action.invalid)
                self.announcer.refused(action, self.now)
                result: AttemptResult = "error" if action.invalid else "unschedulable"
                for pod in () if action.undecided else action.pods:
                    self._metrics.attempts.pod(result, pod.spec.scheduler_name or "", time.perf_counter() - began)
            case Complete():
                self.announcer.complete(action)
            case Release():
                self._start(self._release(action))

    def _note_invalid(self, unit: str, *, invalid: bool) -> None:
        if unit.startswith(GANG):
            return
        (self.invalid_pods.add if invalid else self.invalid_pods.discard)(unit)
        if len(self.invalid_pods) > MOST_INVALID_KEPT:
            self.invalid_pods = {each for each in self.invalid_pods if self.dispatcher.queue.get(each) is not None}

    async def _rest(self) -> None:
        """Wait until something happens: a watch event, the end of a bind or of a backoff, an explanation that is due."""
        times = (self.dispatcher.next_time(), self.announcer.next_time)
        longest = min(LONGEST_REST, self.dispatcher.reports.resync_period)
        due = min((moment for moment in times if moment is not None), default=self.now + longest)
        rest = min(max(due - self.now, 0.001), longest)
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with what was waited for.
        with suppress(TimeoutError):
            async with asyncio.timeout(rest):
                await self._something_happened.wait()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._something_happened.set()
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of ours failed", exc_info=task.exception())

    # -- binding --------------------------------------------------------------------------------------------------

    async def _bind(self, action: Bind, began: float, unit: Unit | None, turns: list[NodeTurn]) -> None:
        attempts, first_seen = (unit.attempts, unit.first_seen) if unit is not None else (1, self.now)
        together = self._together(action)
        tenant = namespace_of(action.assignments[0].pod)
        try:
            outcomes = await self._bind_all(action, together, turns)
        finally:
            self._in_flight[tenant] -= len(action.assignments)
            self._in_flight += Counter()  # without those that have nothing under way
        await self._aside.idle()
        failed = {position: outcome for position, outcome in enumerate(outcomes) if outcome.ending is not Ending.BOUND}
        if not failed:
            self.dispatcher.bound(action, self.now)
        else:
            self.dispatcher.not_bound(action, [action.assignments[position] for position in failed], self.now)
        seconds = time.perf_counter() - began
        for position, (assignment, outcome) in enumerate(zip(action.assignments, outcomes, strict=True), start=1):
            if position % BINDS_A_TURN == 0:
                await asyncio.sleep(0)
            bound = outcome.ending is Ending.BOUND
            self._metrics.attempts.pod(
                "scheduled" if bound else "error", assignment.pod.spec.scheduler_name or "", seconds
            )
            if bound:
                self._metrics.attempts.pod_bound(attempts, self.now - first_seen)
        for position, outcome in failed.items():
            pod = action.assignments[position].pod
            if outcome.ending is not Ending.GONE:
                if outcome.ending is not Ending.BUG:
                    logger.warning("not bound", extra={"pod": pod_key(pod), "problem": outcome.message})
                if not together.ended.is_set():  # Else all of them have been told.
                    self.announcer.events.failed_scheduling(pod, f"binding failed: {outcome.message}")

    async def _bind_all(self, action: Bind, together: UnitBinds, turns: list[NodeTurn]) -> list[BindResult]:
        """Begin all binds of a unit, some in each turn of the loop, and wait for their outcomes."""
        binds: list[asyncio.Task[BindResult]] = []
        for assignment, turn in zip(action.assignments, turns, strict=True):
            if binds and len(binds) % BINDS_A_TURN == 0:
                await asyncio.sleep(0)
            binds.append(asyncio.create_task(self._bind_one(assignment, together, turn)))
        return await asyncio.gather(*binds)

    def _together(self, action: Bind) -> UnitBinds:
        """The binds of a unit. Users hear of trouble when it begins and when it ends the attempt, not when the last bind has been answered."""

        def on_refusal(pod: Pod, message: str) -> None:
            logger.warning("bind refused, tried again", extra={"pod": pod_key(pod), "problem": message})
            self.announcer.events.failed_scheduling(pod, f"binding failed and is tried again: {message}")

        def on_end(refused: Pod, message: str) -> None:
            others = (each.pod for each in action.assignments if each.pod is not refused)
            pods = (refused, *(pod for pod in others if pod.metadata.uid not in together.bound))
            whose = f"of pod {refused.metadata.name} " if len(action.assignments) > 1 else ""
            self.announcer.not_bound(Unschedulable(action.unit, pods, f"binding {whose}failed: {message}"))

        together = UnitBinds(patient=len(action.assignments) > 1, on_refusal=on_refusal, on_end=on_end)
        return together

    async def _bind_one(self, assignment: Assignment, together: UnitBinds, turn: NodeTurn) -> BindResult:
        began = time.perf_counter()
        pod = assignment.pod
        logger.debug("decided", extra={"pod": pod_key(pod), "node": assignment.node})
        try:
            await self._aside.idle()
            written = annotations_of(assignment, self.dispatcher.state)
            outcome = await self._binder.bind(pod, assignment.node, written, together, turn)
        except Exception as error:
            # What came of its unit must be told in any case, or its room would stay taken. If it was bound after all, the watch shows it.
            logger.exception("a bug of ours in a bind", extra={"pod": pod_key(pod)})
            outcome = BindResult(Ending.BUG, f"internal error: {type(error).__name__}: {error} (please report)")
            self._binder.end_turn(turn)
            together.end(pod, outcome.message)
        self._metrics.binds.bind(outcome.ending.value, time.perf_counter() - began)
        logger.debug("bind", extra={"pod": pod_key(pod), "node": assignment.node, "outcome": outcome.ending.value})
        if outcome.ending is Ending.BOUND:
            self.announcer.events.scheduled(assignment.pod, assignment.node, assignment.decision.remark)
        return outcome

    def _still_wanted(self, pod: Pod, node: str) -> bool:
        return self._may_write() and self.dispatcher.is_assumed(pod, node)

    def _may_write(self) -> bool:
        return self.leading and self._holds_lease()

    async def _release(self, action: Release) -> None:
        outcome = Released(refused=True)
        try:
            outcome = await self._releaser.release(action, self._may_write)
        finally:
            # Also after a bug of ours: until then, no decision is made about the gang.
            await self._aside.idle()
            self.dispatcher.gangs.released(action, outcome.left, self.now, refused=outcome.refused)
