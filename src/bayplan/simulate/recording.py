"""Simulations that are watched: frame by frame what each node has in use, how fragmented the cluster is, and who was
refused; and the cluster of a moment as objects.

    recording = Recording(scenario, "bayplan")
    while recording.step(): ...
    recording.frames[17].used["cpu"]

Frames lie at the points of the time line (`tally.py`). Between two of them, only nodes that changed are read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.cluster.state import ClusterState
from bayplan.dialects.own.members import POD_GROUP
from bayplan.engine.numa.fragmentation import aligned_amounts
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.topology_levels import Topology, TopologyLevel, TopologySpec
from bayplan.kube.wire.core_v1 import Metadata, Pod, PodStatus
from bayplan.simulate.members import bound_pod
from bayplan.simulate.run import KubeletRefusal, Moment, Run
from bayplan.simulate.scenario.gangs import TREE
from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.simulation import Simulation
from bayplan.simulate.tally import MOMENTS

REFUSED = "Failed"


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment: by resource the percent in use of every node, in the order of the scenario; refusals so far by node.

    `fragmentation` is the share of free CPUs that no aligned pod can have, None if no kubelet aligns pods.
    """

    moment: Moment
    fragmentation: float | None
    used: Mapping[str, bytes]
    refused: Mapping[str, int]


class Recording:
    """One scheduler in one scenario, watched."""

    def __init__(self, scenario: Scenario, scheduler: str) -> None:
        self.scenario = scenario
        self.scheduler = scheduler
        self.simulation = Simulation(scenario, scheduler)
        self.frames: list[Frame] = []
        self.over = False
        view = self.simulation.view()
        self._agents = list(view.agents.values())
        # What kubelets have free in zones, without delay; it knows no pods.
        self._truth = ClusterState()
        for agent in self._agents:
            self._truth.set_node(agent.node)
        self._number = {agent.name: number for number, agent in enumerate(self._agents)}
        self._seen = 0
        self.resources = _resources(view.state)

    def step(self) -> bool:
        """Let one thing happen, after the frames that lie before it. False once everything has happened."""
        if self.over:
            return False
        coming = self.simulation.next_moment
        lasts = self.scenario.lasts
        while len(self.frames) < MOMENTS and (coming is None or lasts * len(self.frames) / MOMENTS < coming):
            self._record(lasts * len(self.frames) / MOMENTS)
        if self.simulation.step():
            return True
        self._record(lasts)
        self.over = True
        return False

    @property
    def refusals(self) -> Sequence[KubeletRefusal]:
        """The first refusals, in order."""
        return self.simulation.view().tally.refusals

    def result(self) -> Run:
        """The run so far."""
        return self.simulation.result(interrupted=not self.over)

    def objects(self) -> ObjectSet:
        """The cluster of this moment, as if it had been dumped: reports without delay, pods in their zones, refused
        ones among them.
        """
        view = self.simulation.view()
        gangs = {key: gang.written.metadata.name for gang in view.gangs for key in gang.pods}
        ranked = {key: pod for gang in view.gangs for key, pod in gang.pods.items()}
        found = ObjectSet(
            nodes=[agent.node for agent in self._agents],
            topologies=[agent.topology(complete=True) for agent in self._agents],
            gangs=[gang.written for gang in view.gangs],
        )
        for agent in self._agents:
            for key in agent.kubelet.pods:
                pod = ranked.get(key, view.bound[key])
                found.pods.append(_member(bound_pod(pod, agent.name, agent.zones_by_container(key)), gangs.get(key)))
        found.pods += [_member(pod, gangs.get(f"{pod.metadata.namespace}/{pod.metadata.name}")) for pod in view.waiting]
        found.pods += map(_refused, view.tally.refusals)
        if self.scenario.levels:
            levels = [TopologyLevel(node_label=label) for label in self.scenario.levels]
            found.levels.append(Topology(metadata=Metadata(name=TREE), spec=TopologySpec(levels=levels)))
        return found

    def _record(self, at: float) -> None:
        view = self.simulation.view()
        for row in self._changed(view.state):
            agent = self._agents[self._number[view.state.names[row]]]
            self._truth.set_topology(agent.topology(complete=False))
        rows = np.array([view.state.rows[agent.name] for agent in self._agents], dtype=np.intp)
        self.frames.append(
            Frame(
                view.tally.moment(at),
                self._fragmentation(),
                {name: _percent_used(view.state, name, rows) for name in self.resources},
                dict(view.tally.refused_by_node),
            )
        )

    def _changed(self, state: ClusterState) -> list[int]:
        """Rows on which something has changed since the last frame."""
        changed = state.usage_log.since(self._seen) if self.frames else None
        self._seen = state.usage_log.end
        return list(state.rows.values()) if changed is None else changed.tolist()

    def _fragmentation(self) -> float | None:
        amounts = aligned_amounts(self._truth, CPU, np.arange(len(self._agents), dtype=np.intp))
        at_best = float(amounts.at_best.sum())
        return None if not at_best else round(1.0 - float(amounts.largest.sum()) / at_best, 4)


def _resources(state: ClusterState) -> list[str]:
    """CPU, memory and devices of any node."""
    columns = state.columns
    return [
        name
        for name, index in columns.resource_index.items()
        if (name in (CPU, MEMORY) or "/" in name) and columns.allocatable[index].any()
    ]


def _percent_used(state: ClusterState, resource: str, rows: NDArray[np.intp]) -> bytes:
    index = state.columns.index_of(resource)
    total = state.columns.allocatable[index][rows]
    used = total - state.columns.free[index][rows]
    percent = np.divide(100 * used, total, out=np.zeros(len(rows)), where=total > 0)
    found: bytes = np.clip(np.ceil(percent), 0, 100).astype(np.uint8).tobytes()
    return found


def _member(pod: Pod, gang: str | None) -> Pod:
    """A pod with the label of its gang."""
    if gang is None:
        return pod
    labels = {**(pod.metadata.labels or {}), POD_GROUP: gang}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def _refused(refusal: KubeletRefusal) -> Pod:
    """A pod that a kubelet sent back, as the API server would keep it."""
    namespace, _, name = refusal.pod.partition("/")
    pod = Pod(metadata=Metadata(name=name, namespace=namespace))
    status = PodStatus(phase=REFUSED, reason=refusal.reason)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=refusal.node), status=status)
