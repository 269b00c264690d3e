"""The pod grouper at work: for each pod that waits, find its owners, judge, write.

    pod -> owners (`owners.py`) -> which gang? (`grouping/`) -> PodGroup, labels on the pod (`writer.py`)

The group is written before its pods are labelled, so a grouper that is stopped in between leaves only a group that its successor can use as it is. A
problem with an owner is reported once, as an event on it, and its pods wait. OwnerFetcher of gangs that still wait are rechecked now and then, because they
change (a Job is scaled, an annotation fixed), and unused groups that the grouper made are deleted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Protocol

from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import AnyPodGroup, key_of
from bayplan.grouping.annotations import SEGMENTS
from bayplan.grouping.group import ALONE, GROUPED, group_for
from bayplan.grouping.grouping import Grouping, InvalidValue, Question
from bayplan.grouping.raw import RawObject, Reference, metadata_of
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.pod_grouper.cache import GrouperCache, waits
from bayplan.services.pod_grouper.contents import is_managed, made_for
from bayplan.services.pod_grouper.discovery import Discovery
from bayplan.services.pod_grouper.looks import Looks
from bayplan.services.pod_grouper.metrics import GrouperMetrics
from bayplan.services.pod_grouper.owners import Chain, OwnerFetcher, Unreadable
from bayplan.services.pod_grouper.writer import PodGroupWriter

logger = logging.getLogger(__name__)

AT_ONCE = 16
# Seconds: how old an owner may be for a pod that is new; how often owners of those that wait are looked at again, and how many at once.
OWNERS_STAY_FRESH = 2.0
LOOK_AGAIN = 10.0
MOST_LOOKED_AT_AGAIN = 200
# A group that no pod names is deleted when its owner is gone, or after this many seconds: its pods may be between two attempts.
UNUSED_AT_LEAST = 5.0
UNUSED_AT_MOST = 600.0
MOST_REMEMBERED = 10_000
# Pods often come a moment before their owner can be read.
TOLD_AFTER_FAILURES = 4
MOST_QUESTIONS = 20
SHORTEST_REST = 0.01
LONGEST_REST = 1.0


class Hears(Protocol):
    """Who is told what came of a look; the scheduler, where the grouper is embedded in it."""

    def stands_alone(self, pod: Pod) -> None:
        """The pod is in no gang and may be placed by itself."""

    def is_held(self, pod: Pod, why: str) -> None:
        """The pod waits until the problem is fixed."""

    def gang_is_free(self, gang: str) -> None:
        """The grouper holds a gang back no longer."""


class NobodyHears:
    """A grouper by itself: what it says is in labels, annotations, events and conditions."""

    def stands_alone(self, pod: Pod) -> None:
        """The pod is marked so."""

    def is_held(self, pod: Pod, why: str) -> None:
        """The owner has its event."""

    def gang_is_free(self, gang: str) -> None:
        """It holds no pod back."""


class PodGrouper:
    """Works off what the cache say; `clock` is seconds since 1970.

    With `marks_alone`, pods that are in no gang are marked so, for schedulers that hear of it in no other way.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: GrouperCache,
        *,
        events: EventRecorder,
        metrics: GrouperMetrics,
        hears: Hears | None = None,
        marks_alone: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.cache = cache
        self._events = events
        self._metrics = metrics
        self._hears: Hears = hears or NobodyHears()
        self._marks_alone = marks_alone
        self._clock = clock
        self._owners = OwnerFetcher(client, Discovery(client, clock), clock)
        self._writer = PodGroupWriter(client, cache, wall_clock)
        self._looks = Looks()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        # Pods that changed while they were being looked at.
        self._once_more: set[str] = set()
        self._news = asyncio.Event()
        self._told: dict[tuple[str, str], None] = {}
        self._unused_since: dict[str, float] = {}
        # Gangs that their owners asked for once, and ask for no more.
        self._not_asked_for: set[str] = set()
        # For fields of each gang's PodGroup and their values: which annotation asks for them.
        self._asked_in: dict[str, Mapping[tuple[str, str], str]] = {}
        self._rounds = 0
        self._holds_lease: Callable[[], bool] = lambda: True
        cache.on_news = self._news.set

    async def work(self, holds_lease: Callable[[], bool] = lambda: True) -> None:
        """Look at pods until cancelled; only while the lease is held."""
        self._holds_lease = holds_lease
        next_round = self._clock() + LOOK_AGAIN
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._news.clear()
                now = self._clock()
                if self.cache.ready and holds_lease():
                    self._take_news(tasks, now)
                    if now >= next_round:
                        next_round = now + LOOK_AGAIN
                        self._look_round(tasks, now)
                    self._begin_looks(tasks, now)
                await self._rest(next_round)

    def _take_news(self, tasks: asyncio.TaskGroup, now: float) -> None:
        for gang in self.cache.disturbed():
            if gang in self.cache.groups:
                tasks.create_task(self._safely(self._writer.mend(gang), gang))
            else:
                # Whether it is needed depends on its owner, which may be gone too: pods that still wait ask for it.
                self._writer.forget(gang)
                self._asked_in.pop(gang, None)
                for pod in self.cache.members(gang):
                    self.cache.judge_again(pod_key(pod))
        for pod in self.cache.to_look_at():
            self._looks.put(pod_key(pod), now)
        self._metrics.groups(self.cache.made())

    def _begin_looks(self, tasks: asyncio.TaskGroup, now: float) -> None:
        while len(self._under_way) < AT_ONCE and (key := self._looks.pop(now)) is not None:
            if key in self._under_way:
                self._once_more.add(key)
            else:
                self._under_way[key] = tasks.create_task(self._look_safely(key))
        self._metrics.waiting(len(self._looks))

    async def _rest(self, next_round: float) -> None:
        """Until there is news, a look has ended, or one is due."""
        due = self._looks.next_time() if len(self._under_way) < AT_ONCE else None
        moments = [moment for moment in (due, next_round) if moment is not None]
        # Before everything is listed, and without the lease, nothing is due.
        works = self.cache.ready and self._holds_lease()
        rest = min(max(min(moments) - self._clock(), SHORTEST_REST), LONGEST_REST) if works else LONGEST_REST
        with suppress(TimeoutError):
            async with asyncio.timeout(rest):
                await self._news.wait()

    # -- one look -------------------------------------------------------------------------------------------------

    async def _look_safely(self, key: str) -> None:
        try:
            await self._look(key)
        except (ApiError, Unreachable) as error:
            self._trouble(key, str(error))
        except Exception as error:
            # A bug of ours that one pod brings to light must not stop the grouper for all others.
            logger.exception("cannot judge a pod", extra={"pod": key})
            self._trouble(key, f"internal error: {type(error).__name__}: {error} (please report)")
        finally:
            del self._under_way[key]
            self._free_gang(key)
            if key in self._once_more:
                self._once_more.remove(key)
                self._looks.put(key, self._clock())
            self._news.set()

    def _free_gang(self, key: str) -> None:
        """A gang whose group was there before this instance waits for the first look at one of its pods."""
        pod = self.cache.pods.get(key)
        gang = "" if pod is None else self.cache.gang_of(pod)
        if gang and self.cache.was_looked_at(gang):
            self._hears.gang_is_free(gang)

    async def _look(self, key: str) -> None:
        pod = self.cache.pods.get(key)
        if pod is None or not waits(pod):
            self._looks.drop(key)
            return
        chain = await self._owners.chain(pod, no_older_than=OWNERS_STAY_FRESH)
        if chain.missing is not None:
            self._trouble(key, f"its owner {chain.missing} does not exist; either it comes, or the pod is about to go")
            return
        self._tell_unreadable(pod, chain)
        outcome = await self._judge(pod, chain)
        self._tell(outcome.problems)
        if outcome.held:
            await self._hold(pod, outcome)
        elif outcome.manifest is None and not chain.unreadable and self._is_of_owner(pod, chain):
            await self._withdraw(pod)
        elif outcome.manifest is None:
            await self._leave_alone(pod)
        else:
            await self._group(pod, outcome, outcome.manifest)
        self._looks.done(key)

    async def _judge(self, pod: Pod, chain: Chain) -> Grouping:
        answers: dict[Question, list[RawObject]] = {}
        for _ in range(MOST_QUESTIONS):
            outcome = group_for(pod, chain.owners, self.cache.settings, answers, self.cache.workloads)
            if isinstance(outcome, Grouping):
                return outcome
            answers[outcome] = await self._owners.answer(outcome)
        raise RuntimeError(f"more than {MOST_QUESTIONS} questions about one pod")

    async def _group(self, pod: Pod, outcome: Grouping, manifest: RawObject) -> None:
        if not self._holds_lease():
            return
        changed = await self._writer.ensure(manifest)
        gang = self._writer.key_of(manifest)
        self._asked_in[gang] = outcome.asked_in
        self._unused_since.pop(gang, None)
        self._not_asked_for.discard(gang)
        if self._holds_lease():
            await self._writer.label(pod, outcome.labels, outcome.annotations)
        if changed:
            # Waiting members may have another place in the gang now.
            for member in self.cache.members(gang):
                if member.metadata.uid != pod.metadata.uid:
                    self.cache.judge_again(pod_key(member))
        written = self.cache.groups.get(gang)
        if isinstance(written, PodGroup) and is_managed(written) and self._holds_lease():
            await self._writer.note(written, made_for(manifest), holds=True)
        self._metrics.looked("grouped")

    async def _leave_alone(self, pod: Pod) -> None:
        """Mark a pod as being in no gang, so that schedulers need not wait for anything."""
        if self._marks_alone:
            if not self._holds_lease():
                return
            await self._writer.label(pod, {}, {GROUPED: ALONE})
        self._metrics.looked("alone")
        self.cache.stands_alone(pod)
        self._hears.stands_alone(pod)

    def _is_of_owner(self, pod: Pod, chain: Chain) -> bool:
        """Whether a pod names a group that the grouper made for one of its owners."""
        written = self.cache.groups.get(self.cache.gang_of(pod))
        if not isinstance(written, PodGroup) or not is_managed(written):
            return False
        uids = {metadata_of(owner).get("uid") for owner in chain.owners}
        return any(each.uid in uids for each in written.metadata.owner_references or ())

    async def _withdraw(self, pod: Pod) -> None:
        """Take a waiting pod out of a gang that is no longer asked for; its members are then judged as any other pod."""
        if not self._holds_lease():
            return
        gang = self.cache.gang_of(pod)
        others = self.cache.members(gang)
        self._not_asked_for.add(gang)
        await self._writer.unlabel(pod)
        for member in others:
            if member.metadata.uid != pod.metadata.uid:
                self.cache.judge_again(pod_key(member))
        self._metrics.looked("alone")

    async def _hold(self, pod: Pod, outcome: Grouping) -> None:
        """What is wrong was said; the pod waits, and a group that exists says that it is no longer what its owner means."""
        why = "; ".join(str(problem) for problem in outcome.problems if problem.holds)
        self._metrics.looked("held")
        self._hears.is_held(pod, f"the pod grouper cannot tell its gang: {why}")
        self._looks.put(pod_key(pod), self._clock() + LOOK_AGAIN)
        if outcome.owner is not None and self._holds_lease():
            for written in self.cache.groups_owned_by(outcome.owner.uid):
                await self._writer.note(written, why, holds=False)

    def _trouble(self, key: str, why: str) -> None:
        """Time may heal it; the pod hears of it if it lasts."""
        self._metrics.looked("trouble")
        failures = self._looks.after_trouble(key, self._clock())
        logger.debug("a pod cannot be grouped yet", extra={"pod": key, "problem": why})
        pod = self.cache.pods.get(key)
        if pod is not None and failures >= TOLD_AFTER_FAILURES:
            self._hears.is_held(pod, f"the pod grouper cannot tell its gang yet: {why}")

    def where_asked(self, written: AnyPodGroup, field: str, value: str) -> str:
        """The annotation that a field of a PodGroup has its value from, as it is said on the owner; an empty text if it is not known."""
        asked_in = self._asked_in.get(key_of(written), {})
        # Segments that are not equal are groups, which require the level of the segments.
        return asked_in.get((field, value)) or asked_in.get((SEGMENTS, value), "")

    # -- saying ---------------------------------------------------------------------------------------------------

    def _tell(self, problems: tuple[InvalidValue, ...]) -> None:
        """Each problem once, on the object that it is about."""
        for problem in problems:
            self._tell_once(problem.about, problem.reason, str(problem))

    def _tell_unreadable(self, pod: Pod, chain: Chain) -> None:
        if chain.unreadable:
            about = Reference("v1", "Pod", pod.metadata.namespace or "default", pod.metadata.name, pod.metadata.uid)
            nearest = Reference.of(chain.owners[-1]) if chain.owners else about
            text = f"owners above {nearest} are left out of account: {chain.unreadable}"
            self._tell_once(nearest, "OwnerUnreadable", text)

    def _tell_once(self, about: Reference, reason: str, text: str) -> None:
        key = (about.uid, text)
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > MOST_REMEMBERED:
            self._told.pop(next(iter(self._told)))
        subject = Subject(about.api_version, about.kind, about.namespace, about.name, about.uid)
        self._events.record(subject, "Warning", reason, "Grouping", text)
        logger.warning("said about an owner", extra={"object": str(about), "problem": text})

    # -- now and then ---------------------------------------------------------------------------------------------

    def _look_round(self, tasks: asyncio.TaskGroup, now: float) -> None:
        """Owners of those that wait may have changed; groups may have lost their last pod."""
        waiting = list(self.cache.gangs_that_wait())
        # Where there are very many, each has its turn in one of the next rounds.
        first = self._rounds * MOST_LOOKED_AT_AGAIN % max(len(waiting), 1)
        self._rounds += 1
        for pod in (waiting + waiting)[first : first + min(MOST_LOOKED_AT_AGAIN, len(waiting))]:
            self._looks.put(pod_key(pod), now)
        self._not_asked_for.intersection_update(self.cache.groups)
        unused = dict(self.cache.made_and_unused())
        self._unused_since = {key: self._unused_since.get(key, now) for key in unused}
        for key, written in unused.items():
            if now - self._unused_since[key] >= UNUSED_AT_LEAST:
                tasks.create_task(self._safely(self._clean_up(key, written, now), key))

    async def _clean_up(self, key: str, written: AnyPodGroup, now: float) -> None:
        """Delete a group that no pod names, if its owner is gone, being deleted or no longer asks for it, or if it has been unused for long."""
        owner = next(iter(written.metadata.owner_references or ()), None)
        there = None
        if (
            owner is not None
            and key not in self._not_asked_for
            and now - self._unused_since.get(key, now) < UNUSED_AT_MOST
        ):
            namespace = written.metadata.namespace or "default"
            about = Reference(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
            try:
                there = await self._owners.fetch(about, no_older_than=0.0)
            except Unreadable:
                return
        going = there is None or bool(metadata_of(there).get("deletionTimestamp"))
        if going and not self.cache.members(key) and self._holds_lease():
            logger.info("deleting a PodGroup that nobody needs", extra={"gang": key})
            await self._writer.delete(key, written)
            self._not_asked_for.discard(key)

    async def _safely(self, work: Coroutine[None, None, None], about: str) -> None:
        """A write that the next round makes good if it fails."""
        try:
            await work
        except (ApiError, Unreachable) as error:
            logger.warning("a write about a gang failed", extra={"gang": about, "problem": str(error)})
        except Exception:
            logger.exception("a write about a gang failed", extra={"gang": about})
