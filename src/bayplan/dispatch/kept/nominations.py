"""Nominated units: the room that is kept for a unit while its victims leave.

The pods of a nominated unit are assumed on their nodes beside the victims, so that no other unit takes what these
leave. A unit that is more important than a nominated one takes its room. `outdated` collects pods whose
`nominatedNodeName` no longer holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.kept.seats import KeptSeat, KeptSeats
from bayplan.dispatch.units import Unit
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.plan import Preemption

# After the last victim is gone, the room is kept for this many seconds, until a report shows it.
ROOM_IS_KEPT = 30.0


@dataclass
class Nomination:
    """Room that is kept for a unit until its victims are gone."""

    unit: Unit
    priority: int
    seats: tuple[KeptSeat, ...]
    plan: Preemption | GangPreemption
    leaving: set[str]
    """The victims, and other pods that were leaving the nodes already, as long as they are there."""
    until: float | None = None
    """When the room is given up, once all are gone."""


class Nominations:
    """All nominated units of one dispatcher, with their room in the cluster's state."""

    def __init__(self, state: ClusterState, seats: KeptSeats) -> None:
        self._state = state
        self._seats = seats
        self._by_unit: dict[Unit, Nomination] = {}
        self._leaving: Counter[str] = Counter()
        self._rows_seen = -1
        self._outdated: list[Pod] = []

    def get(self, unit: Unit) -> Nomination | None:
        """The room that is kept for a unit, if any."""
        return self._by_unit.get(unit)

    @property
    def leaving(self) -> Collection[str]:
        """The pods that nominated units wait for: each is terminating, or its eviction is under way."""
        return self._leaving.keys()

    def keep(self, nomination: Nomination) -> None:
        """Keep the room of a unit; withdraw it if one of its pods has a place already."""
        if any(decision.pod in self._state.pods for _, decision in nomination.seats):
            self.withdraw(nomination)
            return
        self._seats.keep(str(nomination.unit), nomination.seats)
        self._by_unit[nomination.unit] = nomination
        self._leaving.update(nomination.leaving)
        self._note_rows(nomination)
        self.saw_all_changes()

    def give_back(self, unit: Unit) -> Nomination | None:
        """Give back the room of a unit; the nomination that it had, if any."""
        nomination = self._by_unit.pop(unit, None)
        if nomination is not None:
            self._seats.give_back(nomination.seats)
            self._leaving.subtract(nomination.leaving)
            self._leaving += Counter()  # drops pods that no unit waits for
            self._note_rows(nomination)
        return nomination

    def set_aside(self, priority: int) -> list[Nomination]:
        """Give back the room of units below a priority, for a moment: `keep` or `withdraw` each of them afterwards."""
        units = [each.unit for each in self._by_unit.values() if each.priority < priority]
        return [given for unit in units if (given := self.give_back(unit)) is not None]

    def withdraw(self, nomination: Nomination) -> None:
        """Give back the room of a unit that stays without a place."""
        self.give_back(nomination.unit)
        self._outdated += [pod for pod, _ in nomination.seats]

    def withdraw_counting_on(self, keys: Collection[str]) -> list[Unit]:
        """Withdraw the nominations that count on pods which will not leave, and return their units."""
        affected = [each for each in self._by_unit.values() if not each.leaving.isdisjoint(keys)]
        for each in affected:
            self.withdraw(each)
        return [each.unit for each in affected]

    def take_outdated(self) -> list[Pod]:
        """The pods whose `nominatedNodeName` no longer holds since the last call."""
        outdated, self._outdated = self._outdated, []
        return outdated

    def pod_gone(self, key: str, now: float) -> list[Unit]:
        """A pod is gone; return the units that have no victim left."""
        ready = []
        for nomination in [each for each in self._by_unit.values() if key in each.leaving]:
            # Taken again: now there is more in the zones than when it was nominated.
            self.give_back(nomination.unit)
            nomination.leaving.discard(key)
            self.keep(nomination)
            if not nomination.leaving:
                nomination.until = now + ROOM_IS_KEPT
                ready.append(nomination.unit)
        return ready

    def changed(self) -> list[Unit]:
        """Units without victims on whose nodes something changed, such as a new report."""
        log = self._state.usage_log
        if not self._by_unit or self._rows_seen == log.end:
            return []
        rows = log.since(self._rows_seen)
        self._rows_seen = log.end
        touched = None if rows is None else set(rows.tolist())
        return [
            each.unit
            for each in self._by_unit.values()
            if not each.leaving and (touched is None or any(decision.row in touched for _, decision in each.seats))
        ]

    def saw_all_changes(self) -> None:
        """What has changed so far wakes no unit: the changes were made to try something out."""
        self._rows_seen = self._state.usage_log.end

    def _note_rows(self, nomination: Nomination) -> None:
        """Whether victims count as leaving changed, also on nodes where the unit has no seat."""
        for row in {self._state.pods[key].row for key in nomination.leaving if key in self._state.pods}:
            self._state.usage_log.append(row)
