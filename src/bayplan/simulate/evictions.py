"""Preemption in a simulation: which pods a contestant evicts for a unit without a place, and whether that helped.

The plan is that of the scheduler's own `dispatch/preemption.py`, made with the contestant's filters: one that ignores
zones evicts by sums, and one whose reports do not say where victims are cannot count on their zones. Room is kept for
nominated pods under every contestant, as in kube-scheduler. That a kubelet knows nothing of kept room is bayplan's to
know alone (`careful`).

A contestant that knows gangs evicts for a gang as a unit, and takes running gangs whole or beyond their minimum; to the
others every pod stands for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from msgspec import structs

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dialects.own.members import POD_GROUP
from bayplan.dispatch.actions import Stage
from bayplan.dispatch.kept.kept_room import ClosedNodes
from bayplan.dispatch.kept.nominations import Nomination
from bayplan.dispatch.preemption import COUNTING, LOOKS_EVERY, Preempting, PreemptionResult
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import Gang, GangDecision
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.candidates import priority_of
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.scheduling.profile import PreemptionMode, Profile
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.schedulers import BLIND, Scheduler, scheduler_named

Made = TypeVar("Made", bound=Decision | GangDecision)


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Made]):
    """What came of a unit's turn: its place, or the pods to evict for it, and when to look again."""

    decision: Made
    evict: tuple[str, ...] = ()
    again_at: float | None = None


class Evictions:
    """Preemption of one contestant."""

    def __init__(self, state: ClusterState, scheduler: Scheduler, answers: ClassAnswers) -> None:
        self.evicted = 0
        self._profile = replace(scheduler.profile, preemption=PreemptionMode.ON)
        self._careful = scheduler.keeps_ledger
        # The check of kept room looks at zones only where the profile does.
        self._checked: Profile = self._profile if self._careful else scheduler_named(BLIND).profile
        self._state = state
        self._knows_gangs = scheduler.knows_gangs
        self._roster = GangRoster()
        self._preempting = Preempting(state, self._roster, answers)
        # By preemptor, how many pods were evicted for it while it has no node.
        self._owed: Counter[Unit] = Counter()
        self._refused = 0

    @property
    def in_vain(self) -> int:
        """Pods that were evicted for one that its kubelet refused, or that found no place afterwards."""
        return self._refused + self._preempting.in_vain

    def decide(self, pod: Pod, place: Callable[[], Decision], now: float) -> Attempt[Decision]:
        """A pod's turn; `place` decides about it as if nothing could be evicted."""
        attempt = self._attempt(
            PodUnit(pod_key(pod)),
            priority_of(pod),
            place,
            lambda made: [(pod, made.row)] if made.placed else [],
            lambda _, closing: self._preempting.for_pod(pod, self._profile, closing, now),
            now,
        )
        if not attempt.decision.placed or not self._careful:
            return attempt
        return replace(attempt, decision=self._preempting.kept_room.seats.beside(attempt.decision, pod))

    def decide_gang(
        self, unit: GangUnit, gang: Gang, scheduler: GangScheduler, place: Callable[[], GangDecision], now: float
    ) -> Attempt[GangDecision]:
        """A gang's turn, of a contestant that knows gangs; the profile of its scheduler preempts."""
        pods = {pod_key(pod): pod for pod in gang.pods}
        preempting = self._preempting

        def evict_for(made: GangDecision, closing: ClosedNodes) -> PreemptionResult | None:
            needs_more = any(group.least for group in gang.root.every_group())
            infeasible = made.status is Status.INFEASIBLE and not made.problem and needs_more
            if not infeasible and not preempting.was_nominated(unit):
                return None
            return preempting.for_gang(unit, scheduler, gang, closing, now)

        return self._attempt(
            unit,
            min(priority_of(pod) for pod in gang.pods),
            place,
            lambda made: [(pods[seat.pod], self._state.rows[seat.node]) for seat in made.seats] if made.placed else [],
            evict_for,
            now,
        )

    def beside_kept_room(self, decision: Decision, pod: Pod) -> Decision:
        """A gang member's place as it counts beside room that is kept for others."""
        return self._preempting.kept_room.seats.beside(decision, pod)

    def _attempt(
        self,
        unit: Unit,
        priority: int,
        place: Callable[[], Made],
        seats_of: Callable[[Made], Iterable[tuple[Pod, int]]],
        evict_for: Callable[[Made, ClosedNodes], PreemptionResult | None],
        now: float,
    ) -> Attempt[Made]:
        preempting = self._preempting
        nominations = preempting.nominations
        preempting.resume(unit)
        with preempting.kept_room.deciding(self._checked) as closing:
            decision = closing.decide(place, seats_of)
            waits = isinstance(decision, GangDecision) and decision.waits
            aside = [] if decision.placed or waits else nominations.set_aside(priority)
            if aside:
                closing.open()
                decision = closing.decide(place, seats_of)
            if decision.placed:
                self._settle(aside, {row for _, row in seats_of(decision)})
                return Attempt(decision)
            if waits or (closing.rows and not preempting.was_nominated(unit)):
                self._settle(aside, ())
                return Attempt(decision, again_at=None if waits else now + LOOKS_EVERY)
            lost = preempting.in_vain
            while (outcome := evict_for(decision, closing)) is not None:
                if outcome.plan is not COUNTING:
                    break
            self._owed[unit] -= preempting.in_vain - lost
            self._settle(aside, preempting.rows_taken(unit, outcome))
        nominations.take_outdated()
        if outcome is None or outcome.stage is not Stage.CARRY_OUT or isinstance(outcome.plan, NoPreemption):
            return Attempt(decision, again_at=outcome.again_at if outcome is not None else None)
        victims = tuple(each.key for each in outcome.plan.victims)
        self.evicted += len(victims)
        self._owed[unit] += len(victims)
        return Attempt(decision, victims, outcome.again_at)

    def runs(self, pod: Pod, gang: SimulatedGang) -> None:
        """A member of a gang is on a node, or was told to leave it."""
        if self._knows_gangs:
            labels = {**(pod.metadata.labels or {}), POD_GROUP: gang.written.metadata.name}
            self._roster.set_group(gang.written)
            self._roster.set_member(structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels)))

    def gone(self, key: str, now: float) -> None:
        """A pod has left its node."""
        self._roster.remove_member(key)
        self._preempting.pod_gone(key, now)

    def admitted(self, unit: Unit) -> None:
        """Kubelets admitted a pod or all that a gang needs: what was evicted for it helped."""
        del self._owed[unit]

    def refused(self, unit: Unit) -> None:
        """A kubelet refused a pod: what was evicted for it or its gang was in vain."""
        self._refused += self._owed.pop(unit, 0)

    def _settle(self, aside: Collection[Nomination], rows_taken: Collection[int]) -> None:
        """Keep the room of less important nominated pods, unless their node was taken;
        then they plan again in their turn.
        """
        for each in aside:
            if any(decision.row in rows_taken for _, decision in each.seats):
                self._preempting.nominations.withdraw(each)
            else:
                self._preempting.nominations.keep(each)
