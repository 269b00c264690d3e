"""Groups of equal pods as close together as possible: place all pods as one group, then divide them.

Closeness depends only on how many pods each node has. So all pods are put where they are closest, which a table over
the tree finds exactly (`equal/tree_table.py`). If the groups can be divided among these places, nothing is closer. If
not, one group after another is bound to a domain, which then has at least its pods. This makes the table's answer a
bound on the remaining choices. What no bound excludes is tried, groups of narrow domains first.

A problem of one shape and the fewest domains of each part come in. The closest placement in that many domains goes out,
and whether it is proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import place_equal, room_by_level
from bayplan.engine.gangs.equal.table_request import TableRequest
from bayplan.engine.gangs.equal.tree_table import place_by_table
from bayplan.engine.gangs.groups.gathering import closeness_of
from bayplan.engine.gangs.groups.packing import pack
from bayplan.engine.gangs.objective import Goal, objective_of
from bayplan.engine.gangs.problem import (
    WHOLE_TREE,
    Counts,
    Part,
    Placed,
    Problem,
    Solution,
    around,
    domains_at,
    preferred_domains,
)

# In more nodes than that only the first table is made.
SMALL_TREE = 256
# Tables that are made before the best so far is taken.
MOST_TABLES = 48
WORK_OF_A_TABLE = 500
WORK_OF_A_DIVISION = 5_000
CLOSEST_FIRST = objective_of([Goal.MEAN_DISTANCE.value])


@dataclass(frozen=True)
class Divided:
    """Pods by part, and whether it is proven that none are closer."""

    placed: Placed
    proven: bool


def divided(problem: Problem, fewest: int, budget: Budget, like: Solution | None = None) -> Divided | None:
    """The closest placement in `fewest` preferred domains; None if none was found.

    Each part that prefers a level is in one domain of it, or of the lowest wider level that can hold it, or as in the
    placement `like`.
    """
    # Returning members go near those of their own group, which sums over the gang do not show.
    unlike = any(part.apart is not None or (number and part.running_at) for number, part in enumerate(problem.parts))
    if len(problem.shapes) > 1 or problem.spread or problem.roomiest or unlike:
        return None
    parts = tuple(_bound_to_one(problem, number, like) for number in range(len(problem.parts)))
    search = _Division(replace(problem, parts=parts), fewest, budget)
    search.explore({})
    return None if search.best is None else Divided(search.best, search.proven)


def _bound_to_one(problem: Problem, number: int, like: Solution | None) -> Part:
    part, shape = problem.parts[number], problem.shapes[0]
    if part.preferred is None or not problem.totals[number]:
        return part
    outer = WHOLE_TREE if part.required is None else part.required
    for level in range(part.preferred, outer, -1):
        if like is not None:
            in_one = len(domains_at(problem, like, number, level)) == 1
        else:
            in_one = problem.tree.sums(problem.slots[shape], level).max() >= problem.totals[number][shape]
        if in_one:
            return structs.replace(part, required=level)
    return part


@dataclass
class _Division:
    problem: Problem
    fewest: int
    budget: Budget
    best: Placed | None = None
    closeness: int = -1
    proven: bool = True
    tables: int = 0
    order: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts, totals = self.problem.parts, self.problem.totals
        choosing = [
            number
            for number, part in enumerate(parts)
            if number and part.required is not None and totals[number] and part.home is None
        ]
        # Outer parts come before inner ones, whatever their level.
        depth = {number: sum(1 for _ in around(parts, number)) for number in choosing}
        self.order = sorted(
            choosing, key=lambda number: (depth[number], -(parts[number].required or 0), -self._pods(number))
        )

    def _pods(self, number: int) -> int:
        return sum(self.problem.totals[number].values())

    def explore(self, bound: Mapping[int, int]) -> None:
        """Try everything with these parts bound to these domains, unless it cannot be closer than the best so far."""
        most = MOST_TABLES if self.problem.tree.size <= SMALL_TREE else 1
        if self.tables and (self.tables >= most or self.budget.is_spent):
            self.proven = False
            return
        self.tables += 1
        self.budget.spend(WORK_OF_A_TABLE)
        counts, is_exact = self._closest(bound)
        if counts is None:
            self.proven &= is_exact
            return
        possible = closeness_of(self.problem, counts)
        if is_exact and possible <= self.closeness:
            return
        placed = self._divide(counts, bound)
        if placed is not None:
            if possible > self.closeness:
                self.best, self.closeness = placed, possible
            self.proven &= is_exact
            return
        if not is_exact or len(bound) == len(self.order):
            self.proven = False
            return
        number = self.order[len(bound)]
        for domain in self._candidates(number, counts, bound):
            self.explore({**bound, number: domain})

    def _closest(self, bound: Mapping[int, int]) -> tuple[Counts | None, bool]:
        """All pods as one group, with minima for domains that parts are bound to; and whether nothing is closer."""
        problem = self.problem
        gang, shape = problem.parts[0], problem.shapes[0]
        first, end = problem.home(0)
        slots = problem.slots[shape]
        if end - first < problem.tree.size:
            slots = np.zeros_like(slots)
            slots[first:end] = problem.slots[shape][first:end]
        required = gang.required if gang.required is not None else WHOLE_TREE
        rooms = room_by_level(problem.tree, slots, ())
        most = int(rooms[required].max(initial=0) if required != WHOLE_TREE else slots.sum())
        if most < problem.totals[0][shape]:
            return None, True
        asked = TableRequest(
            problem.totals[0][shape], required, None, CLOSEST_FIRST, gang.running_at, least=self._least(bound)
        )
        by_table = place_by_table(problem.tree, slots, rooms, asked)
        if by_table.decided:
            return by_table.counts, by_table.compared_all
        if bound:
            return None, False
        wish = EqualPods(asked.pods, required, running_at=gang.running_at, objective=CLOSEST_FIRST)
        return place_equal(problem.tree, slots, wish).counts, False

    def _least(self, bound: Mapping[int, int]) -> tuple[Counts, ...]:
        """By level how many pods each domain has at least; nothing at all where no part is bound."""
        if not bound:
            return ()
        parts, tree = self.problem.parts, self.problem.tree
        least = tuple(np.zeros(len(starts), dtype=np.int64) for starts in tree.starts)
        for number, domain in bound.items():
            own = parts[number].required or 0
            outer = [part.required for part in list(around(parts, number))[1:] if part.required is not None]
            # A part around it that is in one domain of a level stands there for it.
            for level in range(max(outer, default=WHOLE_TREE) + 1, own + 1):
                at = tree.domain_at[level][tree.starts[own][domain]]
                least[level][at] += self._pods(number)
        return least

    def _divide(self, counts: Counts, bound: Mapping[int, int]) -> Placed | None:
        """The pods of all parts at places that have just as many, if that is possible and found in a few steps."""
        shape = self.problem.shapes[0]
        homes = dict(bound)
        whole = self.problem.parts[0].required
        if bound and whole is not None:
            number, domain = next(iter(bound.items()))
            position = self.problem.tree.starts[self.problem.parts[number].required or 0][domain]
            homes[0] = int(self.problem.tree.domain_at[whole][position])
        parts = tuple(
            structs.replace(part, home=homes[number]) if number in homes else part
            for number, part in enumerate(self.problem.parts)
        )
        slots = tuple(counts if each == shape else every for each, every in enumerate(self.problem.slots))
        found = pack(replace(self.problem, parts=parts, slots=slots), self.budget.at_most(WORK_OF_A_DIVISION))
        return found.placed if found.found and preferred_domains(self.problem, found) == self.fewest else None

    def _candidates(self, number: int, counts: Counts, bound: Mapping[int, int]) -> list[int]:
        """The domains that a part can be bound to, those first in which most pods would be."""
        tree, part = self.problem.tree, self.problem.parts[number]
        level = part.required or 0
        first, end = 0, tree.size
        if part.parent in bound:
            first, end = tree.bounds(self.problem.parts[part.parent].required or 0, bound[part.parent])
        low, high = int(tree.domain_at[level][first]), int(tree.domain_at[level][end - 1]) + 1
        room = tree.sums(self.problem.slots[self.problem.shapes[0]], level)[low:high]
        holding = np.flatnonzero(room >= self._pods(number))
        pods = tree.sums(counts, level)[low:high][holding]
        return [low + int(domain) for domain in holding[np.argsort(-pods, kind="stable")]]
