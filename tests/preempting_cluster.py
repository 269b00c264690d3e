"""A cluster in memory in which pods and gangs preempt each other: the dispatcher, virtual kubelets, late reports,
budgets and leaving pods.

`PreemptingCluster(seed).run()` lets pods of four priorities arrive, end, and be deleted while they wait, and counts
what must never happen. The witness of it is the cluster and not the scheduler: kubelets refuse, budgets count their
pods, and gangs count their members.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import msgspec
from msgspec import structs

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Bind, Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.scheduling.profile import PreemptionMode, default_profile
from bayplan.simulate.clock import Clock
from bayplan.simulate.kubelet import Cpu, KubeletConfiguration, Machine, MachineZone, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.objects import GI, simple_pod

NODES, RACK = 6, "example.com/rack"
PRIORITIES = (0, 10, 100, 1000)
LATEST_REPORT, LONGEST_GOODBYE = 10.0, 5.0
# Seconds between arrivals, of a unit's life on its nodes, and until the owner of a waiting unit gives up.
ARRIVALS, LIFE, PATIENCE = (0.0, 3.0), (30.0, 150.0), (5.0, 40.0)
BUDGETED, KEEP = "guarded", 3
# About ten moments belong to each arrival: far more of them are a scheduler that wakes itself.
MOST_STEPS_PER_ARRIVAL = 40


@dataclass
class Counts:
    """What happened. All but the first two must stay 0."""

    preemptions: int = 0
    evictions: int = 0
    refused: int = 0
    crippled: int = 0
    violated: int = 0
    in_vain: int = 0
    unserved: int = 0


class PreemptingCluster:
    """One cluster and one scheduler."""

    def __init__(self, seed: int, arrivals: int = 300, *, lists_pods: bool = True) -> None:
        self.random = Random(seed)
        self.arrivals = arrivals
        # Whether reports name what each pod holds, or amounts alone.
        self.lists_pods = lists_pods
        self.clock = Clock()
        self.counts = Counts()
        self.dispatcher = Dispatcher({"bayplan": replace(default_profile(), preemption=PreemptionMode.ON)})
        self.dispatcher.set_levels("network", (RACK,))
        self.agents: dict[str, NodeAgent] = {}
        self.last_report: dict[str, float] = {}
        # Running pods by key; those that were evicted leave `alive` at once and their node later.
        self.on_node: dict[str, str] = {}
        self.alive: dict[str, Pod] = {}
        self.least: dict[str, int] = {}
        # The pods of each unit that have no node yet, and those that got one.
        self.waiting: dict[Unit, set[str]] = {}
        self.lives: dict[Unit, list[str]] = {}
        # Units whose victims were evicted and that have no place yet.
        self.owed: set[Unit] = set()
        for number in range(NODES):
            self._add_node(f"n{number}", f"r{number // 3}")
        self._publish_budget()

    def run(self) -> Counts:
        """Let everything happen."""
        moment = 0.0
        for number in range(self.arrivals):
            moment += self.random.uniform(*ARRIVALS)
            self.clock.at(moment, partial(self._arrive, number))
        end = moment + LIFE[1] + PATIENCE[1]
        steps = 0
        while self._next_moment() is not None and self.clock.now < end:
            steps += 1
            assert steps < self.arrivals * MOST_STEPS_PER_ARRIVAL, f"the scheduler spins at {self.clock.now:.3f} s"
            self.clock.advance()()
            self._decide()
            due = self.dispatcher.next_time()
            if due is not None and due < min(self._next_moment() or end, end):
                self.clock.at(due + 1e-6, lambda: None)
        self.counts.in_vain = self.dispatcher.preempting.in_vain
        self.counts.unserved = len(self.owed)
        return self.counts

    def _next_moment(self) -> float | None:
        return self.clock.next_moment

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _add_node(self, name: str, rack: str) -> None:
        zones, cores = self.random.choice((1, 2, 2, 4)), self.random.choice((4, 6, 8))
        machine = Machine(
            zones=tuple(
                MachineZone(zone, 32 * GI, {}, tuple(10 if other == zone else 21 for other in range(zones)))
                for zone in range(zones)
            ),
            cpus=tuple(Cpu(zone * cores + core, zone, zone, zone) for zone in range(zones) for core in range(cores)),
            devices={},
        )
        policy = self.random.choice((Policy.SINGLE_NUMA_NODE, Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED))
        settings = KubeletSettings(policy=policy, scope=Scope.CONTAINER, cpu_static=True, memory_static=True)
        configuration = KubeletConfiguration(
            settings=settings, reserved_cpus=frozenset({0}), reserved_memory={0: {"memory": GI}}
        )
        agent = self.agents[name] = NodeAgent(name, VirtualKubelet(machine, configuration), {RACK: rack})
        self.dispatcher.state.set_node(agent.node, at=0.0)
        self.dispatcher.set_pod(agent.pod, 0.0)
        self._report(name, 0.0)

    def _report(self, name: str, delay: float) -> None:
        """The node's report as it is now, read after a delay and never before an earlier one."""
        report = self.agents[name].topology(complete=self.lists_pods, at=self.clock.now, fingerprint=True)
        moment = self.last_report[name] = max(self.last_report.get(name, 0.0), self.clock.now + delay)
        self.clock.at(moment, lambda: self.dispatcher.reports.topology(report, self.clock.now))

    def _changed(self, name: str) -> None:
        self._report(name, self.random.choice((0.0, self.random.uniform(0.0, LATEST_REPORT))))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _arrive(self, number: int) -> None:
        priority = self.random.choice(PRIORITIES)
        if self.random.random() < 0.2:
            size = self.random.randint(2, 3)
            minimum = self.random.choice((size, size - 1))
            spec = {"size": size, "minimum": minimum, "topology": "network", "required": RACK}
            written = {"metadata": {"name": f"g{number}", "namespace": "ml", "uid": f"g{number}"}, "spec": spec}
            self.dispatcher.set_group(msgspec.convert(written, PodGroup), self.clock.now)
            self.least[f"g{number}"] = minimum
            pods = [f"g{number}-{rank}" for rank in range(size)]
            for name in pods:
                self._add_pod(name, priority, {"bayplan.io/pod-group": f"g{number}"})
            self._expect(GangUnit(f"ml/g{number}"), pods)
            return
        labels = {"app": BUDGETED} if self.random.random() < 0.15 else {}
        self._add_pod(f"p{number}", priority, labels)
        self._expect(PodUnit(f"ml/p{number}"), [f"p{number}"])

    def _expect(self, unit: Unit, pods: list[str]) -> None:
        """A unit waits from now on, until its owner loses patience."""
        self.waiting[unit] = {f"ml/{name}" for name in pods}
        self.clock.after(self.random.uniform(*PATIENCE), lambda: self._give_up(unit))

    def _give_up(self, unit: Unit) -> None:
        """The pods of a unit that still wait are deleted, also if their victims are leaving."""
        for key in sorted(self.waiting.pop(unit, ())):
            self.dispatcher.remove_pod(key, self.clock.now)
        self.owed.discard(unit)

    def _end(self, unit: Unit) -> None:
        """The pods of a unit end by themselves, all at once, except those that were evicted."""
        self._give_up(unit)
        for key in self.lives.pop(unit):
            if self.alive.pop(key, None) is not None:
                self._leave(key)
        if isinstance(unit, GangUnit):
            self.dispatcher.remove_group(unit.gang, self.clock.now)
        self._publish_budget()

    def _add_pod(self, name: str, priority: int, labels: dict[str, str]) -> None:
        cpus = self.random.choice((1, 2, 3, 4, 5))
        made = simple_pod({"cpu": str(cpus), "memory": "1Gi"}, name, schedulerName="bayplan", priority=priority)
        metadata = structs.replace(made.metadata, namespace="ml", uid=f"uid-{name}", labels=labels)
        self.dispatcher.set_pod(structs.replace(made, metadata=metadata), self.clock.now)

    def _decide(self) -> None:
        self.dispatcher.wake(self.clock.now)
        while (action := self.dispatcher.decide(self.clock.now)) is not None:
            if isinstance(action, Bind):
                self._bind(action)
            elif isinstance(action, Unschedulable) and action.stage is Stage.CARRY_OUT:
                self._preempt(action)

    def _bind(self, action: Bind) -> None:
        lives: list[str] = []
        for each in action.assignments:
            key = pod_key(each.pod)
            self.waiting.get(action.unit, set()).discard(key)
            admission = self.agents[each.node].kubelet.admit(key, effective_request(each.pod))
            if not admission.admitted:
                self.counts.refused += 1
                self.dispatcher.remove_pod(key, self.clock.now)
                continue
            self.agents[each.node].kubelet.start(key)
            bound = structs.replace(each.pod, spec=structs.replace(each.pod.spec, node_name=each.node))
            self.alive[key], self.on_node[key] = bound, each.node
            lives.append(key)
            self.dispatcher.set_pod(bound, self.clock.now)
            self._changed(each.node)
        self.dispatcher.bound(action, self.clock.now)
        self.owed.discard(action.unit)
        self.lives.setdefault(action.unit, []).extend(lives)
        if len(self.lives[action.unit]) == len(lives):
            self.clock.after(self.random.uniform(*LIFE), lambda: self._end(action.unit))
        self._publish_budget()

    def _preempt(self, action: Unschedulable) -> None:
        plan = action.preemption
        assert plan is not None
        assert not isinstance(plan, NoPreemption)
        # Units whose room this one takes are owed nothing any more.
        nominations = self.dispatcher.preempting.nominations
        self.owed = {unit for unit in self.owed if nominations.get(unit) is not None}
        if plan.victims:
            self.counts.preemptions += 1
            self.owed.add(action.unit)
        for victim in plan.victims:
            self._evict(victim.key)
        self._check_gangs()

    def _evict(self, key: str) -> None:
        pod = self.alive.pop(key, None)
        if pod is None:
            return
        self.counts.evictions += 1
        guarded = (pod.metadata.labels or {}).get("app") == BUDGETED
        self.counts.violated += guarded and self._guarded() < KEEP
        metadata = structs.replace(pod.metadata, deletion_timestamp="2100-01-01T00:00:00Z")
        self.dispatcher.set_pod(structs.replace(pod, metadata=metadata), self.clock.now)
        self._publish_budget()
        self.clock.after(self.random.uniform(0.0, LONGEST_GOODBYE), lambda: self._leave(key))

    def _leave(self, key: str) -> None:
        node = self.on_node.pop(key)
        self.agents[node].kubelet.remove(key)
        self.dispatcher.remove_pod(key, self.clock.now)
        self._changed(node)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _guarded(self) -> int:
        return sum((pod.metadata.labels or {}).get("app") == BUDGETED for pod in self.alive.values())

    def _publish_budget(self) -> None:
        """The disruption controller: so many pods may go that some are left."""
        written = {
            "metadata": {"name": "keep", "namespace": "ml"},
            "spec": {"selector": {"matchLabels": {"app": BUDGETED}}},
            "status": {"disruptionsAllowed": max(self._guarded() - KEEP, 0)},
        }
        self.dispatcher.set_budget(msgspec.convert(written, PodDisruptionBudget))

    def _check_gangs(self) -> None:
        """After a preemption every gang has its minimum, or no member at all."""
        running = Counter(each for pod in self.alive.values() if (each := _gang_of(pod)))
        self.counts.crippled += sum(0 < count < self.least[name] for name, count in running.items())


def _gang_of(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("bayplan.io/pod-group", "")
