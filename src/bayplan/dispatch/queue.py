"""The scheduling queue: units by priority and age, with backoff, gates and parking.

    put -> active -> pop -> in flight -> done
             ^                 |-> failed: parked, until `wake`, a change of its own or the flush -> backoff -> active
             |                 |-> retry: backoff -> active
             +-----------------+

The highest priority goes first, then the oldest. A failed unit is in backoff and lets others go first. Parked units
that would get the same answer share a *wait group*. `wake` opens the group: its first unit, the scout, tries for all.
Each popped unit lets the next follow, and the first failure closes the group. So a freed place costs two attempts,
however many units wait for it.

Units of a namespace that used much time lately, or has many binds in flight, let others go first (`tenants.py`).
Nothing here reads a clock: `now` comes in, in seconds, and never goes back. `waking.py` decides which groups to wake.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from bayplan.dispatch.lazy_heap import LazyHeap
from bayplan.dispatch.sub_queues import QueuedUnit, SubQueues, UnitState, WaitGroup
from bayplan.dispatch.units import Unit

# A unit whose attempts take long gets a tenth of the time, so that the others have the rest.
REST_PER_SECOND_OF_WORK = 9.0
# 2**30 seconds are 34 years.
MOST_DOUBLINGS = 30


class SchedulingQueue:
    """All units without a place. Every operation takes a few heap steps, however many units there are."""

    def __init__(
        self, *, initial_backoff: float = 1.0, max_backoff: float = 10.0, flush_after: float = 300.0, now: float = 0.0
    ) -> None:
        if not 0 <= initial_backoff <= max_backoff:
            raise ValueError(f"backoff from {initial_backoff:g} to {max_backoff:g} s: allowed is 0 <= initial <= max")
        if flush_after <= 0:
            raise ValueError(f"flush after {flush_after:g} s: must be more than 0")
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._flush_after = flush_after
        self._now = now
        self._units: dict[Unit, QueuedUnit] = {}
        self._places = SubQueues(self._units)
        self.tenants = self._places.tenants
        self._wait_groups: dict[Hashable, WaitGroup] = {}
        # When each wait group is opened even if nothing woke it.
        self._flushes: LazyHeap[Hashable] = LazyHeap()

    # -- units come and go ----------------------------------------------------------------------------------------

    def put(
        self,
        unit: Unit,
        *,
        priority: int,
        created: float,
        now: float,
        pods: int = 1,
        gated: bool = False,
        tenant: str = "",
    ) -> None:
        """Add a new unit or update a changed one. A parked unit is tried again after its backoff.

        A gated unit is only counted, until it is put without gates. `created` orders units and is never compared with
        `now`.
        """
        self._advance(now)
        queued = self._units.get(unit)
        if queued is None:
            queued = self._units[unit] = QueuedUnit(unit, priority, created, pods, first_seen=now, tenant=tenant)
            self._places.add(queued, UnitState.GATED if gated else UnitState.ACTIVE, now)
            return
        was = self._places.remove(queued)
        queued.priority, queued.created, queued.pods = priority, created, pods
        queued.changed |= was is UnitState.IN_FLIGHT
        if queued.wait_group is not None:
            self._leave_wait_group(queued)
        if gated or was is UnitState.IN_FLIGHT:
            self._places.add(queued, UnitState.GATED if gated else was, now)
        elif was in (UnitState.GATED, UnitState.PARKED):
            # Time behind gates does not count as waiting for a place.
            queued.first_seen = now if was is UnitState.GATED else queued.first_seen
            self._places.activate(queued, now)
        else:
            self._places.add(queued, was, now)

    def remove(self, unit: Unit) -> None:
        """Remove a unit, if present."""
        queued = self._units.pop(unit, None)
        if queued is not None:
            self._places.remove(queued)
            if queued.wait_group is not None:
                self._leave_wait_group(queued)

    def pop(self, now: float, at_limit: Collection[str] = ()) -> Unit | None:
        """The unit to decide about now, which is in flight from here on; None if no unit is due.

        Namespaces that are `at_limit` are skipped. If no unit is active, the first unit in backoff goes early: backoff
        lets others go first, and there are none.
        """
        queued = self.peek(now, at_limit)
        if queued is None:
            return None
        self._places.remove(queued)
        queued.attempts += 1
        queued.changed = False
        self._places.add(queued, UnitState.IN_FLIGHT, now)
        self._leave_wait_group(queued, next_waits=False)
        return queued.unit

    def peek(self, now: float, at_limit: Collection[str] = ()) -> QueuedUnit | None:
        """The unit that `pop` would return."""
        self._advance(now)
        unit = self._places.next_active(at_limit, now)
        if unit is not None:
            return self._units[unit]
        first = self._places.backoff.first()
        queued = None if first is None else self._units[first[1]]
        return None if queued is None or queued.tenant in at_limit else queued

    # -- outcome of an attempt ------------------------------------------------------------------------------------

    def failed(
        self,
        unit: Unit,
        now: float,
        *,
        waits_for: Hashable,
        took: float = 0.0,
        again_at: float | None = None,
        eager: bool = False,
        hit_limit: bool = False,
    ) -> None:
        """Park a unit in flight that found no place, and close its wait group.

        `took` is the duration of the attempt. `again_at` is a time of a certain retry, if earlier than the flush. A
        unit that changed during the attempt is not parked but retried after its backoff. An `eager` unit has no
        backoff. A unit whose search `hit_limit` rests longer each time that this happens to its namespace.
        """
        self._advance(now)
        queued = self._take_in_flight(unit)
        if queued is None:
            return
        queued.failures += 1
        queued.errors = 0
        rest = self.tenants.hit_limit(queued.tenant) if hit_limit else 0.0
        queued.rest_until = now + max(took * REST_PER_SECOND_OF_WORK, rest)
        queued.backoff_until = now if eager else now + self._backoff_after(queued.failures)
        if queued.changed:
            self._places.activate(queued, now)
            return
        wait_group = self._wait_groups.setdefault(waits_for, WaitGroup(waits_for))
        if wait_group.scout is not None:
            # The scout would fail, too.
            scout, wait_group.scout = wait_group.scout, None
            self._places.remove(scout)
            self._places.add(scout, UnitState.PARKED, now)
        queued.wait_group = wait_group
        self._places.add(queued, UnitState.PARKED, now)
        flush = now + self._flush_after
        self._flushes.put(waits_for, (flush if again_at is None else min(flush, again_at),))

    def retry(self, unit: Unit, now: float) -> None:
        """Retry a unit in flight after a backoff: a transient error occurred, such as a failed bind."""
        self._advance(now)
        queued = self._take_in_flight(unit)
        if queued is not None:
            queued.errors += 1
            queued.rest_until = now + self._backoff_after(queued.errors)
            self._places.activate(queued, now)

    def done(self, unit: Unit) -> QueuedUnit | None:
        """Forget a unit in flight that has its place. If it `changed` meanwhile, the owner puts it again."""
        queued = self._units.get(unit)
        if queued is None or queued.state is not UnitState.IN_FLIGHT:
            return None
        self.remove(unit)
        return queued

    def _take_in_flight(self, unit: Unit) -> QueuedUnit | None:
        """A unit that returns from an attempt; None if it was removed meanwhile."""
        queued = self._units.get(unit)
        if queued is None or queued.state is not UnitState.IN_FLIGHT:
            return None
        self._places.remove(queued)
        return queued

    def _backoff_after(self, failures: int) -> float:
        doubled: float = self._initial_backoff * 2 ** min(failures - 1, MOST_DOUBLINGS)
        return min(doubled, self._max_backoff)

    # -- waking ---------------------------------------------------------------------------------------------------

    def wake(self, waits_for: Hashable, now: float) -> None:
        """Open a wait group, because an event can help its units."""
        self._advance(now)
        self._send_scout(self._wait_groups.get(waits_for))

    def is_parked(self, waits_for: Hashable) -> bool:
        """True if units wait for this and have not been woken yet."""
        wait_group = self._wait_groups.get(waits_for)
        return wait_group is not None and wait_group.scout is None

    def _advance(self, now: float) -> None:
        """Advance the time: end backoffs, and open wait groups that are due for a flush."""
        if now < self._now:
            raise ValueError(f"time goes back from {self._now} to {now}")
        self._now = now
        for heap in (self._places.resting, self._places.backoff):
            while (ended := heap.first()) is not None and ended[0][0] <= now:
                queued = self._units[ended[1]]
                self._places.remove(queued)
                self._places.activate(queued, now)
        while (flush := self._flushes.first()) is not None and flush[0][0] <= now:
            self._flushes.remove(flush[1])
            self._send_scout(self._wait_groups.get(flush[1]))

    def _send_scout(self, wait_group: WaitGroup | None, *, next_waits: bool = True) -> None:
        """Let the first unit of a wait group try, unless one does; without `next_waits`, it skips its backoff."""
        if wait_group is None or wait_group.scout is not None:
            return
        first = wait_group.parked.first()
        if first is None:
            del self._wait_groups[wait_group.waits_for]
            self._flushes.remove(wait_group.waits_for)
            return
        queued = self._units[first[1]]
        self._places.remove(queued)
        wait_group.scout = queued
        if next_waits:
            self._places.activate(queued, self._now)
        else:
            self._places.add(queued, UnitState.ACTIVE, self._now)

    def _leave_wait_group(self, queued: QueuedUnit, *, next_waits: bool = True) -> None:
        """Detach a unit from its wait group. If it was the scout, the next unit is."""
        wait_group, queued.wait_group = queued.wait_group, None
        if wait_group is None:
            return
        if wait_group.scout is queued:
            wait_group.scout = None
            self._send_scout(wait_group, next_waits=next_waits)
        elif wait_group.scout is None and not wait_group.parked:
            self._send_scout(wait_group)

    # -- questions ------------------------------------------------------------------------------------------------

    def next_time(self) -> float | None:
        """When the next rest or backoff ends or a wait group is flushed; after `pop` returned None, wait until then."""
        firsts = (self._places.resting.first(), self._places.backoff.first(), self._flushes.first())
        return min((first[0][0] for first in firsts if first is not None), default=None)

    def counts(self) -> dict[UnitState, int]:
        """Pods by state. Units behind the scout of an open wait group count as parked."""
        return {state: self._places.pods[state] for state in UnitState}

    def get(self, unit: Unit) -> QueuedUnit | None:
        """A unit's place in the queue, to be read only."""
        return self._units.get(unit)

    def __len__(self) -> int:
        return len(self._units)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._units
