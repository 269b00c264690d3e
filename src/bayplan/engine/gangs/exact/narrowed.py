"""The exact search (`program.py`) on the whole problem or, if that takes too long, on promising parts of the cluster.

A program over thousands of nodes that counts domains can need minutes; a yes-or-no question over a few racks needs
little work. So a gang is first tried in a few of the largest preferred domains: an answer that meets the bound is the
best. Otherwise the whole is searched. Without a proof, single required domains follow, the tightest first. Such an
answer is a place, and its gap is its possible distance from the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.exact import program
from bayplan.engine.gangs.exact.solver import OUT_OF_WORK
from bayplan.engine.gangs.groups.groups import share_rows
from bayplan.engine.gangs.problem import (
    WHOLE_TREE,
    Mix,
    Mixes,
    Placed,
    Problem,
    Solution,
    Spots,
    Status,
    preferred_domains,
)

# Required domains that are looked into one by one.
MOST_DOMAINS = 12
# With more shapes than that, only one domain of a level is looked into: each costs what all shapes cost on all nodes.
MANY_SHAPES = 64
# The share of the work that each question about a few preferred domains gets.
SHARE = 1 / 8
INSIDE = "exact inside the domains that were looked into"

Span = tuple[int, int]
"""A domain by its first position and the one behind its last."""


def solve(problem: Problem, budget: Budget, least: int) -> Solution:
    """The best that is found with this much work.

    No answer has fewer domains than `least`, so one that has no more is optimal.
    """
    work = budget.left
    best = Solution(Status.LIMIT_REACHED, bound=OUT_OF_WORK)
    if problem.prefers:
        best = _in_largest_domains(problem, budget, work * SHARE)
        if best.found and preferred_domains(problem, best) == least:
            return best
    whole = program.solve(problem, budget.at_most(work * (1 / 2 if problem.prefers else 3 / 4)))
    if whole.status in (Status.OPTIMAL, Status.INFEASIBLE):
        return whole
    if whole.found:
        least = max(least, preferred_domains(problem, whole) - whole.gap)
    best = _better(problem, whole, best)
    if not best.found and not problem.prefers:
        best = _better(problem, best, _in_largest_domains(problem, budget, work * SHARE))
    for number, span in enumerate(required_domains(problem) if problem.parts[0].required is not None else ()):
        if number == MOST_DOMAINS or budget.is_spent or (best.found and preferred_domains(problem, best) == least):
            break
        inside = inside_of(problem, *span)
        few = _in_largest_domains(inside.problem, budget, work * SHARE / MOST_DOMAINS)
        best = _better(problem, best, inside.moved(few))
        exact = program.solve(inside.problem, budget.at_most(work / MOST_DOMAINS))
        best = _better(problem, best, inside.moved(exact))
    return replace(best, gap=preferred_domains(problem, best) - least) if best.found else best


def _better(problem: Problem, known: Solution, other: Solution) -> Solution:
    """The one with fewer domains. What was found on a part of the cluster proves nothing about the rest."""
    if not other.found or (known.found and preferred_domains(problem, known) <= preferred_domains(problem, other)):
        return known
    return replace(other, status=Status.FEASIBLE, bound=INSIDE, wider_proven=False)


def required_domains(problem: Problem) -> Sequence[Span]:
    """The domains of the required level with enough slots, the tightest first; the whole tree if there is none."""
    level = problem.parts[0].required
    if level is None:
        return [(0, problem.tree.size)]
    every = len(problem.tree.starts[level])
    return [] if level == problem.tree.node_level else _with_enough_slots(problem, level, every)


def from_below(problem: Problem) -> Iterator[tuple[int, Sequence[Span], bool]]:
    """Level, domains of it with enough slots, and whether these are all; for levels below the required one.

    The lowest level comes first. Running members must be in the domain, too.
    """
    required = problem.parts[0].required
    for level in range(problem.tree.node_level, WHOLE_TREE if required is None else required, -1):
        most = MOST_DOMAINS if len(problem.shapes) <= MANY_SHAPES else 1
        spans = _with_enough_slots(problem, level, most + 1)
        yield level, spans[:most], len(spans) <= most


def _with_enough_slots(problem: Problem, level: int, most: int) -> Sequence[Span]:
    """The domains of a level with enough slots for each shape, the tightest first, up to a maximum."""
    tree = problem.tree
    enough = np.ones(len(tree.starts[level]), dtype=np.bool_)
    if problem.parts[0].running_at:
        occupied = np.unique(tree.domain_at[level][list(problem.parts[0].running_at)])
        enough = np.arange(len(enough)) == occupied[0] if len(occupied) == 1 else ~enough
    room = np.zeros(len(enough), dtype=np.int64)
    for shape in problem.shapes:
        sums = tree.sums(problem.slots[shape], level)
        enough &= sums >= problem.totals[0][shape]
        if not enough.any():
            return []
        room += sums
    domains = enough.nonzero()[0]
    tightest_first = domains[room[domains].argsort(kind="stable")[:most]]
    return [tree.bounds(level, domain) for domain in tightest_first.tolist()]


@dataclass(frozen=True)
class NarrowedProblem:
    """A problem over the nodes of one domain, which begins at `first`: as quick as in a cluster of that size."""

    problem: Problem
    first: int

    def moved(self, solution: Solution) -> Solution:
        """A solution translated to the whole tree."""
        placed = tuple(
            {shape: Spots(spots.positions + self.first, spots.counts) for shape, spots in part.items()}
            for part in solution.placed
        )
        return replace(solution, placed=placed)

    def of(self, placed: Placed) -> Placed:
        """Pods of the whole tree, all of which are in this domain, by its positions."""
        return tuple(
            {shape: Spots(spots.positions - self.first, spots.counts) for shape, spots in part.items()}
            for part in placed
        )


def inside_of(problem: Problem, first: int, end: int) -> NarrowedProblem:
    """The problem over the nodes of one domain, in which all members that run are."""
    tree = problem.tree
    if (first, end) == (0, tree.size):
        return NarrowedProblem(problem, 0)
    parts = tuple(
        structs.replace(
            part,
            home=None if part.home is None else part.home - int(tree.domain_at[part.required or 0][first]),
            running_at=tuple(at - first for at in part.running_at),
        )
        if part.running_at
        else part
        for part in problem.parts
    )
    inner = replace(
        problem,
        tree=tree.inside(first, end),
        parts=parts,
        slots=tuple(counts[first:end] for counts in problem.slots),
        free=problem.free[:, first:end],
        mixes=None if problem.mixes is None else _MixesInside(problem.mixes, first, end),
    )
    inner.__dict__.update({name: getattr(problem, name) for name in ("totals", "shapes")})
    share_rows(problem, inner, first, end)
    return NarrowedProblem(inner, first)


@dataclass
class _MixesInside:
    """What the nodes of one domain say about several shapes at once."""

    mixes: Mixes
    first: int
    end: int

    @property
    def gave_up(self) -> bool:
        """True if a mix counted as refused because there were too many orders to try."""
        return self.mixes.gave_up

    def admits(self, position: int, counts: Mix) -> bool:
        """True if a kubelet admits these pods of each shape."""
        return self.mixes.admits(position + self.first, counts)

    def refused(self, position: int, counts: Mix) -> tuple[Mix, Sequence[int]] | None:
        """None if a kubelet admits these pods of each shape; else a smallest mix that it refuses, and where."""
        answer = self.mixes.refused(position + self.first, counts)
        if answer is None:
            return None
        return answer[0], [at - self.first for at in answer[1] if self.first <= at < self.end]


def _in_largest_domains(problem: Problem, budget: Budget, work: float) -> Solution:
    """Whether the gang has a place in the k largest domains of its preferred level, for the smallest such k.

    A gang that prefers none is content with the first few that will do.
    """
    preferred = problem.parts[0].preferred
    level = preferred if preferred is not None else max(problem.tree.node_level - 1, 0)
    sums = np.stack([problem.tree.sums(problem.slots[shape], level) for shape in problem.shapes]).astype(np.float64)
    totals = np.array([[problem.totals[0][shape]] for shape in problem.shapes], dtype=np.float64)
    worth = (np.minimum(sums, totals) / totals).sum(axis=0)
    worth[problem.used(0)] += len(totals)
    order = np.argsort(-worth, kind="stable")
    enough = (np.cumsum(sums[:, order], axis=1) >= totals).all(axis=0)
    best = Solution(Status.LIMIT_REACHED, bound=OUT_OF_WORK)
    if not enough.any():
        return best
    low, high = int(enough.argmax()), len(order)
    number = low + 1
    whether = replace(problem, parts=tuple(structs.replace(part, preferred=None) for part in problem.parts))
    while low < high and not budget.is_spent:
        inside = np.isin(problem.tree.domain_at[level], order[:number])
        found = program.solve(_restricted(whether, inside), budget.at_most(work))
        if found.found:
            best, high = replace(found, status=Status.FEASIBLE, bound=INSIDE, wider_proven=False), number - 1
            number = (low + high + 1) // 2
            if preferred is None:
                break
        else:
            low = number
            number = min(2 * number, high) if not best.found else (low + high + 1) // 2
    return best


def _restricted(problem: Problem, inside: NDArray[np.bool_]) -> Problem:
    """The same gang with slots at some positions only."""
    return problem.with_slots(tuple(np.where(inside, counts, 0) for counts in problem.slots))
