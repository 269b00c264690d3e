"""A unit is what is decided at once, a pod or a whole gang; here is what the queue (`dispatch/queue.py`) remembers about it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

from bayplan.dispatch.lazy_heap import LazyHeap, Order


class UnitState(Enum):
    """Where a unit is; the values are those of kube-scheduler's metric `scheduler_pending_pods{queue}` where it has them."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    PARKED = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"


@dataclass(slots=True, eq=False)
class Unit:
    """A pod or a gang of `pods` pods that waits for its decision; `tenant` is the namespace that it is charged to.

    `attempts` counts all of them; `failures` those that found no place; `troubles` those in a row that failed otherwise. A rest must
    elapse even if no other unit is waiting; a backoff need not. `changed` tells that the unit was put again while in flight.
    """

    key: str
    priority: int
    created: float
    pods: int
    first_seen: float
    tenant: str = ""
    place: UnitState = UnitState.ACTIVE
    attempts: int = 0
    failures: int = 0
    troubles: int = 0
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
    """Parked units that wait for the same. The scout of an open wait_group has left it to try for all of them."""

    waits_for: Hashable
    parked: LazyHeap[str] = field(default_factory=LazyHeap)
    scout: str | None = None
