"""Which nodes must not take a unit now, because their kubelets could give it the room that is kept for another unit.

A kubelet knows nothing of nominated pods: it takes the zone that it likes best. So a unit goes to a node with kept room
only if every pod there finds a zone, whatever zones the others get and in whatever order they arrive. Otherwise the
node is closed while the unit is decided, and the unit finds another node or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.dry_run import in_every_way
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES, Scope
from bayplan.cluster.state import ClusterState
from bayplan.dispatch.kept.nominations import Nominations
from bayplan.dispatch.kept.seats import KeptSeats
from bayplan.engine.numa.admission import relevant_wants
from bayplan.engine.numa.demand import demand
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import Profile

Made = TypeVar("Made")
PodRows = Iterable[tuple[Pod, int]]
"""Pods and the rows that they would get."""
Wants = tuple[tuple[int, int], ...]
# Orders and zones that are tried out; a node with more of them counts as unsafe. One step takes about 2 us.
MOST_STEPS = 2_000


@dataclass(frozen=True)
class KeptRoom:
    """The room that is kept for all units, seen by a unit that is being decided."""

    state: ClusterState
    nominations: Nominations
    seats: KeptSeats

    @contextmanager
    def deciding(self, profile: Profile) -> Iterator[ClosedNodes]:
        """Decide about one unit; closed nodes are open again afterwards."""
        closing = ClosedNodes(self, profile, [])
        try:
            yield closing
        finally:
            closing.open()

    def endangered(self, seats: PodRows, profile: Profile) -> list[int]:
        """The rows where these pods and the nominated ones could take each other's zones."""
        if profile.topology is None or not self.seats:
            return []
        by_row: dict[int, list[Pod]] = {}
        for pod, row in seats:
            by_row.setdefault(row, []).append(pod)
        return [row for row, pods in by_row.items() if not self._is_safe(row, pods, profile)]

    def _is_safe(self, row: int, pods: Sequence[Pod], profile: Profile) -> bool:
        state = self.state
        kept = self.seats.on_row(row)
        columns = state.columns
        if not kept or columns.topology[row] != TOPOLOGY_USABLE or columns.policy[row] not in REFUSING_POLICIES:
            return True
        zones = int(columns.zone_count[row])
        classes = [state.classes.of(pod) for pod in (*pods, *(pod for pod, _ in kept))]
        aligned = [each for each in classes if not demand(each).nothing_to_align]
        if zones == 1 or len(aligned) < 2:
            return True
        wants = [self._wants(each, row, profile) for each in aligned]
        leaving = [key for key in self.nominations.leaving if key in state.pods and state.pods[key].row == row]
        found = tuple(each for each in wants if each)
        return all(wants) and in_every_way(
            state,
            [*leaving, *(decision.pod for _, decision in kept)],
            lambda: _all_find_zones(columns.zone_available[:, :zones, row], found),
        )

    def _wants(self, pod: PodClass, row: int, profile: Profile) -> Wants | None:
        """What a pod takes of one zone; None if it may spread over several."""
        columns, topology = self.state.columns, profile.topology
        steps = demand(pod).steps_by_amounts(by_pod=columns.scope[row] == Scope.POD)
        if steps is None or len(steps) != 1 or topology is None:
            return None
        return tuple(relevant_wants(columns, steps[0].wants, row, topology.arguments.assumptions))


@dataclass
class ClosedNodes:
    """The nodes that are closed for the length of one decision."""

    kept_room: KeptRoom
    profile: Profile
    rows: list[int]

    def decide(self, make: Callable[[], Made], seats_of: Callable[[Made], PodRows]) -> Made:
        """Make a decision, and make it again without the nodes where it would endanger kept room."""
        while True:
            made = make()
            endangered = self.kept_room.endangered(seats_of(made), self.profile)
            if not endangered:
                return made
            for row in endangered:
                self.kept_room.state.set_closed(row, closed=True)
            self.rows += endangered

    def open(self) -> None:
        """Open all nodes again, after kept room was given back."""
        for row in self.rows:
            self.kept_room.state.set_closed(row, closed=False)
        if self.rows:
            self.kept_room.nominations.saw_all_changes()
        self.rows.clear()

    @property
    def reason(self) -> str:
        """Why a unit found no place because of closed nodes."""
        if not self.rows:
            return ""
        units = dict.fromkeys(unit for row in self.rows for unit in self.kept_room.seats.units_on(row))
        node, others = self.kept_room.state.names[self.rows[0]], len(self.rows) - 1
        where = f"{node} and {others} more" if others else node
        run = "runs" if len(units) == 1 else "run"
        return (
            f"waits until {', '.join(units)} {run}: the kubelet of {where} could give the room kept for it to this unit"
        )


def _all_find_zones(left: NDArray[np.float64], pods: Sequence[Wants]) -> bool:
    """True if pods that each take one zone all find one, in any order and whichever zones they get."""
    resources = sorted({index for wants in pods for index, _ in wants})
    position = {index: number for number, index in enumerate(resources)}
    zones = tuple(tuple(float(left[index, zone]) for index in resources) for zone in range(left.shape[1]))
    seen: dict[object, bool] = {}

    def holds(zones: tuple[tuple[float, ...], ...], rest: tuple[Wants, ...]) -> bool:
        known = seen.get((zones, rest))
        if known is not None:
            return known
        if len(seen) > MOST_STEPS:
            return False
        seen[zones, rest] = True
        seen[zones, rest] = all(found(zones, rest, pod) for pod in dict.fromkeys(rest))
        return seen[zones, rest]

    def found(zones: tuple[tuple[float, ...], ...], rest: tuple[Wants, ...], pod: Wants) -> bool:
        others = list(rest)
        others.remove(pod)
        after = [
            (*zones[:number], _less(zone, pod, position), *zones[number + 1 :])
            for number, zone in enumerate(zones)
            if all(zone[position[index]] >= want for index, want in pod)
        ]
        return bool(after) and all(holds(each, tuple(others)) for each in dict.fromkeys(after))

    return holds(zones, tuple(sorted(pods)))


def _less(zone: tuple[float, ...], pod: Wants, position: Mapping[int, int]) -> tuple[float, ...]:
    taken = {position[index]: want for index, want in pod}
    return tuple(amount - taken.get(number, 0) for number, amount in enumerate(zone))
