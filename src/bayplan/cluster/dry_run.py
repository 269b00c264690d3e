"""Look at a cluster as if some pods had left: what an eviction would free, without evicting anything.

`emptied` is the cluster without any pod, for questions about amounts. `without` changes the columns of the nodes
concerned for the length of a `with` block and restores them exactly. A node is judged as its next report would show it,
by amounts: which CPUs a pod leaves is not known before. Where the report does not list pods, they may be in one zone or
another: `in_every_way` asks once for each of these ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace

from bayplan.cluster.arrangements import Arrangements, arrangements_on
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


@dataclass(frozen=True)
class Departure:
    """The pods that have left a node in a dry run, and what its zones gained if that depends on all of them."""

    arrangements: Arrangements | None
    """As they were before; None if each pod tells by itself what it frees."""
    gone: frozenset[str] = frozenset()
    gained: Charges = ()


def departure_from(state: ClusterState, row: int) -> Departure:
    """What has left a node so far: nothing, if no dry run is under way there."""
    return state.hypothetical.get(row) or Departure(arrangements_on(state, row))


def zones_freed_by(state: ClusterState, key: str) -> Charges:
    """What zones gain when a pod leaves, as far as it is known where the pod is: by promise, report or annotation, or
    because it can be nowhere else.
    """
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
    arrangements = departure_from(state, placed.row).arrangements
    if arrangements is not None:
        ways = arrangements.ways((key,))
        return charges_of(state.columns, ways[0]) if len(ways) == 1 else ()
    pod = state.bound.get(key)
    if pod is None:
        return ()
    held, complete = holdings_of(pod, placed.request, report)
    return charges_of(state.columns, held) if complete else ()


def in_every_way(state: ClusterState, keys: Iterable[str], holds: Callable[[], bool], *, logged: bool = False) -> bool:
    """Whether something holds without these pods, wherever they are.

    The ways of one node are tried beside the first one of all others: what holds must not depend on two of them.
    """
    leaving = tuple(keys)
    for way in ways_without(state, leaving):
        with without(state, leaving, way, logged=logged):
            if not holds():
                return False
    return True


def ways_without(state: ClusterState, leaving: Iterable[str]) -> Iterator[Mapping[int, Departure]]:
    """In what ways pods can leave: the first way of every node, then every other way of one node at a time."""
    by_row: dict[int, set[str]] = {row: set() for row in state.hypothetical}
    for key in leaving:
        by_row.setdefault(state.pods[key].row, set()).add(key)
    first: dict[int, Departure] = {}
    others: list[tuple[int, Departure]] = []
    for row, keys in by_row.items():
        before = departure_from(state, row)
        after = replace(before, gone=before.gone | keys)
        ways = [()] if after.arrangements is None else after.arrangements.ways(after.gone)
        first[row], *more = [replace(after, gained=charges_of(state.columns, way)) for way in ways]
        others += [(row, departure) for departure in more]
    yield first
    yield from ({**first, row: departure} for row, departure in others)


@contextmanager
def without(
    state: ClusterState, keys: Iterable[str], way: Mapping[int, Departure] | None = None, *, logged: bool = False
) -> Iterator[None]:
    """The state as it would be if these pods had left, in one way of several: the first, if none is given.

    `logged` if cached answers are asked inside: they see the change, too.
    """
    leaving = tuple(keys)
    before, after = state.hypothetical, next(ways_without(state, leaving)) if way is None else way
    rows = sorted({row for row, departure in after.items() if departure != before.get(row)})
    state.hypothetical = {**before, **after}
    removed = [_remove(state, key) for key in leaving]
    for row in rows:
        _add(state, row, before[row].gained if row in before else (), -1)
        _add(state, row, after[row].gained, 1)
    short = [(row, _take(state, row, _missing(state, row))) for row in rows]
    _log(state, rows if logged else ())
    try:
        yield
    finally:
        for row, taken in short:
            _add(state, row, taken, 1)
        for row in rows:
            _add(state, row, after[row].gained, -1)
            _add(state, row, before[row].gained if row in before else (), 1)
        for each in reversed(removed):
            _restore(state, each)
        state.hypothetical = before
        _log(state, rows if logged else ())


def hides_pods(state: ClusterState, row: int) -> bool:
    """True if a node has pods and its report does not say in which zones they are."""
    report = state.reports[row]
    return report is not None and report.usable and report.pods is None and bool(state.keys_on(row))


@contextmanager
def with_free_zones(state: ClusterState, row: int) -> Iterator[None]:
    """A node as if nothing were in use in its zones."""
    columns = state.columns
    before = columns.zone_available[:, :, row].copy(), columns.zone_available_sum[:, row].copy()
    columns.zone_available[:, :, row] = columns.zone_offered[:, :, row]
    columns.zone_available_sum[:, row] = columns.zone_offered[:, :, row].sum(axis=1)
    try:
        yield
    finally:
        columns.zone_available[:, :, row], columns.zone_available_sum[:, row] = before


@dataclass(frozen=True, slots=True)
class _Removed:
    key: str
    placed: PlacedPod
    pod: Pod | None
    given: Charges


def _remove(state: ClusterState, key: str) -> _Removed:
    row = state.pods[key].row
    given = () if state.hypothetical[row].arrangements is not None else _give(state, row, zones_freed_by(state, key))
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
