"""Preemption in the dispatcher: plans for units without a place, and the room that is kept until their victims are gone.

A unit whose plan is carried out is *nominated*: its pods are assumed on their nodes at once, beside the victims, so that no other unit takes
the room that these leave. When the last victim is gone, the room is given back and the unit is decided as any other. A unit that is more
important than a nominated one takes its room. After a restart, nominations are found again: pods that are being deleted count as gone in
every plan, so the same unit is nominated again without another eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bayplan.cluster.dry_run import without
from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dialects.preemptible import is_preemptible
from bayplan.dialects.registry import dialect_of_gang
from bayplan.dispatch.actions import AnyPreemption
from bayplan.dispatch.roster import GangRoster
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang
from bayplan.gangs.preemption import PATIENCE_ENDED, GangPreemption, plan_gang_preemption
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.errors import InvalidObject
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.candidates import EvictionRules, RunningGang, priority_of
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption, plan_preemption
from bayplan.scheduling.profile import PreemptionMode, Profile

# After the last victim is gone, the room is kept for so many seconds until a report shows it.
ROOM_IS_KEPT = 30.0
# A nominated unit is looked at this often even if nothing seems to happen.
LOOKS_EVERY = 5.0
# A pod that has been terminating for so many seconds beyond its deadline (a finalizer keeps it) does not count as leaving any more.
STUCK_AFTER = 300.0
# A pod whose eviction was refused is left alone for so many seconds.
LEFT_ALONE = 60.0
# Pods that are counted at most before other units have their turn: about 30 ms.
PODS_COUNTED_AT_ONCE = 2_000


@dataclass
class Nomination:
    """Room that is kept for a unit until its victims are gone."""

    unit: str
    priority: int
    seats: tuple[tuple[Pod, Decision], ...]
    plan: Preemption | GangPreemption
    leaving: set[str]
    """The victims, and other pods that were leaving the nodes already, as long as they are there."""
    until: float | None = None
    """When the room is given up, once all are gone."""


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt: a plan or why there is none, whether to evict its victims, and when to look again."""

    plan: AnyPreemption
    evict: bool = False
    again_at: float | None = None


