"""Place equal pods with a table over the tree: the exact optimum by all goals at once.

Every goal is a sum over domains: the cost of using a domain and, for the mean distance, minus the square of the number
of members in it (two of them in one domain are two edges closer). So each domain has a row: the least cost of 0, 1, 2,
... pods inside it. A rack's row follows from its nodes, filling the largest first; the row of a wider domain combines
the rows inside it, one after another. The weights encode the order of goals. Only closeness is not a sum: there is an
answer for each level on which one domain holds all pods, and the best of these wins.

Costs are whole numbers. If the table would be too large, or its weights would not fit, there is none (None), and
`choice.py` decides by counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.slices import Layer
from bayplan.engine.gangs.objective import Goal, Objective
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts

# Cells of all rows and of putting them together; a million of them take some 3 ms.
MOST_CELLS = 400_000
# Racks that are compared where all pods go into one.
MOST_RACKS = 512
LARGEST_COST = 1 << 60
NO_WAY = np.int64(1 << 61)


@dataclass(frozen=True)
class TableRequest:
    """Pods inside one domain of `required`, in few of `preferred`, by an order of goals; `running_at` are positions.

    Domains at the level of a layer hold whole slices only, or one slice if slices are apart. `least` is the minimum of
    pods per domain, by level.
    """

    pods: int
    required: int
    preferred: int | None
    objective: Objective
    running_at: tuple[int, ...] = ()
    layers: tuple[Layer, ...] = ()
    least: tuple[Counts, ...] = ()

    def allows(self, level: int, pods: Counts) -> NDArray[np.bool_]:
        """Which numbers of pods a domain of a level may have."""
        allowed = np.ones(len(pods), dtype=np.bool_)
        for layer in self.layers:
            if layer.level == level:
                allowed &= (pods % layer.size == 0) & (not layer.apart or pods <= layer.size)
        return allowed

    def may_be_in_one(self, level: int) -> bool:
        """False if one domain of a level has too many slices that are apart."""
        return not any(layer.apart and layer.level <= level and layer.size < self.pods for layer in self.layers)

    def unit(self, level: int) -> int:
        """Domains of a level hold multiples of this number of pods: whole slices, or single pods."""
        return min((layer.size for layer in self.layers if layer.level >= level), default=1)

    def most_domains(self, tree: Tree, level: int) -> int:
        """No placement uses more domains of a level."""
        return 1 if level <= self.required else min(self.pods // self.unit(level), len(tree.starts[level]))

    @property
    def target(self) -> int:
        """The level whose leftover room counts."""
        return self.required if self.preferred is None else max(self.required, self.preferred)


def place_by_table(
    tree: Tree, slots: Counts, rooms: Sequence[Counts], asked: TableRequest
) -> tuple[Counts | None, bool] | None:
    """Pods by position, None if they have no place, and whether every domain was compared; None for too large a table.

    `rooms` has the pods that each domain holds in whole slices, by level. One required domain has room for all pods.
    """
    # If closeness comes first, levels above the lowest one with a domain for all pods do not matter.
    closest_first = asked.objective[0] is Goal.CLOSEST
    by_nodes = bool(asked.running_at) or not _largest_nodes_are_best(tree, asked)
    by_nodes = by_nodes or bool(asked.least and asked.least[tree.node_level].any())
    lowest = tree.node_level if by_nodes else tree.node_level - 1
    starts = tree.starts[lowest] if lowest >= 0 else np.zeros(1, dtype=np.intp)
    room = rooms[lowest] if lowest >= 0 else np.add.reduceat(slots, starts)
    top = asked.required
    if closest_first and not asked.running_at:
        levels = range(tree.node_level, asked.required, -1)
        holding = (level for level in levels if asked.may_be_in_one(level) and rooms[level].max() >= asked.pods)
        top = next(holding, asked.required)
    if top > lowest:
        return None
    whole = top == lowest
    cells = np.flatnonzero(room >= asked.pods if whole else room)
    complete = not whole or len(cells) <= MOST_RACKS
    if not complete:
        largest = np.maximum.reduceat(slots, starts)[cells]
        cells = np.sort(cells[np.lexsort((room[cells], -largest))[:MOST_RACKS]])
    widths = () if whole else _widths(rooms, asked, lowest, top)
    if _cells(tree, cells, widths, by_nodes=by_nodes) > MOST_CELLS:
        return None
    leftover = rooms[max(asked.target, 0)]
    if asked.layers:
        # Room for whole slices, then slots.
        sums = tree.sums(slots, max(asked.target, 0))
        leftover = leftover * (asked.most_domains(tree, asked.target) * int(sums.max()) + 1) + sums
    weights = _weights(tree, asked, int(leftover.max()))
    if weights is None:
        return None
    return _Table(tree, slots, asked, weights, lowest, top, starts, leftover).best(cells, widths), complete


def _widths(rooms: Sequence[Counts], asked: TableRequest, lowest: int, top: int) -> list[int]:
    """How long the rows of each level are, the lowest first: no domain has more pods than room."""
    unit = asked.unit(lowest)
    most = (int(rooms[level].max()) if level > WHOLE_TREE else asked.pods for level in range(lowest, top - 1, -1))
    return [min(asked.pods, room) // unit + 1 for room in most]


def _cells(tree: Tree, cells: NDArray[np.intp], widths: Sequence[int], *, by_nodes: bool) -> int:
    """The number of comparisons: nodes at the lowest level, and divisions of pods between domains of a level."""
    nodes = 1 if by_nodes else tree.members[tree.node_level - 1].shape[1] if tree.node_level else tree.size
    if not widths:
        return len(cells) * nodes
    joined, domains = 0, len(cells)
    for level, (inner, outer) in enumerate(pairwise(widths)):
        joined += domains * inner * outer
        domains = min(domains, len(tree.starts[max(tree.node_level - 1 - level - (not by_nodes), 0)]))
    return len(cells) * widths[0] * nodes + joined


def _largest_nodes_are_best(tree: Tree, asked: TableRequest) -> bool:
    """True if filling the largest nodes of a rack first is best by all goals.

    It is not if the leftover room of nodes counts, or if slices are on nodes.
    """
    return asked.target < tree.node_level and all(layer.level < tree.node_level for layer in asked.layers)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What one unit of each goal costs; `domains` by level.

    Goals before closeness are counted in units of `before_closeness`.
    """

    domains: dict[int, int]
    squares: int
    nodes: int
    leftover: int
    before_closeness: int


