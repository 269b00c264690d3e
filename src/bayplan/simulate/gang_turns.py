"""Turns of gangs: who of each waits, and what the scheduler decides about a gang when its turn comes.

    arrive -> join: a unit of the queue, once all that the gang needs are there
           -> decide -> seats; the rest of an elastic gang keeps waiting
                     -> patience: a moment at which the gang is tried again

Everything is decided by the scheduler's own code: `schedule_gang` with the time that the gang has waited
(`gangs/model.py`), and `assume_gang`. Pods that come later, those beyond the minimum or in place of refused ones, join
the same gang, and follow those that have started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete
from bayplan.dispatch.units import GangUnit
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, waited_for
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision
from bayplan.simulate.evictions import Attempt, Evictions
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.members import LiveMember
from bayplan.simulate.scenario.model import Seconds
from bayplan.simulate.waiting import WaitingUnit


@dataclass(frozen=True, slots=True)
class GangTurn:
    """What came of a turn: decisions by pod, none if the gang waits on; then perhaps the moment at which its patience
    ends, and the pods to evict for it.
    """

    decisions: Mapping[str, Decision] = field(default_factory=dict)
    patience_ends: Seconds | None = None
    evict: tuple[str, ...] = ()


class GangTurns:
    """The pods of gangs that have no node, and the scheduler that knows gangs."""

    def __init__(self, scheduler: GangScheduler, evictions: Evictions | None = None) -> None:
        self._scheduler = scheduler
        self._evictions = evictions
        self._without_node: dict[str, dict[str, tuple[LiveMember, Pod]]] = {}

    def join(self, member: LiveMember, gang: SimulatedGang, pod: Pod) -> WaitingUnit | None:
        """A pod has joined a gang; None as long as others that the gang needs have not arrived."""
        self._without_node.setdefault(gang.name, {})[pod_key(pod)] = (member, pod)
        return self.rest_of(gang) if gang.has_arrived else None

    def rest_of(self, gang: SimulatedGang) -> WaitingUnit | None:
        """Those of a gang who have no node, as a unit of the queue; None if all have one."""
        waiting = self._without_node.get(gang.name)
        return WaitingUnit(GangUnit(gang.name), tuple(waiting.values()), gang.name, gang) if waiting else None

    def decide(self, simulated: SimulatedGang, now: Seconds) -> GangTurn:
        """All pods that a gang needs get their nodes at once, or none does."""
        gang = simulated.as_gang()
        if isinstance(gang, Incomplete) or not gang.pods:
            # Without pods: those that wait belong to a group of which others have not arrived.
            return GangTurn()
        # Only gangs with patience need this; timestamps of thousands of pods take milliseconds to read.
        waited = waited_for(gang, now, None) if gang.patience else None
        attempt = self._attempt(simulated, gang, waited or 0.0, now)
        decision = attempt.decision
        taken = assume_gang(self._scheduler, gang, decision) if decision.placed else None
        if taken is None:
            ends = now + decision.patience_left if decision.waits else attempt.again_at
            return GangTurn(patience_ends=ends, evict=attempt.evict)
        taken = [self._beside_kept_room(each, simulated.pods[each.pod]) for each in taken]
        simulated.seat(decision)
        waiting = self._without_node[simulated.name]
        for each in taken:
            del waiting[each.pod]
        return GangTurn({each.pod: each for each in taken})

    def _attempt(self, simulated: SimulatedGang, gang: Gang, waited: Seconds, now: Seconds) -> Attempt[GangDecision]:
        def place() -> GangDecision:
            return schedule_gang(self._scheduler, gang, waited)

        if self._evictions is None:
            return Attempt(place())
        return self._evictions.decide_gang(GangUnit(simulated.name), gang, self._scheduler, place, now)

    def _beside_kept_room(self, taken: Decision, pod: Pod) -> Decision:
        """A member's place as it counts beside room that is kept for others."""
        decision = taken if self._evictions is None else self._evictions.beside_kept_room(taken, pod)
        if decision is not taken:
            self._scheduler.state.forget(decision.pod)
            assume(self._scheduler.state, decision, pod)
        return decision

    def not_arrived(self) -> Iterator[WaitingUnit]:
        """Those whose gangs have not arrived, and which are in no queue therefore."""
        for waiting in self._without_node.values():
            gang = next((member.gang for member, _ in waiting.values()), None)
            if gang is not None and not gang.has_arrived:
                yield WaitingUnit(GangUnit(gang.name), tuple(waiting.values()), gang.name, gang)