class Preempting:
    """Nominated units and disruption budgets of one dispatcher."""

    def __init__(self, state: ClusterState, roster: GangRoster, answers: ClassAnswers) -> None:
        self.budgets = DisruptionBudgets()
        self.in_vain = 0
        """Victims that were evicted for units that found no place afterwards."""
        self._state = state
        self._roster = roster
        self._answers = answers
        self._freeable = Freeable(state)
        self._nominations: dict[str, Nomination] = {}
        self._resumed: Nomination | None = None
        self._left_alone: dict[str, float] = {}
        self._now = 0.0
        self._rows_seen = -1

    # -- a decision -----------------------------------------------------------------------------------------------

    def resume(self, unit: str) -> None:
        """Give back the room of a unit that is about to be decided."""
        self._resumed = self._nominations.pop(unit, None)
        if self._resumed is not None:
            self._give_back(self._resumed)

    def withdraw_less_important(self, priority: int) -> list[str]:
        """Give back the room of units that are less important than one without a place, and return them."""
        units = [each.unit for each in self._nominations.values() if each.priority < priority]
        for unit in units:
            self._give_back(self._nominations.pop(unit))
        return units

    def for_pod(self, pod: Pod, profile: Profile, now: float) -> Outcome | None:
        """What can be done for a pod without a place; None if its profile does not preempt."""

        def plan() -> Preemption | NoPreemption:
            return plan_preemption(self._state, pod, profile, self._answers, self._freeable, self._rules())

        def seats(found: Preemption | GangPreemption) -> list[Decision] | None:
            with without(self._state, self._gone(found)):
                # One node is asked, not the cached answers of all: those do not know of the dry run.
                decision = schedule_one(self._state, pod, profile, ClassAnswers(self._state), explain=False)
            return [decision] if decision.placed else None

        names = frozenset(self._state.classes.of(pod).request.total)
        return self._attempt(pod_key(pod), (pod,), priority_of(pod), profile, names, plan, seats, now)

    def for_gang(self, unit: str, scheduler: GangScheduler, gang: Gang, now: float) -> Outcome | None:
        """What can be done for a gang without a place; None if its profile does not preempt."""

        def plan() -> GangPreemption | NoPreemption:
            return plan_gang_preemption(scheduler, gang, self._freeable, self._rules())

        def seats(found: Preemption | GangPreemption) -> list[Decision] | None:
            with without(self._state, self._gone(found), logged=True):
                decision = schedule_gang(scheduler, gang, PATIENCE_ENDED)
                taken = assume_gang(scheduler, gang, decision) if decision.placed else None
                for each in taken or ():
                    self._state.forget(each.pod)
            return taken

        names = frozenset(name for pod in gang.pods for name in self._state.classes.of(pod).request.total)
        priority = min(map(priority_of, gang.pods))
        return self._attempt(unit, gang.pods, priority, scheduler.profile, names, plan, seats, now)

    def _attempt(
        self,
        unit: str,
        pods: Sequence[Pod],
        priority: int,
        profile: Profile,
        names: frozenset[str],
        plan: Callable[[], AnyPreemption],
        seats: Callable[[Preemption | GangPreemption], list[Decision] | None],
        now: float,
    ) -> Outcome | None:
        if profile.preemption is PreemptionMode.OFF:
            return None
        self._now = now
        resumed, self._resumed = self._resumed, None
        by_key = {pod_key(pod): pod for pod in pods}
        if resumed is not None and resumed.unit == unit and {each.pod for _, each in resumed.seats} <= by_key.keys():
            if resumed.leaving or resumed.until is None or now < resumed.until:
                self._keep(resumed)
                return Outcome(resumed.plan, again_at=now + LOOKS_EVERY)
            self.in_vain += len(resumed.plan.victims)
        if not self._freeable.refresh(names | {PODS}, PODS_COUNTED_AT_ONCE):
            return Outcome(NoPreemption("pods are being counted"), again_at=now)
        found = plan()
        if isinstance(found, NoPreemption) or profile.preemption is PreemptionMode.DRY_RUN:
            return Outcome(found)
        decisions = seats(found)
        if decisions is None:
            return Outcome(NoPreemption("the plan could not be confirmed"))
        seated = tuple((by_key[each.pod], each) for each in decisions)
        leaving = {each.key for each in found.victims} | set(found.leaving)
        self._keep(Nomination(unit, priority, seated, found, leaving))
        return Outcome(found, evict=bool(found.victims), again_at=now + LOOKS_EVERY)

    # -- what happens meanwhile -----------------------------------------------------------------------------------

    def pod_gone(self, key: str, now: float) -> list[str]:
        """A pod is gone; return the nominated units that have no victim left."""
        self._left_alone.pop(key, None)
        ready = []
        for nomination in list(self._nominations.values()):
            if key in nomination.leaving:
                nomination.leaving.discard(key)
                # Taken again: now there is more in the zones than when it was nominated.
                self._give_back(nomination)
                self._keep(nomination)
                if not nomination.leaving:
                    nomination.until = now + ROOM_IS_KEPT
                    ready.append(nomination.unit)
        return ready

    def changed(self) -> list[str]:
        """Nominated units without victims on whose nodes something changed, such as a new report."""
        log = self._state.usage_log
        if not self._nominations or self._rows_seen == log.end:
            return []
        rows = log.since(self._rows_seen)
        self._rows_seen = log.end
        touched = None if rows is None else set(rows.tolist())
        return [
            each.unit
            for each in self._nominations.values()
            if not each.leaving and (touched is None or any(decision.row in touched for _, decision in each.seats))
        ]

    def unit_gone(self, unit: str) -> None:
        """A unit is gone and no longer needs its room."""
        nomination = self._nominations.pop(unit, None)
        if nomination is not None:
            self._give_back(nomination)

    def not_evicted(self, unit: str, refused: Collection[str], now: float) -> None:
        """The API server refused to evict some pods: they are left alone for a while, and the room is given up."""
        for key in refused:
            self._left_alone[key] = now + LEFT_ALONE
        if refused:
            self.unit_gone(unit)

    def was_nominated(self, unit: str) -> bool:
        """True of the unit that is being decided if it had a nomination."""
        return self._resumed is not None and self._resumed.unit == unit

    def nominated(self, unit: str) -> Nomination | None:
        """The room that is kept for a unit, if any."""
        return self._nominations.get(unit)

    # -- rules ----------------------------------------------------------------------------------------------------

    def _rules(self) -> EvictionRules:
        self._left_alone = {key: until for key, until in self._left_alone.items() if until > self._now}
        return EvictionRules(self.budgets, self._gang_of, self._must_stay, self._is_stuck)

    def _must_stay(self, pod: Pod) -> bool:
        return pod_key(pod) in self._left_alone or not is_preemptible(pod)

    def _is_stuck(self, pod: Pod) -> bool:
        deadline = moment_of(pod.metadata.deletion_timestamp or "")
        return deadline is not None and deadline.timestamp() + STUCK_AFTER < self._now

    def _gang_of(self, key: str) -> RunningGang | None:
        name = self._roster.gang_of(key)
        if not name:
            return None
        running = [pod_key(pod) for pod in self._roster.running(name) if pod.metadata.deletion_timestamp is None]
        written = self._roster.groups.get(name)
        try:
            least = None if written is None else dialect_of_gang(name).least_running(written)
        except InvalidObject:
            least = None
        surplus = 0 if least is None else max(len(running) - least, 0)
        return RunningGang(name, tuple(running), surplus)

    # -- room -----------------------------------------------------------------------------------------------------

    def _gone(self, plan: Preemption | GangPreemption) -> list[str]:
        """The pods whose end a plan counts on."""
        keys = dict.fromkeys([*(each.key for each in plan.victims), *plan.leaving])
        return [key for key in keys if key in self._state.pods]

    def _keep(self, nomination: Nomination) -> None:
        if any(decision.pod in self._state.pods for _, decision in nomination.seats):
            return
        for pod, decision in nomination.seats:
            assume(self._state, decision, pod)
        self._nominations[nomination.unit] = nomination
        self._rows_seen = self._state.usage_log.end

    def _give_back(self, nomination: Nomination) -> None:
        for _, decision in nomination.seats:
            self._state.forget(decision.pod)
