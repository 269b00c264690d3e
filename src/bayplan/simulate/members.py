"""The pods of a running simulation: which are wanted, how far each has come, and small operations on them.

`simulate/simulation.py` moves them on; nothing here knows the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

import msgspec

from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.run import WorkloadResult
from bayplan.simulate.scenario.model import ScenarioPod, Seconds, SimulatedNode, Workload


@dataclass(slots=True)
class LiveMember:
    """One pod that a workload wants, through all the pods that were created for it.

    `created` numbers all pods of a simulation in the order of their creation; here it is that of the latest attempt.
    """

    workload: Workload
    wanted: ScenarioPod
    name: str
    gang: SimulatedGang | None = None
    attempts: int = 0
    created: int = 0
    arrived: bool = False
    node: str | None = None
    started: bool = False
    finished: bool = False
    given_up: bool = False

    def next_pod(self, now: Seconds) -> Pod:
        """The pod of the next attempt; the first has the plain name. Simulated time begins with 1970."""
        self.attempts += 1
        name = self.name if self.attempts == 1 else f"{self.name}-r{self.attempts - 1}"
        template = self.wanted.shape or self.workload.template
        metadata = msgspec.structs.replace(
            template.metadata,
            name=name,
            namespace=self.workload.namespace,
            creation_timestamp=datetime.fromtimestamp(now, UTC).isoformat(),
        )
        return msgspec.structs.replace(template, metadata=metadata)


def agent_of(node: SimulatedNode) -> NodeAgent:
    """The agent of a node, with the kubelet that it speaks for."""
    kubelet = VirtualKubelet(node.machine, node.kubelet)
    return NodeAgent(node.name, kubelet, node.labels, node.taints, unschedulable=node.unschedulable)


def first(best: Sequence[int]) -> int:
    """The lowest of equally good nodes."""
    return best[0]


def by_chance(seed: int) -> Callable[[Sequence[int]], int]:
    """The stock scheduler draws among nodes that are equally good; here from the scenario's seed."""
    return Random(f"{seed}/ties").choice  # noqa: S311 - not for secrets


def waits(member: LiveMember) -> bool:
    """True if a member has arrived and has no node, and something may still come of it."""
    return member.arrived and member.node is None and not member.finished and not member.given_up


def zones_decided(decision: Decision, state: ClusterState) -> dict[str, set[int]]:
    """In which zones a decision takes something of which resource; nothing where it aligns no container."""
    report = state.reports[decision.row]
    if report is None or not any(each.zones for each in decision.containers):
        return {}
    found: dict[str, set[int]] = {}
    for charge in decision.charges:
        found.setdefault(state.columns.resource_names[charge.resource], set()).add(report.zones[charge.zone].id)
    return found


def workload_result(workload: Workload, members: Sequence[LiveMember], refused: int) -> WorkloadResult:
    """How a workload with these members fared."""
    return WorkloadResult(
        name=workload.name,
        kind=workload.written_as or workload.kind.value,
        wanted=len(members),
        running=sum(member.node is not None for member in members),
        finished=sum(member.finished for member in members),
        waiting=sum(waits(member) for member in members),
        given_up=sum(member.given_up for member in members),
        refused=refused,
    )


def true_state(agents: Iterable[NodeAgent], bound: Mapping[str, Pod]) -> ClusterState:
    """The cluster as the kubelets know it, with every pod in its zones: what pictures are drawn from."""
    state = ClusterState()
    for agent in agents:
        state.set_node(agent.node)
        state.set_topology(agent.topology(complete=True))
        for key in agent.kubelet.pods:
            state.set_pod(bound_pod(bound[key], agent.name, agent.zones_by_container(key)))
    return state


def bound_pod(pod: Pod, node: str, zones: dict[str, list[int]]) -> Pod:
    """A pod as it stands on its node, with the zones of its containers."""
    annotations = {**(pod.metadata.annotations or {}), NUMA_ZONES: msgspec.json.encode(zones).decode()}
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations=annotations),
        spec=msgspec.structs.replace(pod.spec, node_name=node),
    )
