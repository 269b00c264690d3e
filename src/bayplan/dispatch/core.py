"""The parts that pod units and gang units share: cluster state, gangs, queue, waking, one scheduler per profile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.cluster.reports.intake import LEDGER, ReportIntake, ReportSettings, intake_for
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.kept.late_room import LateRoom, LateRooms
from bayplan.dispatch.kept.nominations import Nomination
from bayplan.dispatch.preemption import Preempting, PreemptionResult
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.units import Unit
from bayplan.dispatch.waking import ForItself, Waits, Waking
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile


@dataclass(frozen=True, slots=True)
class SetAside:
    """Room that a unit may take: it is given back while the unit is decided."""

    nominations: Sequence[Nomination] = ()
    late: Sequence[LateRoom] = ()

    def __bool__(self) -> bool:
        return bool(self.nominations or self.late)


@dataclass(frozen=True, slots=True)
class Core:
    """What every unit is decided with. The caller provides the `stopwatch`; no module of this room reads a clock."""

    profiles: Mapping[str, Profile]
    state: ClusterState
    reports: ReportIntake
    trees: Trees
    answers: ClassAnswers
    roster: GangRoster
    queue: SchedulingQueue
    schedulers: Mapping[str, GangScheduler]
    waking: Waking
    stopwatch: Callable[[], float]
    preempting: Preempting
    late: LateRooms
    to_settle: list[SetAside] = field(default_factory=list)
    """Room that was set aside for the unit that is being decided."""

    def park(
        self,
        unit: Unit,
        waits_for: Waits,
        now: float,
        *,
        took: float = 0.0,
        again_at: float | None = None,
        eager: bool = False,
        hit_limit: bool = False,
    ) -> None:
        """Park a unit that found no place until `waits_for` happens; other arguments as in `SchedulingQueue.failed`."""
        self.queue.failed(
            unit, now, waits_for=waits_for, took=took, again_at=again_at, eager=eager, hit_limit=hit_limit
        )
        self.waking.parked(waits_for)

    def park_preemptor(self, unit: Unit, result: PreemptionResult, waits_for: Waits, now: float) -> None:
        """Park a unit after an attempt to preempt: a nominated one wakes as soon as its victims are gone."""
        waits_for = result.waits_for(unit, waits_for, now)
        self.park(unit, waits_for, now, again_at=result.again_at, eager=result.is_under_way(now))

    def set_aside(self, priority: int, tenant: str, own: str = "") -> SetAside:
        """Give back the kept room that a unit of this priority and namespace may take, and that of its `own` gang.

        `settle_set_aside` follows.
        """
        late = self.late.set_aside(priority, tenant, own)
        aside = SetAside(self.preempting.nominations.set_aside(priority), late)
        self.to_settle.append(aside)
        return aside

    def settle_set_aside(self, aside: SetAside, now: float, rows_taken: Collection[int] = ()) -> None:
        """After the decision about a unit that may take kept room, keep it again.

        Nominated units with room on a node that the unit takes plan again; later members lose their seats there.
        """
        self.to_settle.clear()
        if aside.late:
            self.late.settle(aside.late, rows_taken, now)
            self.preempting.nominations.saw_all_changes()
        for each in aside.nominations:
            if any(decision.row in rows_taken for _, decision in each.seats):
                self.preempting.nominations.withdraw(each)
                self.queue.wake(ForItself(each.unit), now)
            else:
                self.preempting.nominations.keep(each)

    def settle_after_failure(self, now: float) -> None:
        """Keep again what was set aside for a unit whose decision failed in the middle."""
        for aside in tuple(self.to_settle):
            self.settle_set_aside(aside, now)

    def forget_assumed(self, pod: Pod) -> None:
        """Give back what was assumed for a pod, unless a watch event has confirmed it."""
        placed = self.state.pods.get(pod_key(pod))
        if placed is not None and not placed.confirmed:
            node = self.state.names[placed.row]
            self.state.forget(pod_key(pod))
            self.reports.unreserved(node, pod)


def new_core(
    profiles: Mapping[str, Profile],
    queue: SchedulingQueue,
    stopwatch: Callable[[], float] = lambda: 0.0,
    keeps_room_for: float = 0.0,
) -> Core:
    """The parts for an empty cluster. The first profile with a topology plugin sets how node reports are used."""
    topology = next((profile.topology for profile in profiles.values() if profile.topology is not None), None)
    state = ClusterState(topology.arguments.assumptions if topology is not None else Assumptions())
    settings = topology.arguments.reports if topology is not None else ReportSettings()
    state.freshness.waits_for_reports = state.freshness.hears_late = settings.accounting == LEDGER
    trees = Trees(state)
    answers = ClassAnswers(state)
    schedulers = {name: GangScheduler(state, trees, profile, answers) for name, profile in profiles.items()}
    roster = GangRoster(lambda: trees.topologies)
    preempting = Preempting(state, roster, answers)
    return Core(
        profiles=profiles,
        state=state,
        reports=intake_for(state, settings, set(profiles)),
        trees=trees,
        answers=answers,
        roster=roster,
        queue=queue,
        schedulers=schedulers,
        waking=Waking(state, schedulers),
        stopwatch=stopwatch,
        preempting=preempting,
        late=LateRooms(state, preempting.kept_room.seats, keeps_room_for),
    )
