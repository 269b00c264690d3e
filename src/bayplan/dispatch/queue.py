"""Who is decided about next: units in the order of priority and age, with backoff, gates and parking.

A *unit* is what is decided at once: a pod, or a whole gang. It goes round like this:

    put -> active -> pop -> in flight -> done
             ^                 |-> failed: parked, until `wake`, a change of its own or the flush -> backoff -> active
             |                 |-> retry: backoff -> active
             +-----------------+

The highest priority goes first, then the oldest; but one that has failed is in backoff, so that others pass it. Parked units that would
all get the same answer share a *wait_group*. `wake` opens the wait_group: its first unit, the scout, tries for all of them; each one that is
popped lets the next one follow, and the first that fails closes the wait_group. So a place that becomes free costs two attempts, however
many wait for it.

A namespace whose units have cost much lately lets all others pass, and so does one that has as much under way as it may (`dispatch/tenants.py`). Their units are
active, but stand in a line of their own.

Nothing here reads a clock: `now` comes in, in seconds, and never goes back. What can help whom is `dispatch/waking.py`'s to know; who
decides and binds is `services/scheduler/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable

from bayplan.dispatch.lazy_heap import LazyHeap
from bayplan.dispatch.tenants import Tenants
from bayplan.dispatch.unit import Unit, UnitState, WaitGroup

# A unit whose attempts take long may use a tenth of the time, so that the others have the rest.
REST_PER_SECOND_OF_WORK = 9.0
# 2**30 seconds are 34 years: no backoff doubles further, however often a unit fails.
MOST_DOUBLINGS = 30


class SchedulingQueue:
    """All units that have no place yet. Every operation costs a few heap steps, however many there are."""

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
        self._units: dict[str, Unit] = {}
        self.tenants = Tenants()
        self._active: LazyHeap[str] = LazyHeap()
        # Active units of namespaces that had to let others pass when it was their turn.
        self._passed: dict[str, LazyHeap[str]] = {}
        self._backoff: LazyHeap[str] = LazyHeap()
        self._resting: LazyHeap[str] = LazyHeap()
        self._wait_groups: dict[Hashable, WaitGroup] = {}
        # When the scout of each wait_group tries again though nothing woke it.
        self._flushes: LazyHeap[Hashable] = LazyHeap()
        self._pods: Counter[UnitState] = Counter()

    # -- units come and go ----------------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        *,
        priority: int,
        created: float,
        now: float,
        pods: int = 1,
        gated: bool = False,
        tenant: str = "",
    ) -> None:
        """A unit is new or has changed. One that is parked is tried again after its backoff.

        A gated unit is only counted; it starts to wait when it is put without gates. `created` orders units and is never compared with `now`.
        """
        self._pass_to(now)
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = Unit(key, priority, created, pods, first_seen=now, tenant=tenant)
            self._stand(unit, UnitState.GATED if gated else UnitState.ACTIVE)
            return
        was = self._leave(unit)
        unit.priority, unit.created, unit.pods = priority, created, pods
        unit.changed |= was is UnitState.IN_FLIGHT
        self._leave_wait_group(unit)
        if gated or was is UnitState.IN_FLIGHT:
            self._stand(unit, UnitState.GATED if gated else was)
        elif was in (UnitState.GATED, UnitState.PARKED):
            # Time behind gates does not count as waiting for a place.
            unit.first_seen = now if was is UnitState.GATED else unit.first_seen
            self._activate(unit)
        else:
            self._stand(unit, was)

    def remove(self, key: str) -> None:
        """Remove a unit from wherever it is, if present."""
        unit = self._units.pop(key, None)
        if unit is not None:
            self._leave(unit)
            self._leave_wait_group(unit)

    def pop(self, now: float, at_limit: Collection[str] = ()) -> str | None:
        """The unit to decide about now, in flight from here on; None if no unit may be tried. Namespaces that are `at_limit` are skipped.

        When no unit is active, a unit in an ordinary backoff need not wait for its end: backoff makes way for other units, and
        there are none.
        """
        unit = self.peek(now, at_limit)
        if unit is None:
            return None
        self._leave(unit)
        unit.attempts += 1
        unit.changed = False
        self._stand(unit, UnitState.IN_FLIGHT)
        self._leave_wait_group(unit, next_waits=False)
        return unit.key

    def peek(self, now: float, at_limit: Collection[str] = ()) -> Unit | None:
        """The unit that `pop` would give."""
        self._pass_to(now)
        key = self._next_active(at_limit)
        if key is not None:
            return self._units[key]
        first = self._backoff.first()
        unit = None if first is None else self._units[first[1]]
        return None if unit is None or unit.tenant in at_limit else unit

    def _next_active(self, at_limit: Collection[str]) -> str | None:
        """Of those that need not let others pass, the first; else the first of the namespace that owes least."""
        while (first := self._active.first()) is not None:
            unit = self._units[first[1]]
            if not self._lets_others_pass(unit.tenant, at_limit):
                break
            self._active.remove(unit.key)
            self._passed.setdefault(unit.tenant, LazyHeap()).put(unit.key, unit.order)
        if not self._passed:
            return None if first is None else first[1]
        firsts = {tenant: line.first() for tenant, line in self._passed.items() if tenant not in at_limit}
        others = [each for tenant, each in firsts.items() if each and not self.tenants.in_debt(tenant, self._now)]
        if first is not None or others:
            return min((first, *others) if first is not None else others)[1]
        owing = [(self.tenants.debt(tenant, self._now), each) for tenant, each in firsts.items() if each]
        return min(owing)[1][1] if owing else None

    def _lets_others_pass(self, tenant: str, at_limit: Collection[str]) -> bool:
        return tenant in at_limit or self.tenants.in_debt(tenant, self._now)

    # -- what came of an attempt ----------------------------------------------------------------------------------

    def failed(
        self,
        key: str,
        now: float,
        *,
        waits_for: Hashable,
        took: float = 0.0,
        again_at: float | None = None,
        eager: bool = False,
        hit_limit: bool = False,
    ) -> None:
        """No place for a unit in flight: parked in the wait_group of those that wait for the same, and the wait_group is closed.

        `took` is how long the attempt took. `again_at` is a moment at which it is tried in any case, if that comes before the flush. One that
        changed during the attempt is not parked but tried again after its backoff. An `eager` unit has no backoff: others do not pass it.
        One whose search `hit_limit` rests longer each time that this happens to its namespace.
        """
        self._pass_to(now)
        unit = self._in_flight(key)
        if unit is None:
            return
        unit.failures += 1
        unit.troubles = 0
        rest = self.tenants.hit_limit(unit.tenant) if hit_limit else 0.0
        unit.rest_until = now + max(took * REST_PER_SECOND_OF_WORK, rest)
        unit.backoff_until = now if eager else now + self._backoff_after(unit.failures)
        if unit.changed:
            self._activate(unit)
            return
        wait_group = self._wait_groups.setdefault(waits_for, WaitGroup(waits_for))
        self._close(wait_group)
        unit.wait_group = wait_group
        self._stand(unit, UnitState.PARKED)
        flush = now + self._flush_after
        self._flushes.put(waits_for, (flush if again_at is None else min(flush, again_at),))

    def retry(self, key: str, now: float) -> None:
        """An attempt met trouble that time heals, such as a bind that failed: backoff, then active by itself."""
        self._pass_to(now)
        unit = self._in_flight(key)
        if unit is not None:
            unit.troubles += 1
            unit.rest_until = now + self._backoff_after(unit.troubles)
            self._activate(unit)

    def done(self, key: str) -> Unit | None:
        """A unit has its place and is forgotten. If it was `changed` meanwhile (a gang got more members), the owner puts it again."""
        unit = self._units.get(key)
        if unit is None or unit.place is not UnitState.IN_FLIGHT:
            return None
        self.remove(key)
        return unit

    # -- waking ---------------------------------------------------------------------------------------------------

    def wake(self, waits_for: Hashable, now: float) -> None:
        """Something happened that can help those who wait for this: their wait_group opens."""
        self._pass_to(now)
        self._open(waits_for)

    def is_parked(self, waits_for: Hashable) -> bool:
        """True if units wait for this and have not been woken yet."""
        wait_group = self._wait_groups.get(waits_for)
        return wait_group is not None and wait_group.scout is None

    # -- questions ------------------------------------------------------------------------------------------------

    def next_time(self) -> float | None:
        """When a rest or backoff ends or a wait_group is flushed: after `pop` said None, nothing is to do before, unless news come."""
        firsts = (self._resting.first(), self._backoff.first(), self._flushes.first())
        return min((first[0][0] for first in firsts if first is not None), default=None)

    def counts(self) -> dict[UnitState, int]:
        """How many pods are where. Those behind the scout of an open wait_group still count as parked."""
        return {place: self._pods[place] for place in UnitState}

    def get(self, key: str) -> Unit | None:
        """A unit by its key, to be read only."""
        return self._units.get(key)

    def __len__(self) -> int:
        return len(self._units)

    def __contains__(self, key: str) -> bool:
        return key in self._units

    # -- moving units ---------------------------------------------------------------------------------------------

    def _pass_to(self, now: float) -> None:
        """Time passes: backoffs end, and wait_groups that nothing has woken for long are opened."""
        if now < self._now:
            raise ValueError(f"time goes back from {self._now} to {now}")
        self._now = now
        for line in (self._resting, self._backoff):
            while (ended := line.first()) is not None and ended[0][0] <= now:
                unit = self._units[ended[1]]
                self._leave(unit)
                self._activate(unit)
        while (flush := self._flushes.first()) is not None and flush[0][0] <= now:
            self._flushes.remove(flush[1])
            self._open(flush[1])

    def _backoff_after(self, times: int) -> float:
        """Doubled each time, up to the longest."""
        doubled: float = self._initial_backoff * 2 ** min(times - 1, MOST_DOUBLINGS)
        return min(doubled, self._max_backoff)

    def _in_flight(self, key: str) -> Unit | None:
        """A unit that comes back from an attempt; None if it was removed meanwhile."""
        unit = self._units.get(key)
        if unit is None or unit.place is not UnitState.IN_FLIGHT:
            return None
        self._leave(unit)
        return unit

    def _activate(self, unit: Unit) -> None:
        """May be tried, when its rest and its backoff have ended."""
        waits = max(unit.rest_until, unit.backoff_until) > self._now
        self._stand(unit, UnitState.BACKOFF if waits else UnitState.ACTIVE)

    def _stand(self, unit: Unit, place: UnitState) -> None:
        unit.place = place
        self._pods[place] += unit.pods
        if place is UnitState.ACTIVE:
            self._active.put(unit.key, unit.order)
        elif place is UnitState.BACKOFF and unit.rest_until > self._now:
            self._resting.put(unit.key, (unit.rest_until,))
        elif place is UnitState.BACKOFF:
            self._backoff.put(unit.key, (unit.backoff_until, *unit.order))
        elif place is UnitState.PARKED and unit.wait_group is not None:
            unit.wait_group.parked.put(unit.key, unit.order)

    def _leave(self, unit: Unit) -> UnitState:
        """Out of the line where it stands; says which it was."""
        self._pods[unit.place] -= unit.pods
        if unit.place is UnitState.ACTIVE:
            self._active.remove(unit.key)
            line = self._passed.get(unit.tenant)
            if line is not None:
                line.remove(unit.key)
                if not line:
                    del self._passed[unit.tenant]
        elif unit.place is UnitState.BACKOFF:
            self._resting.remove(unit.key)
            self._backoff.remove(unit.key)
        elif unit.place is UnitState.PARKED and unit.wait_group is not None:
            unit.wait_group.parked.remove(unit.key)
        return unit.place

    # -- wait_groups -----------------------------------------------------------------------------------------------------

    def _open(self, waits_for: Hashable) -> None:
        wait_group = self._wait_groups.get(waits_for)
        if wait_group is not None and wait_group.scout is None:
            self._send_scout(wait_group)

    def _send_scout(self, wait_group: WaitGroup, *, next_waits: bool = True) -> None:
        """The first of a wait_group tries for all; one that follows a scout need not wait for the end of its own backoff."""
        first = wait_group.parked.first()
        if first is None:
            del self._wait_groups[wait_group.waits_for]
            self._flushes.remove(wait_group.waits_for)
            return
        unit = self._units[first[1]]
        self._leave(unit)
        wait_group.scout = unit.key
        if next_waits:
            self._activate(unit)
        else:
            self._stand(unit, UnitState.ACTIVE)

    def _close(self, wait_group: WaitGroup) -> None:
        """One of a wait_group has failed, so its scout would too."""
        if wait_group.scout is not None:
            unit = self._units[wait_group.scout]
            wait_group.scout = None
            self._leave(unit)
            self._stand(unit, UnitState.PARKED)

    def _leave_wait_group(self, unit: Unit, *, next_waits: bool = True) -> None:
        """A unit has nothing to do with its wait_group any more. If it was the scout, the next one is."""
        wait_group, unit.wait_group = unit.wait_group, None
        if wait_group is None:
            return
        if wait_group.scout == unit.key:
            wait_group.scout = None
            self._send_scout(wait_group, next_waits=next_waits)
        elif wait_group.scout is None and not wait_group.parked:
            self._send_scout(wait_group)
