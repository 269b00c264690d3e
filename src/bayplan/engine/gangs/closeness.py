"""Groups close together: of the placements in as few domains as possible, one whose pods are near each other.

In a narrow domain, pods are closer and the search is shorter. So the quick searches run inside single domains first,
those with the closest pods before others (`close_place`). If none holds all pods in as few preferred domains as
possible, the whole cluster is searched (`search.py`), and its answer is brought closer (`brought_together`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.gangs.bounds import fewest_wider, shortage
from bayplan.engine.gangs.exact import narrowed, program
from bayplan.engine.gangs.groups.best_fit import best_fit
from bayplan.engine.gangs.groups.division import divided
from bayplan.engine.gangs.groups.gathering import closeness, closest_possible, gathered
from bayplan.engine.gangs.groups.groups_by_swaps import by_swaps
from bayplan.engine.gangs.groups.packing import pack
from bayplan.engine.gangs.problem import WHOLE_TREE, Problem, Solution, Status, domain_counts, preferred_domains

# What may be spent on being closer together: inside narrower domains in all and in each, and on fewer domains of wider
# levels.
WORK_FOR_CLOSER = 200_000
WORK_FOR_A_DOMAIN = 5_000
WORK_FOR_WIDER = 400_000
# Domains that are searched, those first in which pods could be closest.
MOST_CLOSER = 4
# With few nodes it is worth checking whether pods are closer in several domains.
SMALL_TREE = 256
# Bringing groups together takes a share of what the search has taken, and so much in any case.
SHARE_FOR_GATHERING = 0.25
WORK_FOR_GATHERING = 500

Cost = tuple[tuple[int, ...], int]


def cost_of(problem: Problem, solution: Solution) -> Cost:
    """What is minimised: preferred domains, domains of wider levels, and distances."""
    return domain_counts(problem, solution), -closeness(problem, solution.placed)


def reading(problem: Problem) -> float:
    """The work of looking at all parts and shapes once: bounds, sums over domains, orders of groups."""
    shapes = sum(map(len, problem.totals))
    return 30 * shapes + len(problem.shapes) * (20 + problem.tree.size / 200)


def quickly(problem: Problem, budget: Budget) -> Solution:
    """A placement without the exact search: by packing, which can prove a "no", or by best fit if shapes mix."""
    found = pack(problem, budget) if len(problem.shapes) == 1 else best_fit(problem, budget)
    return by_swaps(problem, budget) if found.status is Status.LIMIT_REACHED else found


def close_place(problem: Problem, least: int, budget: Budget) -> Solution | None:
    """A placement in `least` preferred domains with pods close together, if one is found quickly; None if not."""
    few = (least, *fewest_wider(problem))
    best: tuple[Cost, Solution] | None = None
    exact = divided(problem, least, budget)
    if exact is not None:
        solution = Solution(Status.FEASIBLE, exact.placed)
        best = cost_of(problem, solution), solution
        if best[0][0] == few and (exact.proven or problem.tree.size > SMALL_TREE):
            return solution
    try:
        for found, possible in _in_narrow_domains(problem, budget.at_most(_work_for_closer(problem))):
            if found is not None and found.found and preferred_domains(problem, found) == few[0]:
                cost = cost_of(problem, found)
                best = (cost, found) if best is None or cost < best[0] else best
            # Of several shapes the bound is too far away to tell when to stop.
            if best is not None and (best[0] <= (few, -possible) or len(problem.shapes) > 1):
                break
    except OutOfWork:
        pass
    if best is None:
        return None
    return best[1] if best[0][0] == few else brought_together(problem, best[1], budget)


def brought_together(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """The same solution with pods closer together, in no more domains of any level. Proofs stay valid."""
    if not known.found:
        return known
    for closer in (_in_fewer_wider_domains, _divided_anew, _gathered):
        try:
            known = closer(problem, known, budget)
        except OutOfWork:
            break
    return known


def _in_narrow_domains(problem: Problem, budget: Budget) -> Iterator[tuple[Solution | None, int]]:
    """Placements found quickly in single domains or the whole tree, and how close pods can be in the next ones."""
    spans = [span for _, some, _ in narrowed.from_below(problem) for span in some]
    if problem.tree.size <= SMALL_TREE and len(problem.shapes) == 1:
        spans += narrowed.required_domains(problem)
    possible = closest_possible(problem, spans)
    order = sorted(range(len(spans)), key=lambda index: -possible[index])
    for index, following in zip(order[:MOST_CLOSER], [*order[1:], None], strict=False):
        if budget.is_spent:
            return
        inside = narrowed.inside_of(problem, *spans[index])
        each = inside.problem
        budget.spend(reading(each))
        found = None if shortage(each) else quickly(each, budget.at_most(WORK_FOR_A_DOMAIN))
        if found is not None and found.found:
            found = inside.moved(_gathered(each, found, budget))
        yield found, 0 if following is None else possible[following]


def _work_for_closer(problem: Problem) -> float:
    """Enough to try one narrower domain, however many shapes there are: the whole tree would take longer."""
    return max(WORK_FOR_CLOSER, 2 * reading(problem))


def _in_fewer_wider_domains(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """As few preferred domains, in fewer domains of wider levels, if a program finds them."""
    if known.wider_proven or not problem.prefers:
        return known
    counts = domain_counts(problem, known)
    if counts[1:] == fewest_wider(problem):
        return known
    exact = program.solve(problem, budget.at_most(WORK_FOR_WIDER))
    if exact.found and domain_counts(problem, exact) < counts:
        return replace(known, placed=exact.placed)
    return known


def _divided_anew(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """Groups of equal pods as close as they can be if each has as many domains as now."""
    if problem.tree.size > SMALL_TREE:
        return known
    exact = divided(problem, preferred_domains(problem, known), budget, like=known)
    if exact is None:
        return known
    return min(known, replace(known, placed=exact.placed), key=lambda solution: cost_of(problem, solution))


def _gathered(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """Groups closer to each other, without more domains of any level.

    Gangs that are to be spread stay as they are, and those of many shapes.
    """
    if problem.spread or problem.roomiest or len(problem.shapes) > narrowed.MANY_SHAPES:
        return known
    work = max(WORK_FOR_GATHERING, SHARE_FOR_GATHERING * budget.spent)
    level = spanned(problem, known)
    if level == WHOLE_TREE:
        return replace(known, placed=gathered(problem, known.placed, budget.at_most(work)))
    first = next(int(spots.positions[0]) for part in known.placed for spots in part.values())
    inside = narrowed.inside_of(problem, *problem.tree.bounds(level, int(problem.tree.domain_at[level][first])))
    placed = gathered(inside.problem, inside.of(known.placed), budget.at_most(work))
    return inside.moved(replace(known, placed=placed))


def spanned(problem: Problem, solution: Solution) -> int:
    """The lowest level with one domain around all members, running ones included; `WHOLE_TREE` if there is none."""
    ends = [spots.positions[[0, -1]] for part in solution.placed for spots in part.values() if len(spots.positions)]
    ends += [np.array(part.running_at) for part in problem.parts if part.running_at]
    first, last = int(min(each.min() for each in ends)), int(max(each.max() for each in ends))
    return max((level for level, at in enumerate(problem.tree.domain_at) if at[first] == at[last]), default=WHOLE_TREE)