def _weights(tree: Tree, asked: TableRequest, largest: int) -> _Weights | None:
    """Weights that make the first goal decide before the second, and so on; None if they are too large."""
    pods = asked.pods
    widths: list[tuple[object, int]] = []
    for goal in asked.objective:
        if goal is Goal.FEWEST_DOMAINS and asked.preferred is not None:
            levels = range(asked.preferred, -1, -1)
            widths += [(level, asked.most_domains(tree, level)) for level in levels]
        elif goal is Goal.MEAN_DISTANCE:
            widths.append((goal, (tree.node_level + 1) * (pods + len(asked.running_at)) ** 2))
        elif goal is Goal.FEWEST_NODES:
            widths.append((goal, min(pods, tree.size)))
        elif goal is Goal.LEAST_LEFTOVER:
            widths.append((goal, asked.most_domains(tree, asked.target) * largest))
        elif goal is Goal.CLOSEST:
            widths.append((goal, 0))
    weight, found = 1, {}
    for name, most in reversed(widths):
        found[name] = weight
        weight *= most + 1
    if weight > LARGEST_COST:
        return None
    domains = {level: found[level] for level in range(tree.node_level + 1) if level in found}
    return _Weights(
        domains,
        found[Goal.MEAN_DISTANCE],
        found[Goal.FEWEST_NODES],
        found[Goal.LEAST_LEFTOVER],
        found[Goal.CLOSEST],
    )


