"""The pod grouper: for each waiting pod, find its owners, decide on its gang, write it.

    pod -> owners (`owners.py`) -> which gang? (`grouping/`) -> PodGroup, labels on the pod (`writer.py`)

The group is written before its pods are labelled, so an interrupted grouper leaves only a group that its successor can
use. Each problem with an owner is one event, and its pods wait. Owners of gangs that wait or lack members are examined
again now and then, because they change: a Job is scaled, an annotation is fixed.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import AnyPodGroup
from bayplan.grouping.group import ALONE, GROUPED, group_for
from bayplan.grouping.grouping import Grouping, Lookup
from bayplan.grouping.raw import RawObject, Reference, metadata_of
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.process import SLICE
from bayplan.services.pod_grouper.cache import GrouperCache, is_waiting, own_groups_of
from bayplan.services.pod_grouper.contents import is_managed, made_for
from bayplan.services.pod_grouper.owners import Chain, Discovery, OwnerFetcher
from bayplan.services.pod_grouper.reporting import GrouperMetrics, OwnerEvents
from bayplan.services.pod_grouper.unused import UnusedGroups
from bayplan.services.pod_grouper.writer import PodGroupWriter

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 16
# Seconds: the maximum age of an owner for a new pod, and the period of rounds over unsettled gangs.
OWNERS_STAY_FRESH = 2.0
ROUND_PERIOD = 10.0
MAX_PER_ROUND = 200
# Pods often arrive a moment before their owner can be read, so the first failures are not reported.
REPORTED_AFTER_FAILURES = 4
MAX_QUESTIONS = 20
MIN_REST = 0.01
MAX_REST = 1.0
FIRST_BACKOFF = 0.2
MAX_BACKOFF = 30.0


class GroupingResults(Protocol):
    """Receives results; the scheduler, if the grouper is embedded in it."""

    def ungrouped(self, pod: Pod) -> None:
        """The pod is in no gang and may be placed by itself."""

    def is_held(self, pod: Pod, why: str) -> None:
        """The pod waits until the problem is fixed."""

    def gang_is_free(self, gang: str) -> None:
        """The grouper no longer holds the gang back."""


class NoResults:
    """For a grouper of its own: labels, annotations, events and conditions carry its results."""

    def ungrouped(self, pod: Pod) -> None:
        """Marked on the pod."""

    def is_held(self, pod: Pod, why: str) -> None:
        """Reported on the owner."""

    def gang_is_free(self, gang: str) -> None:
        """Not needed: the grouper holds no pod back."""


class ExamineQueue:
    """Pods by the time at which they are examined next; reads no clock."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._when)

    def put(self, key: str, when: float) -> None:
        """Examine a pod then, or at its present time if that is sooner."""
        if key not in self._when or when < self._when[key]:
            self._when[key] = when
            heapq.heappush(self._order, (when, key))

    def put_back(self, key: str, now: float) -> int:
        """Retry a pod with exponential backoff; returns the number of failures in a row."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.put(key, now + min(FIRST_BACKOFF * 2 ** min(failures - 1, 20), MAX_BACKOFF))
        return failures

    def done(self, key: str) -> None:
        """Forget past failures."""
        self._failures.pop(key, None)

    def drop(self, key: str) -> None:
        """Forget a pod."""
        self._when.pop(key, None)
        self._failures.pop(key, None)

    def pop(self, now: float) -> str | None:
        """Remove and return a due pod, or None."""
        while self._order and self._order[0][0] <= now:
            when, key = heapq.heappop(self._order)
            if self._when.get(key) == when:
                del self._when[key]
                return key
        return None

    def next_time(self) -> float | None:
        """When the next pod is due, or None."""
        while self._order and self._when.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else None


class PodGrouper:
    """Examines the pods of the cache. `marks_alone` also marks pods in no gang, for schedulers in other processes."""

    def __init__(
        self,
        client: KubeClient,
        cache: GrouperCache,
        *,
        events: EventRecorder,
        metrics: GrouperMetrics,
        results: GroupingResults | None = None,
        marks_alone: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.cache = cache
        self._events = OwnerEvents(events)
        self._metrics = metrics
        self._results: GroupingResults = results or NoResults()
        self._marks_alone = marks_alone
        self._clock = clock
        self._owners = OwnerFetcher(client, Discovery(client, clock), clock)
        self._writer = PodGroupWriter(client, cache, wall_clock)
        self._unused = UnusedGroups(cache, self._owners, self._writer)
        self._queue = ExamineQueue()
        self._in_progress: dict[str, asyncio.Task[None]] = {}
        # Pods that changed while they were being examined.
        self._changed_meanwhile: set[str] = set()
        self._news = asyncio.Event()
        self._rounds = 0
        self._holds_lease: Callable[[], bool] = lambda: True
        cache.on_news = self._news.set

    async def work(self, holds_lease: Callable[[], bool] = lambda: True) -> None:
        """Examine pods until cancelled, while the lease is held."""
        self._holds_lease = holds_lease
        next_round = self._clock() + ROUND_PERIOD
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._news.clear()
                now = self._clock()
                if self.cache.ready and holds_lease():
                    if self._take_news(tasks, now):
                        await asyncio.sleep(0)
                        continue
                    if now >= next_round:
                        next_round = now + ROUND_PERIOD
                        self._start_round(tasks, now)
                    self._start_due(tasks, now)
                await self._rest(next_round)

    def _take_news(self, tasks: asyncio.TaskGroup, now: float) -> bool:
        """Queue changed pods and repair changed groups for a moment; True if there is more."""
        end = time.perf_counter() + SLICE
        for gang in self.cache.changed_groups():
            if gang in self.cache.groups:
                tasks.create_task(self._repair(gang))
            else:
                # The owner may be gone too. If not, its waiting pods ask for the group again.
                self.cache.wanted.forget(gang)
                self.cache.examine_again(gang)
            if time.perf_counter() > end:
                return True
        for pod in self.cache.to_examine():
            self._queue.put(pod_key(pod), now)
            if time.perf_counter() > end:
                return True
        self._metrics.groups.set(len(self.cache.managed))
        return False

    def _start_round(self, tasks: asyncio.TaskGroup, now: float) -> None:
        """Examine unsettled gangs again, a part of them if there are very many, and delete unused groups."""
        unsettled = list(self.cache.unsettled_gangs())
        first = self._rounds * MAX_PER_ROUND % max(len(unsettled), 1)
        self._rounds += 1
        for pod in (unsettled + unsettled)[first : first + min(MAX_PER_ROUND, len(unsettled))]:
            self._queue.put(pod_key(pod), now)
        for key, written in self._unused.due(now):
            tasks.create_task(self._delete_unused(key, written, now))

    def _start_due(self, tasks: asyncio.TaskGroup, now: float) -> None:
        while len(self._in_progress) < MAX_CONCURRENT and (key := self._queue.pop(now)) is not None:
            if key in self._in_progress:
                self._changed_meanwhile.add(key)
            else:
                self._in_progress[key] = tasks.create_task(self._examine_safely(key))
        self._metrics.waiting.set(len(self._queue))

    async def _rest(self, next_round: float) -> None:
        """Wait for news, the end of an examination, or the next one that is due."""
        due = self._queue.next_time() if len(self._in_progress) < MAX_CONCURRENT else None
        moments = [moment for moment in (due, next_round) if moment is not None]
        works = self.cache.ready and self._holds_lease()
        rest = min(max(min(moments) - self._clock(), MIN_REST), MAX_REST) if works else MAX_REST
        with suppress(TimeoutError):
            async with asyncio.timeout(rest):
                await self._news.wait()

    async def _repair(self, gang: str) -> None:
        with _logged("failed to repair PodGroup", gang):
            await self._writer.repair(gang)

    async def _delete_unused(self, gang: str, written: AnyPodGroup, now: float) -> None:
        with _logged("failed to delete unused PodGroup", gang):
            if await self._unused.may_delete(gang, written, now) and self._holds_lease():
                await self._unused.delete(gang, written)

    # -- one pod --------------------------------------------------------------------------------------------------

    async def _examine_safely(self, key: str) -> None:
        try:
            await self._examine(key)
        except (ApiError, Unreachable) as error:
            self._retry(key, str(error))
        except Exception as error:
            # A bug triggered by one pod must not stop the grouper for others.
            logger.exception("failed to group pod", extra={"pod": key})
            self._retry(key, f"internal error: {type(error).__name__}: {error} (please report)")
        finally:
            del self._in_progress[key]
            self._free_gang(key)
            if key in self._changed_meanwhile:
                self._changed_meanwhile.remove(key)
                self._queue.put(key, self._clock())
            self._news.set()

    def _free_gang(self, key: str) -> None:
        """A gang with an older group waits until this replica has examined one of its pods."""
        pod = self.cache.pods.get(key)
        gang = "" if pod is None else self.cache.gang_of(pod)
        if gang and self.cache.wanted.examined(gang, exists=gang in self.cache.groups):
            self._results.gang_is_free(gang)

    async def _examine(self, key: str) -> None:
        pod = self.cache.pods.get(key)
        if pod is None or not (is_waiting(pod) or self.cache.membership.is_short(self.cache.gang_of(pod))):
            self._queue.drop(key)
            return
        chain = await self._owners.chain(pod, no_older_than=OWNERS_STAY_FRESH)
        if not is_waiting(pod):
            await self._resize(pod, chain)
            self._queue.done(key)
            return
        if chain.missing is not None:
            self._retry(key, f"its owner {chain.missing} does not exist; create it, or the pod is garbage-collected")
            return
        self._report_unreadable(pod, chain)
        grouping = await self._find_group(pod, chain)
        for problem in grouping.problems:
            self._events.record(problem.about, problem.reason, str(problem))
        if grouping.held:
            await self._hold(pod, grouping)
        elif grouping.manifest is not None:
            await self._group(pod, grouping, grouping.manifest)
        elif not chain.unreadable and self._is_in_group_of_owner(pod, chain):
            await self._ungroup(pod)
        else:
            await self._leave_alone(pod)
        self._queue.done(key)

    async def _find_group(self, pod: Pod, chain: Chain) -> Grouping:
        answers: dict[Lookup, list[RawObject]] = {}
        for _ in range(MAX_QUESTIONS):
            found = group_for(pod, chain.owners, self.cache.settings, answers, self.cache.workloads)
            if isinstance(found, Grouping):
                return found
            answers[found] = await self._owners.answer(found)
        raise RuntimeError(f"more than {MAX_QUESTIONS} questions about one pod")

    async def _group(self, pod: Pod, grouping: Grouping, manifest: RawObject) -> None:
        if not self._holds_lease():
            return
        changed = await self._writer.ensure(manifest)
        gang = self._writer.key_of(manifest)
        self.cache.wanted.asked_in(gang, grouping.asked_in)
        self._unused.asked_for(gang)
        if self._holds_lease():
            await self._writer.label(pod, grouping.labels, grouping.annotations)
        if changed:
            # Waiting members may have another place in the gang now.
            self.cache.examine_again(gang, but=pod.metadata.uid)
        written = self.cache.groups.get(gang)
        if isinstance(written, PodGroup) and is_managed(written) and self._holds_lease():
            await self._writer.note(written, made_for(manifest), holds=True)
        self._metrics.looks.labels("grouped").inc()

    async def _resize(self, pod: Pod, chain: Chain) -> None:
        """Let the PodGroup of a gang that lacks members follow its owner: if that was scaled down, none is to come."""
        if chain.missing is not None or chain.unreadable:
            return
        gang, grouping = self.cache.gang_of(pod), await self._find_group(pod, chain)
        manifest = grouping.manifest
        if grouping.held or manifest is None or self._writer.key_of(manifest) != gang or gang not in self.cache.groups:
            return
        if self._holds_lease():
            await self._writer.ensure(manifest)
            self.cache.wanted.asked_in(gang, grouping.asked_in)

    async def _leave_alone(self, pod: Pod) -> None:
        """Let the pod be placed by itself: it is in no gang."""
        if self._marks_alone:
            if not self._holds_lease():
                return
            await self._writer.label(pod, {}, {GROUPED: ALONE})
        self._metrics.looks.labels("alone").inc()
        self.cache.ungrouped(pod)
        self._results.ungrouped(pod)

    def _is_in_group_of_owner(self, pod: Pod, chain: Chain) -> bool:
        """Whether a pod names a managed group of one of its owners."""
        written = self.cache.groups.get(self.cache.gang_of(pod))
        if not isinstance(written, PodGroup) or not is_managed(written):
            return False
        uids = {metadata_of(owner).get("uid") for owner in chain.owners}
        return any(each.uid in uids for each in written.metadata.owner_references or ())

    async def _ungroup(self, pod: Pod) -> None:
        """Take a waiting pod out of a gang that its owner no longer asks for, and examine the other members."""
        if not self._holds_lease():
            return
        gang = self.cache.gang_of(pod)
        self._unused.not_asked_for(gang)
        await self._writer.unlabel(pod)
        self.cache.examine_again(gang, but=pod.metadata.uid)
        self._metrics.looks.labels("alone").inc()

    async def _hold(self, pod: Pod, grouping: Grouping) -> None:
        """Keep the pod waiting, and record on existing groups that they no longer match their owner."""
        why = "; ".join(str(problem) for problem in grouping.problems if problem.holds)
        self._metrics.looks.labels("held").inc()
        self._results.is_held(pod, f"the pod grouper cannot determine its gang: {why}")
        self._queue.put(pod_key(pod), self._clock() + ROUND_PERIOD)
        if grouping.owner is not None and self._holds_lease():
            for written in own_groups_of(grouping.owner.uid, self.cache.groups.values()):
                await self._writer.note(written, why, holds=False)

    def _retry(self, key: str, why: str) -> None:
        """Examine the pod again later, and report the problem on it if it persists."""
        self._metrics.looks.labels("trouble").inc()
        failures = self._queue.put_back(key, self._clock())
        logger.debug("cannot group pod, retrying", extra={"pod": key, "problem": why})
        pod = self.cache.pods.get(key)
        if pod is not None and is_waiting(pod) and failures >= REPORTED_AFTER_FAILURES:
            self._results.is_held(pod, f"the pod grouper cannot determine its gang yet: {why}")

    def _report_unreadable(self, pod: Pod, chain: Chain) -> None:
        if chain.unreadable:
            about = Reference("v1", "Pod", pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid)
            nearest = Reference.of(chain.owners[-1]) if chain.owners else about
            self._events.record(nearest, "OwnerUnreadable", f"owners above {nearest} are ignored: {chain.unreadable}")


@contextmanager
def _logged(message: str, gang: str) -> Iterator[None]:
    """Log a failed write instead of raising: the next round repeats it."""
    try:
        yield
    except (ApiError, Unreachable) as error:
        logger.warning(message, extra={"gang": gang, "problem": str(error)})
    except Exception:
        logger.exception(message, extra={"gang": gang})
