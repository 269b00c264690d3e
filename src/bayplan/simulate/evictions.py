"""Preemption in a simulation: which pods a contestant evicts for a single pod without a place, and whether that helped.

The plan is that of the scheduler's own `dispatch/preemption.py`, made with the contestant's filters: one that ignores
zones evicts by sums, and one whose reports do not say where victims are cannot count on their zones. Room is kept for
nominated pods under every contestant, as in kube-scheduler. That a kubelet knows nothing of kept room is bayplan's to
know alone (`careful`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Stage
from bayplan.dispatch.nominations import Nomination
from bayplan.dispatch.preemption import COUNTING, LOOKS_EVERY, Preempting
from bayplan.dispatch.roster import GangRoster
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.candidates import priority_of
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.scheduling.profile import PreemptionMode, Profile
from bayplan.simulate.schedulers import BLIND, Scheduler, scheduler_named


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a pod's turn: its place, or the pods to evict for it, and when to look again."""

    decision: Decision
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
        self._preempting = Preempting(state, GangRoster(), answers)
        # By preemptor, how many pods were evicted for it while it has no node.
        self._owed: Counter[str] = Counter()
        self._refused = 0

    @property
    def in_vain(self) -> int:
        """Pods that were evicted for one that its kubelet refused, or that found no place afterwards."""
        return self._refused + self._preempting.in_vain

    def decide(self, pod: Pod, place: Callable[[], Decision], now: float) -> Attempt:
        """A pod's turn; `place` decides about it as if nothing could be evicted."""
        preempting, key = self._preempting, pod_key(pod)
        nominations = preempting.nominations
        preempting.resume(key)
        with preempting.kept_room.deciding(self._checked) as closing:
            decision = closing.decide(place, lambda made: [(pod, made.row)] if made.placed else [])
            aside = [] if decision.placed else nominations.set_aside(priority_of(pod))
            if aside:
                closing.open()
                decision = closing.decide(place, lambda made: [(pod, made.row)] if made.placed else [])
            if decision.placed:
                self._settle(aside, (decision.row,))
                return Attempt(nominations.beside_kept_room(decision, pod) if self._careful else decision)
            if closing.rows and not preempting.was_nominated(key):
                self._settle(aside, ())
                return Attempt(decision, again_at=now + LOOKS_EVERY)
            lost = preempting.in_vain
            while (outcome := preempting.for_pod(pod, self._profile, closing, now)) is not None:
                if outcome.plan is not COUNTING:
                    break
            self._owed[key] -= preempting.in_vain - lost
            self._settle(aside, preempting.rows_taken(key, outcome))
        nominations.take_outdated()
        if outcome is None or outcome.stage is not Stage.CARRY_OUT or isinstance(outcome.plan, NoPreemption):
            return Attempt(decision, again_at=outcome.again_at if outcome is not None else None)
        victims = tuple(each.key for each in outcome.plan.victims)
        self.evicted += len(victims)
        self._owed[key] += len(victims)
        return Attempt(decision, victims, outcome.again_at)

    def gone(self, key: str, now: float) -> None:
        """A pod has left its node."""
        self._preempting.pod_gone(key, now)

    def admitted(self, key: str) -> None:
        """A kubelet admitted a pod: what was evicted for it helped."""
        del self._owed[key]

    def refused(self, key: str) -> None:
        """A kubelet refused a pod: what was evicted for it was in vain."""
        self._refused += self._owed.pop(key, 0)

    def _settle(self, aside: Collection[Nomination], rows_taken: Collection[int]) -> None:
        """Keep the room of less important nominated pods, unless their node was taken; then they plan again in their turn."""
        for each in aside:
            if any(decision.row in rows_taken for _, decision in each.seats):
                self._preempting.nominations.withdraw(each)
            else:
                self._preempting.nominations.keep(each)
