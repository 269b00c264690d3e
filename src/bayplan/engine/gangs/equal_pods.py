"""Equal pods under one constraint: counting is exact, so this never searches.

How many pods a domain holds is the sum of its nodes' slots. Then the answer follows by arithmetic on a few hundred or thousand sums:
the tightest required domain that holds all pods, in it as few preferred domains as possible (the largest first reach any number soonest),
of those the ones with the least room left over, in those as few nodes as possible, or as many if pods are to be spread.

*Segments* are slices of the gang that must each stay inside one domain: a domain then holds a multiple of the slice's size. Layers of
them go from wide to narrow, each size a divisor of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.tree import Tree
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts
from bayplan.engine.gangs.slices import Layer, SlicedRoom, deal_slices

# Beyond so many combinations the tightest set is only approximated: its room matters less than the time to find it.
MOST_TABLE_CELLS = 4096


@dataclass(frozen=True, slots=True)
class Wish:
    """So many equal pods: all in one domain of `required`, in few domains of `preferred`, in slices of `layers`.

    Preferred domains that are `used` already cost nothing.
    """

    pods: int
    required: int = WHOLE_TREE
    preferred: int | None = None
    layers: tuple[Layer, ...] = ()
    spread: bool = False
    used: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """Pods by position, and how many preferred domains are in use then; no array if they do not fit.

    `most` is how many pods the best required domain holds: the reason of a "no".
    """

    counts: Counts | None
    domains: int
    most: int


def place_equal(tree: Tree, slots: Counts, wish: Wish) -> Found:
    """Where so many equal pods go."""
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
    counts = _placed(tree, slots, wish, room, in_required)
    if wish.preferred is None:
        return Found(counts, 0, most)
    touched = np.unique(tree.domain_at[wish.preferred][np.flatnonzero(counts)]).tolist()
    return Found(counts, len(wish.used.union(touched)), most)


def _placed(tree: Tree, slots: Counts, wish: Wish, room: list[Counts], in_required: Counts) -> Counts:
    if wish.preferred is None or wish.preferred <= wish.required:
        chosen = [_tightest_domain(in_required, wish.pods)] if wish.required != WHOLE_TREE else [0]
        return _fill(tree, slots, wish, room, wish.required, chosen)
    above = tuple(layer for layer in wish.layers if wish.required < layer.level < wish.preferred)
    if above:
        return _placed_under_slices(tree, slots, wish, room, above)
    chosen = _fewest_domains(tree, room[wish.preferred], wish, wish.preferred)
    return _fill(tree, slots, wish, room, wish.preferred, chosen)


def _placed_under_slices(tree: Tree, slots: Counts, wish: Wish, room: list[Counts], above: tuple[Layer, ...]) -> Counts:
    """Slices are wider than preferred domains: first it is decided which domain gets how many of them (`slices.py`)."""
    assert wish.preferred is not None
    inside = [(0, tree.size)]
    if wish.required != WHOLE_TREE:
        holding_all = np.flatnonzero(room[wish.required] >= wish.pods)
        inside = [tree.bounds(wish.required, int(domain)) for domain in holding_all]
    sliced = SlicedRoom(tree, room, above, wish.preferred, wish.used)
    below = tuple(layer for layer in wish.layers if layer.level >= wish.preferred)
    counts = np.zeros(tree.size, dtype=np.int64)
    for domain, pods in deal_slices(sliced, inside, wish.pods):
        first, end = tree.bounds(above[-1].level, domain)
        here = np.zeros(tree.size, dtype=np.int64)
        here[first:end] = slots[first:end]
        share = place_equal(tree, here, replace(wish, pods=pods, required=WHOLE_TREE, layers=below))
        assert share.counts is not None
        counts += share.counts
    return counts


def room_by_level(tree: Tree, slots: Counts, layers: Sequence[Layer]) -> list[Counts]:
    """How many pods each domain of each level holds; of slices only whole ones count."""
    by_level = {layer.level: layer for layer in layers}
    room: list[Counts] = [slots] * (tree.node_level + 1)
    room[tree.node_level] = _whole_slices(slots, by_level.get(tree.node_level))
    for level in range(tree.node_level - 1, -1, -1):
        if any(layer.level > level for layer in layers):
            sums = np.add.reduceat(room[level + 1], _first_children(tree, level)) if tree.size else slots[:0]
        else:
            sums = tree.sums(slots, level)
        room[level] = _whole_slices(sums, by_level.get(level))
    return room


def _whole_slices(room: Counts, layer: Layer | None) -> Counts:
    if layer is None:
        return room
    slices = room // layer.size
    return np.minimum(slices, 1) * layer.size if layer.apart else slices * layer.size


def _first_children(tree: Tree, level: int) -> NDArray[np.intp]:
    """For every domain of a level the number of its first domain one level below."""
    return np.searchsorted(tree.starts[level + 1], tree.starts[level])


def _of_whole_tree(tree: Tree, room: list[Counts], wish: Wish) -> Counts:
    total = room[0].sum() if tree.size else 0
    layer = next((layer for layer in wish.layers if layer.level == WHOLE_TREE), None)
    return _whole_slices(np.array([total], dtype=np.int64), layer)


def _tightest_domain(room: Counts, pods: int) -> int:
    """The domain with the least room that still holds all pods; the first of equals."""
    return int(np.where(room >= pods, room, np.iinfo(np.int64).max).argmin())


def _fewest_domains(tree: Tree, room: Counts, wish: Wish, level: int) -> list[int]:
    """Domains of the preferred level, as few as possible and all inside one required domain."""
    if wish.used:
        return _used_first(tree, room, wish, level)
    if room.max(initial=0) >= wish.pods:
        return [_tightest_domain(room, wish.pods)]
    found = _least_room(tree, room, wish.pods, wish.required, level)
    assert found is not None  # the required domain holds all pods
    # As good and closer together: the same number of domains and the same room inside a narrower domain.
    for narrower in range(level - 1, wish.required, -1):
        closer = _least_room(tree, room, wish.pods, narrower, level)
        if closer is not None and closer[:2] == found[:2]:
            return closer[2]
    return found[2]


def _least_room(tree: Tree, room: Counts, pods: int, required: int, level: int) -> tuple[int, int, list[int]] | None:
    """The fewest domains of a level that hold all pods inside one required domain, their room, and which; None if there are none."""
    if required == WHOLE_TREE:
        around = np.zeros(len(room), dtype=np.intp)
    else:
        around = tree.domain_at[required][tree.starts[level]]
    order = np.lexsort((-room, around))
    reached = np.cumsum(room[order])
    begins = np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), np.diff(around[order]) != 0)))
    before = np.concatenate((np.zeros(1, dtype=np.int64), reached[begins[1:] - 1]))
    group = np.cumsum(np.concatenate((np.zeros(1, dtype=np.intp), (np.diff(around[order]) != 0).astype(np.intp))))
    rank = np.arange(len(order)) - begins[group] + 1
    enough = reached - before[group] >= pods
    needed = np.minimum.reduceat(np.where(enough, rank, np.iinfo(np.intp).max), begins)
    if not enough.any():
        return None
    fewest = int(needed.min())
    candidates = np.flatnonzero(needed == fewest)
    # Of the required domains that need no more than this, the one with the least room left in the tightest set.
    best: list[int] = []
    least = -1
    for candidate in candidates[:MOST_TABLE_CELLS]:
        members = np.sort(order[group == candidate])
        chosen = _tightest_set(room[members], pods, fewest)
        total = int(room[members][chosen].sum())
        if least < 0 or total < least:
            least, best = total, [int(member) for member in members[chosen]]
        if least == pods:
            break
    return fewest, least, best


def _used_first(tree: Tree, room: Counts, wish: Wish, level: int) -> list[int]:
    """Domains that the gang stands in already, and as few others as possible."""
    used = [domain for domain in sorted(wish.used) if room[domain]]
    inside = np.zeros_like(room)
    inside[used] = room[used]
    missing = wish.pods - int(inside.sum())
    if missing <= 0:
        return _fewest_domains(tree, inside, replace(wish, used=frozenset()), level)
    return used + _fewest_domains(tree, room - inside, replace(wish, pods=missing, used=frozenset()), level)


def _tightest_set(room: Counts, pods: int, number: int) -> list[int]:
    """So many domains that hold all pods with the least room in sum; by a table of sums, or nearly so if that is large."""
    useful = np.flatnonzero(room)
    if len(useful) * number * pods > MOST_TABLE_CELLS * 64:
        return _largest_and_tightest(room, pods, number)
    # reachable[n] holds as bits the sums that n domains can have; one row per domain, to find the way back.
    reachable = [1] + [0] * number
    rows = [tuple(reachable)]
    for domain in useful:
        size = int(room[domain])
        for count in range(number, 0, -1):
            reachable[count] |= reachable[count - 1] << size
        rows.append(tuple(reachable))
    sums = reachable[number] >> pods
    total = pods + ((sums & -sums).bit_length() - 1)
    chosen = []
    count = number
    for row in range(len(useful), 0, -1):
        if count and not rows[row - 1][count] >> total & 1:
            chosen.append(int(useful[row - 1]))
            total -= int(room[useful[row - 1]])
            count -= 1
    return chosen[::-1]


def _largest_and_tightest(room: Counts, pods: int, number: int) -> list[int]:
    """All but one of the largest, and the tightest that holds the rest."""
    order = np.argsort(-room, kind="stable")
    chosen = [int(domain) for domain in order[: number - 1]]
    missing = pods - int(room[chosen].sum())
    rest = room.copy()
    rest[chosen] = -1
    return [*chosen, _tightest_domain(rest, missing)]


def _fill(tree: Tree, slots: Counts, wish: Wish, room: list[Counts], level: int, domains: Sequence[int]) -> Counts:
    """Pods by position, from the chosen domains down through the layers of slices to the nodes."""
    counts = np.zeros(tree.size, dtype=np.int64)
    inner = [layer for layer in wish.layers if layer.level > level]
    if level == WHOLE_TREE:
        shares = [(0, tree.size, wish.pods)]
    else:
        divided = _largest_first(room[level][list(domains)], wish.pods, wish.spread, _multiple(wish, level))
        shares = [(*tree.bounds(level, domain), int(count)) for domain, count in zip(domains, divided, strict=True)]
    for first, end, share in shares:
        counts[first:end] = _fill_one(tree, slots, room, first, end, share, inner, wish)
    return counts


def _fill_one(
    tree: Tree,
    slots: Counts,
    room: list[Counts],
    first: int,
    end: int,
    pods: int,
    layers: Sequence[Layer],
    wish: Wish,
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


def _multiple(wish: Wish, level: int) -> int:
    """The size of slices that must not be divided between domains of a level: those of layers at it or above it."""
    sizes = [layer.size for layer in wish.layers if layer.level >= level]
    return sizes[0] if sizes else 1


def _largest_first(room: Counts, pods: int, spread: bool, multiple: int = 1) -> Counts:  # noqa: FBT001 - a setting
    """Deal pods out to places in multiples: into few of them, the last one the tightest; or evenly over all."""
    units, wanted = room // multiple, pods // multiple
    if spread:
        return _evenly(units, wanted) * multiple
    counts = np.zeros(len(units), dtype=np.int64)
    order = np.argsort(-units, kind="stable")
    reached = np.cumsum(units[order])
    full = order[reached <= wanted]
    counts[full] = units[full]
    missing = wanted - int(counts.sum())
    if missing:
        rest = np.where(counts > 0, -1, units)
        counts[_tightest_domain(rest, missing)] = missing
    return counts * multiple


def _evenly(units: Counts, wanted: int) -> Counts:
    """As even as room allows: the lowest level of water at which all of it is held."""
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
