"""Groups of equal pods into domains: a depth-first search that counts and never tries nodes one by one.

If all pods have one shape, rooms add up: a choice of domains for all groups can be carried out exactly if no domain, at no level, is
asked to hold more than its nodes have slots (groups lie inside each other or apart, so nothing else can go wrong). So only the choice
is searched: parents before children, large groups before small ones, the tightest domain first. Domains that have the same room
left are tried once, where nothing below them can make a difference. A search that ran out of choices proves that there is none; one
that ran out of steps proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.equal_pods import Wish, fill_nodes, place_equal
from bayplan.engine.gangs.problem import (
    NOWHERE,
    WHOLE_TREE,
    Counts,
    Problem,
    Solution,
    Spots,
    Status,
    infeasible,
)

MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class _Group:
    """A part that takes a domain: its number, the group around it, its level and how many pods it brings along."""

    part: int
    around: int
    level: int
    pods: int


def pack(problem: Problem, most_steps: int = MOST_STEPS) -> Solution:
    """A placement of all parts; `LIMIT_REACHED` if the search had to stop. The problem has one shape."""
    search = _Search(problem, most_steps)
    if search.choose(0):
        return Solution(Status.FEASIBLE, search.carried_out())
    if search.steps >= most_steps:
        return Solution(Status.LIMIT_REACHED, bound=f"no assignment of groups found in {most_steps:,} steps")
    return infeasible("every assignment of groups to domains was tried")


class _Search:
    """Which group is in which domain, and what is left in the domains of every level."""

    def __init__(self, problem: Problem, most_steps: int) -> None:
        self.problem = problem
        self.shape = problem.shapes[0]
        self.most_steps = most_steps
        self.steps = 0
        tree = problem.tree
        self.left = [tree.sums(problem.slots[self.shape], level) for level in range(tree.node_level + 1)]
        self.groups = self._groups()
        self.finest = max((group.level for group in self.groups), default=WHOLE_TREE)
        self.taken: list[int] = []
        self.unbound = self._pods_without_domain()
        self.hopeless: set[tuple[int, bytes]] = set()
        self.around = {group.part: group for group in self.groups}

    def _groups(self) -> list[_Group]:
        """Parts that narrow the domain of what is around them; parents first, then the widest level, then the largest."""
        problem = self.problem
        narrowing: dict[int, _Group] = {}
        for number, part in enumerate(problem.parts):
            around = narrowing.get(part.parent) if part.parent >= 0 else None
            level = part.required if part.required is not None else WHOLE_TREE
            pods = problem.totals[number][self.shape]
            if pods and level > (around.level if around else WHOLE_TREE):
                narrowing[number] = _Group(number, around.part if around else -1, level, pods)
            elif around:
                narrowing[number] = around
        distinct = [group for number, group in narrowing.items() if group.part == number]
        by_depth = {-1: 0}
        for group in distinct:
            by_depth[group.part] = by_depth[group.around] + 1
        return sorted(distinct, key=lambda group: (by_depth[group.part], group.level, -group.pods, group.part))

    def _pods_without_domain(self) -> int:
        """Pods that no group binds: they go anywhere, but need room."""
        bound = sum(group.pods for group in self.groups if group.around == -1)
        return self.problem.totals[0][self.shape] - bound

    def choose(self, index: int) -> bool:
        """Find domains for the groups from `index` on."""
        if index == len(self.groups):
            return bool(self.left[0].sum() >= self.unbound)
        group = self.groups[index]
        state = self._state_of(index)
        if state in self.hopeless:
            return False
        for domain in self._candidates(group):
            self.steps += 1
            if self.steps >= self.most_steps:
                return False
            self._take(group, domain, group.pods)
            self.taken.append(domain)
            if self.choose(index + 1):
                return True
            self.taken.pop()
            self._take(group, domain, -group.pods)
        if self.steps < self.most_steps:
            self.hopeless.add(state)
        return False

    def _state_of(self, index: int) -> tuple[int, bytes]:
        """What decides whether the groups from `index` on have a place: who is left, and what is left where they may go.

        Where nothing but the finest domains is chosen any more, their order does not matter.
        """
        group = self.groups[index]
        low, high = self._span(group)
        left = self.left[group.level][low:high]
        alike = group.level == self.finest and all(
            (each.level, each.around) == (group.level, group.around) for each in self.groups[index:]
        )
        return index, (np.sort(left) if alike and group.level - self._level_around(group) == 1 else left).tobytes()

    def _candidates(self, group: _Group) -> Iterator[int]:
        """Domains that hold a group, the tightest first."""
        low, high = self._span(group)
        left = self.left[group.level][low:high]
        enough = left >= group.pods
        outer = self._level_around(group)
        for level in range(outer + 1, group.level):
            around = self.problem.tree.domain_at[level][self.problem.tree.starts[group.level][low:high]]
            enough &= self.left[level][around] >= group.pods
        enough &= self._holds_what_is_inside(group, low, high)
        candidates = np.flatnonzero(enough)
        if group.level == self.finest and group.level - outer == 1:
            # Nothing is ever chosen below these, and they share all that is around them: equal room is equally good.
            _, first = np.unique(left[candidates], return_index=True)
            candidates = candidates[first]
        else:
            candidates = candidates[np.argsort(left[candidates], kind="stable")]
        return (low + int(candidate) for candidate in candidates)

    def _holds_what_is_inside(self, group: _Group, low: int, high: int) -> NDArray[np.bool_]:
        """A bound: domains in which the groups inside find room if each takes whole multiples of what divides all of them."""
        tree = self.problem.tree
        holds = np.ones(high - low, dtype=np.bool_)
        first = tree.starts[group.level][low]
        end = tree.starts[group.level][high] if high < len(tree.starts[group.level]) else tree.size
        for level in {each.level for each in self.groups if each.around == group.part}:
            sizes = [each.pods for each in self.groups if each.around == group.part and each.level == level]
            unit = gcd(*sizes)
            inner = slice(*np.searchsorted(tree.starts[level], (first, end)))
            usable = self.left[level][inner] // unit * unit
            begins = np.searchsorted(tree.starts[level][inner], tree.starts[group.level][low:high])
            holds &= np.add.reduceat(usable, begins) >= sum(sizes)
        return holds

    def _level_around(self, group: _Group) -> int:
        around = self.around.get(group.around)
        return around.level if around else WHOLE_TREE

    def _span(self, group: _Group) -> tuple[int, int]:
        """The domains of the group's level that lie inside the domain of the group around it."""
        tree = self.problem.tree
        starts = tree.starts[group.level]
        for other, domain in zip(self.groups, self.taken, strict=False):
            if other.part == group.around:
                first, end = tree.bounds(other.level, domain)
                return int(np.searchsorted(starts, first)), int(np.searchsorted(starts, end))
        return 0, len(starts)

    def _take(self, group: _Group, domain: int, pods: int) -> None:
        """Charge a domain, and those between it and the domain of the group around, which was charged for it already."""
        tree = self.problem.tree
        first = tree.starts[group.level][domain]
        for level in range(self._level_around(group) + 1, group.level + 1):
            self.left[level][tree.domain_at[level][first]] -= pods

    def carried_out(self) -> tuple[tuple[Spots, ...], ...]:
        """Pods by position: the narrowest domains are filled first, so that wider ones take what is left."""
        problem, tree = self.problem, self.problem.tree
        slots = problem.slots[self.shape].copy()
        placed = [[NOWHERE for _ in problem.slots] for _ in problem.parts]
        domain_of = {group.part: (group.level, domain) for group, domain in zip(self.groups, self.taken, strict=True)}
        home = [self._home(number, domain_of) for number in range(len(problem.parts))]
        preferred = problem.parts[0].preferred
        used = np.zeros(0 if preferred is None else len(tree.starts[preferred]), dtype=np.bool_)
        for number in sorted(range(len(problem.parts)), key=lambda part: -home[part][0]):
            pods = problem.parts[number].pods[self.shape]
            if not pods:
                continue
            level, domain = home[number]
            first, end = tree.bounds(level, domain) if level != WHOLE_TREE else (0, tree.size)
            if preferred is None or level >= preferred:
                counts = fill_nodes(slots[first:end], pods, spread=problem.spread)
            else:
                counts = self._in_touched_domains_first(slots, first, end, pods, used)
            slots[first:end] -= counts
            spots = placed[number][self.shape] = Spots.of(counts, first)
            if preferred is not None:
                used[tree.domain_at[preferred][spots.positions]] = True
        return tuple(tuple(spots) for spots in placed)

    def _home(self, number: int, domain_of: dict[int, tuple[int, int]]) -> tuple[int, int]:
        """The level and domain that a part's own pods are bound to."""
        while number >= 0:
            if number in domain_of:
                return domain_of[number]
            number = self.problem.parts[number].parent
        return WHOLE_TREE, 0

    def _in_touched_domains_first(
        self, slots: Counts, first: int, end: int, pods: int, used: NDArray[np.bool_]
    ) -> Counts:
        """Fill preferred domains that the gang uses anyway; only then others, as few as possible."""
        problem, tree = self.problem, self.problem.tree
        preferred = problem.parts[0].preferred
        assert preferred is not None
        here = np.zeros_like(slots)
        here[first:end] = slots[first:end]
        counts = np.zeros_like(slots)
        inside = np.where(used[tree.domain_at[preferred]], here, 0)
        share = min(pods, int(inside.sum()))
        for wanted, room in ((share, inside), (pods - share, here)):
            if wanted:
                found = place_equal(tree, room - counts if room is here else room, Wish(wanted, preferred=preferred))
                assert found.counts is not None
                counts += found.counts
        return counts[first:end]
