"""A scenario happens: pods arrive, a scheduler decides, kubelets admit or refuse, controllers replace, reports arrive
late.

    arrive -> wait -> decide -> bind -> admit: start, run, end
                                     -> refuse: Failed; its controller creates another one, or gives up

The scheduler is the one of `scheduling/`, unchanged: `schedule_one` decides on a `ClusterState` that knows only what
nodes have told it. The kubelets (`simulate/kubelet/`) know the truth. Between the two stands the report, which arrives
`report_delay` after what it shows. Call `step` until it says that it is over; `result` may be asked at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from bayplan.cluster.pods.request import CPU, MEMORY, Role
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import PreemptionMode
from bayplan.simulate.clock import Clock
from bayplan.simulate.evictions import Evictions
from bayplan.simulate.gang_turns import GangTurn, GangTurns
from bayplan.simulate.gangs import Gangs, SimulatedGang
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.members import (
    LiveMember,
    agent_of,
    by_chance,
    first,
    true_state,
    waits,
    workload_result,
    zones_decided,
)
from bayplan.simulate.reasons import reasons_to_wait
from bayplan.simulate.reports import Reports
from bayplan.simulate.run import KubeletRefusal, Moment, Run
from bayplan.simulate.scenario.gangs import TREE
from bayplan.simulate.scenario.model import (
    JOB_BACKOFF,
    REPLACE_AFTER,
    Kind,
    Scenario,
    Seconds,
)
from bayplan.simulate.schedulers import Scheduler, scheduler_named
from bayplan.simulate.tally import Tally
from bayplan.simulate.waiting import WaitingUnit, WaitingUnits

# How long a scheduler takes to decide and bind, and a kubelet to start containers; the same for all that are compared.
DECIDES_IN: Seconds = 0.01
STARTS_IN: Seconds = 1.0
# How long an evicted pod takes to leave.
STOPS_IN: Seconds = 2.0
# A deadline that no simulation reaches: evicted pods always leave.
DELETED = "2100-01-01T00:00:00Z"
LONGEST_BACKOFF: Seconds = 360.0


class View(NamedTuple):
    """What there is to see of a simulation: kubelets that know the truth, and what the scheduler knows.

    `bound` are pods on nodes by key, `waiting` those without one.
    """

    agents: Mapping[str, NodeAgent]
    state: ClusterState
    bound: Mapping[str, Pod]
    waiting: Iterator[Pod]
    gangs: Collection[SimulatedGang]
    tally: Tally
    scheduler: Scheduler


class Simulation:
    """One scheduler in one scenario.

    It is large because each kind of event has a method, and all of them share the clock, the kubelets and the tally.
    """

    def __init__(self, scenario: Scenario, scheduler: str, report_delay: Seconds | None = None) -> None:
        self.scenario = scenario
        self.report_delay = scenario.report_delay if report_delay is None else report_delay
        self._scheduler = scheduler_named(scheduler)
        self._clock = Clock()
        self._agents = {node.name: agent_of(node) for node in scenario.nodes}
        self._kubelets = {name: agent.kubelet for name, agent in self._agents.items()}
        self._state = ClusterState()
        self._state.freshness.waits_for_reports = self._scheduler.keeps_ledger
        self._answers = ClassAnswers(self._state)
        self._choose = first if self._scheduler.keeps_ledger else by_chance(scenario.seed)
        self._reports = Reports(self._scheduler, self._state, self._agents, self._clock, self.report_delay, self._wake)
        self._waiting = WaitingUnits()
        self._deciding = False
        # Pods that were decided about and are bound when the session ends.
        self._session: list[tuple[LiveMember, Pod, Decision]] = []
        self._creations = count()
        self._bound: dict[str, Pod] = {}
        self._remarks: list[str] = []
        self._tally = Tally(scenario.lasts, (kubelet.allocatable for kubelet in self._kubelets.values()))
        self._gangs = Gangs(scenario.workloads, scenario.nodes, scenario.levels)
        self._gang_scheduler = self._open_gang_scheduler()
        self._evictions = Evictions(self._state, self._scheduler, self._answers) if scenario.preemption else None
        self._turns = GangTurns(self._gang_scheduler, self._evictions)
        self._gangs_crippled = 0
        # Pods on nodes by key, and the planned ends of those that come to one.
        self._member_of: dict[str, LiveMember] = {}
        self._ends: dict[str, int] = {}
        # By gang, pods that have started and wait for the others; by unit, what is planned for the end of its patience.
        self._held: dict[str, list[tuple[LiveMember, Pod]]] = {}
        self._patience: dict[Unit, int] = {}
        self._members = [
            LiveMember(workload, wanted, name, self._gangs.of(workload, number))
            for workload in scenario.workloads
            for number, (wanted, name) in enumerate(zip(workload.members, workload.pod_names(), strict=True))
        ]
        self._by_workload: dict[str, list[LiveMember]] = {}
        for member in self._members:
            self._by_workload.setdefault(member.workload.name, []).append(member)
        self._not_started_yet = len(self._members)
        self._all_running_at: Seconds | None = None
        self._set_up()

    @property
    def now(self) -> Seconds:
        """Simulated time."""
        return self._clock.now

    @property
    def progress(self) -> float:
        """How far the simulated time has come, 0 to 1."""
        return min(self.now / self.scenario.lasts, 1.0) if self.scenario.lasts else 1.0

    @property
    def pods_created(self) -> int:
        """How many pods there have been so far, those that were created again included."""
        return sum(member.attempts for member in self._members)

    def step(self) -> bool:
        """Let one thing happen. False if nothing is left to happen before the end."""
        moment = self.next_moment
        if moment is None:
            return False
        self._tally.pass_to(moment)
        self._clock.advance()()
        return True

    @property
    def next_moment(self) -> Seconds | None:
        """When the next thing happens; None if nothing does before the end."""
        moment = self._clock.next_moment
        return None if moment is None or moment > self.scenario.lasts else moment

    def view(self) -> View:
        """The cluster as it stands, for those who look on; it goes on changing."""
        waiting = (pod for unit in self._units_without_nodes() for _, pod in unit.pods)
        return View(self._agents, self._state, self._bound, waiting, self._gangs.all, self._tally, self._scheduler)

    def _open_gang_scheduler(self) -> GangScheduler:
        trees = Trees(self._state)
        trees.set(TREE, self.scenario.levels)
        mode = PreemptionMode.ON if self.scenario.preemption else PreemptionMode.OFF
        return GangScheduler(self._state, trees, replace(self._scheduler.profile, preemption=mode), self._answers)

    # -- what happens ---------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        for agent in self._agents.values():
            self._state.set_node(agent.node)
        for pod in self.scenario.running:
            self._take_over(pod)
        self._reports.start()
        for member in self._members:
            self._clock.at(member.wanted.arrives, partial(self._arrive, member))

    def _take_over(self, pod: Pod) -> None:
        """A pod that runs from the beginning; where the kubelet would not admit it again, it is left out."""
        name = pod.spec.node_name or ""
        admission = self._kubelets[name].admit(pod_key(pod), self._state.classes.request_of(pod))
        if not admission.admitted:
            self._remarks.append(f"pod {pod_key(pod)} on node {name} is left out: {admission.reason}")
            return
        self._kubelets[name].start(pod_key(pod))
        self._bound[pod_key(pod)] = pod
        self._state.set_pod(pod)
        self._tally.there_from_the_beginning(self._state.classes.request_of(pod).total)

    def _arrive(self, member: LiveMember) -> None:
        if not member.arrived:
            member.arrived = True
            self._tally.waiting += 1
        pod = member.next_pod(self.now)
        member.created = next(self._creations)
        unit: WaitingUnit | None = None
        if member.gang is not None:
            member.gang.arrive(pod, self.now)
        if member.gang is not None and self._scheduler.knows_gangs:
            unit = self._turns.join(member, member.gang, pod)
        else:
            # Pods of one class get the same answer, but each has victims of its own.
            waits_for = self._state.classes.of(pod) if self._evictions is None else pod_key(pod)
            unit = WaitingUnit(PodUnit(pod_key(pod)), ((member, pod),), waits_for)
        if unit is not None:
            self._waiting.add(unit, self.now)
        self._go_on_deciding()

    def _go_on_deciding(self) -> None:
        if not self._deciding:
            self._deciding = True
            self._clock.after(DECIDES_IN, self._decide)

    def _decide(self) -> None:
        """Make one decision; the next one follows as long as a waiting unit has a chance."""
        self._deciding = False
        unit = self._waiting.next(self.now)
        if unit is None:
            return
        turn = self._decide_about_pod(unit) if unit.gang is None else self._turns.decide(unit.gang, self.now)
        self._evict(turn.evict)
        self._plan_end_of_patience(unit, turn.patience_ends)
        if not turn.decisions:
            self._waiting.park(unit, self.now, turn.patience_ends)
        else:
            self._waiting.placed(unit)
            for member, pod in unit.pods:
                if pod_key(pod) in turn.decisions:
                    self._bind(member, pod, turn.decisions[pod_key(pod)])
            rest = self._turns.rest_of(unit.gang) if unit.gang is not None else None
            if rest is not None:
                self._waiting.add(rest, self.now)
        self._go_on_deciding()

    def _plan_end_of_patience(self, unit: WaitingUnit, moment: Seconds | None) -> None:
        """When a gang's patience ends it is decided about again; what was planned for it before does not happen."""
        planned = self._patience.pop(unit.key, None)
        if planned is not None:
            self._clock.cancel(planned)
        if moment is not None:
            self._patience[unit.key] = self._clock.at(moment, self._go_on_deciding)

    def _decide_about_pod(self, unit: WaitingUnit) -> GangTurn:
        ((_, pod),) = unit.pods
        again_at: Seconds | None = None
        victims: tuple[str, ...] = ()
        if self._evictions is None:
            decision = self._place(pod)
        else:
            attempt = self._evictions.decide(pod, partial(self._place, pod), self.now)
            decision, again_at, victims = attempt.decision, attempt.again_at, attempt.evict
        self._reports.refused(self._answers, pod)
        if not decision.placed:
            return GangTurn(patience_ends=again_at, evict=victims)
        if not self._scheduler.keeps_ledger:
            # It looks at zones to choose a node, but promises none to the pod.
            decision = msgspec.structs.replace(decision, charges=(), containers=())
        assume(self._state, decision, pod)
        self._reports.reserved(decision.node or "", pod)
        return GangTurn({decision.pod: decision})

    def _place(self, pod: Pod) -> Decision:
        return schedule_one(
            self._state, pod, self._scheduler.profile, self._answers, explain=False, choose=self._choose
        )

    def _evict(self, keys: tuple[str, ...]) -> None:
        """Pods are asked to leave their nodes; they do so after a while."""
        gangs: dict[str, SimulatedGang] = {}
        for key in keys:
            bound = self._state.bound[key]
            metadata = msgspec.structs.replace(bound.metadata, deletion_timestamp=DELETED)
            pod = msgspec.structs.replace(bound, metadata=metadata)
            self._state.set_pod(pod, at=self.now)
            self._clock.after(STOPS_IN, partial(self._leave, key))
            gang = self._member_of[key].gang if key in self._member_of else None
            if gang is not None and self._evictions is not None:
                gangs[gang.name] = gang
                self._leave_gang(key, pod, gang, self._evictions)
        self._gangs_crippled += sum(gang.crippled for gang in gangs.values())

    def _leave_gang(self, key: str, pod: Pod, gang: SimulatedGang, evictions: Evictions) -> None:
        """An evicted pod counts no more among those of its gang; it has no time left to come to its end."""
        gang.evict(key)
        evictions.runs(pod, gang)
        self._clock.cancel(self._ends.pop(key, -1))
        held = self._held.get(gang.name, [])
        self._held[gang.name] = [each for each in held if pod_key(each[1]) != key]

    def _leave(self, key: str) -> None:
        """An evicted pod is gone, unless it came to its end meanwhile; its controller creates another one."""
        pod, member = self._bound.pop(key, None), self._member_of.pop(key, None)
        if pod is None:
            return
        node = self._state.names[self._state.pods[key].row]
        self._free(key, node)
        self._tally.evicted(self._state.classes.request_of(pod).total, wanted=member is not None)
        if member is not None:
            self._clock.cancel(self._ends.pop(key, -1))
            member.node = None
            self._replace(member)
        self._wake()

    def _free(self, key: str, node: str) -> None:
        """A pod has left its node."""
        self._kubelets[node].remove(key)
        self._state.remove_pod(key, at=self.now)
        if self._evictions is not None:
            self._evictions.gone(key, self.now)
        self._reports.changed(node)

    def _bind(self, member: LiveMember, pod: Pod, decision: Decision) -> None:
        """Send a pod to its node: in the order of decisions, or together with all that is
        decided in the same session.
        """
        if not self._scheduler.session:
            self._admit(member, pod, decision)
            return
        if not self._session:
            self._clock.after(self._scheduler.session, self._end_session)
        self._session.append((member, pod, decision))

    def _end_session(self) -> None:
        """Pods that are bound at the same time reach their kubelets together, and a kubelet takes those by age."""
        together, self._session = sorted(self._session, key=lambda bind: bind[0].created), []
        for member, pod, decision in together:
            self._admit(member, pod, decision)
        self._wake()

    def _admit(self, member: LiveMember, pod: Pod, decision: Decision) -> None:
        key, node = pod_key(pod), decision.node or ""
        self._reports.bound(node, pod)
        kubelet = self._kubelets[node]
        request = self._state.classes.request_of(pod)
        admission = kubelet.admit(key, request)
        if not admission.admitted:
            workload = member.workload.name
            self._tally.refuse(KubeletRefusal(self.now, key, workload, node, admission.reason, admission.message))
            self._state.remove_pod(key)
            if self._evictions is not None:
                self._evictions.refused(self._unit_of(member, key))
            if member.gang is not None:
                member.gang.refuse(key)
            self._replace(member)
            return
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        self._state.set_pod(bound)
        self._bound[key] = pod
        member.node = node
        self._member_of[key] = member
        if member.gang is not None:
            member.gang.start(pod, node, self.now)
        if self._evictions is not None:
            if member.gang is not None:
                self._evictions.runs(bound, member.gang)
            if member.gang is None or member.gang.whole or not self._scheduler.knows_gangs:
                self._evictions.admitted(self._unit_of(member, key))
        self._tally.started(request.total)
        held = self._agents[node].holdings(key)
        self._tally.stands_in({zone for in_zones in held.values() for zone in in_zones}, kubelet.machine)
        self._tally.was_decided(zones_decided(decision, self._state), held)
        self._note_first_start(member)
        self._reports.changed(node)
        if any(container.role is Role.INIT for container in request.containers):
            self._clock.after(STARTS_IN, partial(self._start, key, node))
        if member.gang is None:
            self._run(member, pod)
        else:
            # Pods of a gang wait for each other with all that they hold; the last one lets all of them run.
            self._held.setdefault(member.gang.name, []).append((member, pod))
            for each in self._held.pop(member.gang.name) if member.gang.whole else ():
                self._run(*each)

    def _run(self, member: LiveMember, pod: Pod) -> None:
        if member.wanted.runs_for is not None:
            ends = self.now + STARTS_IN + member.wanted.runs_for
            self._ends[pod_key(pod)] = self._clock.at(ends, partial(self._end, member, pod))

    def _unit_of(self, member: LiveMember, key: str) -> Unit:
        """What the scheduler decides about as a whole: a gang if it knows gangs, else a pod."""
        if member.gang is not None and self._scheduler.knows_gangs:
            return GangUnit(member.gang.name)
        return PodUnit(key)

    def _note_first_start(self, member: LiveMember) -> None:
        if not member.started:
            member.started = True
            self._not_started_yet -= 1
            if not self._not_started_yet:
                self._all_running_at = self.now

    def _replace(self, member: LiveMember) -> None:
        """What the pod's controller does about a pod that failed."""
        kind, workload = member.workload.kind, member.workload
        if kind is Kind.REPLICA_SET:
            self._clock.after(REPLACE_AFTER, partial(self._arrive, member))
        elif kind is Kind.JOB and member.attempts <= workload.backoff_limit:
            # Six doublings are more than the longest; without a limit the power would soon be no number any more.
            backoff = min(JOB_BACKOFF * 2 ** min(member.attempts - 1, 6), LONGEST_BACKOFF)
            self._clock.after(backoff, partial(self._arrive, member))
        else:
            member.given_up = True
            self._tally.waiting -= 1

    def _start(self, key: str, node: str) -> None:
        """Containers have started and init containers have ended, which gives memory back."""
        kubelet = self._kubelets[node]
        if key in kubelet.pods:
            kubelet.start(key)
            self._reports.changed(node)
            self._wake()

    def _end(self, member: LiveMember, pod: Pod) -> None:
        key, node = pod_key(pod), member.node or ""
        del self._bound[key], self._member_of[key], self._ends[key]
        self._free(key, node)
        if member.gang is not None:
            member.gang.end(key)
        member.node = None
        member.finished = True
        self._tally.ended(self._state.classes.request_of(pod).total)
        self._wake()

    def _wake(self) -> None:
        self._waiting.wake(self.now)
        self._go_on_deciding()

    # -- what came of it ------------------------------------------------------------------------------------------

    def result(self, *, interrupted: bool = False) -> Run:
        """The run so far. After the last event everything stays as it is until the scenario's end."""
        if not interrupted and self.next_moment is None:
            self._tally.pass_to(self.scenario.lasts)
        tally, members = self._tally, self._members
        return Run(
            scheduler=self._scheduler.name,
            nodes=len(self._agents),
            wanted=len(members),
            arrived=sum(member.arrived for member in members),
            running=sum(member.node is not None for member in members),
            finished=sum(member.finished for member in members),
            waiting=sum(waits(member) for member in members),
            given_up=sum(member.given_up for member in members),
            attempts=self.pods_created,
            refused=dict(sorted(tally.refused.items())),
            all_running_at=self._all_running_at,
            ended_at=self.now,
            interrupted=interrupted,
            cpu_share=tally.mean_share(CPU),
            memory_share=tally.mean_share(MEMORY),
            peak_cpu_share=tally.peak_cpu_share,
            zones_per_pod=tally.zones_per_pod,
            distance=tally.distance,
            zones_decided=tally.zones_decided,
            zones_not_as_decided=tally.zones_not_as_decided,
            timeline=(*tally.timeline, self._last_moment()),
            refusals=tuple(tally.refusals),
            waiting_pods=reasons_to_wait(self._gang_scheduler, self._units_without_nodes()),
            workloads=tuple(
                workload_result(
                    workload, self._by_workload.get(workload.name, []), tally.refused_by_workload[workload.name]
                )
                for workload in self.scenario.workloads
            ),
            state=true_state(self._agents.values(), self._bound),
            gangs=self._gangs.number,
            gangs_whole=self._gangs.whole,
            gangs_in_part=self._gangs.in_part,
            domains_per_gang=self._gangs.domains_per_gang,
            gang_runs=self._gangs.runs,
            refused_by_node=dict(sorted(tally.refused_by_node.items())),
            remarks=tuple(self._remarks),
            evicted=None if self._evictions is None else self._evictions.evicted,
            evicted_in_vain=0 if self._evictions is None else self._evictions.in_vain,
            gangs_crippled=self._gangs_crippled,
        )

    def _last_moment(self) -> Moment:
        return self._tally.moment(self._tally.now)

    def _units_without_nodes(self) -> Iterator[WaitingUnit]:
        yield from self._waiting
        yield from self._turns.not_arrived()
