"""For every node, how much its less important pods hold: by priority, in columns, so that a plan looks at few nodes.

`Freeable` follows the cluster through the usage log; a node that changed is counted again. `bounds` turns the columns
into the least that victims on each node can cost. The bound is never too high, so the exact search (`on_node.py`) can
stop at the first node whose bound exceeds the best plan.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.dry_run import departure_from
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.demand import demand
from bayplan.engine.preemption.victims import NO_COST, PRIORITY_OFFSET, Cost
from bayplan.engine.slots.slots import slot_bounds
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import is_terminating, most_freed_by, priority_of
from bayplan.scheduling.preemption.on_node import Preemptor
from bayplan.scheduling.profile import Profile

Amounts = NDArray[np.float64]
Places = slice | NDArray[np.intp]
# Priorities are told apart up to this many; beyond, neighbours share a level and are counted as the lowest of them.
MOST_LEVELS = 32
NEVER_ENOUGH = np.iinfo(np.int64).max
# More pods of a gang on one node are not counted apart.
MOST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rows where victims may suffice, the cheapest first, with the least that they cost there."""

    rows: NDArray[np.intp]
    highest: NDArray[np.int64]
    number: NDArray[np.int64]
    lowest_priority: int

    def least_cost(self, position: int) -> Cost:
        """The least that victims on a row can cost, by its position."""
        number, highest = int(self.number[position]), int(self.highest[position])
        if not number:
            return NO_COST
        total = (number - 1) * (self.lowest_priority + PRIORITY_OFFSET) + highest + PRIORITY_OFFSET
        return 0, highest, total, number


