"""Gangs in a simulation: which pods belong together, who has arrived, who has started when, and over which domains they
spread.

Each gang is a PodGroup of bayplan's own, and its pods are members as in a cluster: `dialects/own/members.py` says
whether those that it needs have arrived, and makes the `Gang` that is decided about (`gang_turns.py`). Schedulers that
do not know gangs get the pods one by one and may start half of it. Those that have started hold what they have and wait
for the rest: their run time counts from the last one that is needed. Both are counted alike: a gang is *whole* once all
pods that it needs have started, and *in part* if the end finds it otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete
from bayplan.dialects.own.members import gang_with_pods
from bayplan.gangs.model import Gang, GangDecision
from bayplan.gangs.ranks.ranks import RANK, SEGMENT
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata, Pod, PodStatus
from bayplan.simulate.run import GangRun
from bayplan.simulate.scenario.model import GangPattern, Seconds, SimulatedNode, Workload


@dataclass
class SimulatedGang:
    """One gang of a workload: its pods as they arrive, get their seats and end; and those that have started, with their
    nodes.

    `arrived_at` is when the last pod that it needs arrived, `whole_at` when the last one started; `gave_up` are wishes
    that it started without.
    """

    written: PodGroup
    pods: dict[str, Pod] = field(default_factory=dict)
    started: list[Pod] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    arrived_at: Seconds | None = None
    whole_at: Seconds | None = None
    gave_up: tuple[str, ...] = ()
    _known: Gang | Incomplete | None = None

    @property
    def name(self) -> str:
        """`ml/pretrain-0`."""
        return f"{self.written.metadata.namespace}/{self.written.metadata.name}"

    @property
    def has_arrived(self) -> bool:
        """True once all pods that it needs were there to be placed."""
        return self.arrived_at is not None

    @property
    def whole(self) -> bool:
        """True once all pods that it needs have started."""
        return self.whole_at is not None

    @property
    def level(self) -> str | None:
        """The level whose domains are counted: the one that it prefers, or else requires."""
        return self.written.spec.preferred or self.written.spec.required

    def arrive(self, pod: Pod, now: Seconds) -> None:
        """A pod of it has been created."""
        self._set(pod)
        if not self.has_arrived and self._has_all(self.pods.values()):
            self.arrived_at = now

    def seat(self, decision: GangDecision) -> None:
        """Pods have got their nodes, ranks and segments, which are written on them as in a cluster."""
        if not any(pod.spec.node_name for pod in self.pods.values()):
            self.gave_up = decision.relaxed
        for seat in decision.seats:
            pod = self.pods[seat.pod]
            annotations = {**(pod.metadata.annotations or {}), RANK: str(seat.rank)}
            if seat.segment is not None:
                annotations[SEGMENT] = str(seat.segment)
            metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
            spec = msgspec.structs.replace(pod.spec, node_name=seat.node)
            self._set(msgspec.structs.replace(pod, metadata=metadata, spec=spec))

    def start(self, pod: Pod, node: str, now: Seconds) -> None:
        """A kubelet has taken a pod of it."""
        self.started.append(pod)
        self.nodes.append(node)
        if not self.whole and self._has_all(self.started):
            self.whole_at = now

    def refuse(self, key: str) -> None:
        """A kubelet has sent a pod back: it has failed, and its controller may create another one."""
        self.pods.pop(key, None)
        self._known = None

    def evict(self, key: str) -> None:
        """A pod was told to leave for a more important one. Below its minimum the gang starts again from nothing."""
        self.pods.pop(key, None)
        self._known = None
        position = next((number for number, pod in enumerate(self.started) if pod_key(pod) == key), None)
        if position is not None:
            del self.started[position], self.nodes[position]
        if not self._has_all(self.started):
            self.whole_at = self.arrived_at = None

    @property
    def crippled(self) -> bool:
        """True if some of its pods run, but fewer than it needs."""
        return bool(self.started) and not self._has_all(self.started)

    def end(self, key: str) -> None:
        """A pod has done its work."""
        self._set(msgspec.structs.replace(self.pods[key], status=PodStatus(phase="Succeeded")))

    def as_gang(self) -> Gang | Incomplete:
        """The form that the scheduler knows; the same object while nothing has happened to its pods."""
        if self._known is None:
            self._known = gang_with_pods(self.written, self.pods.values())
        return self._known

    def _set(self, pod: Pod) -> None:
        self.pods[pod_key(pod)] = pod
        self._known = None

    def _has_all(self, pods: Collection[Pod]) -> bool:
        """Whether pods are all that it needs.

        Counted first, because thousands of pods need not be looked at for each that comes.
        """
        return len(pods) >= _fewest(self.written.spec) and isinstance(gang_with_pods(self.written, pods), Gang)


def _fewest(spec: PodGroupSpec | GroupSpec) -> int:
    """How many pods are needed at least, whichever groups they are in."""
    own = spec.size if spec.minimum is None else spec.minimum
    inner = sorted(map(_fewest, spec.groups or ()))
    return own + sum(inner if spec.minimum_groups is None else inner[: spec.minimum_groups])


class Gangs:
    """All gangs of a scenario."""

    def __init__(self, workloads: Sequence[Workload], nodes: Sequence[SimulatedNode], levels: Sequence[str]) -> None:
        self._levels = [level for level in levels if level != HOSTNAME]
        self._labels = {node.name: node.labels for node in nodes}
        self._of: dict[tuple[str, int], SimulatedGang] = {}
        for workload in workloads:
            if workload.together is not None:
                for number in range(len(workload.members) // workload.together.size):
                    self._of[workload.name, number] = SimulatedGang(_pod_group(workload, workload.together, number))

    @property
    def all(self) -> Collection[SimulatedGang]:
        """Every gang."""
        return self._of.values()

    def of(self, workload: Workload, member: int) -> SimulatedGang | None:
        """The gang of a workload's member; None if its pods are on their own."""
        if workload.together is None:
            return None
        return self._of.get((workload.name, member // workload.together.size))

    @property
    def number(self) -> int:
        """How many gangs the scenario has."""
        return len(self._of)

    @property
    def whole(self) -> int:
        """How many have started with all pods that they need."""
        return sum(gang.whole for gang in self._of.values())

    @property
    def in_part(self) -> int:
        """How many have started with some of their pods only: what they hold is of no use."""
        return sum(bool(gang.nodes) and not gang.whole for gang in self._of.values())

    @property
    def domains_per_gang(self) -> float | None:
        """Mean number of domains that a whole gang spreads over, of the level that it prefers or else requires."""
        counts = [len(self._domains(gang)) for gang in self._of.values() if gang.whole and gang.level]
        return round(sum(counts) / len(counts), 4) if counts else None

    @property
    def runs(self) -> tuple[GangRun, ...]:
        """What became of each gang, in the order of the scenario."""
        return tuple(
            GangRun(
                name=gang.name,
                workload=workload,
                arrived_at=gang.arrived_at,
                whole_at=gang.whole_at,
                started=len(gang.started),
                level=gang.level,
                domains=tuple("/".join(path) for path in self._domains(gang)) if gang.level else (),
                gave_up=gang.gave_up,
            )
            for (workload, _), gang in self._of.items()
        )

    def _domains(self, gang: SimulatedGang) -> list[tuple[str, ...]]:
        return sorted({self._domain(gang, node) for node in gang.nodes})

    def _domain(self, gang: SimulatedGang, node: str) -> tuple[str, ...]:
        level = level_meant(gang.level or HOSTNAME, self._levels) or HOSTNAME
        labels: Mapping[str, str] = self._labels[node]
        if level in (HOSTNAME, NUMA):
            return (node,)
        depth = self._levels.index(level) + 1
        return tuple(labels.get(label, "") for label in self._levels[:depth])


def _pod_group(workload: Workload, together: GangPattern, number: int) -> PodGroup:
    metadata = Metadata(name=f"{workload.name}-{number}", namespace=workload.namespace)
    return PodGroup(metadata=metadata, spec=together.spec)
