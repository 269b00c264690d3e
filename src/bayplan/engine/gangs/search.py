"""Find a place for a whole gang, or prove that there is none. Cheap arguments come first, each only if the one before did not settle it.

1. *Bounds* (`bounds.py`). Too few slots in sum, or no required domain that holds enough: a proof, and the sentence that users read.
2. *Equal pods, one constraint* (`equal_pods.py`): arithmetic, always exact.
3. *Groups of equal pods* (`packing.py`): a depth-first search; exact about whether, and optimal if it meets the bound on domains.
   *Pods of different shapes* (`best_fit.py`): best fit of whole groups into domains, in several orders; optimal if it meets the bound.
4. *The rest* (`program.py`): an integer program over domains, whose node packing is verified exactly, on parts of the cluster (`narrowed.py`) if the whole is too
   large. A "no" of the program is a proof.

Every step counts its work (`budget.py`) and none looks at a clock, so an answer does not depend on how busy the machine is.

Groups are then brought closer together where that costs nothing, and equal ones get their places in the order of ranks (`exchange.py`).

The answer says which of these it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bayplan.engine.budget import LIMIT_REACHED, Budget, OutOfWork
from bayplan.engine.gangs import narrowed, program
from bayplan.engine.gangs.best_fit import best_fit
from bayplan.engine.gangs.bounds import crowd, fewest_domains, in_one, shortage, slots_at_home, slots_text
from bayplan.engine.gangs.choice import Wish
from bayplan.engine.gangs.equal_pods import place_equal
from bayplan.engine.gangs.equal_groups import slices_of
from bayplan.engine.gangs.exchange import in_order_of_ranks
from bayplan.engine.gangs.gathering import gathered
from bayplan.engine.gangs.objective import Goal
from bayplan.engine.gangs.packing import pack
from bayplan.engine.gangs.problem import (
    WHOLE_TREE,
    Counts,
    Placed,
    Problem,
    Solution,
    Spots,
    Status,
    domain_counts,
    infeasible,
    wished_domains,
)
from bayplan.engine.gangs.slices import Layer

# What may be spent on being closer together once there is a place: inside narrower domains, and in fewer domains of wider levels.
WORK_FOR_CLOSER = 200_000
WORK_FOR_A_DOMAIN = 5_000
MOST_CLOSER = 4
WORK_FOR_WIDER = 400_000
# Bringing groups together takes a share of what the search has taken, and so much in any case.
SHARE_FOR_GATHERING = 0.25
WORK_FOR_GATHERING = 2_000
# How a quick answer was found, by whether all pods have one shape.
HOW = {True: "groups packed", False: "groups placed by best fit"}


def search(problem: Problem, budget: Budget, layers: tuple[Layer, ...] = ()) -> Solution:
    """The best placement that can be found in some time. `layers` are slices of the pods of a gang of equal pods without parts inside."""
    if not problem.totals[0]:
        return Solution(Status.OPTIMAL, tuple({} for _ in problem.parts), bound="there is nothing to place")
    if not problem.tree.size:
        return infeasible("no node carries all labels of the topology")
    if len(problem.shapes) == 1:
        slices = layers if _is_one_group(problem) else slices_of(problem)
        if slices is not None:
            budget.spend(500 + problem.tree.size / 20)
            return _of_equal_pods(problem, slices)
    budget.spend(_reading(problem))
    impossible = shortage(problem) or crowd(problem)
    if impossible:
        return infeasible(impossible)
    assert not layers
    return in_order_of_ranks(problem, _of_groups(problem, budget))


def _reading(problem: Problem) -> float:
    """The work of looking at all parts and shapes once: bounds, sums over domains, orders of groups."""
    shapes = sum(map(len, problem.totals))
    return 30 * shapes + len(problem.shapes) * (20 + problem.tree.size / 200)


def _of_groups(problem: Problem, budget: Budget) -> Solution:
    """Groups, or pods of different shapes: what is proven is about their first goal, `fewest-domains` or `closest`."""
    first = problem.objective[0]
    if first is Goal.CLOSEST:
        solution = _closest(problem, budget)
        try:
            return _gathered(problem, solution, budget)
        except OutOfWork:
            return solution
    solution = _in_few_domains(problem, budget)
    for improved in (_brought_closer, _in_fewer_wider_domains, _gathered):
        try:
            solution = improved(problem, solution, budget)
        except OutOfWork:
            break
    solution = _with_wider_levels(problem, solution)
    if first is not Goal.FEWEST_DOMAINS and solution.found:
        bound = f"{solution.bound}; {first.value} is exact for equal pods in one group only, these were searched by fewest-domains"
        return replace(solution, status=Status.FEASIBLE, bound=bound)
    return solution


def _brought_closer(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """The same number of preferred domains inside a narrower domain, if they are found there quickly. What is proven stays proven."""
    if not known.found:
        return known
    budget = budget.at_most(WORK_FOR_CLOSER)
    spanned, domains = _spanned(problem, known), domain_counts(problem, known)
    for level, inside, _ in narrowed.from_below(problem):
        if level <= spanned:
            break
        for each in inside[:MOST_CLOSER]:
            if budget.is_spent:
                return known
            budget.spend(_reading(each))
            closer = infeasible("") if shortage(each) else _quickly(each, budget.at_most(WORK_FOR_A_DOMAIN))
            if closer.found and domain_counts(problem, closer) <= domains:
                return replace(known, placed=closer.placed)
    return known


def _in_fewer_wider_domains(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """As few preferred domains, in fewer domains of wider levels, if a program finds them: what is proven about preferred domains stays proven."""
    if not known.found or known.wider_proven or not problem.prefers:
        return known
    counts = domain_counts(problem, known)
    if counts[1:] == _fewest_wider(problem):
        return known
    exact = program.solve(problem, budget.at_most(WORK_FOR_WIDER))
    if exact.found and domain_counts(problem, exact) < counts:
        return replace(known, placed=exact.placed)
    return known


def _with_wider_levels(problem: Problem, known: Solution) -> Solution:
    """The same answer, which says if fewer domains of wider levels might do."""
    if not known.found or known.wider_proven or not problem.prefers:
        return known
    if domain_counts(problem, known)[1:] == _fewest_wider(problem):
        return replace(known, wider_proven=True)
    return replace(known, bound=f"{known.bound}; {_not_proven([], wider=False)}")


def _gathered(problem: Problem, known: Solution, budget: Budget) -> Solution:
    """Groups closer to each other, without more domains of any level. Gangs that are to be spread stay as they are."""
    if not known.found or problem.spread or problem.roomiest:
        return known
    work = max(WORK_FOR_GATHERING, SHARE_FOR_GATHERING * budget.spent)
    inside = problem
    if problem.objective[0] is Goal.CLOSEST and (level := _spanned(problem, known)) != WHOLE_TREE:
        first = next(int(spots.positions[0]) for part in known.placed for spots in part.values())
        inside = narrowed.restricted(problem, problem.tree.domain_at[level] == problem.tree.domain_at[level][first])
    return replace(known, placed=gathered(inside, known.placed, budget.at_most(work)))


def _fewest_wider(problem: Problem) -> tuple[int, ...]:
    """A bound: of each wider level, narrow ones first, one domain for each part that prefers a narrower one, or those that members stand in."""
    levels = range(problem.tree.node_level - 1, -1, -1)
    return tuple(
        sum(
            max(len({int(problem.tree.domain_at[level][at]) for at in part.standing}), bool(problem.totals[number]))
            for number, part in enumerate(problem.parts)
            if level < (part.preferred or 0)
        )
        for level in levels
    )


def _spanned(problem: Problem, solution: Solution) -> int:
    """The lowest level one domain of which has all members in it, those that run already too; `WHOLE_TREE` if none has."""
    ends = [spots.positions[[0, -1]] for part in solution.placed for spots in part.values() if len(spots.positions)]
    ends += [np.array(part.standing) for part in problem.parts if part.standing]
    first, last = int(min(each.min() for each in ends)), int(max(each.max() for each in ends))
    return max((level for level, at in enumerate(problem.tree.domain_at) if at[first] == at[last]), default=WHOLE_TREE)


def _closest(problem: Problem, budget: Budget) -> Solution:
    """Search inside single domains, from the lowest level up to the first level with a domain that holds all pods."""
    unsure = False
    for_each = budget.left / narrowed.MOST_DOMAINS
    for level, inside, complete in narrowed.from_below(problem):
        # Where there is too little room for a part, nothing is searched.
        tries = [_in_few_domains(each, budget.at_most(for_each)) for each in inside if not shortage(each)]
        found = [solution for solution in tries if solution.found]
        unsure = unsure or not complete or any(solution.status is Status.LIMIT_REACHED for solution in tries)
        if found:
            best = min(found, key=lambda solution: domain_counts(problem, solution))
            where = f"all{in_one(problem, level)}"
            if unsure:
                return replace(best, status=Status.FEASIBLE, bound=f"{where}; {_not_proven([Goal.CLOSEST])}")
            return replace(best, status=Status.OPTIMAL, gap=0, bound=f"{where}, and no narrower domain holds them")
    solution = _in_few_domains(problem, budget)
    if solution.found and unsure:
        bound = f"{solution.bound}; {_not_proven([Goal.CLOSEST])}"
        return replace(solution, status=Status.FEASIBLE, bound=bound)
    return solution


def _in_few_domains(problem: Problem, budget: Budget) -> Solution:
    """The search for a place in as few preferred domains as possible."""
    one_shape = len(problem.shapes) == 1
    least = fewest_domains(problem)
    quick = _quickly(problem, budget)
    if quick.status is Status.INFEASIBLE:
        return quick
    if quick.found and wished_domains(problem, quick) == least:
        return replace(quick, status=Status.OPTIMAL, bound=_bound_text(HOW[one_shape], least))
    try:
        exact = narrowed.solve(problem, budget, least)
    except OutOfWork:
        exact = Solution(Status.LIMIT_REACHED, bound=LIMIT_REACHED)
    if exact.found:
        least = max(least, wished_domains(problem, exact) - exact.gap)
    if quick.found and _is_better(problem, quick, exact):
        exact = replace(quick, bound=f"{HOW[one_shape]}; {exact.bound}", gap=wished_domains(problem, quick))
    return _judged(problem, exact, least)


def _quickly(problem: Problem, budget: Budget) -> Solution:
    """What can be found without the exact search: by packing, which may prove that there is nothing, or where shapes mix by best fit."""
    return pack(problem, budget) if len(problem.shapes) == 1 else best_fit(problem, budget)


def _is_better(problem: Problem, quick: Solution, exact: Solution) -> bool:
    if exact.found:
        more = wished_domains(problem, quick) - wished_domains(problem, exact)
        # Equally few domains: only a proven answer has looked at the room left over in them.
        return more < 0 or (more == 0 and exact.status is not Status.OPTIMAL)
    return exact.status is not Status.INFEASIBLE


def _judged(problem: Problem, solution: Solution, least: int) -> Solution:
    """A solution that meets the bound is optimal, no matter which search found it."""
    if solution.status is not Status.FEASIBLE:
        return solution
    gap = min(solution.gap, wished_domains(problem, solution) - least)
    if gap > 0:
        return replace(solution, gap=gap)
    return replace(solution, status=Status.OPTIMAL, gap=0, bound=_bound_text(solution.bound, least))


def _bound_text(how: str, least: int) -> str:
    return f"{how}; no fewer than {least} preferred domains hold all pods" if least else f"{how}; nothing was preferred"


def _is_one_group(problem: Problem) -> bool:
    """True if only the gang itself asks for anything."""
    return all(part.required is None and part.preferred is None for part in problem.parts[1:])


def _of_equal_pods(problem: Problem, layers: tuple[Layer, ...]) -> Solution:
    gang, shape = problem.parts[0], problem.shapes[0]
    wish = Wish(
        pods=problem.totals[0][shape],
        required=gang.required if gang.required is not None else WHOLE_TREE,
        preferred=gang.preferred,
        layers=layers,
        spread=problem.spread,
        standing=gang.standing,
        objective=problem.objective,
        roomiest=problem.roomiest,
    )
    found = place_equal(problem.tree, slots_at_home(problem, 0, shape), wish)
    if found.counts is None:
        short = shortage(problem)
        if short:
            return infeasible(short)
        slices = f" in {_slice_word(problem)} of {layers[0].size}" if layers else ""
        level = in_one(problem, wish.required)
        return infeasible(f"the gang needs {slots_text(wish.pods)}{slices}{level}, the most there are is {found.most}")
    bound, status = "equal pods: counted exactly", Status.OPTIMAL
    if found.unproven or not found.wider_proven:
        unproven = [goal for goal in wish.objective if goal in found.unproven]
        bound = f"equal pods: counted; {_not_proven(unproven, wider=found.wider_proven)}"
        status = Status.FEASIBLE if wish.objective[0] in found.unproven else Status.OPTIMAL
    return Solution(status, _divided(problem, shape, found.counts), bound, wider_proven=found.wider_proven)


def _slice_word(problem: Problem) -> str:
    """What users call the slices of a gang: its groups, or its segments."""
    return "groups" if len(problem.parts) > 1 else "segments"


def _not_proven(goals: Iterable[Goal], *, wider: bool = True) -> str:
    """`not proven to be the best by mean-distance`; where preferred domains are proven and `wider` ones are not, it says so."""
    names = [] if wider else [f"{Goal.FEWEST_DOMAINS.value} of wider levels"]
    return f"not proven to be the best by {' and '.join((*names, *(goal.value for goal in goals)))}"


def _divided(problem: Problem, shape: int, counts: Counts) -> Placed:
    """Pods by position, dealt out to the parts in their order."""
    whole = Spots.of(counts)
    if len(problem.parts) == 1:
        return ({shape: whole},)
    # Plain Python: there are few positions for each part, and arrays would cost 20 us each.
    left = [[int(at), int(count)] for at, count in zip(whole.positions, whole.counts, strict=True)][::-1]
    placed: list[dict[int, Spots]] = []
    for part in problem.parts:
        missing, positions, shares = part.pods.get(shape, 0), [], []
        while missing:
            share = min(missing, left[-1][1])
            positions.append(left[-1][0])
            shares.append(share)
            missing -= share
            left[-1][1] -= share
            if not left[-1][1]:
                left.pop()
        spots = Spots(np.array(positions, dtype=np.intp), np.array(shares, dtype=np.int64))
        placed.append({shape: spots} if part.pods else {})
    return tuple(placed)
