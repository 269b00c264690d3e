"""LeastNUMANodes: the fewer zones a pod needs, and the closer they are, the better the node.

For each container (or the pod) the narrowest set of zones that holds the request is found; the node is scored by the
widest set any container needs, with half a step extra if every set was the closest of its size. All nodes of a hardware
class share one table of sets in order of preference, so "the best set" is "the first row that fits".

`least_numa_scores` answers as scheduler-plugins: the closest set first, and a resource that no zone reports voids the
score. `engine/numa/zones_needed.py` scores by the zones that the kubelet would pick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.columns.hardware import HardwareClass
from bayplan.cluster.columns.resource_kinds import is_numa_affine
from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.kubelet_settings import Scope
from bayplan.engine.numa.rows import MOST_SCORE, Mask, Rows, Scores, among, count, reads_report
from bayplan.engine.numa.zone_sets import (
    TABLE_ZONES,
    SubsetTable,
    closest_feasible_set,
    lowest_feasible_set,
    sets_as_kubelet_prefers,
    sets_by_distance,
)

Amounts = Mapping[str, int]
Grids = Mapping[str, NDArray[np.float64]]
"""By resource what is free in [zone, node]."""

# All sets of four of eight zones are 70 rows: in blocks the sums need no fresh memory from the system every time. For
# 5,000 nodes and a pod that needs several zones: 2.9 ms in blocks of 2,048, 4.0 ms in blocks of 512, 5.4 ms in one
# piece.
NODES_PER_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class NarrowestSets:
    """Per node: the bits of the narrowest set for a request (0 for none), its size, and whether it is the closest."""

    bits: NDArray[np.uint64]
    width: NDArray[np.int64]
    closest: Mask


def least_numa_scores(columns: Columns, hardware: list[HardwareClass], request: PodRequest, rows: Rows) -> Scores:
    """Scheduler-plugins' score of every node in `rows`: 0 to 100, whatever the node's policy."""
    nodes = count(rows)
    if not request.guaranteed:
        return np.full(nodes, MOST_SCORE, dtype=np.int32)
    scored = reads_report(columns.topology[rows])
    scores = np.zeros(nodes, dtype=np.int32)
    classes = columns.hardware_class[rows]
    by_pod = columns.upstream_scope[rows] == Scope.POD
    per_pod: list[Amounts] = [request.largest_or_sum]
    per_container: list[Amounts] = [container.requests for container in request.containers]
    for number in np.unique(classes[scored]):
        in_class = scored & (classes == number)
        for chosen, asked in ((in_class & by_pod, per_pod), (in_class & ~by_pod, per_container)):
            if chosen.all():
                scores = _scores_of_class(columns, hardware[number], asked, rows)
            elif chosen.any():
                scores[chosen] = _scores_of_class(columns, hardware[number], asked, among(rows, chosen))
    return scores


def normalized_score(width: NDArray[np.int64], closest: Mask, max_numa_nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """100 less one step per zone, half a step back if the zones are the closest; negative if there are too many."""
    step = MOST_SCORE // max_numa_nodes
    score: NDArray[np.int64] = MOST_SCORE - width * step + np.where(closest, step // 2, 0)
    return score


def relative_width_scores(width: NDArray[np.int64], weight: int) -> NDArray[np.int64]:
    """Volcano's score: `weight * (100 - 100 * zones needed / most zones needed by any node)`, in whole numbers."""
    widest = max(int(width.max()), 1)
    score: NDArray[np.int64] = weight * (MOST_SCORE - MOST_SCORE * width // widest)
    return score


def narrowest_sets(
    hardware: HardwareClass,
    left: Grids,
    reported: Mapping[str, NDArray[np.uint64]],
    amounts: Amounts,
    *,
    guaranteed: bool,
) -> NarrowestSets:
    """Scheduler-plugins' choice for `amounts` on each node of one hardware class: the narrowest, then closest set.

    `left[resource][zone, node]` is free; `reported[resource][node]` has a bit for every zone that reports the resource.
    A zone that does not report a requested resource cannot be part of a set.
    """
    usable = np.full(_nodes_in(left), np.uint64((1 << hardware.zone_count) - 1))
    for name in amounts:
        usable &= reported[name]
    compared = {name: amount for name, amount in amounts.items() if amount and (guaranteed or not is_numa_affine(name))}
    return _first_sets(hardware, left, compared, SetRules(usable=usable, kubelets=False))


def kubelets_sets(
    hardware: HardwareClass, left: Grids, amounts: Amounts, *, including: NDArray[np.uint64] | None = None
) -> NarrowestSets:
    """The narrowest set for `amounts` on each node, in the kubelet's order: closest if it prefers that, then by number.

    `including` has the bits of zones that must be part of the set. A zone without a resource can be part of a set, but
    adds nothing.
    """
    return _first_sets(hardware, left, amounts, SetRules(including=including))


@dataclass(frozen=True, slots=True)
class SetRules:
    """Which sets count, in whose order: inside the bits of `usable` zones, around those of `including`."""

    usable: NDArray[np.uint64] | None = None
    including: NDArray[np.uint64] | None = None
    kubelets: bool = True

    def of(self, nodes: slice | NDArray[np.intp]) -> SetRules:
        """The rules for some of the nodes."""
        return SetRules(
            None if self.usable is None else self.usable[nodes],
            None if self.including is None else self.including[nodes],
            self.kubelets,
        )

    def allow(self, bits: NDArray[np.uint64], nodes: int) -> Mask:
        """[set, node]: whether a set counts."""
        sets = bits[:, np.newaxis]
        allowed: Mask = (
            np.ones((len(bits), nodes), dtype=np.bool_) if self.usable is None else (sets & ~self.usable) == 0
        )
        if self.including is not None:
            allowed &= (self.including & ~sets) == 0
        return allowed

    def table(self, hardware: HardwareClass, size: int) -> SubsetTable:
        """All sets of a size, the best first."""
        if self.kubelets:
            return sets_as_kubelet_prefers(hardware.distances, size, closest_first=hardware.prefer_closest)
        return sets_by_distance(hardware.distances, size)


def _first_sets(hardware: HardwareClass, left: Grids, amounts: Amounts, rules: SetRules) -> NarrowestSets:
    """Per node the first set of the smallest size that holds every amount."""
    zones, nodes = hardware.zone_count, _nodes_in(left)
    if nodes > NODES_PER_BLOCK:
        blocks = [slice(start, start + NODES_PER_BLOCK) for start in range(0, nodes, NODES_PER_BLOCK)]
        parts = [
            _first_sets(hardware, {name: grid[:, block] for name, grid in left.items()}, amounts, rules.of(block))
            for block in blocks
        ]
        return NarrowestSets(
            np.concatenate([part.bits for part in parts]),
            np.concatenate([part.width for part in parts]),
            np.concatenate([part.closest for part in parts]),
        )
    answer = NarrowestSets(np.zeros(nodes, np.uint64), np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_))
    if zones > TABLE_ZONES:
        for node in range(nodes):
            held = [left[name][:zones, node] for name in amounts]
            answer.bits[node], answer.width[node], answer.closest[node] = _first_of_many(
                hardware, held, [float(amount) for amount in amounts.values()], rules.of(slice(node, node + 1))
            )
        return answer
    open_nodes = np.arange(nodes) if rules.usable is None else np.nonzero(rules.usable)[0]
    for size in range(1, zones + 1):
        if not len(open_nodes):
            break
        table = rules.table(hardware, size)
        everything = len(open_nodes) == nodes
        fits = (rules if everything else rules.of(open_nodes)).allow(table.bits, len(open_nodes))
        for name, amount in amounts.items():
            grid = left[name][:zones] if everything else left[name][:zones][:, open_nodes]
            # A set of one zone needs no product: its sum is the zone itself.
            held_there = _in_order(grid, table.members.argmax(axis=1)) if size == 1 else table.members @ grid
            fits &= held_there >= amount
        found_any = fits.any(axis=0)
        best = fits.argmax(axis=0)[found_any]
        solved = open_nodes[found_any]
        answer.bits[solved] = table.bits[best]
        answer.width[solved] = size
        answer.closest[solved] = table.closest[best]
        open_nodes = open_nodes[~found_any]
    return answer