class Freeable:
    """What pods hold by priority.

    `sums`, `up_to` and `largest` are (level, cell, row); cell 0 is the node, the others are its zones.
    """

    def __init__(
        self, state: ClusterState, is_leaving: Callable[[str, Pod], bool] = lambda _, pod: is_terminating(pod)
    ) -> None:
        self._state = state
        self._is_leaving = is_leaving
        self._cursor = -1
        self._levels: list[int] = []
        self._sums: dict[str, Amounts] = {}
        # Over all levels up to each one: what is held, and the most that one pod holds.
        self._up_to: dict[str, Amounts] = {}
        self._largest: dict[str, Amounts] = {}
        # What pods hold that are about to leave: (cell, row).
        self._leaving: dict[str, Amounts] = {}
        self._stale: set[int] = set()

    def refresh(self, names: frozenset[str], most_pods: int | None = None) -> bool:
        """Count changed nodes again, for at most this many pods; True if all are up to date."""
        changed = self._state.usage_log.since(self._cursor) if self._cursor >= 0 else None
        size, zones = self._state.columns.size, self._state.columns.zone_available.shape[1] + 1
        shape = len(self._levels), zones, size
        if (
            changed is None
            or not names <= self._sums.keys()
            or any(each.shape != shape for each in self._sums.values())
        ):
            self._start_again(names | self._sums.keys())
        else:
            self._stale.update(int(row) for row in changed)
        self._cursor = self._state.usage_log.end
        counted = 0
        while self._stale:
            if most_pods is not None and counted >= most_pods:
                return False
            row = min(self._stale)
            if self._has_new_priority(row):
                self._start_again(names | self._sums.keys())
                continue
            counted += 1 + self._count(row)
            self._stale.discard(row)
        return True

    def bounds(self, preemptor: Preemptor, rows: NDArray[np.intp]) -> Bounds:
        """Which of some rows can take the pod once less important pods have left, and what that costs at least."""
        columns, request = self._state.columns, preemptor.pod_class.request
        levels = bisect_left(self._levels, preemptor.priority)
        level = np.zeros(len(rows), dtype=np.int64)
        number = np.zeros(len(rows), dtype=np.int64)
        at = self._places(rows)
        for name, amount in (*request.total.items(), (PODS, 1)):
            if not amount:
                continue
            index = columns.resource_index.get(name)
            free = columns.free[index][at] if index is not None else 0.0
            missing = amount - free - self._leaving[name][0][at]
            self._require(name, missing, at, 0, levels, level, number)
        self._require_zone(preemptor, rows, levels, level, number)
        possible = np.flatnonzero(level < levels) if levels else np.flatnonzero(number == 0)
        level, number = level[possible], number[possible]
        # One key instead of four: levels ascend with priorities, and positions with rows.
        key = ((number > 0) * (MOST_LEVELS + 1) + level << 32) | np.minimum(number, (1 << 32) - 1)
        order = np.argsort(key, kind="stable")
        highest = np.array([*self._levels[:levels], 0], dtype=np.int64)[level[order]]
        return Bounds(rows[possible[order]], highest, number[order], self._levels[0] if self._levels else 0)

    def _places(self, rows: NDArray[np.intp]) -> Places:
        """Where the columns have some ascending rows. All of them are read without copies, in a third of the time."""
        size = self._state.columns.size
        return slice(0, size) if len(rows) == size else rows

    def slots(self, pod: PodClass, profile: Profile, rows: NDArray[np.intp], below: int | None) -> Amounts:
        """How many pods of a class each row could hold at most, once pods have left that are leaving,
        or are less important than `below`.
        """
        state, columns = self._state, self._state.columns
        levels = 0 if below is None else bisect_left(self._levels, below)
        size = columns.size
        saved = []
        for name in (*pod.request.total, PODS):
            index = columns.resource_index.get(name)
            if index is None:
                continue
            column = (
                columns.free[index, :size],
                columns.zone_available[index, :, :size],
                columns.zone_available_sum[index, :size],
            )
            saved.append((column, tuple(each.copy() for each in column)))
            gain = self._leaving[name] + (self._up_to[name][levels - 1] if levels else 0.0)
            in_zones = np.minimum(columns.zone_total[index, :, :size] - column[1], gain[1:])
            np.add(column[0], gain[0], out=column[0])
            np.add(column[1], in_zones, out=column[1])
            np.add(column[2], in_zones.sum(axis=0), out=column[2])
        assumptions = profile.topology.arguments.assumptions if profile.topology is not None else Assumptions()
        try:
            return slot_bounds(state, pod, assumptions, rows, MOST_SLOTS)[1]
        finally:
            for column, before in saved:
                for each, values in zip(column, before, strict=True):
                    each[...] = values

    def priorities_below(self, priority: int) -> list[int]:
        """The priorities of running pods below one, as far as they are told apart; ascending."""
        return self._levels[: bisect_left(self._levels, priority)]

    def pods_below(self, priority: int) -> Amounts:
        """How many pods with a lower priority each row has."""
        levels = bisect_left(self._levels, priority)
        held = self._up_to[PODS]
        return held[levels - 1, 0] if levels else np.zeros(held.shape[2])

    def _require(
        self,
        name: str,
        missing: Amounts,
        at: Places,
        cell: int,
        levels: int,
        level: NDArray[np.int64],
        number: NDArray[np.int64],
    ) -> None:
        """Raise the bounds to what one cell needs: the lowest level up to which pods free enough,
        and how many of them it takes.
        """
        short = missing > 0
        if not short.any():
            return
        if not levels:
            number[short] = NEVER_ENOUGH
            return
        # Nothing is held below zero: where nothing is missing, `enough` and `pods` stay 0.
        enough = np.zeros(len(missing), dtype=np.int64)
        of_level = self._largest[name][0, cell][at].copy()
        for lower, freed in enumerate(self._up_to[name][:levels, cell]):
            too_little = freed[at] < missing
            enough += too_little
            if lower + 1 < levels:
                np.copyto(of_level, self._largest[name][lower + 1, cell][at], where=too_little)
        np.maximum(level, enough, out=level)
        pods = np.zeros(len(missing))
        np.divide(missing, of_level, out=pods, where=short & (of_level > 0))
        np.maximum(number, np.ceil(pods).astype(np.int64), out=number)

    def _require_zone(
        self,
        preemptor: Preemptor,
        rows: NDArray[np.intp],
        levels: int,
        level: NDArray[np.int64],
        number: NDArray[np.int64],
    ) -> None:
        """Where the kubelet demands a single zone:
        the zone that costs least for each step bounds the cost of the pod.
        """
        columns, asked = self._state.columns, demand(preemptor.pod_class)
        topology = preemptor.profile.topology
        if topology is None or asked.nothing_to_align:
            return
        at = self._places(rows)
        strict = (columns.policy[at] == Policy.SINGLE_NUMA_NODE) & (columns.topology[at] == TOPOLOGY_USABLE)
        by_pod = columns.scope[at] == Scope.POD
        for steps, chosen in (((asked.pod_step,), strict & by_pod), (asked.container_steps, strict & ~by_pod)):
            of_scope = np.flatnonzero(chosen)
            at = self._places(rows[of_scope])
            for step in steps if len(of_scope) else ():
                best_level = np.full(len(of_scope), levels, dtype=np.int64)
                best_number = np.full(len(of_scope), NEVER_ENOUGH, dtype=np.int64)
                for zone in range(columns.zone_available.shape[1]):
                    in_level, in_number = np.zeros_like(best_level), np.zeros_like(best_number)
                    for name, want in step.wants:
                        index = columns.resource_index.get(name)
                        if index is None or not want:
                            continue
                        missing = want - columns.zone_available[index, zone][at] - self._leaving[name][zone + 1][at]
                        missing *= columns.zone_aligned[index][at]
                        self._require(name, missing, at, zone + 1, levels, in_level, in_number)
                    better = (in_level < best_level) | ((in_level == best_level) & (in_number < best_number))
                    np.copyto(best_level, in_level, where=better)
                    np.copyto(best_number, in_number, where=better)
                level[of_scope] = np.maximum(level[of_scope], best_level)
                number[of_scope] = np.maximum(number[of_scope], best_number)

    def _start_again(self, names: frozenset[str]) -> None:
        state = self._state
        found = sorted({priority_of(pod) for pod in state.bound.values()})
        step = -(-len(found) // MOST_LEVELS)
        self._levels = found[:: max(step, 1)]
        shape = len(self._levels), state.columns.zone_available.shape[1] + 1, state.columns.size
        self._sums = {name: np.zeros(shape) for name in sorted(names)}
        self._up_to = {name: np.zeros(shape) for name in sorted(names)}
        self._largest = {name: np.zeros(shape) for name in sorted(names)}
        self._leaving = {name: np.zeros(shape[1:]) for name in sorted(names)}
        self._stale = {row for row in range(state.columns.size) if state.keys_on(row)}

    def _has_new_priority(self, row: int) -> bool:
        """True if a pod of a row has a priority that no level stands for."""
        exact = len(self._levels) < MOST_LEVELS
        for key in self._state.keys_on(row):
            pod = self._state.bound.get(key)
            level = bisect_right(self._levels, priority_of(pod)) - 1 if pod is not None else 0
            if pod is not None and (level < 0 or (exact and self._levels[level] != priority_of(pod))):
                return True
        return False

    def _count(self, row: int) -> int:
        """Count the pods of a row; how many there were."""
        state = self._state
        for name, sums in self._sums.items():
            sums[:, :, row] = 0.0
            self._largest[name][:, :, row] = 0.0
            self._leaving[name][:, row] = 0.0
        keys = state.keys_on(row)
        arrangements = departure_from(state, row).arrangements
        for key in keys:
            pod = state.bound.get(key)
            if pod is None:
                continue
            level = bisect_right(self._levels, priority_of(pod)) - 1
            for (name, zone), amount in most_freed_by(state, key, arrangements).items():
                if name not in self._sums:
                    continue
                cell = 0 if zone is None else zone + 1
                if self._is_leaving(key, pod):
                    self._leaving[name][cell, row] += amount
                    continue
                self._sums[name][level, cell, row] += amount
                largest = self._largest[name]
                largest[level, cell, row] = max(largest[level, cell, row], amount)
        for name, sums in self._sums.items():
            np.cumsum(sums[:, :, row], axis=0, out=self._up_to[name][:, :, row])
            largest = self._largest[name][:, :, row]
            np.maximum.accumulate(largest, axis=0, out=largest)
        return len(keys)
