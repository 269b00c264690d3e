"""Which pod can be in which zone of a node whose report lists no pods: what arithmetic alone allows.

In come what is in use in each zone and what each pod holds in sum. An *arrangement* gives all pods zones so that
together they explain exactly what is in use. Where all arrangements agree, a zone is known; elsewhere nothing is
guessed. They also tell what zones gain when some pods leave: all of what is in use if no other pod holds any of it,
wherever these pods were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.request import PodRequest, Role, is_memory, sidecar_aware_sum
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES, Policy, Scope
from bayplan.cluster.reports.pod_zones import Holding, ZonesByContainer, aligned, zones_of_pod
from bayplan.cluster.reports.topology_report import TopologyReport

if TYPE_CHECKING:
    from bayplan.cluster.state import ClusterState

# Steps of a search, and ways in which pods can leave: beyond these, nothing is inferred.
MOST_STEPS = 256
MOST_WAYS = 16

Amounts = NDArray[np.int64]
"""By resource and position of the zone."""
Gain = tuple[Holding, ...]
"""What zones gain, by resource and position of the zone."""
Chosen = tuple[tuple[int, ...], ...]
"""How many parts of each kind are in each zone."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Containers of a pod and what they hold of each resource, in one zone if `confined`; `at` is its position."""

    pod: str
    containers: tuple[str, ...]
    holds: tuple[int, ...]
    confined: bool
    at: int | None

    @property
    def kind(self) -> tuple[object, ...]:
        """Parts of one kind are interchangeable."""
        return self.holds, self.at


def arrangements_on(state: ClusterState, row: int) -> Arrangements | None:
    """The arrangements of a node's pods; None if its report lists them, shows no use, or may show other pods."""
    report = state.reports[row]
    if report is None or report.pods is not None or not report.shows_use:
        return None
    if state.columns.topology[row] != TOPOLOGY_USABLE or not state.promises.shows_all_on(row):
        return None
    pods = [(key, state.pods[key].request, state.bound.get(key)) for key in state.pods_on(row)]
    return Arrangements(report, {key: (request, zones_of_pod(pod) if pod else {}) for key, request, pod in pods})


def inferred_zones_on(state: ClusterState, row: int) -> dict[str, ZonesByContainer]:
    """The zones of a node's pods that follow from amounts: of some pods, or of none."""
    arrangements = arrangements_on(state, row)
    return {key: arrangements.zones_of(key) for key in state.keys_on(row)} if arrangements is not None else {}