def _first_of_many(
    hardware: HardwareClass, left: list[NDArray[np.float64]], amounts: list[float], rules: SetRules
) -> tuple[int, int, bool]:
    """The same for one node with more zones than tables hold."""
    everywhere = (1 << hardware.zone_count) - 1
    usable = everywhere if rules.usable is None else int(rules.usable[0])
    if rules.including is not None and rules.including[0]:
        # A zone that must be in the set holds one unit of something that only these zones have.
        inside = [zone for zone in range(hardware.zone_count) if int(rules.including[0]) >> zone & 1]
        left = [*left, np.array([float(zone in inside) for zone in range(hardware.zone_count)])]
        amounts = [*amounts, float(len(inside))]
    if rules.kubelets and not hardware.prefer_closest:
        return lowest_feasible_set(hardware.distances, left, amounts)
    return closest_feasible_set(hardware.distances, usable, left, amounts, by_number=rules.kubelets)


def _nodes_in(left: Grids) -> int:
    return int(next(iter(left.values())).shape[1])


def _in_order(grid: NDArray[np.float64], zones: NDArray[np.intp]) -> NDArray[np.float64]:
    """The rows of some zones; not copied if they stand in order already, which they do if all zones are alike."""
    return grid if np.array_equal(zones, np.arange(len(grid))) else grid[zones]


