"""Place equal pods with a table over the tree: the exact optimum by all goals at once.

Every goal is a sum over domains: the cost of using a domain and, for the mean distance, minus the square of the number
of members in it (two of them in one domain are two edges closer). So each domain has a row: the least cost of 0, 1, 2,
... pods inside it. A rack's row follows from its nodes, filling the largest first; the row of a wider domain combines
the rows inside it (`joining.py`). The weights encode the order of goals. Only closeness is not a sum: there is an
answer for each level on which one domain holds all pods, and the best of these wins.

Costs are whole numbers. If the table would be too large, or its weights would not fit, there is none (`UNDECIDED`), and
`choice.py` decides by counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.joining import LARGEST_COST, NO_WAY, Joined, joined
from bayplan.engine.gangs.equal.table_request import TableRequest, Weights, weights_of
from bayplan.engine.gangs.objective import Goal
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts

# Cells of all rows and of putting them together; a million of them take some 3 ms.
MOST_CELLS = 400_000
# Racks that are compared where all pods go into one.
MOST_RACKS = 512
_TOO_LARGE = np.iinfo(np.int64).max


class TableResult(Struct, frozen=True):
    """Pods by position, or none if they have no place. Not `decided` if the table would be too large."""

    counts: Counts | None
    compared_all: bool
    """True if every domain was compared, so that no other result is better."""
    decided: bool = True


UNDECIDED = TableResult(None, compared_all=False, decided=False)


def place_by_table(tree: Tree, slots: Counts, rooms: Sequence[Counts], asked: TableRequest) -> TableResult:
    """The best place for equal pods by all goals, or `UNDECIDED`.

    `rooms` has the pods that each domain holds in whole segments, by level. One required domain has room for all pods.
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
        return UNDECIDED
    # Where one domain of the lowest level might be the best.
    in_one = not (by_nodes or asked.layers or asked.least) and lowest >= 0 and asked.closeness_decides
    ideal = _ideal_domain(tree, slots, rooms, asked) if in_one else None
    if ideal is not None:
        return TableResult(_filled(tree, slots, starts, {ideal: asked.pods}), compared_all=True)
    whole = top == lowest
    cells = (room >= asked.pods if whole else room).nonzero()[0]
    if top > WHOLE_TREE and not whole:
        # Only domains inside one that holds all pods matter.
        cells = cells[rooms[top][tree.domain_at[top][starts[cells]]] >= asked.pods]
    compared_all = not whole or len(cells) <= MOST_RACKS
    if not compared_all:
        largest = np.maximum.reduceat(slots, starts)[cells]
        cells = np.sort(cells[np.lexsort((room[cells], -largest))[:MOST_RACKS]])
    widths = () if whole else _widths(rooms, asked, lowest, top)
    is_too_large = _cells(tree, cells, widths, by_nodes=by_nodes) > MOST_CELLS
    alone = np.flatnonzero(room >= asked.pods) if in_one and not whole else cells[:0]
    if is_too_large and not len(alone):
        return UNDECIDED
    leftover = rooms[max(asked.target, 0)]
    if asked.layers:
        # Room for whole segments, then slots.
        sums = tree.sums(slots, max(asked.target, 0))
        leftover = leftover * (asked.most_domains(tree, asked.target) * int(sums.max()) + 1) + sums
    weights = weights_of(tree, asked, int(leftover.max()))
    if weights is None:
        return UNDECIDED
    table = _Table(tree, slots, asked, weights, lowest, top, starts, leftover)
    found = table.best_in_one(alone) if 0 < len(alone) <= MOST_RACKS else None
    if found is not None:
        return TableResult(found, compared_all=True)
    if is_too_large:
        return UNDECIDED
    return TableResult(table.best(cells, widths), compared_all)


def _ideal_domain(tree: Tree, slots: Counts, rooms: Sequence[Counts], asked: TableRequest) -> int | None:
    """A domain of the lowest level of labels in which the fewest nodes, each as large as any, hold all pods.

    Nothing is closer, and nothing has fewer nodes: of several such domains, the one with the least left over is best.
    """
    starts, largest = tree.starts[tree.node_level - 1], int(slots.max())
    full, rest = divmod(asked.pods, largest)
    ideal = np.add.reduceat((slots == largest).astype(np.intp), starts) >= full
    if rest:
        ideal &= np.add.reduceat((slots >= rest).astype(np.intp), starts) > full
    domains = ideal.nonzero()[0]
    if not len(domains):
        return None
    if asked.target == WHOLE_TREE:
        return int(domains[0])
    leftover = rooms[asked.target][tree.domain_at[asked.target][starts[domains]]]
    return int(domains[leftover.argmin()])


