"""Preemption in the dispatcher: plans for units without a place, and which pods may be evicted for them.

A unit whose plan is carried out is *nominated* (`kept/nominations.py`): its room is kept until its victims are gone,
then the unit is decided as any other. After a restart, nominations are found again: pods that are being deleted count
as gone in every plan, so the same unit is nominated again without another eviction. A unit that another leader
nominated evicts nothing until reports can show the room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from bayplan.cluster.dry_run import without
from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Action, AnyPreemption, Bind, Complete, Stage, Unschedulable
from bayplan.dispatch.kept.kept_room import ClosedNodes, KeptRoom
from bayplan.dispatch.kept.nominations import ROOM_IS_KEPT, Nomination, Nominations
from bayplan.dispatch.kept.seats import KeptSeats
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.dispatch.victim_gangs import protection_of, running_gang
from bayplan.dispatch.waking import ForItself, Waits
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang
from bayplan.gangs.preemption.obstacles import obstacles_for_gang
from bayplan.gangs.preemption.plan import (
    PATIENCE_ENDED,
    WORK_OF_A_QUICK_PROOF,
    GangPreemption,
    plan_gang_preemption,
)
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod, PodStatus
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.candidates import (
    EvictionRules,
    ObstacleKind,
    Protection,
    is_terminating,
    priority_of,
)
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.obstacles import Obstacle, obstacles_for
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption, plan_preemption
from bayplan.scheduling.profile import PreemptionMode, Profile

# A nominated unit is looked at this often even if nothing seems to happen.
LOOKS_EVERY = 5.0
COUNTING = NoPreemption("pods are being counted")
# A pod that has been terminating for this many seconds beyond its deadline (a finalizer keeps it) does not count as
# leaving any more.
STUCK_AFTER = 300.0
# A pod whose eviction was refused is left alone for this many seconds.
LEFT_ALONE = 60.0
# Pods that are counted at most before other units have their turn: about 30 ms.
PODS_COUNTED_AT_ONCE = 2_000


@dataclass(frozen=True)
class PreemptionResult:
    """What came of an attempt: a plan or why there is none, what becomes of it, and when to look again."""

    plan: AnyPreemption
    stage: Stage = Stage.PLANNED
    again_at: float | None = None
    for_kept_room: bool = False
    """True if victims would help only where room is kept for others: the unit waits for that, not for room."""

    def is_under_way(self, now: float) -> bool:
        """True if the unit is nominated, or its plan goes on at once."""
        return self.stage is not Stage.PLANNED or self.again_at == now

    def waits_for(self, unit: Unit, otherwise: Waits, now: float) -> Waits:
        """What wakes the unit: only its own nomination or kept room, if it waits for these; otherwise as without."""
        return ForItself(unit) if self.is_under_way(now) or self.for_kept_room else otherwise


class Preempting:
    """Preemption for the units of one dispatcher."""

    def __init__(
        self,
        state: ClusterState,
        roster: GangRoster,
        answers: ClassAnswers,
        work_of_a_proof: float = WORK_OF_A_QUICK_PROOF,
    ) -> None:
        self._work_of_a_proof = work_of_a_proof
        self.budgets = DisruptionBudgets()
        seats = KeptSeats(state)
        self.nominations = Nominations(state, seats)
        self.kept_room = KeptRoom(state, self.nominations, seats)
        self.in_vain = 0
        """Victims that were evicted for units that found no place afterwards."""
        self._state = state
        self._roster = roster
        self._answers = answers
        self._freeable = Freeable(state, lambda key, pod: is_terminating(pod) or key in self.nominations.leaving)
        self._resumed: Nomination | None = None
        self._left_alone: dict[str, float] = {}
        # Pods that another leader nominated, and until when their room might not be visible yet.
        self._nominated_before: dict[str, float] = {}
        self._now = 0.0

    # -- a decision -----------------------------------------------------------------------------------------------

    def resume(self, unit: Unit) -> None:
        """Give back the room of a unit that is about to be decided; `settle` follows."""
        self._resumed = self.nominations.give_back(unit)

    def settle(self, unit: Unit, action: Action | None) -> None:
        """After the decision: withdraw the nomination of a unit that has no place and waits for no victims.

        It is held back, invalid or released, or its decision failed: others may use the room, its remaining victims
        stay, and its pods name no node any more.
        """
        resumed, self._resumed = self._resumed, None
        if isinstance(action, Bind) or (isinstance(action, Unschedulable) and action.stage is not Stage.PLANNED):
            return
        if isinstance(action, Complete) and resumed is not None:
            # The gang is decided again at once, for the members that still wait.
            self.nominations.keep(resumed)
            return
        nomination = resumed or self.nominations.get(unit)
        if nomination is not None:
            self.nominations.withdraw(nomination)

    def for_pod(self, pod: Pod, profile: Profile, closing: ClosedNodes, now: float) -> PreemptionResult | None:
        """What can be done for a pod without a place; None if its profile does not preempt."""

        def plan() -> Preemption | NoPreemption:
            return plan_preemption(self._state, pod, profile, self._answers, self._freeable, self._rules())

        def seats(found: Preemption | GangPreemption) -> list[Decision] | None:
            with without(self._state, self._gone(found), logged=True):
                nominated = _nominated_to(pod, found.node) if isinstance(found, Preemption) else pod
                decision = schedule_one(self._state, nominated, profile, self._answers, explain=False)
            return [decision] if decision.placed else None

        names = frozenset(self._state.classes.of(pod).request.total)
        return self._attempt(PodUnit(pod_key(pod)), (pod,), priority_of(pod), profile, names, plan, seats, closing, now)

    def for_gang(
        self, unit: GangUnit, scheduler: GangScheduler, gang: Gang, closing: ClosedNodes, now: float
    ) -> PreemptionResult | None:
        """What can be done for a gang without a place; None if its profile does not preempt."""

        def plan() -> GangPreemption | NoPreemption:
            return plan_gang_preemption(scheduler, gang, self._freeable, self._rules(), proof=self._work_of_a_proof)

        def seats(found: Preemption | GangPreemption) -> list[Decision] | None:
            with without(self._state, self._gone(found), logged=True):
                decision = schedule_gang(scheduler, gang, PATIENCE_ENDED)
                taken = assume_gang(scheduler, gang, decision) if decision.placed else None
                for each in taken or ():
                    self._state.forget(each.pod)
            return taken

        names = frozenset(name for pod in gang.pods for name in self._state.classes.of(pod).request.total)
        priority = min(map(priority_of, gang.pods))
        return self._attempt(unit, gang.pods, priority, scheduler.profile, names, plan, seats, closing, now)

    def obstacles_for_pod(self, pod: Pod, profile: Profile) -> tuple[Obstacle, ...]:
        """Why there is no plan for a pod that was asked about before."""
        return obstacles_for(self._state, pod, profile, self._answers, self._freeable, self._rules())

    def obstacles_for_gang(self, scheduler: GangScheduler, gang: Gang) -> tuple[Obstacle, ...]:
        """Why there is no plan for a gang that was asked about before."""
        return obstacles_for_gang(scheduler, gang, self._freeable, self._rules())

    def _attempt(
        self,
        unit: Unit,
        pods: Sequence[Pod],
        priority: int,
        profile: Profile,
        names: frozenset[str],
        plan: Callable[[], AnyPreemption],
        seats: Callable[[Preemption | GangPreemption], list[Decision] | None],
        closing: ClosedNodes,
        now: float,
    ) -> PreemptionResult | None:
        if profile.preemption is PreemptionMode.OFF:
            return None
        self._now = now
        resumed, self._resumed = self._resumed, None
        by_key = {pod_key(pod): pod for pod in pods}
        if resumed is not None:
            if {each.pod for _, each in resumed.seats} <= by_key.keys() and self._still_holds(resumed):
                self.nominations.keep(resumed)
                return PreemptionResult(resumed.plan, Stage.UNDER_WAY, now + LOOKS_EVERY)
            self.nominations.withdraw(resumed)
        if not self._freeable.refresh(names | {PODS}, PODS_COUNTED_AT_ONCE):
            return PreemptionResult(COUNTING, again_at=now)
        found = closing.decide(plan, lambda made: self._seats_of(made, by_key))
        if isinstance(found, NoPreemption) and closing.rows:
            return PreemptionResult(NoPreemption(closing.reason), again_at=now + LOOKS_EVERY, for_kept_room=True)
        if isinstance(found, NoPreemption) or profile.preemption is PreemptionMode.DRY_RUN:
            return PreemptionResult(found, again_at=min(self._left_alone.values(), default=None))
        if found.cost[0]:
            # The API server refuses evictions that violate a budget.
            return PreemptionResult(found, again_at=now + LEFT_ALONE)
        before = max(self._nominated_before.get(key, 0.0) for key in by_key)
        if found.victims and before > now:
            return PreemptionResult(NoPreemption("its nominated node has yet to report the room"), again_at=before)
        decisions = seats(found)
        if decisions is None:
            return PreemptionResult(NoPreemption("the plan could not be confirmed"))
        seated = tuple((by_key[each.pod], each) for each in decisions)
        leaving = {each.key for each in found.victims} | set(found.leaving)
        self.nominations.keep(Nomination(unit, priority, seated, found, leaving))
        return PreemptionResult(found, Stage.CARRY_OUT, now + LOOKS_EVERY)

    def rows_taken(self, unit: Unit, result: PreemptionResult | None) -> set[int]:
        """The rows where an attempt has just nominated a unit."""
        nomination = self.nominations.get(unit)
        if result is None or result.stage is not Stage.CARRY_OUT or nomination is None:
            return set()
        return {decision.row for _, decision in nomination.seats}

    def _seats_of(self, plan: AnyPreemption, pods: Mapping[str, Pod]) -> list[tuple[Pod, int]]:
        if isinstance(plan, NoPreemption):
            return []
        nodes = ((plan.pod, plan.node),) if isinstance(plan, Preemption) else plan.nodes
        return [(pods[key], self._state.rows[node]) for key, node in nodes]

    def _still_holds(self, nomination: Nomination) -> bool:
        """True while victims leave, and until reports had time to show the room; False if one of them is stuck."""
        if nomination.leaving:
            there = [pod for key in nomination.leaving if (pod := self._state.bound.get(key)) is not None]
            return not any(self._is_stuck(pod) for pod in there)
        if nomination.until is None or self._now < nomination.until:
            return True
        self.in_vain += len(nomination.plan.victims)
        return False

    # -- what happens meanwhile -----------------------------------------------------------------------------------

    def pod_gone(self, key: str, now: float) -> list[Unit]:
        """A pod is gone; return the nominated units that have no victim left."""
        self._left_alone.pop(key, None)
        self._nominated_before.pop(key, None)
        return self.nominations.pod_gone(key, now)

    def nominated_by_another(self, key: str, now: float) -> None:
        """Another leader nominated a waiting pod: its victims may be gone although no report shows it yet."""
        self._nominated_before.setdefault(key, now + ROOM_IS_KEPT)

    def unit_gone(self, unit: Unit) -> None:
        """A unit is gone, or needs no room any more."""
        self.nominations.give_back(unit)
        if isinstance(unit, PodUnit):
            self._nominated_before.pop(unit.pod, None)

    def not_evicted(self, refused: Collection[str], now: float) -> list[Unit]:
        """The API server refused to evict some pods: they are left alone for a while.

        Returns units that counted on them.
        """
        self._left_alone |= dict.fromkeys(refused, now + LEFT_ALONE)
        return self.nominations.withdraw_counting_on(refused)

    def was_nominated(self, unit: Unit) -> bool:
        """True of the unit that is being decided if it had a nomination."""
        return self._resumed is not None and self._resumed.unit == unit

    # -- rules ----------------------------------------------------------------------------------------------------

    def _rules(self) -> EvictionRules:
        self._left_alone = {key: until for key, until in self._left_alone.items() if until > self._now}
        gang_of = partial(running_gang, self._roster)
        return EvictionRules(self.budgets, gang_of, self._protection, self._is_stuck, self.nominations.leaving)

    def _protection(self, pod: Pod) -> Protection | None:
        if pod_key(pod) in self._left_alone:
            return Protection(ObstacleKind.REFUSED)
        return protection_of(self._roster, pod)

    def _is_stuck(self, pod: Pod) -> bool:
        deadline = moment_of(pod.metadata.deletion_timestamp or "")
        return deadline is not None and deadline.timestamp() + STUCK_AFTER < self._now

    def _gone(self, plan: Preemption | GangPreemption) -> list[str]:
        """The pods whose end a plan counts on."""
        keys = dict.fromkeys([*(each.key for each in plan.victims), *plan.leaving])
        return [key for key in keys if key in self._state.pods]


def _nominated_to(pod: Pod, node: str) -> Pod:
    """The pod as it will be: its room is kept where it is nominated to, even if evictions open better nodes, too."""
    status = structs.replace(pod.status or PodStatus(), nominated_node_name=node)
    return structs.replace(pod, status=status)
