"""Groups into domains by swaps (`swapping.py`), where best fit and packing find no place: domains that are nearly full.

Whether a domain holds its groups is counted in the capacity rows of `groups.py`, then by packing its nodes.

Of 25 gangs on completely full racks for which the integer program took 0.2 to 2 s each, 23 find a place in 2 to 70 ms.
A "no" proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.carrying_out import carried_out
from bayplan.engine.gangs.groups.groups import DomainGroup, Groups, capacity_rows, groups_of
from bayplan.engine.gangs.groups.nodes import Nodes
from bayplan.engine.gangs.groups.swapping import Places, Swaps
from bayplan.engine.gangs.problem import Problem, Solution, Status

MOST_SWAPS = 1_500
WORK = 400_000
NOT_FOUND = Solution(Status.LIMIT_REACHED, bound="swaps: no place found")


def by_swaps(problem: Problem, budget: Budget) -> Solution:
    """A placement of all groups; `LIMIT_REACHED` if none is found, or if groups are nested or pods bound to none."""
    groups = groups_of(problem)
    inner = [group for group in groups.groups if groups.own[group.part]]
    if len({group.level for group in inner}) != 1 or not _is_flat(problem, groups, inner):
        return NOT_FOUND
    work = budget.at_most(WORK)
    nodes = Nodes(problem, work)
    level, own = inner[0].level, [groups.own[group.part] for group in inner]

    def holds(domain: int, here: Places) -> bool:
        """True if the nodes of a domain hold the pods of these groups."""
        pods: dict[int, int] = {}
        for group in here.tolist():
            for shape, count in own[group].items():
                pods[shape] = pods.get(shape, 0) + count
        bounds = problem.tree.bounds(level, domain)
        return not pods or nodes.packed(*bounds, nodes.largest_first(pods), exhaustively=False).filling is not None

    at = _swaps(problem, groups, inner).search(work, MOST_SWAPS, holds)
    if at is None:
        return NOT_FOUND
    domains = dict.fromkeys((group.part for group in groups.groups if groups.inside[group.part]), 0)
    domains |= {group.part: int(domain) for group, domain in zip(inner, at, strict=True)}
    placed = carried_out(problem, groups, nodes, domains)
    return NOT_FOUND if placed is None else Solution(Status.FEASIBLE, placed)


def _is_flat(problem: Problem, groups: Groups, inner: Sequence[DomainGroup]) -> bool:
    """True if only groups without others inside have pods, and the groups around them have no choice."""
    pods = sum(sum(groups.own[group.part].values()) for group in inner)
    return pods == sum(problem.totals[0].values()) and all(
        len(problem.tree.starts[group.level]) == 1
        and group.apart is None
        and group.home in (None, 0)
        and not group.closed
        and not groups.own[group.part]
        for group in groups.groups
        if groups.inside[group.part]
    )


def _swaps(problem: Problem, groups: Groups, inner: Sequence[DomainGroup]) -> Swaps:
    """Groups as things, domains as bins, and what the capacity rows count."""
    starts = problem.tree.starts[inner[0].level]
    rows = capacity_rows(problem)
    own = [groups.own[group.part] for group in inner]
    # Groups that keep apart share a row of which each domain has one.
    apart = sorted({group.apart for group in inner if group.apart is not None})
    once = np.array([[group.apart == number for number in apart] for group in inner]).reshape(len(inner), -1)
    room = np.add.reduceat(rows.per_node, starts, axis=1).T
    takes = np.hstack((rows.of_each(own), once)).astype(np.float64)
    closed = np.zeros((len(inner), len(starts)), dtype=np.bool_)
    for number, group in enumerate(inner):
        if group.home is not None:
            closed[number] = np.arange(len(starts)) != group.home
        else:
            closed[number, list(group.closed)] = True
    kinds: dict[object, int] = {}
    kind = [
        kinds.setdefault((group.home, *sorted(pods.items())), len(kinds))
        for group, pods in zip(inner, own, strict=True)
    ]
    return Swaps(takes, np.hstack((room, np.ones((len(starts), len(apart))))).astype(np.float64), kind, closed)
