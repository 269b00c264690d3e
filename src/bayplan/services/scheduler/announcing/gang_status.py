"""The status of PodGroups: how far each gang has come.

`GangProgress` decides what to write, `GangStatusWriter` applies it server-side, so fields of other writers stay.
A failed write is logged and repeated with the gang's next change; scheduling is unaffected.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import msgspec

from bayplan.dialects.progress import NO_MEMBERS, Document, MemberCounts, Phase, Progress, has_ended, says, with_times
from bayplan.dialects.registry import AnyPodGroup, dialect_of, key_of, resource_of
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.gang_units import LARGE_GANG
from bayplan.dispatch.units import GangUnit, Unit
from bayplan.extensions import BrokenExtension
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.conditions import apply_status, timestamp
from bayplan.services.edges.outbox import Outbox, OutboxWriter
from bayplan.services.edges.side_thread import SideThread

logger = logging.getLogger(__name__)

FIELD_MANAGER = "bayplan-scheduler"
MAX_REMEMBERED = 50_000
WAITS_FOR_PODS = "waits for its pods"
# Changes of a complete gang within this many seconds are one write.
COUNT_DELAY = 2.0
# A gang may have thousands of group objects inside its own: at most this many statuses are written per iteration.
INNER_PER_ITERATION = 32


def group_of(dispatcher: Dispatcher, unit: Unit) -> AnyPodGroup | None:
    """The PodGroup of a unit; None for a single pod, or if there is no such object."""
    return dispatcher.roster.groups.get(unit.gang) if isinstance(unit, GangUnit) else None


@dataclass(frozen=True, slots=True)
class _GangState:
    """How far a gang has come: its pods, what it still misses, and how many members are left of those it needs."""

    counts: MemberCounts
    missing: str = ""
    left: str = ""


class GangProgress:
    """Follows gangs of the dispatcher and has their status written."""

    def __init__(self, dispatcher: Dispatcher, writer: GangStatusWriter) -> None:
        self._dispatcher = dispatcher
        self._writer = writer
        # Complete gangs with changed pods, and since when.
        self._to_count: dict[str, float] = {}
        # By gang, group objects inside its own whose status is not written yet.
        self._inner_due: dict[str, Iterator[None]] = {}

    @property
    def next_time(self) -> float | None:
        """When the next write is due; None if none is pending."""
        if self._inner_due:
            return 0.0
        return next((since + COUNT_DELAY for since in self._to_count.values()), None)

    def count(self, gangs: Iterable[str], now: float) -> None:
        """Count the pods of these gangs after a moment."""
        for gang in gangs:
            self._to_count.setdefault(gang, now)

    async def write_next(self, now: float, side_thread: SideThread) -> bool:
        """Write the counts of one gang, or some of the statuses inside one; False if none is due.

        The members of a large gang are read in the thread.
        """
        if self.next_time is None or now < self.next_time:
            return False
        if self._inner_due:
            self._write_some_inner(next(iter(self._inner_due)))
            return True
        gang = next(iter(self._to_count))
        del self._to_count[gang]
        read = partial(self._state_of, gang)
        is_large = self._dispatcher.roster.size(gang) > LARGE_GANG
        self._write_counts(gang, await side_thread.run(read) if is_large else read())
        return True

    def withdraw(self, gang: str) -> None:
        """Drop the statuses inside a gang that are not written yet: they are no longer true."""
        self._inner_due.pop(gang, None)

    def clear(self) -> None:
        """Forget everything pending: another replica leads."""
        self._to_count.clear()
        self._inner_due.clear()

    def _state_of(self, gang: str) -> _GangState:
        counts = self._dispatcher.roster.counts(gang)
        if not counts.members or counts.members != counts.scheduled:
            return _GangState(counts)
        gangs = self._dispatcher.gangs
        missing = gangs.why_incomplete(gang)
        return _GangState(counts, missing, "" if missing else gangs.members_left(gang))

    def _write_counts(self, gang: str, state: _GangState) -> None:
        """Write the counts, unless pods wait: their next refusal does that."""
        group, counts = self._dispatcher.roster.groups.get(gang), state.counts
        if group is None:
            return
        self._write_inner(gang)
        if not counts.members:
            self._writer.no_pods(group)
        elif state.missing:
            self._writer.waits(group, state.missing, counts)
        elif counts.members == counts.scheduled:
            # Ended and deleted pods look alike here. Their owner knows, and replaces those it needs.
            text = f"{state.left} are left, the others ended or were deleted" if state.left else ""
            self._writer.still_complete(group, counts, text)

    def refused(self, group: AnyPodGroup, refusal: Unschedulable, text: str) -> None:
        """Pods of the gang wait, for the reason in `text`."""
        gang = refusal.gang_name
        counts = self._dispatcher.roster.counts(gang)
        self._write_inner(gang, text, invalid=refusal.invalid)
        if refusal.beyond_need:
            number = len(refusal.pods)
            waiting = "1 more waits" if number == 1 else f"{number} more wait"
            self._writer.still_complete(group, counts, f"{waiting}: {text}")
        else:
            self._writer.waits(group, text, counts, invalid=refusal.invalid)

    def complete(self, gang: str) -> AnyPodGroup | None:
        """Every pod that the gang needs has a node. Returns its PodGroup, if there is one."""
        group = self._dispatcher.roster.groups.get(gang)
        if group is not None:
            self._to_count.pop(gang, None)
            self._writer.complete(group, self._dispatcher.roster.counts(gang))
            self._write_inner(gang)
        return group

    def _write_inner(self, gang: str, text: str = "", *, invalid: bool = False) -> None:
        """Write the status of objects inside the gang's own, some now and some in later iterations: whether all their
        pods have nodes; else why not, if known.
        """
        self._inner_due[gang] = self._inner_statuses(gang, text, invalid=invalid)
        self._write_some_inner(gang)

    def _write_some_inner(self, gang: str) -> None:
        written = sum(1 for _ in islice(self._inner_due[gang], INNER_PER_ITERATION))
        if written < INNER_PER_ITERATION:
            del self._inner_due[gang]

    def _inner_statuses(self, gang: str, text: str, *, invalid: bool) -> Iterator[None]:
        """Write one status after another."""
        roster = self._dispatcher.roster
        for key in roster.groups_in(gang)[1:]:
            yield
            group, counts = roster.groups.get(key), roster.counts(key)
            if group is None:
                continue
            if counts.members and counts.members == counts.scheduled:
                self._writer.still_complete(group, counts)
            elif text:
                self._writer.waits(group, text, counts, invalid=invalid)

    def admit(self, groups: Iterable[AnyPodGroup]) -> None:
        """Give a status to groups whose controller creates pods only once a scheduler knows the group."""
        for group in groups:
            self._writer.waits(group, WAITS_FOR_PODS, NO_MEMBERS)


@dataclass(frozen=True, slots=True)
class _Status:
    """A status to write; `was_complete` if the gang has been complete by then."""

    group: AnyPodGroup
    document: Document
    was_complete: bool


class GangStatusWriter(OutboxWriter[_Status]):
    """`async with GangStatusWriter(client) as gangs`, then `gangs.waits(group, message, counts)`."""

    def __init__(self, client: KubeClient, *, rate: float = 50.0, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Outbox(self._send, rate=rate))
        self._client = client
        self._clock = clock
        # The last write for each PodGroup, by uid; the watch shows it later.
        self._written: BoundedDict[str, _Status] = BoundedDict(MAX_REMEMBERED)

    def waits(self, group: AnyPodGroup, message: str, counts: MemberCounts, *, invalid: bool = False) -> None:
        """Pods that a gang needs have no place. A gang that was complete is degraded."""
        phase = Phase.DEGRADED if self._was_complete(group) else Phase.WAITING
        if phase is Phase.DEGRADED and counts.scheduled:
            message = f"{counts.scheduled} of {counts.members} pods have nodes: {message}"
        self._put(group, Progress(phase, message, counts, invalid))

    def complete(self, group: AnyPodGroup, counts: MemberCounts) -> None:
        """All pods that a gang needs now have nodes. Later schedulers read this."""
        self._put(group, Progress(Phase.COMPLETE, _in_words(counts), counts), rewrite=True)

    def still_complete(self, group: AnyPodGroup, counts: MemberCounts, message: str = "") -> None:
        """Pods of a complete gang changed; `message` may add why further pods wait."""
        self._put(group, Progress(Phase.COMPLETE, "; ".join(filter(None, (_in_words(counts), message))), counts))

    def no_pods(self, group: AnyPodGroup) -> None:
        """A gang without pods has ended, perhaps before this replica started, or still waits for them.

        A waiting gang without conditions is left as it is.
        """
        before = self._before(group)
        if self._was_complete(group) or has_ended(before):
            self._put(group, Progress(Phase.ENDED, "no pods are left"))
        elif before.get("conditions"):
            self._put(group, Progress(Phase.WAITING, WAITS_FOR_PODS))

    def _before(self, group: AnyPodGroup) -> Document:
        """The group's status, including a write that is under way."""
        written = self._written.get(group.metadata.uid)
        if written is not None:
            return written.document
        # Dialects of other packages may do without a status.
        status = getattr(group, "status", None)
        return {} if status is None else msgspec.to_builtins(status)

    def _was_complete(self, group: AnyPodGroup) -> bool:
        written = self._written.get(group.metadata.uid)
        return dialect_of(group).was_complete(group) if written is None else written.was_complete

    def _put(self, group: AnyPodGroup, progress: Progress, *, rewrite: bool = False) -> None:
        """Write a status that differs from the last one; `rewrite` also writes an equal one, with new times."""
        dialect, before = dialect_of(group), self._before(group)
        try:
            document = dialect.status_of(replace(progress, api_version=resource_of(group).api_version))
        except BrokenExtension as error:
            logger.exception("failed to make gang status", extra={"gang": key_of(group), "problem": str(error)})
            return
        if not document or (says(before, document, dialect.conditions) and not rewrite):
            return
        dated = with_times(document, {} if rewrite else before, timestamp(self._clock()))
        status = _Status(group, dated, progress.was_complete)
        if self.outbox.put(key_of(group), status):
            self._written[group.metadata.uid] = status

    async def _send(self, status: _Status) -> None:
        resource, metadata = resource_of(status.group), status.group.metadata
        try:
            await apply_status(self._client, resource, metadata, status.document, FIELD_MANAGER)
        except (ApiError, Unreachable) as error:
            self._written.pop(metadata.uid, None)
            gang = key_of(status.group)
            logger.warning("failed to write gang status", extra={"gang": gang, "problem": str(error)})
            raise


def _in_words(counts: MemberCounts) -> str:
    have = "1 pod has a node" if counts.scheduled == 1 else f"{counts.scheduled} pods have nodes"
    return f"{have}, {counts.running} {'runs' if counts.running == 1 else 'run'}"
