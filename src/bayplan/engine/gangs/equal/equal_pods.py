"""Equal pods under one constraint: counting is exact about whether they fit.

A domain holds as many pods as the sum of its nodes' slots. A table over the tree (`tree_table.py`) finds the best place
by all goals. If it would be too large, `choice.py` chooses domains by the goals that counting knows, and this module
fills them: on as few nodes as possible, or as many if pods are spread, or nearest to running members.

*Segments* are equal parts of the gang that must each stay inside one domain: a domain then holds a multiple of a
segment's size. Layers of segments go from wide to narrow, each size a divisor of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.choice import Choice, EqualPods, choose, distances_to, fewest_domains
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.equal.table_request import TableRequest
from bayplan.engine.gangs.equal.tree_table import UNDECIDED, TableResult, largest_first, place_by_table
from bayplan.engine.gangs.objective import Goal
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts


@dataclass(frozen=True, slots=True)
class Found:
    """Pods by position, and how many preferred domains are in use then; no array if they do not fit.

    `most` is how many pods the best required domain holds: the reason of a "no". `unproven` are goals that might be met
    better.
    """

    counts: Counts | None
    domains: int
    most: int
    unproven: frozenset[Goal] = frozenset()
    wider_proven: bool = True
    """False if the same number of preferred domains might be in fewer domains of wider levels."""


def place_equal(tree: Tree, slots: Counts, wish: EqualPods) -> Found:
    """Place a number of equal pods."""
    crowded = [
        layer for layer in wish.layers if layer.apart and layer.level <= wish.required and layer.size < wish.pods
    ]
    if crowded:
        return Found(None, 0, crowded[0].size)
    room = room_by_level(tree, slots, wish.layers)
    in_required = room[wish.required] if wish.required != WHOLE_TREE else _of_whole_tree(tree, room, wish)
    most = int(in_required.max(initial=0))
    if most < wish.pods:
        return Found(None, 0, most)
    by_table = _by_all_goals(tree, slots, room, wish)
    if by_table.decided:
        assert by_table.counts is not None  # one required domain has room
        counts, unproven = by_table.counts, frozenset[Goal]() if by_table.compared_all else _not_counted(wish)
    else:
        choice = choose(tree, slots, room, wish)
        counts, unproven = _filled(tree, slots, wish, room, choice), choice.unproven
        if wish.running_at or np.count_nonzero(counts) > 1:
            unproven |= _not_counted(wish)
    if wish.preferred is None:
        return Found(counts, 0, most, unproven)
    wider_proven = by_table.decided or _few_wider_domains(tree, room, wish, counts)
    touched = tree.domain_at[wish.preferred][counts.nonzero()[0]]
    if wish.running_at:
        touched = np.sort(np.append(touched, tree.domain_at[wish.preferred][list(wish.running_at)]))
    return Found(counts, 1 + int(np.count_nonzero(touched[1:] != touched[:-1])), most, unproven, wider_proven)


def _few_wider_domains(tree: Tree, room: Sequence[Counts], wish: EqualPods, counts: Counts) -> bool:
    """True if no fewer domains of any wider level hold all pods, or running members are in them anyway."""
    used = [*counts.nonzero()[0].tolist(), *wish.running_at]
    for level in range((wish.preferred or 0) - 1, -1, -1):
        domains, others, left = tree.domain_at[level], room[level], wish.pods
        in_use = {int(domains[at]) for at in wish.running_at}
        if in_use:
            left -= int(others[list(in_use)].sum())
            others = np.delete(others, list(in_use))
        needed = len(in_use) + (fewest_domains(others, left) if left > 0 else 0)
        if len(set(domains[used].tolist())) > needed:
            return False
    return True


def _not_counted(wish: EqualPods) -> frozenset[Goal]:
    """The goals that counting meets only approximately, and all later ones."""
    unknown = min(wish.objective.index(goal) for goal in (Goal.MEAN_DISTANCE, Goal.FEWEST_NODES))
    return frozenset(wish.objective[unknown:])


def _by_all_goals(tree: Tree, slots: Counts, room: Sequence[Counts], wish: EqualPods) -> TableResult:
    """The best by a table over the tree, if the table can decide."""
    if wish.spread or wish.roomiest or any(layer.level == WHOLE_TREE for layer in wish.layers):
        return UNDECIDED
    asked = TableRequest(wish.pods, wish.required, wish.preferred, wish.objective, wish.running_at, wish.layers)
    return place_by_table(tree, slots, room, asked)


def room_by_level(tree: Tree, slots: Counts, layers: Sequence[SegmentLayer]) -> list[Counts]:
    """How many pods each domain of each level holds; of segments only whole ones count."""
    by_level = {layer.level: layer for layer in layers}
    room: list[Counts] = [slots] * (tree.node_level + 1)
    room[tree.node_level] = _whole_segments(slots, by_level.get(tree.node_level))
    for level in range(tree.node_level - 1, -1, -1):
        if any(layer.level > level for layer in layers):
            sums = np.add.reduceat(room[level + 1], _first_children(tree, level)) if tree.size else slots[:0]
        else:
            sums = tree.sums(slots, level)
        room[level] = _whole_segments(sums, by_level.get(level))
    return room


def _whole_segments(room: Counts, layer: SegmentLayer | None) -> Counts:
    if layer is None:
        return room
    segments = room // layer.size
    return np.minimum(segments, 1) * layer.size if layer.apart else segments * layer.size


def _first_children(tree: Tree, level: int) -> NDArray[np.intp]:
    """For every domain of a level the number of its first domain one level below."""
    return np.searchsorted(tree.starts[level + 1], tree.starts[level])


def _of_whole_tree(tree: Tree, room: list[Counts], wish: EqualPods) -> Counts:
    total = room[0].sum() if tree.size else 0
    layer = next((layer for layer in wish.layers if layer.level == WHOLE_TREE), None)
    return _whole_segments(np.array([total], dtype=np.int64), layer)


def _filled(tree: Tree, slots: Counts, wish: EqualPods, room: list[Counts], choice: Choice) -> Counts:
    """Pods by position, from the chosen domains down through the layers of segments to the nodes."""
    if choice.segments is not None:
        return _filled_by_segments(tree, slots, wish, *choice.segments)
    # Layers above a domain that holds all pods are satisfied automatically.
    level = max(choice.level, wish.target)
    inner = [layer for layer in wish.layers if layer.level > level]
    multiple = _multiple(wish, level)
    if choice.level >= wish.target:
        shares = [(choice.first, choice.end, wish.pods)]
    else:
        divided = _largest_first(room[level][list(choice.domains)], wish.pods, wish.spread, multiple)
        shares = [
            (*tree.bounds(level, domain), int(count)) for domain, count in zip(choice.domains, divided, strict=True)
        ]
    if wish.running_at and multiple == 1 and not wish.spread:
        return _nearest_first(tree, slots, wish, [share[:2] for share in shares])
    counts = np.zeros(tree.size, dtype=np.int64)
    for first, end, share in shares:
        here = slots[first:end]
        if not inner and share == here.sum():
            counts[first:end] = here  # most domains are filled to the last slot: 4 us instead of 25
        else:
            counts[first:end] = _fill_one(tree, slots, room, first, end, share, inner, wish)
    return counts


def _filled_by_segments(
    tree: Tree, slots: Counts, wish: EqualPods, layer: SegmentLayer, shares: Sequence[tuple[int, int]]
) -> Counts:
    """Fill each domain of a layer with its share of segments, like a cluster of its own."""
    inner = tuple(each for each in wish.layers if each.level > layer.level)
    counts = np.zeros(tree.size, dtype=np.int64)
    for domain, pods in shares:
        first, end = tree.bounds(layer.level, domain)
        here = np.zeros(tree.size, dtype=np.int64)
        here[first:end] = slots[first:end]
        share = place_equal(tree, here, replace(wish, pods=pods, required=WHOLE_TREE, layers=inner))
        assert share.counts is not None
        counts += share.counts
    return counts


def _nearest_first(tree: Tree, slots: Counts, wish: EqualPods, runs: Sequence[tuple[int, int]]) -> Counts:
    """Fill the nodes of some domains from those nearest to members that run, of equally near ones the largest first."""
    here = np.concatenate([np.arange(first, end) for first, end in runs])
    counts = np.zeros(tree.size, dtype=np.int64)
    counts[here] = fill_nearest(slots[here], wish.pods, distances_to(tree, wish.running_at)[here])
    return counts


def _fill_one(
    tree: Tree,
    slots: Counts,
    room: list[Counts],
    first: int,
    end: int,
    pods: int,
    layers: Sequence[SegmentLayer],
    wish: EqualPods,
) -> Counts:
    if not layers or layers[0].level >= tree.node_level:
        multiple = layers[0].size if layers else 1
        here = room[tree.node_level][first:end] if layers else slots[first:end]
        return _largest_first(here, pods, wish.spread, multiple)
    level = layers[0].level
    inside = np.flatnonzero((tree.starts[level] >= first) & (tree.starts[level] < end))
    shares = _largest_first(room[level][inside], pods, wish.spread, layers[0].size)
    counts = np.zeros(end - first, dtype=np.int64)
    for domain, share in zip(inside, shares, strict=True):
        if share:
            low, high = tree.bounds(level, int(domain))
            counts[low - first : high - first] = _fill_one(tree, slots, room, low, high, int(share), layers[1:], wish)
    return counts


def fill_nodes(slots: Counts, pods: int, *, spread: bool) -> Counts:
    """Pods on the nodes of one domain that has room for all of them: on few nodes, or on many."""
    return _largest_first(slots, pods, spread)


def fill_nearest(slots: Counts, pods: int, distances: Counts) -> Counts:
    """Pods on nodes that have room for all of them: the nearest first, of equally near ones the largest."""
    order = np.lexsort((-slots, distances))
    counts = np.zeros_like(slots)
    before = np.cumsum(slots[order]) - slots[order]
    counts[order] = np.clip(pods - before, 0, slots[order])
    return counts


def _multiple(wish: EqualPods, level: int) -> int:
    """The size of segments that must not be divided between domains of a level: those of layers at it or above it."""
    sizes = [layer.size for layer in wish.layers if layer.level >= level]
    return sizes[0] if sizes else 1


def _largest_first(room: Counts, pods: int, spread: bool, multiple: int = 1) -> Counts:  # noqa: FBT001 - a setting
    """Deal pods out to places in multiples: into few of them, the last one the tightest; or evenly over all."""
    if spread:
        return _evenly(room // multiple, pods // multiple) * multiple
    return largest_first(room, pods, multiple)


def _evenly(units: Counts, wanted: int) -> Counts:
    """Distribute pods as evenly as room allows, like water that finds its level."""
    low, high = 0, int(units.max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(units, middle).sum()) >= wanted:
            high = middle
        else:
            low = middle + 1
    counts = np.minimum(units, max(low - 1, 0))
    missing = wanted - int(counts.sum())
    counts[np.flatnonzero(units > counts)[:missing]] += 1
    return counts