class Arrangements:
    """All arrangements of a node's pods. If there are none, or too many to look at, any pod may be anywhere."""

    def __init__(self, report: TopologyReport, pods: Mapping[str, tuple[PodRequest, ZonesByContainer]]) -> None:
        self._report = report
        in_use = {
            name: [each[name].allocatable - each[name].available if name in each else 0 for each in resources]
            for resources in ([zone.resources for zone in report.zones],)
            for name in sorted({name for each in resources for name in each})
        }
        # Of a resource that is not in use, pods hold nothing: no manager hands it out by zone.
        self._names = [name for name, amounts in in_use.items() if max(amounts) > 0]
        self._none: Amounts = np.zeros((len(self._names), len(report.zones)), dtype=np.int64)
        self._use: Amounts = self._none.copy()
        for number, name in enumerate(self._names):
            self._use[number] = np.maximum(in_use[name], 0)
        self._parts = [part for key, (request, zones) in pods.items() for part in self._parts_of(key, request, zones)]
        used, held = self._use.sum(axis=1), self._held_by(self._parts)
        # Agents count memory that spans zones in full in each of them.
        wide = self._held_by([part for part in self._parts if not part.confined])
        most = held + wide * [(len(report.zones) - 1) * is_memory(name) for name in self._names]
        self._unexplained, self._shared = used > most, wide > 0
        numbers = Counter(part.kind for part in self._parts if part.confined)
        self._kinds = [
            (part, numbers[kind]) for kind, part in {part.kind: part for part in self._parts if part.confined}.items()
        ]
        self._steps = 0
        exact = (held <= used).all() and not self._unexplained.any()
        self._found = list(self._search(self._use, ())) if exact else []
        self._agree = len(self._found) > 0 and self._steps <= MOST_STEPS
        if not self._agree:
            self._kinds, self._found = [], [()]

    def zones_of(self, key: str) -> ZonesByContainer:
        """The zones of a pod's containers, as far as all arrangements agree."""
        known: ZonesByContainer = {}
        of_devices = np.array([not is_memory(name) for name in self._names])
        for part in self._parts if self._agree else ():
            # All zones, if others cannot have what it holds.
            zones = (np.array(part.holds) > self._use.sum(axis=1) - self._use.T)[:, of_devices].any(axis=1)
            if part.confined:
                zones = self._most_of(part).any(axis=0)
            if part.pod == key and (zones.sum() == 1 if part.confined else zones.all()):
                in_zones = tuple(zone.id for zone, there in zip(self._report.zones, zones, strict=True) if there)
                known |= dict.fromkeys(part.containers, in_zones)
        return known

    def most_freed_by(self, key: str) -> Gain:
        """The most that zones can gain when a pod leaves."""
        most = sum((self._most_of(part) for part in self._parts if part.pod == key), self._none)
        return self._as_gain(np.minimum(most, self._use))

    def ways(self, leaving: Collection[str]) -> list[Gain]:
        """What zones gain when some pods leave: once for each way in which they may be placed.

        Where that is not known, it is what their annotations tell.
        """
        ways: set[Gain] = set()
        for chosen in self._found:
            for gained in self._gained(chosen, leaving):
                if gained is None or len(ways) > MOST_WAYS:
                    known = [part for part in self._parts if part.pod in leaving and part.at is not None]
                    return [self._as_gain(sum((self._most_of(part) for part in known), self._none))]
                ways.add(self._as_gain(gained))
        return sorted(ways)

    def _gained(self, chosen: Chosen, leaving: Collection[str]) -> Iterator[Amounts | None]:
        """What zones can gain in one arrangement; None if that is not known."""
        placed = [(part, numbers) for (part, _), numbers in zip(self._kinds, chosen, strict=True)]
        rest = self._use - sum((np.outer(part.holds, numbers) for part, numbers in placed), self._none)
        kinds = {part.kind for part, _ in placed}
        others = [part for part in self._parts if part.kind not in kinds]
        leave = self._held_by([part for part in others if part.pod in leaving])
        stay = self._held_by([part for part in others if part.pod not in leaving])
        unsure = (leave > 0) & ((stay > 0) | self._unexplained) & rest.any(axis=1)
        refuses = self._report.settings.policy in REFUSING_POLICIES
        if any(refuses or is_memory(name) for name, open_ in zip(self._names, unsure, strict=True) if open_):
            yield None
            return
        freed = np.where(unsure, np.minimum(leave, rest.sum(axis=1) - stay), (leave > 0) * rest.sum(axis=1))
        # Where the kubelet refuses nothing for what is in which zone, only sums count: the first zones gain.
        rest = np.clip(freed[:, np.newaxis] - np.cumsum(rest, axis=1) + rest, 0, rest)
        gone = Counter(part.kind for part in self._parts if part.pod in leaving)
        for each in product(*(_spread(gone[part.kind], numbers) for part, numbers in placed)):
            from_kinds = (np.outer(part.holds, numbers) for (part, _), numbers in zip(placed, each, strict=True))
            yield sum(from_kinds, rest)

    def _most_of(self, part: _Part) -> Amounts:
        """The most that a part can hold in each zone."""
        within = self._use > 0
        for number, (kind, _) in enumerate(self._kinds):
            if kind.kind == part.kind:
                within = within & np.any([chosen[number] for chosen in self._found], axis=0)
        if part.at is not None:
            within = within & (np.arange(within.shape[1]) == part.at)
        most: Amounts = np.minimum(np.where(within, np.array(part.holds)[:, np.newaxis], 0), self._use)
        return most

    def _search(self, left: Amounts, chosen: Chosen) -> Iterator[Chosen]:
        """Every arrangement of the confined parts that leaves nothing but what others hold."""
        if len(chosen) == len(self._kinds):
            yield from [] if left[~self._shared].any() else [chosen]
            return
        part, number = self._kinds[len(chosen)]
        holds = np.array(part.holds)
        room = (left[holds > 0] // holds[holds > 0, np.newaxis]).min(axis=0)
        if part.at is not None:
            room *= np.arange(len(room)) == part.at
        for numbers in _spread(number, room.tolist()):
            self._steps += 1
            if self._steps <= MOST_STEPS:
                yield from self._search(left - np.outer(holds, numbers), (*chosen, numbers))

    def _parts_of(self, key: str, request: PodRequest, annotated: ZonesByContainer) -> Iterator[_Part]:
        """What a pod holds, in parts that the kubelet aligns each by itself."""
        settings, positions = self._report.settings, {zone.id: at for at, zone in enumerate(self._report.zones)}
        by_pod = settings.scope is Scope.POD and settings.policy in REFUSING_POLICIES
        parts: dict[tuple[str, int | None], list[tuple[str, Mapping[str, int]]]] = {}
        asked = {container.name: container.requests for container in request.containers}
        for container in request.containers:
            amounts = aligned(container, request, self._report) if container.role is not Role.INIT else {}
            zones = annotated.get(container.name, ())
            at = positions.get(zones[0]) if len(zones) == 1 else None
            if any(name in amounts for name in self._names):
                parts.setdefault(("" if by_pod else container.name, at), []).append((container.name, amounts))
        asked[""] = sidecar_aware_sum(request.containers)
        for (name, at), containers in parts.items():
            holds = tuple(sum(amounts.get(each, 0) for _, amounts in containers) for each in self._names)
            confined = at is not None or self._is_confined(asked[name], holds)
            yield _Part(key, tuple(each for each, _ in containers), holds, confined, at)

    def _is_confined(self, asked: Mapping[str, int], holds: Sequence[int]) -> bool:
        """Whether the kubelet takes this from one zone."""
        policy, zones = self._report.settings.policy, self._report.zones
        held = [name for name, amount in zip(self._names, holds, strict=True) if amount]
        if self._report.settings.scope is Scope.POD and all(map(is_memory, held)):
            return False  # with no room for all of its memory together, each container gets its own anywhere
        return policy is Policy.SINGLE_NUMA_NODE or (
            policy is Policy.RESTRICTED
            and all(
                asked.get(name, 0)
                <= max(zone.resources[name].total_of(name) for zone in zones if name in zone.resources)
                for name in held
            )
        )

    def _held_by(self, parts: Sequence[_Part]) -> Amounts:
        """What some parts hold of each resource in sum."""
        held: Amounts = np.zeros(len(self._names), dtype=np.int64)
        for part in parts:
            held += part.holds
        return held

    def _as_gain(self, amounts: Amounts) -> Gain:
        return tuple((self._names[name], int(zone), int(amounts[name, zone])) for name, zone in np.argwhere(amounts))


def _spread(number: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way to spread a number over zones that have room for so many each."""
    if not room:
        yield from [] if number else [()]
        return
    for here in range(max(number - sum(room[1:]), 0), min(number, room[0]) + 1):
        yield from ((here, *others) for others in _spread(number - here, room[1:]))
