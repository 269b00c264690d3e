"""Which pods of a node can be evicted for a pod, and what each of them frees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bayplan.cluster.arrangements import Arrangements
from bayplan.cluster.columns.zone_charges import charges_of
from bayplan.cluster.dry_run import departure_from, zones_freed_by
from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.ledger import Charges
from bayplan.cluster.state import ClusterState
from bayplan.engine.preemption.victims import Candidate, Cell, GangVictims
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod


class ObstacleKind(StrEnum):
    """Why evictions make no room on a node, in the words of `-o json`."""

    PRIORITY = "priority"
    PROTECTED = "protected"
    STATIC = "staticPod"
    BUDGETS = "severalBudgets"
    REFUSED = "evictionRefused"
    GANG = "gang"
    STUCK = "terminating"
    ZONES_UNKNOWN = "zonesUnknown"
    NO_ROOM = "noRoom"
    CLOSED = "closed"
    AFFINITY = "affinity"
    NOT_EXAMINED = "notExamined"


@dataclass(frozen=True, slots=True)
class Protection:
    """Why a pod must not be evicted for others: the cause, and what says so."""

    cause: ObstacleKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang with pods on nodes: its members, and how many it can lose without falling below its minimum."""

    name: str
    members: tuple[str, ...]
    surplus: int


def no_gang(_: str) -> RunningGang | None:
    """Treat every pod as a pod by itself."""
    return None


def unprotected(_: Pod) -> Protection | None:
    """Allow every pod to be evicted."""
    return None


@dataclass(frozen=True)
class EvictionRules:
    """What limits evictions: disruption budgets, gangs, and pods that must stay for other reasons."""

    budgets: DisruptionBudgets = field(default_factory=DisruptionBudgets)
    gang_of: Callable[[str], RunningGang | None] = no_gang
    """The running gang of a pod, by its key."""
    protection: Callable[[Pod], Protection | None] = unprotected
    """Why a pod must stay; `stays` adds what the budgets say."""
    is_stuck: Callable[[Pod], bool] = lambda _: False
    """True of a pod that should have left long ago: it is neither a victim nor counted as leaving."""
    being_evicted: Collection[str] = frozenset()
    """Pods whose eviction is under way, by their keys: they count as leaving."""

    def stays(self, pod: Pod) -> Protection | None:
        """Why a pod must not be evicted, whatever its priority; None if it may be."""
        found = self.protection(pod)
        if found is not None:
            return found
        several = self.budgets.too_many(pod)
        return Protection(ObstacleKind.BUDGETS, " and ".join(several)) if several else None

    def is_leaving(self, key: str, pod: Pod) -> bool:
        """True of a pod that is about to leave its node, so that it needs no eviction."""
        return (is_terminating(pod) and not self.is_stuck(pod)) or (
            not is_terminating(pod) and key in self.being_evicted
        )


def priority_of(pod: Pod) -> int:
    """A pod's priority; 0 if admission set none."""
    return pod.spec.priority or 0


def is_terminating(pod: Pod) -> bool:
    """True if a pod has been deleted and is about to leave its node."""
    return pod.metadata.deletion_timestamp is not None


def terminating_on(state: ClusterState, row: int, rules: EvictionRules) -> list[str]:
    """The pods of a node that are about to leave it, by themselves or evicted."""
    found = ((key, state.bound.get(key)) for key in state.pods_on(row))
    return [key for key, pod in found if pod is not None and rules.is_leaving(key, pod)]


def latest_start_on(state: ClusterState, row: int, rules: EvictionRules) -> float | None:
    """When the last pod of a node started: none of its victims started later.

    None if a gang has members there, whose other members would be victims, too.
    """
    latest = 0.0
    for key in state.keys_on(row):
        if rules.gang_of(key) is not None:
            return None
        pod = state.bound.get(key)
        latest = max(latest, _started(pod) if pod is not None else 0.0)
    return latest


def _started(pod: Pod) -> float:
    """When a pod started, in seconds since 1970; 0 if it has not."""
    started = moment_of(pod.status.start_time or "") if pod.status and pod.status.start_time else None
    return started.timestamp() if started is not None else 0.0


