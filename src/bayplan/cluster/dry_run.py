"""Look at a cluster as if some pods had left: what an eviction would free, without evicting anything.

`emptied` is the cluster without any pod, for questions about amounts. `without` changes the columns of the nodes
concerned for the length of a `with` block and restores them exactly. A node is judged as its next report would show it,
by amounts: which CPUs a pod leaves is not known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

from bayplan.cluster.columns.zone_charges import charges_of, held_of
from bayplan.cluster.reports.ledger import Charges, PlacedPod, ZoneCharge
from bayplan.cluster.reports.pod_zones import holdings_of
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod


def emptied(state: ClusterState) -> ClusterState:
    """The cluster as if no node had a pod, for filters that look at amounts; other columns are shared."""
    empty, columns = copy(state), copy(state.columns)
    columns.free, columns.zone_available = columns.allocatable, columns.zone_offered
    columns.zone_available_sum = columns.zone_offered.sum(axis=1)
    empty.columns = columns
    return empty


def zones_freed_by(state: ClusterState, key: str) -> Charges:
    """What zones gain when a pod leaves, as far as it is known where the pod is: by promise, report or annotation."""
    placed = state.pods[key]
    report = state.reports[placed.row]
    if report is None or not report.usable:
        return ()
    if placed.promised:
        # No report lists it yet, or none does any more because its kubelet has ended it: the report is what remains
        # without it.
        return placed.charges
    if report.pods is not None:
        return held_of(state.columns, report, report.pods.get(key, {}))
    pod = state.bound.get(key)
    if pod is None:
        return ()
    held, complete = holdings_of(pod, placed.request, report)
    return charges_of(state.columns, held) if complete else ()


@contextmanager
def without(state: ClusterState, keys: Iterable[str], *, logged: bool = False) -> Iterator[None]:
    """The state as it would be if these pods had left.

    `logged` if cached answers are asked inside: they see the change, too.
    """
    removed = [_remove(state, key) for key in keys]
    rows = sorted({each.placed.row for each in removed})
    first_time = [row for row in rows if row not in state.hypothetical]
    state.hypothetical.update(first_time)
    short = [(row, _take(state, row, _missing(state, row))) for row in rows]
    _log(state, rows if logged else ())
    try:
        yield
    finally:
        for row, taken in short:
            _add(state, row, taken, 1)
        for each in reversed(removed):
            _restore(state, each)
        state.hypothetical.difference_update(first_time)
        _log(state, rows if logged else ())


@dataclass(frozen=True, slots=True)
class _Removed:
    key: str
    placed: PlacedPod
    pod: Pod | None
    given: Charges


def _remove(state: ClusterState, key: str) -> _Removed:
    given = _give(state, state.pods[key].row, zones_freed_by(state, key))
    placed = state.bookings.unbook(key)
    state.neighbours.remove(key)
    state.volumes.step_aside(key, placed.row)
    return _Removed(key, placed, state.bound.get(key), given)


def _restore(state: ClusterState, removed: _Removed) -> None:
    state.bookings.book(removed.key, removed.placed)
    if removed.pod is not None:
        state.pod_placed(removed.key, removed.pod)
    _add(state, removed.placed.row, removed.given, -1)


def _missing(state: ClusterState, row: int) -> Charges:
    """What promised pods could not take yet, because those that leave have it."""
    missing: dict[tuple[int, int], float] = {}
    for key in state.keys_on(row):
        placed = state.pods[key]
        if placed.charges != placed.promised:
            for sign, charges in ((1, placed.promised), (-1, placed.charges)):
                for each in charges:
                    cell = each.resource, each.zone
                    missing[cell] = missing.get(cell, 0.0) + sign * each.amount
    return tuple(ZoneCharge(*cell, amount) for cell, amount in missing.items() if amount > 0)


def _give(state: ClusterState, row: int, charges: Charges) -> Charges:
    """Add to zones, never beyond what they have in all; what was added."""
    total, left = state.columns.zone_total, state.columns.zone_available
    given = tuple(
        ZoneCharge(each.resource, each.zone, min(room, each.amount))
        for each in charges
        if (room := float(total[each.resource, each.zone, row] - left[each.resource, each.zone, row])) > 0
    )
    _add(state, row, given, 1)
    return given


def _take(state: ClusterState, row: int, charges: Charges) -> Charges:
    """Subtract from zones, never below zero; what was subtracted."""
    left = state.columns.zone_available
    taken = tuple(
        ZoneCharge(each.resource, each.zone, min(room, each.amount))
        for each in charges
        if (room := float(left[each.resource, each.zone, row])) > 0
    )
    _add(state, row, taken, -1)
    return taken


def _add(state: ClusterState, row: int, charges: Charges, sign: int) -> None:
    for each in charges:
        state.columns.zone_available[each.resource, each.zone, row] += sign * each.amount
        state.columns.zone_available_sum[each.resource, row] += sign * each.amount


def _log(state: ClusterState, rows: Iterable[int]) -> None:
    for row in rows:
        state.usage_log.append(row)
