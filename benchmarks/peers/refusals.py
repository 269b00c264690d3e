"""How many pods the real kubelet refuses, by who has chosen their nodes.

Odd machines, random pods, the kubelet's own managers as judge, in every version that is known: clusters are mixed, as
in the middle of an upgrade.

Pods come one after another and leave in the order of their arrival. Every report is current when a pod is decided, so
that only the rules differ: *stock* is node fit and least allocated, *scheduler-plugins* NodeResourceTopologyMatch
(bayplan's `Upstream` mode, which `python -m tests.peers scheduler-plugins` holds to the original), *bayplan* its
default. A refused pod is gone, as in a cluster without a controller; a pod without a node waits in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.simulate.schedulers import BAYPLAN, BLIND, UNCACHED, Scheduler, scheduler_named
from benchmarks.measure import report
from tests.conformance.test_kubelet import quantities, wire_pod
from tests.conformance.test_kubelet_as_seen import WITH_INVENTORY, topology
from tests.peers import kubelet_machines, kubelet_pods
from tests.peers.asking import Asked, Json
from tests.peers.catalogue import all_peers
from tests.peers.family import crash_of

SCHEDULERS = {"stock": BLIND, "scheduler-plugins": UNCACHED, "bayplan": BAYPLAN}
KUBELET = "kubelet"
CLUSTERS = 40
NODES = 6
PODS = 60
STAYING = 15
"""How many pods come while one runs."""
MOST_ZONES = 4
"""Sets of zones double with each zone, and every admission of a node is asked again with its next pod."""

Kubelets = Mapping[str, Asked]
"""By version."""


@dataclass
class RealNode:
    """A machine, and the steps that its kubelet has taken."""

    case: Json
    steps: list[Json] = field(default_factory=list)
    held: dict[str, Json] = field(default_factory=dict)
    """By pod, what its containers were given."""


def run(clusters: int = CLUSTERS) -> None:
    """Print all figures of this group."""
    peers = [peer for peer in all_peers() if peer.name == KUBELET]
    totals = {name: Counter[str]() for name in SCHEDULERS}
    with ExitStack() as stack:
        kubelets = {peer.version: stack.enter_context(Asked(peer)) for peer in peers}
        for seed in range(clusters):
            nodes, pods = draw(kubelets, seed)
            for name, scheduler in SCHEDULERS.items():
                totals[name] += outcomes(kubelets, scheduler_named(scheduler), nodes, pods)
    for name, total in totals.items():
        chosen = total["admitted"] + total["refused"]
        where = f"peers/refusals/kubelets-{peers[0].version}-to-{peers[-1].version}/{name}"
        report(f"{where}/refused", total["refused"], f"of {chosen} pods with a node")
        report(f"{where}/refused-share", 100 * total["refused"] / chosen, "%")
        report(f"{where}/admitted", total["admitted"], f"of {total.total()} pods")


def draw(kubelets: Kubelets, seed: int) -> tuple[dict[str, Json], list[Json]]:
    """Machines with their kubelets, and pods made for them; the same for every scheduler."""
    random = Random(f"refusals/{seed}")
    nodes: dict[str, Json] = {}
    versions = list(kubelets)
    while len(nodes) < NODES:
        machine = kubelet_machines.machine(random)
        if len(machine["numa"]) > MOST_ZONES:
            continue
        version = versions[(seed + len(nodes)) % len(versions)]
        configuration = kubelet_machines.configuration(random, machine)
        case: Json = {"version": version, "machine": machine, "kubelet": configuration}
        answer = kubelets[version].ask("node", {**case, "steps": []})
        if crash_of(answer) is None:
            nodes[f"n{len(nodes)}"] = {**case, **answer}
    pods = []
    for number in range(PODS):
        case = random.choice(list(nodes.values()))
        pods.append(kubelet_pods.pod(random, case["machine"], case["kubelet"], f"p{number}", pod_level=0.0))
    return nodes, pods


def outcomes(kubelets: Kubelets, scheduler: Scheduler, cases: dict[str, Json], pods: list[Json]) -> Counter[str]:
    """How many pods were admitted, refused, or got no node."""
    state = ClusterState()
    state.promises.keeps_ledger = scheduler.keeps_ledger
    nodes = {name: RealNode(case) for name, case in cases.items()}
    for name, node in nodes.items():
        allocatable = quantities(node.case["resolved"]["allocatable"])
        status = {"allocatable": allocatable, "nodeInfo": {"kubeletVersion": node.case["version"]}}
        state.set_node(msgspec.convert({"metadata": {"name": name}, "status": status}, Node))
        _publish(state, scheduler, name, node, node.case)
    answers, counted = ClassAnswers(state), Counter[str]()
    for number, written in enumerate(pods):
        if number >= STAYING:
            _end(kubelets, state, scheduler, nodes, pods[number - STAYING]["name"])
        pod = wire_pod(written)
        decision = schedule_one(state, pod, scheduler.profile, answers)
        if decision.node is None:
            counted["without a node"] += 1
            continue
        node = nodes[decision.node]
        answer = _ask(kubelets, node, {"op": "admit", "pod": written})
        if answer is None:
            counted["crashed the kubelet"] += 1
            continue
        outcome = answer["steps"][-1]["out"]
        counted["admitted" if outcome["admit"] else "refused"] += 1
        if outcome["admit"]:
            node.steps.append({"op": "admit", "pod": written})
            node.held[written["name"]] = outcome.get("ctr") or {}
            state.set_pod(_bound(pod, decision.node))
            _publish(state, scheduler, decision.node, node, answer)
    return counted


def _end(kubelets: Kubelets, state: ClusterState, scheduler: Scheduler, nodes: dict[str, RealNode], name: str) -> None:
    """The pod ends, if it runs."""
    for node_name, node in nodes.items():
        if name in node.held:
            leaving = {"op": "remove", "name": name}
            answer = _ask(kubelets, node, leaving)
            assert answer is not None, f"kubelet {node.case['version']} crashes while {name} leaves"
            node.steps.append(leaving)
            del node.held[name]
            state.remove_pod(f"default/{name}")
            _publish(state, scheduler, node_name, node, answer)


def _ask(kubelets: Kubelets, node: RealNode, step: Json) -> Json | None:
    """What the kubelet answers after all its steps and a new one; None if its code crashes."""
    answer = kubelets[node.case["version"]].ask("node", {**node.case, "steps": [*node.steps, step]})
    return None if crash_of(answer) else answer


def _publish(state: ClusterState, scheduler: Scheduler, name: str, node: RealNode, answer: Json) -> None:
    """The node's report reaches the scheduler, if it reads any."""
    if scheduler.reads_reports:
        # A step says what is free only if it has changed that.
        free = next((step["free"] for step in reversed(answer["steps"]) if "free" in step), answer["free0"])
        written = topology(node.case, free, node.held, WITH_INVENTORY)
        state.set_topology(msgspec.structs.replace(written, metadata=Metadata(name=name)))


def _bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