def candidates_on(
    state: ClusterState, row: int, priority: int, rules: EvictionRules, cells: Collection[Cell]
) -> tuple[list[Candidate], dict[str, GangVictims]]:
    """The pods of a node with a lower priority that may be evicted, with what they free of some cells; and their gangs.

    A member whose gang would fall below its minimum and has a member that must stay is no candidate.
    """
    gangs: dict[str, GangVictims] = {}
    found: list[Candidate] = []
    closed: set[str] = set()
    arrangements = departure_from(state, row).arrangements
    for key in state.pods_on(row):
        pod = state.bound.get(key)
        if pod is None or key in rules.being_evicted or not _is_evictable(pod, priority, rules):
            continue
        gang = rules.gang_of(key)
        if gang is not None and gang.name not in gangs and gang.name not in closed:
            members = _members(state, gang, priority, rules, row, cells, arrangements)
            if members is None and not gang.surplus:
                closed.add(gang.name)
            else:
                gangs[gang.name] = GangVictims(gang.surplus, members or (), whole=members is not None)
        if gang is None or gang.name not in closed:
            found.append(_candidate(state, key, pod, rules, gang, row, cells, arrangements))
    return found, gangs


def _candidate(
    state: ClusterState,
    key: str,
    pod: Pod,
    rules: EvictionRules,
    gang: RunningGang | None,
    row: int,
    cells: Collection[Cell],
    arrangements: Arrangements | None,
) -> Candidate:
    """A pod as a candidate, with everything that a node gains, which is nothing if the pod is on another one."""
    return Candidate(
        key,
        priority_of(pod),
        freed_in(state, key, cells, arrangements) if state.pods[key].row == row else {},
        rules.budgets.covering(pod),
        gang.name if gang is not None else "",
        _started(pod),
        id(state.pods[key].request) if arrangements is not None and arrangements.most_freed_by(key) else 0,
    )


def freed_in(
    state: ClusterState, key: str, cells: Collection[Cell], arrangements: Arrangements | None
) -> dict[Cell, int]:
    """The most that a pod frees of some cells.

    The common case is read from the report: building all charges takes ten times as long.
    """
    placed = state.pods[key]
    report = state.reports[placed.row]
    total = placed.request.total
    freed: dict[Cell, int] = {}
    if report is None or report.pods is None or placed.promised:
        everything = most_freed_by(state, key, arrangements)
        return {cell: everything[cell] for cell in cells if cell in everything}
    held = report.pods.get(key, {})
    for cell in cells:
        name, zone = cell
        if zone is None:
            amount = 1 if name == PODS else total.get(name, 0)
        else:
            amount = held.get(name, {}).get(report.zones[zone].id, 0)
        if amount:
            freed[cell] = amount
    return freed


def freed_by(state: ClusterState, key: str) -> Mapping[Cell, int]:
    """What a pod's node and its zones gain when it leaves, as far as it is known where the pod is."""
    return _with_zones(state, key, zones_freed_by(state, key))


def most_freed_by(state: ClusterState, key: str, arrangements: Arrangements | None) -> Mapping[Cell, int]:
    """The most that a pod's node and its zones gain when it leaves, given the arrangements of the node's pods."""
    if arrangements is None:
        return freed_by(state, key)
    return _with_zones(state, key, charges_of(state.columns, arrangements.most_freed_by(key)))


def _with_zones(state: ClusterState, key: str, in_zones: Charges) -> Mapping[Cell, int]:
    request = state.pods[key].request
    freed: dict[Cell, int] = {(name, None): amount for name, amount in request.total.items() if amount}
    freed[PODS, None] = 1
    for charge in in_zones:
        cell = state.columns.resource_names[charge.resource], charge.zone
        freed[cell] = freed.get(cell, 0) + int(charge.amount)
    return freed


def _is_evictable(pod: Pod, priority: int, rules: EvictionRules) -> bool:
    return priority_of(pod) < priority and not is_terminating(pod) and rules.stays(pod) is None


def _members(
    state: ClusterState,
    gang: RunningGang,
    priority: int,
    rules: EvictionRules,
    row: int,
    cells: Collection[Cell],
    arrangements: Arrangements | None,
) -> tuple[Candidate, ...] | None:
    """All members as candidates; None if one of them must stay, so that the gang cannot go as a whole."""
    members: list[Candidate] = []
    for key in gang.members:
        pod = state.bound.get(key)
        if pod is None or is_terminating(pod) or key in rules.being_evicted:
            continue
        if not _is_evictable(pod, priority, rules):
            return None
        members.append(_candidate(state, key, pod, rules, gang, row, cells, arrangements))
    return tuple(members)