def _filled(tree: Tree, slots: Counts, starts: NDArray[np.intp], shares: Mapping[int, int]) -> Counts:
    """Pods by position, from those of each domain, which begin at `starts`."""
    counts = np.zeros(tree.size, dtype=np.int64)
    for domain, share in shares.items():
        first = int(starts[domain])
        end = int(starts[domain + 1]) if domain + 1 < len(starts) else tree.size
        here = slots[first:end]
        # Most domains are filled to the last slot: 3 us instead of 10.
        counts[first:end] = here if share == here.sum() else largest_first(here, share)
    return counts


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

    It is not if the leftover room of nodes counts, or if segments are on nodes.
    """
    return asked.target < tree.node_level and all(layer.level < tree.node_level for layer in asked.layers)


@dataclass(frozen=True)
class _Rows:
    """Domains of one level, each with a row: the least cost of 0, 1, 2, ... pods (or whole segments) in it.

    At the top of a table only that of all pods.
    """

    level: int
    domains: NDArray[np.intp]
    costs: Counts
    inside: _Inside | None = None


@dataclass(frozen=True)
class _Inside:
    """What rows were made of: inner rows, from `first` on those of each domain, and how they were joined."""

    rows: _Rows
    first: NDArray[np.intp]
    joined: Joined


@dataclass(frozen=True)
class _Table:
    """Rows from level `lowest` (racks or nodes) up to `top`; domains of `lowest` begin at the positions `starts`."""

    tree: Tree
    slots: Counts
    asked: TableRequest
    weights: Weights
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
        return None if shares is None else _filled(self.tree, self.slots, self.starts, shares)

    def best_in_one(self, cells: NDArray[np.intp]) -> Counts | None:
        """The best single domain of `cells`, which hold all pods; None if pods in several might be closer.

        One pod elsewhere costs more closeness than better nodes can give: then no table is needed.
        """
        shares = self._one_cell(cells)
        if shares is None:
            return None
        pods, counts = self.asked.pods, _filled(self.tree, self.slots, self.starts, shares)
        largest_first = -np.sort(-self.slots)
        closest = np.minimum(largest_first[:pods].cumsum(), pods)
        closest[1:] -= closest[:-1].copy()
        lost = pods * pods - (pods - 1) ** 2 - 1
        return counts if int(closest.dot(closest)) - int(counts.dot(counts)) < lost else None

    def _one_cell(self, cells: NDArray[np.intp]) -> dict[int, int] | None:
        """All pods in one domain of the lowest level."""
        pods = np.array([self.asked.pods])
        costs = self._lowest_costs(cells, pods)[:, 0]
        if self.asked.running_at:
            costs = np.where(self._running_in(self.lowest)[cells] == len(self.asked.running_at), costs, NO_WAY)
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
        holds_all = level == self.top or (rows.costs.shape[1] - 1) * asked.unit(self.lowest) == asked.pods
        if not holds_all or not asked.may_be_in_one(level):
            return []
        costs = self._with_all(rows.costs[:, -1], level, rows.domains)
        if level != WHOLE_TREE and asked.running_at:
            costs = np.where(self._running_in(level)[rows.domains] == len(asked.running_at), costs, NO_WAY)
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
            running = self._running_in(self.lowest)[cells]
            new = np.where(running > 0, 0, self.weights.nodes)
            costs = np.where(pods > 0, new[:, np.newaxis], 0)
            costs = np.where(pods <= self.slots[cells][:, np.newaxis], costs, NO_WAY)
            return self._possible(self.lowest, cells, pods, costs)
        costs = self._costs_of_nodes(self._nodes_of(cells), pods)
        if self.lowest > WHOLE_TREE:
            costs = self._possible(self.lowest, cells, pods, costs)
        return costs

    def _possible(self, level: int, domains: NDArray[np.intp], pods: Counts, costs: Counts) -> Counts:
        """[domain, pods]: costs with those of domains of a level themselves, of numbers of pods that they may have."""
        costs = costs + self._own(level, domains[:, np.newaxis], pods)
        fits = costs < LARGEST_COST
        allowed = self.asked.allows(level, pods)
        if allowed is not None:
            fits &= allowed
        if self.asked.least:
            fits &= pods >= self.asked.least[level][domains][:, np.newaxis]
        return np.where(fits, costs, NO_WAY)

    def _nodes_of(self, racks: NDArray[np.intp]) -> Counts:
        """The slots of each rack's nodes, the largest first; filled up with zeros."""
        slots = np.append(self.slots, 0)
        nodes = slots[self.tree.members[self.lowest][racks]] if self.lowest > WHOLE_TREE else self.slots[np.newaxis]
        return np.sort(nodes, axis=1)[:, ::-1]

    def _costs_of_nodes(self, nodes: Counts, pods: Counts) -> Counts:
        """By rack and number of pods, in ascending order, what their nodes cost; `NO_WAY` without enough room."""
        weights, asked, (racks, most) = self.weights, self.asked, nodes.shape
        # What the largest nodes of a rack hold together, from none of them on, and the sum of squares of it.
        reached, squares = (np.zeros((racks, most + 1), dtype=np.int64) for _ in range(2))
        nodes.cumsum(axis=1, out=reached[:, 1:])
        (nodes * nodes).cumsum(axis=1, out=squares[:, 1:])
        rack = np.arange(racks)[:, np.newaxis]
        # By rack and number of pods, how many nodes are full before the last one: those that fewer pods reach.
        enough = pods.searchsorted(reached[:, 1:], side="right") + rack * (len(pods) + 1)
        full = np.bincount(enough.ravel(), minlength=racks * (len(pods) + 1)).reshape(racks, -1)[:, :-1].cumsum(axis=1)
        at = full + rack * (most + 1)
        rest = pods - reached.take(at)
        costs: Counts = -weights.squares * (squares.take(at) + rest * rest)
        used = full + (rest > 0)
        costs += (weights.nodes + weights.domains.get(self.tree.node_level, 0)) * used
        if asked.target == self.tree.node_level:
            costs += weights.leftover * reached.take(np.minimum(used, most) + rack * (most + 1))
        costs[pods > reached[:, -1:]] = NO_WAY
        return costs

    def _own(self, level: int, domains: NDArray[np.intp] | int, pods: Counts | int) -> Counts:
        """What domains of a level cost by their number of pods; those of running members are already in use."""
        weights, asked = self.weights, self.asked
        used: Counts | int = weights.domains.get(level, 0)
        running: Counts | int = 0
        if asked.running_at:
            running = self._running_in(level)[domains]
            used = np.where(running > 0, 0, used)
        if level == asked.target:
            leftover = weights.leftover * self.leftover[domains]
            used = used + (np.where(running > 0, 0, leftover) if asked.preferred == level else leftover)
        return np.where(pods > 0, used, 0) - weights.squares * pods * (pods + 2 * running)

    def _running_in(self, level: int) -> Counts:
        """How many members run in each domain of a level."""
        if level not in self.members:
            at = self.tree.domain_at[level][list(self.asked.running_at)]
            self.members[level] = np.bincount(at, minlength=len(self.tree.starts[level]))
        return self.members[level]

    def _joined(self, inside: _Rows, level: int, pods: Counts) -> _Rows:
        """The rows of a level from those of its inner domains; at the top only for all pods."""
        around = self._around(inside, level)
        begins = np.concatenate(([True], around[1:] != around[:-1], [True])).nonzero()[0]
        first, sizes = begins[:-1], begins[1:] - begins[:-1]
        domains = around[first]
        made = joined(inside.costs, first, sizes, len(pods), all_pods=level == self.top)
        costs, pods = made.costs, pods[-1:] if level == self.top else pods
        if level > WHOLE_TREE:
            costs = self._possible(level, domains, pods, costs)
        return _Rows(level, domains, costs, _Inside(inside, first, made))


def _shares(rows: _Rows, index: int, pods: int) -> dict[int, int]:
    """Pods by domain of the lowest level, the way back through the table."""
    if not pods:
        return {}
    inside = rows.inside
    if inside is None:
        return {int(rows.domains[index]): pods}
    found: dict[int, int] = {}
    for number, share in inside.joined.shares(index, pods):
        found |= _shares(inside.rows, int(inside.first[index]) + number, share)
    return found


def largest_first(room: Counts, pods: int, multiple: int = 1) -> Counts:
    """Deal pods out in multiples into few places: the largest first, and the rest into the tightest that holds it."""
    units, wanted = (room, pods) if multiple == 1 else (room // multiple, pods // multiple)
    order = (-units).argsort(kind="stable")
    reached = units[order].cumsum()
    full = int(reached.searchsorted(wanted, side="right"))
    counts = np.zeros(len(units), dtype=np.int64)
    counts[order[:full]] = units[order[:full]]
    missing = wanted - (int(reached[full - 1]) if full else 0)
    if missing:
        rest = np.where((counts > 0) | (units < missing), _TOO_LARGE, units)
        counts[int(rest.argmin())] = missing
    return counts if multiple == 1 else counts * multiple
