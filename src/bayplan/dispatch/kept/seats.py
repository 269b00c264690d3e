"""Kept seats: places of pods that do not start yet, assumed in the cluster's state and found by row."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from bayplan.cluster.columns.zone_charges import charges_of
from bayplan.cluster.reports.pod_zones import could_hold
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision

KeptSeat = tuple[Pod, Decision]


class KeptSeats:
    """The kept seats of all units of one dispatcher."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        # By row and pod, the unit's name in messages and its seat.
        self._by_row: dict[int, dict[str, tuple[str, KeptSeat]]] = {}

    def keep(self, unit: str, seats: Iterable[KeptSeat]) -> None:
        """Take these seats for a unit, so that others see them as taken; not on nodes that are gone."""
        for pod, decision in seats:
            if self._state.rows.get(decision.node or "") == decision.row:
                assume(self._state, decision, pod)
                self.taken(unit, pod, decision)

    def taken(self, unit: str, pod: Pod, decision: Decision) -> None:
        """A seat was assumed, and is kept from here on."""
        self._state.promises.only_kept.add(decision.pod)
        self._by_row.setdefault(decision.row, {})[decision.pod] = (unit, (pod, decision))

    def give_back(self, seats: Iterable[KeptSeat]) -> None:
        """Free these seats."""
        for _, decision in seats:
            self._state.forget(decision.pod)
            self._state.promises.only_kept.discard(decision.pod)
            here = self._by_row.get(decision.row, {})
            here.pop(decision.pod, None)
            if not here:
                self._by_row.pop(decision.row, None)

    def __bool__(self) -> bool:
        return bool(self._by_row)

    def on_row(self, row: int) -> list[KeptSeat]:
        """The seats on a node."""
        return [seat for _, seat in self._by_row.get(row, {}).values()]

    def units_on(self, row: int) -> list[str]:
        """The units with a seat on a node."""
        return list(dict.fromkeys(unit for unit, _ in self._by_row.get(row, {}).values()))

    def beside(self, decision: Decision, pod: Pod) -> Decision:
        """A decision on a node with room that is kept for others, which the node's kubelet knows nothing about.

        The kubelet may choose their zones, so the pod counts in every zone until a report shows where it is.
        """
        report = self._state.reports[decision.row]
        if decision.row not in self._by_row or report is None or not report.usable or not decision.charges:
            return decision
        anywhere = could_hold(self._state.classes.of(pod).request, report)
        return structs.replace(
            decision,
            charges=charges_of(self._state.columns, anywhere),
            by_amounts=False,
            containers=tuple(structs.replace(each, estimated=True) for each in decision.containers),
        )
