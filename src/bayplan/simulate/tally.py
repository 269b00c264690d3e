"""Counting while a simulation runs: the time line, shares over time, refusals, and how far pods are spread over zones.

The simulation tells what happens; `moment` and the means can be asked at any time. Time that passes is counted before
what happens at its end, so that a mean over time is exact whatever the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bayplan.cluster.pods.request import CPU, MEMORY, is_memory
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.run import KubeletRefusal, Moment
from bayplan.simulate.scenario.model import Seconds

# Points of the time line; more than a chart has pixels for would only make the page large.
MOMENTS = 240
# Every refusal is counted; only this many are kept with pod, node and message.
MOST_REFUSALS = 1000

ZonesOfResources = Mapping[str, Iterable[int]]
"""Of each resource, the zones in which a pod holds some of it."""


class Tally:
    """What has happened so far; wide because each figure of a run is counted by itself."""

    def __init__(self, lasts: Seconds, allocatable: Iterable[Mapping[str, int]]) -> None:
        self.running = self.waiting = self.finished = 0
        self.refused: Counter[str] = Counter()
        self.refused_by_workload: Counter[str] = Counter()
        self.refused_by_node: Counter[str] = Counter()
        self.refusals: list[KubeletRefusal] = []
        self.timeline: list[Moment] = []
        self.peak_cpu_share = 0.0
        self._capacity = {CPU: 0, MEMORY: 0}
        for amounts in allocatable:
            for name in self._capacity:
                self._capacity[name] += amounts.get(name, 0)
        self._used = dict.fromkeys(self._capacity, 0)
        self._used_over_time = dict.fromkeys(self._capacity, 0.0)
        self.now: Seconds = 0.0
        self._lasts = lasts
        self.zones_decided = self.zones_not_as_decided = 0
        self._pods_in_zones = 0
        self._zones = 0
        self._distance = 0.0

    def pass_to(self, now: Seconds) -> None:
        """Time passes while everything stays as it is."""
        # Counted, not added up: sums of fractions drift, and the last moment would come twice.
        while len(self.timeline) < MOMENTS and (at := self._lasts * len(self.timeline) / MOMENTS) < now:
            self.timeline.append(self.moment(at))
        for name, used in self._used.items():
            self._used_over_time[name] += used * (now - self.now)
        self.now = now

    def moment(self, at: Seconds) -> Moment:
        """How it stands."""
        return Moment(
            at=round(at, 3),
            running=self.running,
            waiting=self.waiting,
            refused=self.refused.total(),
            finished=self.finished,
            cpu_share=self._share(CPU, self._used[CPU]),
            memory_share=self._share(MEMORY, self._used[MEMORY]),
        )

    def there_from_the_beginning(self, total: Mapping[str, int]) -> None:
        """A recorded pod uses its node, but is none of those that are wanted and counted."""
        for name in self._used:
            self._used[name] += total.get(name, 0)
        self.peak_cpu_share = max(self.peak_cpu_share, self._share(CPU, self._used[CPU]))

    def started(self, total: Mapping[str, int]) -> None:
        """A kubelet admitted a pod that asks for so much."""
        self.waiting -= 1
        self.running += 1
        for name in self._used:
            self._used[name] += total.get(name, 0)
        self.peak_cpu_share = max(self.peak_cpu_share, self._share(CPU, self._used[CPU]))

    def ended(self, total: Mapping[str, int]) -> None:
        """A pod came to its end."""
        self.running -= 1
        self.finished += 1
        for name in self._used:
            self._used[name] -= total.get(name, 0)

    def evicted(self, total: Mapping[str, int], *, wanted: bool) -> None:
        """A pod left its node for another one; if it is one of the `wanted` ones, it waits again."""
        self.running -= wanted
        self.waiting += wanted
        for name in self._used:
            self._used[name] -= total.get(name, 0)

    def refuse(self, refusal: KubeletRefusal) -> None:
        """A kubelet sent a pod back."""
        self.refused[refusal.reason] += 1
        self.refused_by_workload[refusal.workload] += 1
        self.refused_by_node[refusal.node] += 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(refusal)

    def stands_in(self, zones: Iterable[int], machine: Machine) -> None:
        """A pod owns something in these zones of its node."""
        position = {zone.id: index for index, zone in enumerate(machine.zones)}
        chosen = sorted(position[zone] for zone in set(zones))
        if not chosen:
            return
        self._pods_in_zones += 1
        self._zones += len(chosen)
        pairs = [machine.zones[one].distances[other] for one in chosen for other in chosen]
        self._distance += sum(pairs) / len(pairs)

    def was_decided(self, decided: ZonesOfResources, held: ZonesOfResources) -> None:
        """Where a scheduler decided that a pod would hold what, and where it does.

        Only what both speak of is compared.
        """
        compared = decided.keys() & held.keys()
        if compared:
            self.zones_decided += 1
            self.zones_not_as_decided += any(_differ(name, set(decided[name]), set(held[name])) for name in compared)

    def mean_share(self, resource: str) -> float:
        """The share in use, averaged over the time that has passed."""
        return self._share(resource, self._used_over_time[resource] / self.now if self.now else 0.0)

    @property
    def zones_per_pod(self) -> float | None:
        """Mean number of zones of pods that own something in zones."""
        return round(self._zones / self._pods_in_zones, 4) if self._pods_in_zones else None

    @property
    def distance(self) -> float | None:
        """Mean over those pods of the mean distance between their zones."""
        return round(self._distance / self._pods_in_zones, 4) if self._pods_in_zones else None

    def _share(self, resource: str, used: float) -> float:
        capacity = self._capacity[resource]
        return round(used / capacity, 4) if capacity else 0.0


def _differ(resource: str, decided: set[int], held: set[int]) -> bool:
    """Memory across several zones is one block of all of them; the share of each zone is unknown."""
    return not decided <= held if is_memory(resource) else decided != held
