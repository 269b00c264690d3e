"""Groups of pods into domains by best fit, in several orders: the quick answer if shapes mix.

A group takes the tightest domain whose capacity rows (`groups.py`) and nodes (`nodes.py`) hold it beside the groups
already there. Their pods are packed anew together, so arrival order does not matter. There are four orders: by largest
pod, by size, by both, and by number of pods. A group without a place moves to the front of its order, and the order is
retried. A gang that prefers a level continues in domains that it uses, then takes the tightest that holds the rest,
else the roomiest.

Only domains are chosen here. Pods are put on nodes last, on as few as possible. A "no" proves nothing. A "yes" is a
place, whose domains `search.py` compares with the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.carrying_out import Domains, carried_out
from bayplan.engine.gangs.groups.groups import WHOLE_GANG, DomainGroup, capacity_rows, groups_of
from bayplan.engine.gangs.groups.nodes import Fill, Filling, Nodes
from bayplan.engine.gangs.problem import Counts, Problem, Solution, Status

# Orders that are tried: the first ones as they are, then with groups that found no place in front.
MOST_ORDERS = 40
# Domains that are tried for one group.
MOST_TRIES = 32
# The most shapes that one attempt repacks because a group finds no gap, and some more for each group and shape.
REPACKED = 2_000
REPACKED_PER_SHAPE = 4
# What the budget is charged for looking at the domains of one group.
WORK_OF_A_CHOICE = 60


def best_fit(problem: Problem, budget: Budget) -> Solution:
    """A placement of all parts; `LIMIT_REACHED` if this way finds none."""
    search = _BestFit(problem, budget)
    for domains in search.choices():
        placed = carried_out(problem, search.groups, search.nodes, domains)
        if placed is not None:
            return Solution(Status.FEASIBLE, placed)
    return Solution(Status.LIMIT_REACHED, bound="best fit: no place found")


class _BestFit:
    """Shared by all orders: groups, capacity rows by level, and which pods are known to fit on which nodes."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self.problem = problem
        self.budget = budget
        self.groups = groups_of(problem)
        self.nodes = Nodes(problem, budget)
        rows = capacity_rows(problem)
        # What each part counts in every row, with all that is inside it.
        self.counts = rows.of_each(problem.totals)
        levels = {group.level for group in self.groups.groups}
        preferred = problem.parts[0].preferred
        self.levels = sorted(levels if preferred is None else levels | {preferred})
        starts = problem.tree.starts
        self.room = {
            level: np.ascontiguousarray(np.add.reduceat(rows.per_node, starts[level], axis=1).T)
            for level in self.levels
        }
        worth = self.nodes.scarcity @ np.maximum(problem.free, 0.0) if len(problem.free) else rows.per_node[-1]
        self.share = {level: np.add.reduceat(worth.astype(np.float64), starts[level]) for level in self.levels}
        size = self.nodes.size
        # Without amounts, in a gang of equal pods, a part is as large as it has pods.
        worths = size if len(problem.free) else [1.0] * len(size)
        self.size = [sum(worths[shape] * count for shape, count in total.items()) for total in problem.totals]
        # A number per group; sums are equal only for the same pods.
        kinds = {shape: int.from_bytes(blake2b(b"%d" % shape, digest_size=16).digest()) for shape in problem.shapes}
        self.kind = {
            part: sum(kinds[shape] * count for shape, count in own.items()) for part, own in self.groups.own.items()
        }
        self.fillings: dict[tuple[int, int, int], Filling | None] = {}
        self.most_repacked = REPACKED + REPACKED_PER_SHAPE * sum(map(len, self.groups.own.values()))

    def choices(self) -> Iterator[Domains]:
        """Domains for all groups, in one order of groups after another."""
        orders = self._orders()
        lanes = [(order.copy(), in_front) for in_front in (True, False) for order in orders]
        tried: set[tuple[int, ...]] = set()
        for number in range(MOST_ORDERS):
            order, in_front = lanes[number % len(lanes)]
            if tuple(order) in tried:
                continue
            if tried and self.budget.is_spent:
                return
            tried.add(tuple(order))
            attempt = _Attempt(self, order)
            if attempt.place_all(WHOLE_GANG, 0, self.problem.tree.size):
                yield attempt.domain_of
            else:
                at = order.index(attempt.failed)
                order.insert(0 if in_front else at // 2, order.pop(at))
        last = _Attempt(self, orders[0], roomiest_first=True)
        if last.place_all(WHOLE_GANG, 0, self.problem.tree.size):
            yield last.domain_of

    def _orders(self) -> list[list[int]]:
        """Groups by their number in four orders; large ones come first in each."""
        problem, size = self.problem, self.nodes.size
        parts = [group.part for group in self.groups.groups]
        largest = {part: max(size[shape] for shape in problem.totals[part]) for part in parts}
        pods = {part: sum(problem.totals[part].values()) for part in parts}
        return [
            sorted(parts, key=lambda part: (-self.size[part], -largest[part])),
            sorted(parts, key=lambda part: (-largest[part], -self.size[part])),
            sorted(parts, key=lambda part: -largest[part] * pods[part]),
            sorted(parts, key=lambda part: (-pods[part], -largest[part])),
        ]

    def together(
        self, level: int, domain: int, before: Inside | None, more: DomainGroup, attempt: _Attempt
    ) -> Inside | None:
        """The groups of a domain and one more on its nodes; None if best fit finds no place for all.

        Repacking all of them is limited per attempt, because its cost is quadratic in the number of groups.
        """
        inside = Inside(self.kind[more.part] + (before.kind if before else 0), more.part, before)
        question = (level, domain, inside.kind)
        if question in self.fillings:
            inside.filling = self.fillings[question]
            return inside if inside.filling is not None else None
        nodes = self.nodes
        bounds = self.problem.tree.bounds(level, domain)
        wanted = nodes.largest_first(self.groups.own[more.part])
        here = nodes.empty(*bounds) if before is None or before.filling is None else before.filling
        inside.filling = nodes.added(here, wanted, Fill.TIGHT)
        if inside.filling is None and before is not None:
            if attempt.repacked > self.most_repacked:
                return None
            pods: dict[int, int] = {}
            for part in inside.parts():
                for shape, count in self.groups.own[part].items():
                    pods[shape] = pods.get(shape, 0) + count
            attempt.repacked += len(pods)
            inside.filling = nodes.added(nodes.empty(*bounds), nodes.largest_first(pods), Fill.TIGHT)
        self.fillings[question] = inside.filling
        return inside if inside.filling is not None else None


@dataclass(slots=True)
class Inside:
    """The groups in a domain, the last one first, and their pods on its nodes. `kind` identifies all these pods."""

    kind: int
    part: int
    before: Inside | None
    filling: Filling | None = None

    def parts(self) -> Iterator[int]:
        """The groups, the last one first."""
        here: Inside | None = self
        while here is not None:
            yield here.part
            here = here.before


class _Attempt:
    """One order: the domains that groups have taken, and what is left in the domains of every level."""

    def __init__(self, search: _BestFit, order: Sequence[int], *, roomiest_first: bool = False) -> None:
        self.search = search
        self.rank = {part: number for number, part in enumerate(order)}
        self.roomiest_first = roomiest_first
        self.left = {level: room.copy() for level, room in search.room.items()}
        self.share = {level: share.copy() for level, share in search.share.items()}
        self.rest = search.counts[0].copy()
        self.domain_of: dict[int, int] = {}
        self.failed = -1
        # The groups in each domain.
        self.inside: dict[tuple[int, int], Inside] = {}
        self.done: list[tuple[DomainGroup, Inside | None]] = []
        self.repacked = 0
        preferred = search.problem.parts[0].preferred
        self.touched = np.zeros(0 if preferred is None else len(search.problem.tree.starts[preferred]), dtype=np.int64)
        self.touched[search.problem.used(0)] = 1

    def place_all(self, around: int, first: int, end: int) -> bool:
        """Choose domains between two positions for the groups inside another one."""
        inside = self.search.groups.inside[around]
        ordered = sorted(inside, key=lambda group: (group.home is None, self.rank[group.part]))
        return all(self._place(group, first, end) for group in ordered)

    def _place(self, group: DomainGroup, first: int, end: int) -> bool:
        bounds = self.search.problem.tree.bounds
        for domain in self._candidates(group, first, end):
            before = len(self.done)
            if self._take(group, domain):
                if self.place_all(group.part, *bounds(group.level, domain)):
                    return True
                self._give_back(before)
                if self.search.budget.is_spent:
                    return False
        if not self.search.groups.inside[group.part] or self.failed < 0:
            self.failed = group.part
        return False

    def _take(self, group: DomainGroup, domain: int) -> bool:
        """Put a group into a domain, if its nodes hold the pods that are bound to it."""
        where = (group.level, domain)
        before = self.inside.get(where)
        if self.search.groups.own[group.part]:
            inside = self.search.together(*where, before, group, self)
            if inside is None:
                return False
            self.inside[where] = inside
        self.done.append((group, before))
        self.domain_of[group.part] = domain
        self._charge(group, domain, 1)
        return True

    def _give_back(self, before: int) -> None:
        while len(self.done) > before:
            group, inside = self.done.pop()
            domain = self.domain_of.pop(group.part)
            self._charge(group, domain, -1)
            if inside is None:
                self.inside.pop((group.level, domain), None)
            else:
                self.inside[group.level, domain] = inside

    def _charge(self, group: DomainGroup, domain: int, sign: int) -> None:
        """Charge a domain and those around it, up to the domain of the outer group, which was already charged."""
        search, tree = self.search, self.search.problem.tree
        around = search.groups.level_of[group.around]
        first = tree.starts[group.level][domain]
        counts = sign * search.counts[group.part]
        for level in search.levels:
            if around < level <= group.level:
                at = tree.domain_at[level][first]
                self.left[level][at] -= counts
                self.share[level][at] -= sign * search.size[group.part]
        if group.around == WHOLE_GANG:
            self.rest -= counts
        preferred = search.problem.parts[0].preferred
        if preferred is not None and around < preferred <= group.level:
            self.touched[tree.domain_at[preferred][first]] += sign

    # -- which domain -----------------------------------------------------------------------------------------------

    def _candidates(self, group: DomainGroup, first: int, end: int) -> list[int]:
        """Domains that seem to hold a group, in the order in which they are tried."""
        search, tree, level = self.search, self.search.problem.tree, group.level
        search.budget.spend(WORK_OF_A_CHOICE)
        low, high = int(tree.domain_at[level][first]), int(tree.domain_at[level][end - 1]) + 1
        allowed = (self.left[level][low:high] >= search.counts[group.part]).all(axis=1)
        if group.home is not None:
            allowed &= np.arange(low, high) == group.home
        elif group.apart is not None:
            rivals = (each.part for each in search.groups.groups if each.apart == group.apart)
            taken = (self.domain_of[part] for part in rivals if part in self.domain_of)
            allowed[[domain - low for domain in (*group.closed, *taken) if low <= domain < high]] = False
        domains = np.flatnonzero(allowed) + low
        share = self.share[level][domains]
        keys = [-share if self.roomiest_first else share, *self._by_preference(group, domains)]
        order = np.lexsort(keys) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
        return [int(domain) for domain in domains[order[:MOST_TRIES]]]

    def _by_preference(self, group: DomainGroup, domains: NDArray[np.intp]) -> list[NDArray[np.float64] | Counts]:
        """The rank of domains by the gang's preferred level: least important first, small is good."""
        tree = self.search.problem.tree
        preferred = self.search.problem.parts[0].preferred
        if preferred is None:
            return []
        if preferred > group.level:
            return [self._domains_needed(group, domains, preferred)]
        around = tree.domain_at[preferred][tree.starts[group.level][domains]]
        holds_rest = (self.left[preferred] >= self.rest).all(axis=1)
        order = np.where(holds_rest, self.share[preferred], -self.share[preferred])
        return [order[around], ~holds_rest[around], self.touched[around] == 0]

    def _domains_needed(self, group: DomainGroup, domains: NDArray[np.intp], preferred: int) -> Counts:
        """For each domain a bound: how many preferred ones inside it the group needs, each row by itself."""
        tree = self.search.problem.tree
        wanted = self.search.counts[group.part]
        needed = np.ones(len(domains), dtype=np.int64)
        for index, domain in enumerate(domains.tolist()):
            inside = slice(*np.searchsorted(tree.starts[preferred], tree.bounds(group.level, domain)))
            reached = np.cumsum(-np.sort(-self.left[preferred][inside], axis=0), axis=0)
            needed[index] = 1 + int((reached < wanted).sum(axis=0).max(initial=0))
        return needed
