"""LeastNUMANodes: the fewer zones a pod needs, and the closer they are, the better the node.

For each container (or the pod) the narrowest set of zones that holds the request is found, the closest first; the node is
scored by the widest set any container needs, with half a step extra if every set was the closest of its size. All nodes of a
hardware class share one table of sets sorted by distance, so "the best set" is "the first row that fits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import TOPOLOGY_USABLE, Columns
from bayplan.cluster.hardware import HardwareClass
from bayplan.cluster.kubelet_settings import Scope
from bayplan.cluster.pod_request import PodRequest
from bayplan.cluster.resource_kinds import is_numa_affine
from bayplan.engine.rows import Mask, Rows, among, count
from bayplan.engine.scores import MOST_SCORE, Scores
from bayplan.engine.subsets import TABLE_ZONES, sets_by_distance
from bayplan.engine.wide_nodes import closest_feasible_set

Amounts = Mapping[str, int]

# All sets of four of eight zones are 70 rows: in blocks the sums need no fresh memory from the system every time. For 5,000
# nodes and a pod that needs several zones: 2.9 ms in blocks of 2,048, 4.0 ms in blocks of 512, 5.4 ms in one piece.
NODES_PER_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class NarrowestSets:
    """Per node: the bits of the narrowest set that holds a request (0: none does), its size, and if it is the closest."""

    bits: NDArray[np.uint64]
    width: NDArray[np.int64]
    closest: Mask


def least_numa_scores(columns: Columns, hardware: list[HardwareClass], request: PodRequest, rows: Rows) -> Scores:
    """The score of every node in `rows`: 0 to 100, whatever the node's policy."""
    nodes = count(rows)
    if not request.guaranteed:
        return np.full(nodes, MOST_SCORE, dtype=np.int32)
    scored = columns.topology[rows] == TOPOLOGY_USABLE
    scores = np.zeros(nodes, dtype=np.int32)
    classes = columns.hardware_class[rows]
    by_pod = columns.scope[rows] == Scope.POD
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
    left: Mapping[str, NDArray[np.float64]],
    reported: Mapping[str, NDArray[np.uint64]],
    amounts: Amounts,
    *,
    guaranteed: bool,
) -> NarrowestSets:
    """The narrowest, then closest set of zones for `amounts` on each node of one hardware class.

    `left[resource][zone, node]` is free, `reported[resource][node]` has a bit for every zone that reports the resource at all:
    a zone that does not report a requested resource cannot be part of a set.
    """
    zones, nodes = hardware.zone_count, next(iter(left.values())).shape[1]
    if nodes > NODES_PER_BLOCK:
        blocks = [slice(start, start + NODES_PER_BLOCK) for start in range(0, nodes, NODES_PER_BLOCK)]
        parts = [
            narrowest_sets(
                hardware,
                {name: left[name][:, block] for name in amounts},
                {name: reported[name][block] for name in amounts},
                amounts,
                guaranteed=guaranteed,
            )
            for block in blocks
        ]
        return NarrowestSets(
            np.concatenate([part.bits for part in parts]),
            np.concatenate([part.width for part in parts]),
            np.concatenate([part.closest for part in parts]),
        )
    every_zone = np.uint64((1 << zones) - 1)
    usable = np.full(nodes, every_zone)
    for name in amounts:
        usable &= reported[name]
    compared = [name for name, amount in amounts.items() if amount and (guaranteed or not is_numa_affine(name))]
    answer = NarrowestSets(np.zeros(nodes, np.uint64), np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_))
    if zones > TABLE_ZONES:
        for node in range(nodes):
            found = closest_feasible_set(
                hardware.distances,
                int(usable[node]),
                [left[name][:zones, node] for name in compared],
                [float(amounts[name]) for name in compared],
            )
            answer.bits[node], answer.width[node], answer.closest[node] = found
        return answer
    open_nodes = np.nonzero(usable)[0]
    for size in range(1, zones + 1):
        if not len(open_nodes):
            break
        table = sets_by_distance(hardware.distances, size)
        fits = (table.bits[:, np.newaxis] & ~usable[open_nodes]) == 0
        everything = len(open_nodes) == nodes
        for name in compared:
            grid = left[name][:zones] if everything else left[name][:zones][:, open_nodes]
            # A set of one zone needs no product: its sum is the zone itself.
            held = _in_order(grid, table.members.argmax(axis=1)) if size == 1 else table.members @ grid
            fits &= held >= amounts[name]
        found_any = fits.any(axis=0)
        best = fits.argmax(axis=0)[found_any]
        solved = open_nodes[found_any]
        answer.bits[solved] = table.bits[best]
        answer.width[solved] = size
        answer.closest[solved] = table.closest[best]
        open_nodes = open_nodes[~found_any]
    return answer


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
