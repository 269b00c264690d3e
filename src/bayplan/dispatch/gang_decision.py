"""One decision about one gang, from its members to an action. Read `decide` from top to bottom.

Members that are still to come, gates and PodGroups can hold a gang back. Otherwise `gangs/cycle.py` places it. A gang
without a place is parked, or released if it has been partially bound for too long (`partially_bound.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import structs

from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete, has_started
from bayplan.dialects.own import pod_group as own
from bayplan.dialects.registry import AnyPodGroup, dialect_of_gang
from bayplan.dispatch.actions import Action, Assignment, Bind, Complete, Release, Unschedulable
from bayplan.dispatch.core import Core, SetAside
from bayplan.dispatch.kept.kept_room import ClosedNodes
from bayplan.dispatch.late_members import LateMembers
from bayplan.dispatch.partially_bound import PartiallyBound, has_original_members
from bayplan.dispatch.preemption import LOOKS_EVERY
from bayplan.dispatch.units import GangUnit
from bayplan.dispatch.waking import NO_NAMESPACES, ForGang, ForItself, Namespaces, Waits, namespaces_that_matter
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, refused_after_all, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, waited_for
from bayplan.gangs.relations.gang_relations import may_concern
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.split_gangs import split_problem
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision


@dataclass(frozen=True, slots=True)
class GangDecider:
    """Decides about gangs. `why_gang_waits` says why a gang is held back by its PodGroup, or nothing."""

    core: Core
    progress: PartiallyBound
    late_members: LateMembers
    why_gang_waits: Callable[[AnyPodGroup], str]

    def decide(self, unit: GangUnit, now: float) -> Action | None:
        """Decide about a gang that was popped from the queue; None if there is nothing to do."""
        core, progress, name = self.core, self.progress, unit.gang
        waiting, running = tuple(core.roster.waiting(name)), tuple(core.roster.running(name))
        progress.restart_if_new(name, (*waiting, *running))
        if any(pod_key(pod) in core.state.pods for pod in waiting) or progress.deletion_pending(name, running):
            # Binds or deletions are in flight: their watch events will touch the gang again.
            core.queue.done(unit)
            return None
        if progress.is_complete(name) and has_started(running, was_complete=True) and self.note_complete(name, now):
            core.queue.done(unit)
            return Complete(name)
        written = core.roster.groups.get(name)
        why = self.why_gang_waits(written) if waiting and written is not None else ""
        if why:
            return self._park_or_release(unit, running, now, Unschedulable(unit, waiting, why))
        try:
            gang = core.roster.gang(name)
            if isinstance(gang, Incomplete):
                return self._park_or_release(unit, running, now, Unschedulable(unit, waiting, gang.reason))
            if _has_what_it_needs(gang):
                recorded = progress.is_recorded(name, core.roster.group_uid(name))
                split = "" if recorded else split_of(core, gang)
                if split:
                    # Another component placed the gang: release no pod for that, and let none join.
                    core.park(unit, ForItself(unit), now)
                    return Unschedulable(unit, waiting, split)
                if self.note_complete(name, now):
                    core.queue.done(unit)
                    return Complete(name)
            if not gang.pods:
                core.queue.done(unit)
                self.late_members.keep_again(name, gang, running, now)
                return None
            return self._place(unit, gang, running, now)
        except InvalidObject as error:
            return self._park_or_release(unit, running, now, Unschedulable(unit, waiting, str(error), invalid=True))

    def note_complete(self, name: str, now: float) -> bool:
        """Note that a gang is complete; True if its PodGroup does not know yet."""
        roster = self.core.roster
        # Only bayplan's own PodGroups show completion. Other systems' gangs are reported once.
        shows = dialect_of_gang(name) is own.DIALECT and name in roster.groups
        return self.progress.completed(name, roster.group_uid(name), now, repeat=shows)

    def _place(self, unit: GangUnit, gang: Gang, running: tuple[Pod, ...], now: float) -> Action:
        core = self.core
        pods = {pod_key(pod): pod for pod in gang.pods}
        waiting = tuple(pods.values())
        held = next((pod for pod in waiting if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp), None)
        if held is not None:
            why = "is being deleted" if held.metadata.deletion_timestamp else "waits for its scheduling gates"
            beyond_need = _has_what_it_needs(gang)
            refusal = Unschedulable(unit, waiting, f"pod {pod_key(held)} {why}", beyond_need=beyond_need)
            return self._park_or_release(unit, running, now, refusal)
        began = core.stopwatch()
        # A gang is decided as a whole, so with one profile: that of its first pod.
        scheduler = core.schedulers[gang.pods[0].spec.scheduler_name or ""]
        known = core.queue.get(unit)
        # Only gangs with patience need this: parsing the timestamps of thousands of pods takes milliseconds.
        waited = waited_for(gang, now, known.first_seen if known is not None else now) if gang.patience else 0.0
        late, name = core.late, unit.gang
        late.lend(name, Counter({group.name: len(group.pods) for group in gang.root.every_group()}))
        try:
            with core.preempting.kept_room.deciding(scheduler.profile) as closing:
                action = self._seat(unit, gang, pods, scheduler, running, closing, began, waited or 0.0, now)
        except BaseException:
            late.returned(name, now, used=False)
            raise
        late.returned(name, now, used=isinstance(action, Bind))
        return action

    def _seat(
        self,
        unit: GangUnit,
        gang: Gang,
        pods: Mapping[str, Pod],
        scheduler: GangScheduler,
        running: tuple[Pod, ...],
        closing: ClosedNodes,
        began: float,
        waited: float,
        now: float,
    ) -> Action:
        """Find seats: beside the room that is kept for others, else in that of less important units or of the gang's
        own later members, else by a preemption.
        """
        core, preempting, name = self.core, self.core.preempting, unit.gang
        waiting = tuple(pods.values())
        beyond_need = _has_what_it_needs(gang)

        def place() -> GangDecision:
            return schedule_gang(scheduler, gang, waited, room_is_kept=core.late.get(name) is not None)

        def seats_of(decision: GangDecision) -> list[tuple[Pod, int]]:
            kept = preempting.kept_room.seats
            return [(pods[each.pod], core.state.rows[each.node]) for each in decision.seats] if kept else []

        decision = closing.decide(place, seats_of)
        tries_more = not decision.placed and not decision.waits
        aside = core.set_aside(_priority(gang), namespace_of(waiting[0]), name) if tries_more else SetAside()
        if aside:
            closing.open()
            decision = closing.decide(place, seats_of)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else None
        if taken is not None:
            taken = [self._beside_kept_room(each, pods[each.pod]) for each in taken]
            core.settle_set_aside(aside, now, {each.row for each in taken})
            for each in taken:
                core.reports.reserved(each.node or "", pods[each.pod])
            if decision.later:
                core.late.keep(name, decision.later, scheduler, waiting[0], now)
            seats = zip(taken, decision.seats, strict=True)
            return Bind(unit, tuple(Assignment(pods[each.pod], each, seat) for each, seat in seats))
        reason = refused_after_all(scheduler, gang, decision) if decision.placed else ""
        was_nominated = preempting.was_nominated(unit)
        if closing.rows and not was_nominated:
            core.settle_set_aside(aside, now)
            refusal = Unschedulable(unit, waiting, closing.reason, gang=decision, beyond_need=beyond_need)
            self.late_members.refused(refusal, gang, scheduler, running, now)
            return self._park_or_release(unit, running, now, refusal, again_at=now + LOOKS_EVERY)
        infeasible = decision.status is Status.INFEASIBLE and not decision.problem and not beyond_need
        may_preempt = infeasible or was_nominated
        result = preempting.for_gang(unit, scheduler, gang, closing, now) if may_preempt else None
        core.settle_set_aside(aside, now, preempting.rows_taken(unit, result))
        # Open the nodes before parking; afterwards it would look like an improvement and wake the unit.
        closing.open()
        refusal = Unschedulable(unit, waiting, reason, gang=decision, beyond_need=beyond_need)
        again_at = now + decision.patience_left if decision.waits else None
        waits_for: Waits = ForGang(scheduler.profile.name, gang, _namespaces(scheduler, gang))
        if result is not None:
            refusal = structs.replace(refusal, preemption=result.plan, stage=result.stage)
            again_at = result.again_at
            waits_for = result.waits_for(unit, waits_for, now)
        self.late_members.refused(refusal, gang, scheduler, running, now)
        took = core.stopwatch() - began
        return self._park_or_release(unit, running, now, refusal, waits_for, took=took, again_at=again_at)

    def _beside_kept_room(self, taken: Decision, pod: Pod) -> Decision:
        """A member's place as it counts beside room that is kept for other units."""
        core = self.core
        decision = core.preempting.kept_room.seats.beside(taken, pod)
        if decision is not taken:
            core.state.forget(decision.pod)
            assume(core.state, decision, pod)
        return decision

    def _park_or_release(
        self,
        unit: GangUnit,
        running: tuple[Pod, ...],
        now: float,
        refusal: Unschedulable,
        waits_for: Waits | None = None,
        *,
        took: float = 0.0,
        again_at: float | None = None,
    ) -> Action:
        """Park a gang without a place; release it if it has been partially bound for too long."""
        name = unit.gang
        to_release = self.progress.to_release(name, running, now, in_doubt=not self._was_never_complete(name))
        if to_release:
            self.core.queue.done(unit)
            return Release(name, to_release, refusal.reason or (refusal.gang.bound if refusal.gang else ""))
        times = [time for time in (again_at, self.progress.release_at(name)) if time is not None]
        self.core.park(
            unit,
            waits_for or ForItself(unit),
            now,
            took=took,
            again_at=min(times, default=None),
            # Late members of a started gang have no backoff: others must not take their room.
            eager=bool(running) or self.core.preempting.nominations.get(unit) is not None,
            hit_limit=refusal.gang is not None and refusal.gang.status is Status.LIMIT_REACHED,
        )
        return refusal

    def _was_never_complete(self, name: str) -> bool:
        """True only if it is certain that a gang was never complete."""
        roster = self.core.roster
        written, members = roster.groups.get(name), (*roster.waiting(name), *roster.running(name))
        return isinstance(written, PodGroup) and has_original_members(written.spec, members)


def split_of(core: Core, gang: Gang) -> str:
    """How a gang's running pods are split over domains that it must not span; empty if they are not."""
    tree = core.trees.get(core.trees.name_for(gang)) if gang.names_levels else None
    return "" if tree is None else split_problem(gang, tree, core.state)


def _priority(gang: Gang) -> int:
    return min((pod.spec.priority or 0 for pod in gang.pods), default=0)


def _has_what_it_needs(gang: Gang) -> bool:
    """True if every pod that a gang needs has a node."""
    return not any(group.least for group in gang.root.every_group())


def _namespaces(scheduler: GangScheduler, gang: Gang) -> Namespaces:
    """The namespaces whose pods can keep a gang off nodes."""
    found = NO_NAMESPACES
    if may_concern(scheduler.state, gang, scheduler.profile):
        for member in scheduler.members(gang):
            of_member = namespaces_that_matter(scheduler.state, member.namespace, member.labels, member.terms)
            if of_member is None:
                return None
            found |= of_member
    return found
