"""Units, and the sub-queues they move between: active, backoff, resting, and one of parked units per wait group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum

from bayplan.dispatch.lazy_heap import LazyHeap, Order
from bayplan.dispatch.tenants import Tenants
from bayplan.dispatch.units import Unit


class UnitState(Enum):
    """Where a unit is; values as in kube-scheduler's metric `scheduler_pending_pods{queue}` where it has them."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    PARKED = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"


@dataclass(slots=True, eq=False)
class QueuedUnit:
    """A pod or a gang of `pods` pods that waits for a decision; `tenant` is the namespace that it is charged to.

    `attempts` counts all decisions, `failures` those without a place, `errors` other failures in a row. A rest must
    elapse even if no other unit waits; a backoff need not. `changed` means that the unit was put while in flight.
    """

    unit: Unit
    priority: int
    created: float
    pods: int
    first_seen: float
    tenant: str = ""
    state: UnitState = UnitState.ACTIVE
    attempts: int = 0
    failures: int = 0
    errors: int = 0
    backoff_until: float = 0.0
    rest_until: float = 0.0
    changed: bool = False
    wait_group: WaitGroup | None = field(default=None, repr=False)

    @property
    def order(self) -> Order:
        """The highest priority first, then the oldest."""
        return (-self.priority, self.created)


@dataclass(slots=True, eq=False)
class WaitGroup:
    """Parked units that wait for the same thing. An open wait group has a scout, which tries for all of them."""

    waits_for: Hashable
    parked: LazyHeap[Unit] = field(default_factory=LazyHeap)
    scout: QueuedUnit | None = None


class SubQueues:
    """All units by state. Units that are gated or in flight are in no sub-queue, but are counted."""

    def __init__(self, units: dict[Unit, QueuedUnit]) -> None:
        self._units = units
        self.tenants = Tenants()
        self._active: LazyHeap[Unit] = LazyHeap()
        # By namespace, active units that had to let other namespaces go first.
        self._passed: dict[str, LazyHeap[Unit]] = {}
        self.backoff: LazyHeap[Unit] = LazyHeap()
        self.resting: LazyHeap[Unit] = LazyHeap()
        self.pods: Counter[UnitState] = Counter()

    def add(self, queued: QueuedUnit, state: UnitState, now: float) -> None:
        """Put a unit that is in no sub-queue into one."""
        queued.state = state
        self.pods[state] += queued.pods
        if state is UnitState.ACTIVE:
            self._active.put(queued.unit, queued.order)
        elif state is UnitState.BACKOFF and queued.rest_until > now:
            self.resting.put(queued.unit, (queued.rest_until,))
        elif state is UnitState.BACKOFF:
            self.backoff.put(queued.unit, (queued.backoff_until, *queued.order))
        elif state is UnitState.PARKED and queued.wait_group is not None:
            queued.wait_group.parked.put(queued.unit, queued.order)

    def activate(self, queued: QueuedUnit, now: float) -> None:
        """Make a unit active, or so when its rest and its backoff have ended."""
        waits = max(queued.rest_until, queued.backoff_until) > now
        self.add(queued, UnitState.BACKOFF if waits else UnitState.ACTIVE, now)

    def remove(self, queued: QueuedUnit) -> UnitState:
        """Take a unit out of its sub-queue, and return its state."""
        self.pods[queued.state] -= queued.pods
        if queued.state is UnitState.ACTIVE:
            self._active.remove(queued.unit)
            passed = self._passed.get(queued.tenant)
            if passed is not None:
                passed.remove(queued.unit)
                if not passed:
                    del self._passed[queued.tenant]
        elif queued.state is UnitState.BACKOFF:
            self.resting.remove(queued.unit)
            self.backoff.remove(queued.unit)
        elif queued.state is UnitState.PARKED and queued.wait_group is not None:
            queued.wait_group.parked.remove(queued.unit)
        return queued.state

    def next_active(self, at_limit: Collection[str], now: float) -> Unit | None:
        """The first active unit; units of namespaces in debt come last, and those `at_limit` not at all."""
        while (first := self._active.first()) is not None:
            queued = self._units[first[1]]
            if queued.tenant not in at_limit and not self.tenants.in_debt(queued.tenant, now):
                break
            self._active.remove(queued.unit)
            self._passed.setdefault(queued.tenant, LazyHeap()).put(queued.unit, queued.order)
        if not self._passed:
            return None if first is None else first[1]
        firsts = {tenant: heap.first() for tenant, heap in self._passed.items() if tenant not in at_limit}
        others = [each for tenant, each in firsts.items() if each and not self.tenants.in_debt(tenant, now)]
        if first is not None or others:
            return min((first, *others) if first is not None else others, key=_by_order)[1]
        owing = [(self.tenants.debt(tenant, now), each) for tenant, each in firsts.items() if each]
        return min(owing, key=lambda debt: (debt[0], _by_order(debt[1])))[1][1] if owing else None


def _by_order(first: tuple[Order, Unit]) -> tuple[Order, str]:
    """Units of equal order go by name."""
    return first[0], str(first[1])