@dataclass(frozen=True)
class _Rows:
    """Domains of one level, each with a row: the least cost of 0, 1, 2, ... pods (or whole slices) in it."""

    level: int
    domains: NDArray[np.intp]
    costs: Counts
    inside: _Inside | None = None


@dataclass(frozen=True)
class _Inside:
    """What rows were made of: inner rows begin at `first`; `shares[n][domain, pods]` go into the n-th inner domain."""

    rows: _Rows
    first: NDArray[np.intp]
    shares: Sequence[NDArray[np.intp]]


@dataclass(frozen=True)
class _Table:
    """Rows from level `lowest` (racks or nodes) up to `top`; domains of `lowest` begin at the positions `starts`."""

    tree: Tree
    slots: Counts
    asked: TableRequest
    weights: _Weights
    lowest: int
    top: int
    starts: NDArray[np.intp]
    leftover: Counts
    members: dict[int, Counts] = field(default_factory=dict)

    def best(self, cells: NDArray[np.intp], widths: Sequence[int]) -> Counts | None:
        """The best shares of the domains `cells` of the lowest level; None if there are none.

        `widths` are by level, the lowest first, how long rows are.
        """
        shares = self._one_cell(cells) if self.top == self.lowest else self._several_cells(cells, widths)
        if shares is None:
            return None
        counts = np.zeros(self.tree.size, dtype=np.int64)
        for cell, share in shares.items():
            first = int(self.starts[cell])
            end = int(self.starts[cell + 1]) if cell + 1 < len(self.starts) else self.tree.size
            counts[first:end] = largest_first(self.slots[first:end], share)
        return counts

    def _one_cell(self, cells: NDArray[np.intp]) -> dict[int, int] | None:
        """All pods in one domain of the lowest level."""
        pods = np.array([self.asked.pods])
        costs = self._lowest_costs(cells, pods)[:, 0]
        if self.asked.running_at:
            costs = np.where(self._running_at(self.lowest)[cells] == len(self.asked.running_at), costs, NO_WAY)
        for level in range(self.lowest - 1, max(self.asked.required, 0) - 1, -1):
            costs = costs + self._own(level, self.tree.domain_at[level][self.starts[cells]], pods[0])
        costs = self._with_all(costs, self.lowest, cells)
        if costs.min() >= NO_WAY:
            return None
        return {int(cells[costs.argmin()]): self.asked.pods}

    def _with_all(self, costs: Counts, level: int, domains: NDArray[np.intp]) -> Counts:
        """The costs of all pods in one domain of a level; infinite if a domain with a minimum is outside."""
        if level == WHOLE_TREE or not self.asked.least:
            return costs
        least = self.asked.least[level]
        return np.where(least[domains] == least.sum(), costs, NO_WAY)

    def _several_cells(self, cells: NDArray[np.intp], widths: Sequence[int]) -> dict[int, int] | None:
        unit = self.asked.unit(self.lowest)
        rows = _Rows(self.lowest, cells, self._lowest_costs(cells, np.arange(widths[0]) * unit))
        found = self._candidates(rows)
        for level, width in zip(range(self.lowest - 1, self.top - 1, -1), widths[1:], strict=True):
            rows = self._joined(rows, level, np.arange(width) * unit)
            found += self._candidates(rows)
        if not found:
            return None
        _, best, index = min(found, key=lambda each: each[0])
        return {cell: share * unit for cell, share in _shares(best, index, self.asked.pods // unit).items()}

    def _candidates(self, rows: _Rows) -> list[tuple[tuple[int, int, int], _Rows, int]]:
        """The best domain of a level for all pods, by cost: goals before closeness, closeness, goals after it."""
        level, asked = rows.level, self.asked
        if level > self.top and asked.objective[-1] is Goal.CLOSEST:
            return []  # whatever is best inside a domain is counted in those around it, too
        holds_all = (rows.costs.shape[1] - 1) * asked.unit(self.lowest) == asked.pods
        if not holds_all or not asked.may_be_in_one(level):
            return []
        costs = self._with_all(rows.costs[:, -1], level, rows.domains)
        if level != WHOLE_TREE and asked.running_at:
            costs = np.where(self._running_at(level)[rows.domains] == len(asked.running_at), costs, NO_WAY)
        at = np.flatnonzero(costs < NO_WAY)
        if not len(at):
            return []
        costs = costs[at]
        # What lies around a domain, up to the required one, is used as well.
        for wider in range(level - 1, max(asked.required, 0) - 1, -1):
            costs = costs + self._own(wider, self._around(rows, wider)[at], asked.pods)
        before, after = np.divmod(costs, self.weights.before_closeness)
        best = np.lexsort((after, before))[0]
        return [((int(before[best]), -level, int(after[best])), rows, int(at[best]))]

    def _around(self, rows: _Rows, level: int) -> NDArray[np.intp]:
        """The domains of a wider level around those of some rows."""
        if level == WHOLE_TREE:
            return np.zeros(len(rows.domains), dtype=np.intp)
        starts = self.starts if rows.level == self.lowest else self.tree.starts[rows.level]
        return self.tree.domain_at[level][starts[rows.domains]]

    def _lowest_costs(self, cells: NDArray[np.intp], pods: Counts) -> Counts:
        """By domain of the lowest level and number of pods, what they cost there."""
        if self.lowest == self.tree.node_level:
            running_at = self._running_at(self.lowest)[cells]
            new = np.where(running_at > 0, 0, self.weights.nodes)
            costs = self._own(self.lowest, cells[:, np.newaxis], pods) + np.where(pods > 0, new[:, np.newaxis], 0)
            fits = (pods <= self.slots[cells][:, np.newaxis]) & self._allows(self.lowest, cells, pods)
            return np.where(fits, costs, NO_WAY)
        costs = self._costs_of_nodes(self._nodes_of(cells), pods)
        if self.lowest > WHOLE_TREE:
            fits = (costs < NO_WAY) & self._allows(self.lowest, cells, pods)
            costs = np.where(fits, costs + self._own(self.lowest, cells[:, np.newaxis], pods), NO_WAY)
        return costs

    def _allows(self, level: int, domains: NDArray[np.intp], pods: Counts) -> NDArray[np.bool_]:
        """[domain, pods]: which numbers of pods domains of a level may have."""
        allowed = self.asked.allows(level, pods)
        if not self.asked.least:
            return allowed
        return allowed & (pods >= self.asked.least[level][domains][:, np.newaxis])

    def _nodes_of(self, racks: NDArray[np.intp]) -> Counts:
        """The slots of each rack's nodes, the largest first; filled up with zeros."""
        slots = np.append(self.slots, 0)
        nodes = slots[self.tree.members[self.lowest][racks]] if self.lowest > WHOLE_TREE else self.slots[np.newaxis]
        return np.sort(nodes, axis=1)[:, ::-1]

    def _costs_of_nodes(self, nodes: Counts, pods: Counts) -> Counts:
        """By rack and number of pods, what their nodes cost; `NO_WAY` where a rack has too little room."""
        if len(pods) > 1:
            nodes, pods = nodes[:, np.newaxis, :], pods[:, np.newaxis]
        reached = nodes.cumsum(axis=-1)
        here = np.minimum(nodes, np.maximum(pods - reached + nodes, 0))
        weights = self.weights
        of_node = weights.nodes + weights.domains.get(self.tree.node_level, 0)
        costs = of_node * np.count_nonzero(here, axis=-1) - weights.squares * (here * here).sum(axis=-1)
        if self.asked.target == self.tree.node_level:
            costs = costs + weights.leftover * (nodes * (here > 0)).sum(axis=-1)
        costs = np.where(reached[..., -1] >= pods[..., 0], costs, NO_WAY)
        return costs if costs.ndim > 1 else costs[:, np.newaxis]

    def _own(self, level: int, domains: NDArray[np.intp] | int, pods: Counts | int) -> Counts:
        """What domains of a level cost by their number of pods; those of running members are already in use."""
        weights, asked = self.weights, self.asked
        used: Counts | int = weights.domains.get(level, 0)
        running_at: Counts | int = 0
        if asked.running_at:
            running_at = self._running_at(level)[domains]
            used = np.where(running_at > 0, 0, used)
        if level == asked.target:
            leftover = weights.leftover * self.leftover[domains]
            used = used + (np.where(running_at > 0, 0, leftover) if asked.preferred == level else leftover)
        return np.where(pods > 0, used, 0) - weights.squares * pods * (pods + 2 * running_at)

    def _running_at(self, level: int) -> Counts:
        """How many members run in each domain of a level."""
        if level not in self.members:
            at = self.tree.domain_at[level][list(self.asked.running_at)]
            self.members[level] = np.bincount(at, minlength=len(self.tree.starts[level]))
        return self.members[level]

    def _joined(self, inside: _Rows, level: int, pods: Counts) -> _Rows:
        """The rows of a level from those of its inner domains: the first of each, then the second, and so on."""
        around = self._around(inside, level)
        first = np.flatnonzero(np.diff(around, prepend=-1))
        domains, sizes = around[first], np.diff(np.append(first, len(around)))
        size, most = len(pods), inside.costs.shape[1]
        # Padding: the costs of n pods follow impossible ones, for k of n pods in the inner domain.
        costs = np.full((len(domains), most - 1 + size), NO_WAY)
        costs[:, most - 1] = 0
        # A view, not a copy: [domain, n, k] is the cost of n - k pods. It halves the time of a table.
        others = sliding_window_view(costs, most, axis=1)[:, :, ::-1]
        shares = []
        for number in range(int(sizes.max())):
            here = slice(None) if number < sizes.min() else np.flatnonzero(sizes > number)
            both = others[here] + inside.costs[first[here] + number][:, np.newaxis, :]
            best = both.argmin(axis=2)
            costs[here, most - 1 :] = np.minimum(both.min(axis=2), NO_WAY)
            share = np.zeros((len(domains), size), dtype=np.intp)
            share[here] = best
            shares.append(share)
        costs = costs[:, most - 1 :]
        if level > WHOLE_TREE:
            fits = (costs < NO_WAY) & self._allows(level, domains, pods)
            costs = np.where(fits, costs + self._own(level, domains[:, np.newaxis], pods), NO_WAY)
        return _Rows(level, domains, costs, _Inside(inside, first, shares))


def _shares(rows: _Rows, index: int, pods: int) -> dict[int, int]:
    """Pods by domain of the lowest level, the way back through the table."""
    if not pods:
        return {}
    inside = rows.inside
    if inside is None:
        return {int(rows.domains[index]): pods}
    found: dict[int, int] = {}
    for number in range(len(inside.shares) - 1, -1, -1):
        share = int(inside.shares[number][index, pods])
        if share:
            found |= _shares(inside.rows, int(inside.first[index]) + number, share)
            pods -= share
    return found


def largest_first(room: Counts, pods: int, multiple: int = 1) -> Counts:
    """Deal pods out in multiples into few places: the largest first, and the rest into the tightest that holds it."""
    units, wanted = room // multiple, pods // multiple
    counts = np.zeros(len(units), dtype=np.int64)
    order = np.argsort(-units, kind="stable")
    reached = np.cumsum(units[order])
    full = order[reached <= wanted]
    counts[full] = units[full]
    missing = wanted - int(counts.sum())
    if missing:
        rest = np.where((counts > 0) | (units < missing), np.iinfo(np.int64).max, units)
        counts[int(rest.argmin())] = missing
    return counts * multiple
