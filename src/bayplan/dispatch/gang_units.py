"""Gangs as units of the queue: which gangs changed, which are due, which are complete.

Events *touch* a gang. `queue_touched` queues touched gangs before the next decision, so that a thousand arriving pods
make one unit. `decide` is in `gang_decision.py`. A complete gang is reported until its PodGroup shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from bayplan.cluster.pods.terms import namespace_of
from bayplan.dialects.members import Incomplete, has_started
from bayplan.dialects.own import pod_group as own
from bayplan.dialects.own.members import members_left
from bayplan.dialects.registry import AnyPodGroup, dialect_of, dialect_of_gang, key_of, try_out
from bayplan.dispatch.actions import Action, Complete, Release
from bayplan.dispatch.core import Core
from bayplan.dispatch.gang_decision import GangDecider, split_of
from bayplan.dispatch.late_members import LateMembers
from bayplan.dispatch.partially_bound import PartiallyBound
from bayplan.dispatch.units import GangUnit
from bayplan.extensions import BrokenExtension
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod

# Larger gangs are not queued after every event, but after a pause that grows with their size.
LARGE_GANG = 256
REST_PER_POD = 50e-6
# Members of a gang that has started are tried before other units of their priority, unless those are this many seconds
# older: the gang holds its place while they wait, and no unit waits forever.
HEAD_START = 600.0


class GangUnits:
    """The gangs of one dispatcher. `why_gang_waits` says why a gang is held back by its PodGroup, or nothing."""

    def __init__(self, core: Core, completes_in: float, why_gang_waits: Callable[[AnyPodGroup], str]) -> None:
        self._core = core
        self._progress = PartiallyBound(completes_in)
        self.late_members = LateMembers(core, self._progress)
        self._decider = GangDecider(core, self._progress, self.late_members, why_gang_waits)
        # Gangs that changed since they were queued last, and when.
        self._touched: dict[str, float] = {}
        self._all_touched = False
        # When large gangs can be queued again.
        self._rest_until: dict[str, float] = {}
        # Gangs with nothing to decide whose pods may have changed.
        self._to_count: dict[str, None] = {}
        # Members that arrive late are as old as their gang, so they go before younger units.
        self._first_queued: dict[str, float] = {}
        # Gangs that ended before their completion was reported.
        self._ended_unreported: dict[str, None] = {}

    # -- events ---------------------------------------------------------------------------------------------------

    def touch(self, name: str, now: float) -> None:
        """A gang or one of its pods changed."""
        self._touched.setdefault(name, now)

    def touch_all(self) -> None:
        """A Topology or HyperNode changed, which can affect every gang. Changes in quick succession are batched."""
        self._all_touched = True

    def set_group(self, written: AnyPodGroup, now: float) -> None:
        """A PodGroup was created or changed."""
        key = key_of(written)
        try_out(written)
        known = self._core.roster.groups.get(key)
        affected = self._core.roster.set_group(written)
        if key in affected and dialect_of(written).was_complete(written):
            self._progress.recorded(key, written.metadata.uid, own.complete_since(written))
        if known is None or not _asks_for_the_same(known, written):
            for name in affected:
                self.touch(name, now)

    def remove_group(self, name: str, now: float, unreadable: str = "") -> None:
        """A PodGroup was deleted, or is `unreadable` for this reason."""
        affected = self._core.roster.remove_group(name, unreadable)
        self._progress.group_removed(name)
        for each in affected:
            self.touch(each, now)

    # -- into the queue -------------------------------------------------------------------------------------------

    def queue_touched(self, now: float) -> None:
        """Queue the gangs that changed since the last decision."""
        if self._all_touched:
            self._all_touched = False
            for name in self._core.roster.names():
                self.touch(name, now)
        for name in [each for each in self._touched if self._take_if_due(each, now)]:
            # Removed first: a gang that triggers a bug must not trigger it again at every decision.
            self._queue_one(name, self._touched.pop(name), now)

    def _queue_one(self, name: str, since: float, now: float) -> None:
        roster, queue = self._core.roster, self._core.queue
        waiting, running = roster.waiting(name), roster.running(name)
        self.late_members.review(name, waiting, running, now)
        if not waiting and not running:
            if self._progress.is_complete(name) and self._decider.note_complete(name, now):
                self._ended_unreported[name] = None
            self._progress.forget(name)
            self._first_queued.pop(name, None)
            self._rest_until.pop(name, None)
            self._unqueue(name)
            self._to_count[name] = None
            return
        if not waiting and self._is_of_another_scheduler(name, running):
            self._unqueue(name)
            return
        is_recorded = not waiting and self._progress.is_recorded(name, roster.group_uid(name))
        if is_recorded:
            self._to_count[name] = None
        if is_recorded and not self.late_members.may_keep_again(name, running, now):
            self._unqueue(name)
        else:
            priority = max(pod.spec.priority or 0 for pod in waiting or running)
            head_start = HEAD_START if has_started(running, was_complete=True) else 0.0
            created = self._first_queued.setdefault(name, since) - head_start
            tenant = namespace_of((*waiting, *running)[0])
            queue.put(GangUnit(name), priority=priority, created=created, now=now, pods=len(waiting), tenant=tenant)

    def _unqueue(self, name: str) -> None:
        self._core.queue.remove(GangUnit(name))
        self._core.preempting.unit_gone(GangUnit(name))

    def _take_if_due(self, name: str, now: float) -> bool:
        """True if a touched gang can be queued now; a large one then pauses again."""
        if self._progress.is_releasing(name):
            return False
        size = self._core.roster.size(name)
        if size > LARGE_GANG:
            if now < self._rest_until.get(name, now):
                return False
            self._rest_until[name] = now + size * REST_PER_POD
        return True

    def _is_of_another_scheduler(self, name: str, running: Iterable[Pod]) -> bool:
        """True if another system's scheduler placed its own gang. That scheduler writes the status, too."""
        ours = any(pod.spec.scheduler_name in self._core.profiles for pod in running)
        return not ours and dialect_of_gang(name) is not own.DIALECT

    def next_time(self) -> float | None:
        """When the pause of the next touched large gang ends."""
        return min((self._rest_until[name] for name in self._touched if name in self._rest_until), default=None)

    # -- decision and outcome -------------------------------------------------------------------------------------

    def decide(self, unit: GangUnit, now: float) -> Action | None:
        """Decide about a gang that was popped from the queue; None if there is nothing to do."""
        action = self._decider.decide(unit, now)
        if isinstance(action, Complete):
            # Other members may still wait.
            self.touch(action.gang, now)
        return action

    def next_completion(self, now: float) -> Complete | None:
        """A complete gang to report, possibly again: the last write may have failed, and a new leader reads it."""
        name = next(iter(self._ended_unreported), None)
        if name is not None:
            del self._ended_unreported[name]
            return Complete(name)
        name = self._progress.to_report_again(now)
        return None if name is None else Complete(name)

    def bound(self, name: str, now: float) -> None:
        """Every bind of a gang succeeded: it is complete, even if some pods have ended."""
        self._progress.all_bound(name)
        self.touch(name, now)

    def released(self, action: Release, deleted: Collection[Pod], now: float, *, refused: bool) -> None:
        """A Release has ended: these pods were deleted; `refused` if deleting the others was forbidden."""
        self._progress.released(action.gang, deleted, now, refused=refused)
        self.touch(action.gang, now)

    # -- status ---------------------------------------------------------------------------------------------------

    def to_count(self) -> Iterator[str]:
        """Gangs without waiting pods whose pods changed, each once."""
        while self._to_count:
            name = next(iter(self._to_count))
            del self._to_count[name]
            yield name

    def why_incomplete(self, name: str) -> str:
        """Why a gang without waiting members is not complete: missing pods, or split over domains; empty if it is."""
        try:
            gang = self._core.roster.gang(name)
        except (InvalidObject, BrokenExtension) as error:
            return str(error)
        if isinstance(gang, Incomplete):
            return "" if self._progress.is_complete(name) else gang.reason
        return split_of(self._core, gang)

    def members_left(self, name: str) -> str:
        """`2 of 4` if a gang of bayplan's own has lost members that it needs; otherwise empty."""
        written = self._core.roster.groups.get(name)
        return members_left(written, self._core.roster.running(name)) if isinstance(written, PodGroup) else ""


def _asks_for_the_same(known: AnyPodGroup, written: AnyPodGroup) -> bool:
    """True if only the status changed, which bayplan itself writes."""
    before, after = known.metadata, written.metadata
    return known.spec == written.spec and (before.uid, before.annotations) == (after.uid, after.annotations)