def take_from_sets(left: dict[str, NDArray[np.float64]], amounts: Amounts, bits: NDArray[np.uint64]) -> None:
    """Subtract amounts from sets of zones, lowest zone first; `left` gets new arrays, the old ones stay as they are."""
    for name, amount in amounts.items():
        grid = left[name].copy()
        missing = np.full(grid.shape[1], float(amount))
        for zone in range(grid.shape[0]):
            member = (bits >> np.uint64(zone)) & np.uint64(1) == 1
            share = np.where(member, np.minimum(grid[zone], missing), 0.0)
            grid[zone] -= share
            missing -= share
        left[name] = grid


def _scores_of_class(columns: Columns, hardware: HardwareClass, asked: list[Amounts], rows: Rows) -> Scores:
    nodes = count(rows)
    width = np.zeros(nodes, dtype=np.int64)
    closest = np.ones(nodes, dtype=np.bool_)
    failed = np.zeros(nodes, dtype=np.bool_)
    looked_at = np.zeros(nodes, dtype=np.bool_)
    index_of = columns.resource_index
    names = {name for amounts in asked for name in amounts if name in index_of}
    left = {name: columns.zone_available[index_of[name]][:, rows] for name in names}
    reported = {name: columns.zone_reported[index_of[name]][rows] for name in names}
    for position, amounts in enumerate(asked):
        known = {name: amount for name, amount in amounts.items() if name in names}
        concerned = np.zeros(nodes, dtype=np.bool_)
        for name in known:
            concerned |= reported[name] != 0
        if not concerned.any():
            continue  # asks for nothing that any zone knows
        if len(known) < len(amounts):
            failed |= concerned  # a resource that no zone reports makes every set invalid
            continue
        sets = narrowest_sets(hardware, left, reported, known, guaranteed=True)
        looked_at |= concerned
        failed |= concerned & (sets.bits == 0)
        width = np.where(concerned, np.maximum(width, sets.width), width)
        closest &= sets.closest | ~concerned
        if position + 1 < len(asked):
            take_from_sets(left, known, np.where(concerned, sets.bits, np.uint64(0)))
    scores = normalized_score(width, closest, columns.max_numa_nodes[rows].astype(np.int64))
    scores[~looked_at] = MOST_SCORE
    scores[failed] = 0
    # scheduler-plugins lets the score run below 0 and the whole cycle fails with it.
    return np.clip(scores, 0, MOST_SCORE).astype(np.int32)
