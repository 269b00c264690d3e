"""Gangs in a simulation: which pods belong together, who has arrived, who has started, and over how many domains they spread.

A scheduler that knows gangs gets a whole one when its last pod has arrived; the others get its pods one by one and may start half of
it. Those that have started hold what they have and wait for the rest: their run time counts from the last one. Both are counted alike: a gang is *whole* once all its pods have started, and *in part* if the end finds it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.kube.core_v1 import Pod
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.scheduling.gang import Gang, Group
from bayplan.simulate.scenario.model import SimulatedNode, Together, Workload

TREE = "scenario"


@dataclass
class SimulatedGang:
    """One gang of a workload: its pods as they arrive, and the nodes of those that have started."""

    name: str
    together: Together
    arrived: list[Pod] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """True if all of its pods are there to be placed."""
        return len(self.arrived) == self.together.size

    @property
    def whole(self) -> bool:
        """True if all of its pods have started."""
        return len(self.nodes) == self.together.size

    def as_gang(self) -> Gang:
        """The form that the scheduler knows."""
        whole = Group(pods=tuple(self.arrived), required=self.together.required, preferred=self.together.preferred)
        return Gang(self.name, whole, TREE)


class Gangs:
    """All gangs of a scenario."""

    def __init__(self, workloads: Sequence[Workload], nodes: Sequence[SimulatedNode], levels: Sequence[str]) -> None:
        self._levels = [level for level in levels if level != HOSTNAME]
        self._labels = {node.name: node.labels for node in nodes}
        self._of: dict[tuple[str, int], SimulatedGang] = {}
        for workload in workloads:
            if workload.together is not None:
                for number in range(len(workload.members) // workload.together.size):
                    name = f"{workload.namespace}/{workload.name}-{number}"
                    self._of[workload.name, number] = SimulatedGang(name, workload.together)

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
        """How many have started with all their pods."""
        return sum(gang.whole for gang in self._of.values())

    @property
    def in_part(self) -> int:
        """How many have started with some of their pods only: what they hold is of no use."""
        return sum(bool(gang.nodes) and not gang.whole for gang in self._of.values())

    @property
    def domains_per_gang(self) -> float | None:
        """Mean number of domains that a whole gang spreads over, of the level that it prefers or else requires."""
        counts = [
            len({self._domain(gang, node) for node in gang.nodes})
            for gang in self._of.values()
            if gang.whole and (gang.together.preferred or gang.together.required)
        ]
        return round(sum(counts) / len(counts), 4) if counts else None

    def _domain(self, gang: SimulatedGang, node: str) -> tuple[str, ...]:
        level = gang.together.preferred or gang.together.required or HOSTNAME
        labels: Mapping[str, str] = self._labels[node]
        if level == HOSTNAME:
            return (node,)
        depth = self._levels.index(level) + 1
        return tuple(labels.get(label, "") for label in self._levels[:depth])
