"""Groups of equal pods into domains: a depth-first search that counts and never tries nodes one by one.

If all pods have one shape, rooms add up: a choice of domains for all groups can be carried out exactly if no domain, at
no level, is asked to hold more than its nodes have slots (groups lie inside each other or apart, so nothing else can go
wrong). So only the choice is searched: parents before children, large groups before small ones, the tightest domain
first. Domains that have the same room left are tried once, where nothing below them can make a difference. A search
that ran out of choices proves that there is none; one that ran out of steps proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from math import gcd

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.equal.choice import EqualPods, distances_to
from bayplan.engine.gangs.equal.equal_pods import fill_nearest, fill_nodes, place_equal
from bayplan.engine.gangs.groups.groups import WHOLE_GANG, DomainGroup, groups_of
from bayplan.engine.gangs.problem import (
    WHOLE_TREE,
    Counts,
    Placed,
    Problem,
    Solution,
    Spots,
    Status,
    infeasible,
)

MOST_STEPS = 20_000
# A step takes 55 us with 24 domains, more with more groups inside groups.
WORK_OF_A_STEP = 70


def pack(problem: Problem, budget: Budget, most_steps: int = MOST_STEPS) -> Solution:
    """A placement of all parts; `LIMIT_REACHED` if the search had to stop. The problem has one shape."""
    search = _Packing(problem, budget, most_steps)
    if search.choose():
        return Solution(Status.FEASIBLE, search.carried_out())
    if search.stopped:
        return Solution(Status.LIMIT_REACHED, bound=f"no assignment of groups found in {search.steps:,} steps")
    return infeasible("every assignment of groups to domains was tried")


class _Packing:
    """The domain of each group, and what is left in the domains of every level."""

    def __init__(self, problem: Problem, budget: Budget, most_steps: int) -> None:
        self.problem = problem
        self.budget = budget
        self.shape = problem.shapes[0]
        self.most_steps = most_steps
        self.steps = 0
        tree = problem.tree
        self.left = [tree.sums(problem.slots[self.shape], level) for level in range(tree.node_level + 1)]
        self.pods = [total.get(self.shape, 0) for total in problem.totals]
        self.groups = self._groups()
        self.level_of = {WHOLE_GANG: WHOLE_TREE} | {group.part: group.level for group in self.groups}
        self.finest = max((group.level for group in self.groups), default=WHOLE_TREE)
        self.taken: list[int] = []
        self.domain_of: dict[int, int] = {WHOLE_GANG: 0}
        self.hopeless: set[tuple[int, bytes]] = set()
        # Equal domains differ for groups that can take only one of them, or must be apart.
        self.alike = all(group.home is None and group.apart is None for group in self.groups)

    def _groups(self) -> list[DomainGroup]:
        """Groups in the order in which they choose: those with a home, then parents, wide levels, large ones first."""
        depth = {WHOLE_GANG: 0}
        groups = groups_of(self.problem).groups
        for group in groups:
            depth[group.part] = depth[group.around] + 1
        return sorted(
            groups,
            key=lambda group: (group.home is None, depth[group.part], group.level, -self.pods[group.part], group.part),
        )

    def choose(self) -> bool:
        """Find domains for all groups. Not by recursion: a gang may have thousands of them."""
        if int(self.left[0].sum()) < self.problem.totals[0][self.shape]:
            return False
        untried: list[Iterator[int]] = []
        while len(self.taken) < len(self.groups):
            group = self.groups[len(self.taken)]
            if len(untried) == len(self.taken):
                hopeless = bool(self.hopeless) and self._state_of(len(self.taken)) in self.hopeless
                untried.append(iter(()) if hopeless else self._candidates(group))
            domain = next(untried[-1], None)
            if domain is None:
                untried.pop()
                self.hopeless.add(self._state_of(len(self.taken)))
                if not self.taken:
                    return False
                self._give_back()
                continue
            self.steps += 1
            self.budget.spend(WORK_OF_A_STEP)
            if self.stopped:
                return False
            self._take(group, domain)
        return True

    @property
    def stopped(self) -> bool:
        """True if there are no more steps, or no time.

        Straight down to a place for the last group is always allowed.
        """
        return self.steps >= self.most_steps or (self.steps > len(self.groups) and self.budget.is_spent)

    def _take(self, group: DomainGroup, domain: int) -> None:
        self.taken.append(domain)
        self.domain_of[group.part] = domain
        self._charge(group, domain, self.pods[group.part])

    def _give_back(self) -> None:
        group = self.groups[len(self.taken) - 1]
        del self.domain_of[group.part]
        self._charge(group, self.taken.pop(), -self.pods[group.part])

    def _charge(self, group: DomainGroup, domain: int, pods: int) -> None:
        """Charge a domain and those around it, up to the domain of the outer group, which was already charged."""
        tree = self.problem.tree
        first = tree.starts[group.level][domain]
        for level in range(self.level_of[group.around] + 1, group.level + 1):
            self.left[level][tree.domain_at[level][first]] -= pods

    def _state_of(self, index: int) -> tuple[int, bytes]:
        """What decides whether the groups from `index` on have a place: where they can go, and what is left there.

        If only the finest domains inside one domain are still to be chosen, only the amounts left in them matter, not
        where.
        """
        missing = self.groups[index:]
        group = missing[0]
        if all((each.level, each.around) == (group.level, group.around) for each in missing) and self._is_finest(group):
            low, high = self._span(group)
            return index, _digest([np.sort(self.left[group.level][low:high])])
        finest = max(each.level for each in missing)
        decisive: list[Counts] = [np.array(self.taken if not self.alike else [], dtype=np.int64)]
        for around in sorted({each.around for each in missing if each.around in self.domain_of}):
            first, end = self._bounds(around)
            decisive.append(np.array([around, first], dtype=np.int64))
            for level in range(self.level_of[around] + 1, finest + 1):
                low, high = np.searchsorted(self.problem.tree.starts[level], (first, end))
                decisive.append(self.left[level][low:high])
        return index, _digest(decisive)

    def _is_finest(self, group: DomainGroup) -> bool:
        """True if nothing is chosen below a group's domain, and all its candidates share their surroundings."""
        return self.alike and group.level == self.finest and group.level - self.level_of[group.around] == 1

    def _bounds(self, part: int) -> tuple[int, int]:
        """The positions of the domain that a group has taken."""
        if part == WHOLE_GANG:
            return 0, self.problem.tree.size
        return self.problem.tree.bounds(self.level_of[part], self.domain_of[part])

    def _span(self, group: DomainGroup) -> tuple[int, int]:
        """The domains of the group's level that lie inside the domain of the group around it."""
        low, high = np.searchsorted(self.problem.tree.starts[group.level], self._bounds(group.around))
        return int(low), int(high)

    def _candidates(self, group: DomainGroup) -> Iterator[int]:
        """Domains that hold a group, the tightest first."""
        low, high = self._span(group)
        left = self.left[group.level][low:high]
        enough = left >= self.pods[group.part]
        for level in range(self.level_of[group.around] + 1, group.level):
            around = self.problem.tree.domain_at[level][self.problem.tree.starts[group.level][low:high]]
            enough &= self.left[level][around] >= self.pods[group.part]
        enough &= self._holds_what_is_inside(group, low, high)
        if not self.alike:
            enough &= self._allows(group, low, high)
        candidates = np.flatnonzero(enough)
        if self._is_finest(group):
            # Equal room is equally good.
            _, first = np.unique(left[candidates], return_index=True)
            candidates = candidates[first]
        else:
            candidates = candidates[np.argsort(left[candidates], kind="stable")]
        return (low + int(candidate) for candidate in candidates)

    def _allows(self, group: DomainGroup, low: int, high: int) -> NDArray[np.bool_]:
        """The domains that a group may take because of its home and of the groups that it keeps apart from."""
        allowed = np.full(high - low, group.home is None)
        if group.home is not None:
            allowed[[group.home - low] if low <= group.home < high else []] = True
        elif group.apart is not None:
            taken = (domain for each, domain in zip(self.groups, self.taken, strict=False) if each.apart == group.apart)
            allowed[[domain - low for domain in (*group.closed, *taken) if low <= domain < high]] = False
        return allowed

    def _holds_what_is_inside(self, group: DomainGroup, low: int, high: int) -> NDArray[np.bool_]:
        """A bound: domains with room for the inner groups, if each takes multiples of their common divisor."""
        tree = self.problem.tree
        holds = np.ones(high - low, dtype=np.bool_)
        first = tree.starts[group.level][low]
        end = tree.starts[group.level][high] if high < len(tree.starts[group.level]) else tree.size
        for level in {each.level for each in self.groups if each.around == group.part}:
            sizes = [self.pods[each.part] for each in self.groups if each.around == group.part and each.level == level]
            unit = gcd(*sizes)
            inner = slice(*np.searchsorted(tree.starts[level], (first, end)))
            usable = self.left[level][inner] // unit * unit
            begins = np.searchsorted(tree.starts[level][inner], tree.starts[group.level][low:high])
            holds &= np.add.reduceat(usable, begins) >= sum(sizes)
        return holds

    def carried_out(self) -> Placed:
        """Pods by position: the narrowest domains are filled first, so that wider ones take what is left."""
        problem, tree = self.problem, self.problem.tree
        slots = problem.slots[self.shape].copy()
        placed: list[dict[int, Spots]] = [{} for _ in problem.parts]
        bound_by = [self._bound_by(number) for number in range(len(problem.parts))]
        preferred = problem.parts[0].preferred
        used = np.zeros(0 if preferred is None else len(tree.starts[preferred]), dtype=np.bool_)
        used[problem.used(0)] = True
        for number in sorted(range(len(problem.parts)), key=lambda part: self._turn(part, bound_by[part])):
            pods = problem.parts[number].pods.get(self.shape, 0)
            if not pods:
                continue
            level = self.level_of[bound_by[number]]
            first, end = self._bounds(bound_by[number])
            own = problem.parts[number].preferred
            if own is not None and own > level and not problem.spread and number:
                counts = self._in_few(number, slots, pods, first, end)
            elif preferred is None or level >= preferred:
                counts = self._filled(number, slots[first:end], pods, first, end)
            else:
                counts = in_touched_domains_first(problem, slots, first, end, pods, used)
            slots[first:end] -= counts
            spots = placed[number][self.shape] = Spots.of(counts, first)
            if preferred is not None:
                used[tree.domain_at[preferred][spots.positions]] = True
        return tuple(placed)

    def _turn(self, number: int, bound_by: int) -> tuple[int, ...]:
        """The order of parts: those in narrow domains first, then those that prefer narrow ones, large ones first."""
        part = self.problem.parts[number]
        preferred = WHOLE_TREE if part.preferred is None else part.preferred
        return -self.level_of[bound_by], -preferred, -part.pods.get(self.shape, 0), number

    def _in_few(self, number: int, slots: Counts, pods: int, first: int, end: int) -> Counts:
        """A part's pods between two positions in as few of the domains that it prefers as it can have by itself."""
        part, here = self.problem.parts[number], np.zeros_like(slots)
        here[first:end] = slots[first:end]
        found = place_equal(
            self.problem.tree, here, EqualPods(pods, preferred=part.preferred, running_at=part.running_at)
        )
        assert found.counts is not None
        return found.counts[first:end]

    def _filled(self, number: int, slots: Counts, pods: int, first: int, end: int) -> Counts:
        """A part's pods on nodes: near its running members, else near the gang's, else on few nodes or many."""
        parts = self.problem.parts
        running_at = parts[number].running_at or parts[0].running_at
        if not running_at or self.problem.spread:
            return fill_nodes(slots, pods, spread=self.problem.spread)
        return fill_nearest(slots, pods, distances_to(self.problem.tree, running_at)[first:end])

    def _bound_by(self, number: int) -> int:
        """The group whose domain a part's own pods are bound to."""
        while number not in self.domain_of:
            number = self.problem.parts[number].parent
        return number


def in_touched_domains_first(
    problem: Problem, slots: Counts, first: int, end: int, pods: int, used: NDArray[np.bool_]
) -> Counts:
    """Pods between two positions: in preferred domains that the gang uses anyway, then in as few others as possible."""
    tree, preferred = problem.tree, problem.parts[0].preferred
    assert preferred is not None
    here = np.zeros_like(slots)
    here[first:end] = slots[first:end]
    counts = np.zeros_like(slots)
    inside = np.where(used[tree.domain_at[preferred]], here, 0)
    share = min(pods, int(inside.sum()))
    for wanted, room in ((share, inside), (pods - share, here)):
        if wanted:
            found = place_equal(tree, room - counts if room is here else room, EqualPods(wanted, preferred=preferred))
            assert found.counts is not None
            counts += found.counts
    return counts[first:end]


def _digest(arrays: list[Counts]) -> bytes:
    """A short hash of arrays that can be long."""
    return blake2b(np.concatenate(arrays).tobytes(), digest_size=16).digest()
