"""Plans of preemptions on full clusters: one pod, a gang of 64 in a rack, and a cluster's worth of GPUs for gangs.

Nodes have four zones under single-numa-node; about a dozen pods of four priorities fill them. Targets on two shared
cores at 5,000 nodes: a pod 5 ms, a gang of 64 100 ms; 4,000 GPUs for gangs on 500 nodes 10 s of deciding. What pods
hold is counted once, beforehand. All figures are CPU time.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import replace
from random import Random

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.actions import Bind, Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.preemption.plan import WORK_OF_A_QUICK_PROOF, plan_gang_preemption
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import EvictionRules
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.plan import plan_preemption
from bayplan.scheduling.profile import PreemptionMode, default_profile
from benchmarks.measure import report
from tests.builders.objects import GPU, Amounts, node, simple_pod, topology, zone

SIZES = (1_000, 5_000, 20_000)
PRIORITIES = (0, 10, 50, 100)
ZONES, CPUS, GPUS = 4, 16, 2
PLANS = 40
RACK = "example.com/rack"


def run() -> None:
    """Print all figures of this group."""
    for size in SIZES:
        state = full_cluster(size)
        _pods(state, size)
        _gang(state, size)
    _reclaim()


def full_cluster(size: int) -> ClusterState:
    """Nodes in racks of 16, every zone full."""
    random = Random(7)
    state = ClusterState()
    for number in range(size):
        name = f"n{number}"
        held: dict[str, dict[str, dict[int, int]]] = {}
        pods: list[Pod] = []
        for position in range(ZONES):
            cpus, gpus = CPUS, GPUS
            while cpus:
                taken, with_gpu = min(cpus, random.choice((2, 4, 4, 8))), min(gpus, random.choice((0, 1)))
                cpus, gpus = cpus - taken, gpus - with_gpu
                pods.append(_running(f"{name}-{len(pods)}", name, taken, with_gpu, random.choice(PRIORITIES)))
                key = f"default/{pods[-1].metadata.name}"
                held[key] = {"cpu": {position: taken * 1000}, GPU: {position: with_gpu}}
        used = [sum(each[GPU].get(position, 0) for each in held.values()) for position in range(ZONES)]
        zones = [
            zone(position, {"cpu": (CPUS, CPUS, 0), GPU: (GPUS, GPUS, GPUS - used[position])})
            for position in range(ZONES)
        ]
        amounts: Amounts = {"cpu": CPUS * ZONES, GPU: GPUS * ZONES, "memory": "256Gi"}
        state.set_node(node(name, amounts, labels={RACK: f"r{number // 16}"}))
        state.set_topology(topology(*zones, name=name, attributes={"bayplan.io/pods": json.dumps(held)}))
        for pod in pods:
            state.set_pod(pod)
    return state


def _running(name: str, on: str, cpus: int, gpus: int, priority: int) -> Pod:
    return simple_pod(_amounts(cpus, gpus), name, nodeName=on, priority=priority)


def _amounts(cpus: int, gpus: int) -> dict[str, str]:
    return {"cpu": str(cpus), "memory": "1Mi", **({GPU: str(gpus)} if gpus else {})}


def _pods(state: ClusterState, size: int) -> None:
    random = Random(11)
    profile, answers, freeable, rules = default_profile(), ClassAnswers(state), Freeable(state), EvictionRules()
    began = time.process_time()
    freeable.refresh(frozenset({"cpu", "memory", GPU, "pods"}))
    report(f"preemption/first-count/{size}", (time.process_time() - began) * 1e3, "ms")
    took = []
    for number in range(PLANS):
        amounts = _amounts(random.choice((2, 4, 8, 16)), random.choice((0, 1, 2)))
        pod = simple_pod(amounts, f"preemptor-{number}", priority=random.choice((20, 60, 200)))
        answers.for_class(state.classes.of(pod), profile)
        began = time.process_time()
        plan_preemption(state, pod, profile, answers, freeable, rules)
        took.append((time.process_time() - began) * 1e3)
    report(f"preemption/pod/p50/{size}", statistics.median(took), "ms")
    report(f"preemption/pod/p99/{size}", max(took), "ms")


def _gang(state: ClusterState, size: int) -> None:
    trees = Trees(state)
    trees.set("network", (RACK,))
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    freeable, took = Freeable(state), []
    for number in range(7):
        pods = tuple(simple_pod(_amounts(8, 1), f"w{number}-{each}", priority=200) for each in range(64))
        gang = Gang("default/gang", Group(pods=pods, required=RACK), "network")
        freeable.refresh(frozenset({"cpu", "memory", GPU, "pods"}))
        # Only a gang that was tried preempts; its topology tree and slots are known then.
        assert schedule_gang(scheduler, gang).status is Status.INFEASIBLE
        began = time.process_time()
        plan = plan_gang_preemption(scheduler, gang, freeable, EvictionRules(), proof=WORK_OF_A_QUICK_PROOF)
        took.append((time.process_time() - began) * 1e3)
        assert hasattr(plan, "victims"), plan
    report(f"preemption/gang-of-64/p50/{size}", statistics.median(took), "ms")
    report(f"preemption/gang-of-64/p99/{size}", max(took), "ms")


def _reclaim() -> None:
    """500 nodes of 8 GPUs, all held by single pods; 62 gangs of 64 pods take them, evicted pods gone at once."""
    dispatcher = Dispatcher({"bayplan": replace(default_profile(), preemption=PreemptionMode.ON)})
    dispatcher.set_levels("network", (RACK,))
    for number in range(500):
        amounts: Amounts = {"cpu": 64, GPU: 8, "memory": "256Gi"}
        dispatcher.state.set_node(node(f"n{number}", amounts, labels={RACK: f"r{number // 10}"}))
        for each in range(8):
            dispatcher.set_pod(_running(f"p{number}-{each}", f"n{number}", 4, 1, 0), 0.0)
    gangs = 500 * 8 // 80
    for number in range(gangs):
        written = {"metadata": {"name": f"g{number}", "namespace": "default", "uid": f"g{number}"}}
        spec = {"size": 80, "topology": "network", "required": RACK}
        dispatcher.set_group(msgspec.convert({**written, "spec": spec}, PodGroup), 0.0)
        for each in range(80):
            made = simple_pod(_amounts(4, 1), f"g{number}-{each}", priority=100, schedulerName="bayplan")
            metadata = msgspec.structs.replace(made.metadata, labels={"bayplan.io/pod-group": f"g{number}"})
            dispatcher.set_pod(msgspec.structs.replace(made, metadata=metadata), 0.0)
    deciding, bound, now = 0.0, 0, 1.0
    while bound < gangs * 80:
        began = time.process_time()
        action = dispatcher.decide(now)
        deciding += time.process_time() - began
        if isinstance(action, Bind):
            bound += len(action.assignments)
            dispatcher.bound(action, now)
        elif isinstance(action, Unschedulable) and action.stage is Stage.CARRY_OUT:
            for victim in getattr(action.preemption, "victims", ()):
                dispatcher.remove_pod(victim.key, now)
        elif action is None:
            now += 1.0
            assert now < 600.0, f"{bound} pods are bound"
    report("preemption/reclaim-4000-gpus/500", deciding, "s")
