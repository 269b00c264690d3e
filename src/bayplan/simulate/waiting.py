"""Who a simulated scheduler decides about next: the scheduler's own queue (`dispatch/queue.py`), by simulated time.

So the highest priority goes first, then the oldest, and one that found no place lets others pass. Here is what the
simulation adds: pods of one class get the same answer from every node, so that one of them answers for all; and
any change may help any unit, so `wake` lets the first of each class and every gang try again.
`simulate/simulation.py` asks, decides, and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import Unit
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.members import LiveMember


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A pod that stands alone, or all pods of a `gang`.

    Units with the same `waits_for` would all get the same answer.
    """

    key: Unit
    pods: tuple[tuple[LiveMember, Pod], ...]
    waits_for: Hashable
    gang: SimulatedGang | None = None

    @property
    def priority(self) -> int:
        """That of its most important pod."""
        return max(pod.spec.priority or 0 for _, pod in self.pods)


class WaitingUnits:
    """All units without a node that may be decided about, in order of arrival."""

    def __init__(self) -> None:
        self._queue = SchedulingQueue()
        self._units: dict[Unit, WaitingUnit] = {}
        # Everything that units have ever failed for; the queue knows which of them still wait.
        self._lots: dict[Hashable, None] = {}

    def add(self, unit: WaitingUnit, now: float) -> None:
        """Add a new unit, or a waiting gang that got more pods; that does not make it younger."""
        known = self._queue.get(unit.key)
        created = now if known is None else known.created
        self._units[unit.key] = unit
        self._queue.put(unit.key, priority=unit.priority, created=created, now=now, pods=len(unit.pods))

    def next(self, now: float) -> WaitingUnit | None:
        """The unit to decide about now; None if no unit has a chance. `placed` or `park` must follow."""
        while (key := self._queue.pop(now)) is not None:
            unit = self._units[key]
            if not self._queue.is_parked(unit.waits_for):
                return unit
            # Another of its class has failed, and nothing has changed since.
            self._queue.failed(key, now, waits_for=unit.waits_for)
        return None

    def placed(self, unit: WaitingUnit) -> None:
        """The one that `next` named has its nodes."""
        self._queue.done(unit.key)
        del self._units[unit.key]

    def park(self, unit: WaitingUnit, now: float, again_at: float | None = None) -> None:
        """The one that `next` named finds no place, and neither would others that wait for the same.

        It is tried at `again_at` in any case.
        """
        self._lots.setdefault(unit.waits_for)
        self._queue.failed(unit.key, now, waits_for=unit.waits_for, again_at=again_at)

    def wake(self, now: float) -> None:
        """Something changed that may help any unit."""
        for lot in self._lots:
            self._queue.wake(lot, now)

    def __iter__(self) -> Iterator[WaitingUnit]:
        return iter(self._units.values())
