"""Find a place for a whole gang, or prove that there is none. Cheap arguments come first.

1. Equal pods (`equal/equal_pods.py`) are placed by a table over the tree, or else by counting. This is exact about
   whether they fit, and about all goals if the table is small enough. Equal groups of equal pods become segments of one
   gang (`groups/equal_groups.py`) and take the same way.
2. Bounds (`bounds.py`) prove a "no": too few slots in total, or no required domain that holds enough.
3. Narrow domains come first (`closeness.py: close_place`): groups are divided among the closest places of all pods
   (`groups/division.py`), or packed quickly inside one domain after another. A place in the least number of domains is
   the answer.
4. Groups of equal pods are packed depth first (`groups/packing.py`), which is exact about feasibility. Pods of
   different shapes are placed by best fit in several orders (`groups/best_fit.py`). Both are optimal if they meet the
   bound. Where domains are so full that neither finds a place, groups change places until all fit
   (`groups/groups_by_swaps.py`).
5. The rest is an integer program over domains (`exact/program.py`), whose node packing is verified exactly. If the
   whole is too large, it runs on parts of the cluster (`exact/narrowed.py`). Its "no" is a proof.
6. Groups of such an answer are brought together if that costs nothing (`closeness.py`).

Equal groups get their places in the order of ranks. Every step counts its work (`engine/budget.py`), and none reads a
clock, except for the solver's guard (`exact/solver.py`), so an answer does not depend on the load. The answer names the
step that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bayplan.engine.budget import LIMIT_REACHED, Budget, OutOfWork
from bayplan.engine.gangs.bounds import (
    but_gets,
    crowd,
    fewest_wider,
    in_one,
    least_domains,
    shortage,
    slots_at_home,
    slots_text,
)
from bayplan.engine.gangs.closeness import brought_together, close_place, cost_of, quickly, reading
from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import place_equal
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.exact import narrowed
from bayplan.engine.gangs.groups.equal_groups import in_order_of_ranks, segment_layers_of
from bayplan.engine.gangs.objective import Goal
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
    preferred_domains,
)


def search(problem: Problem, budget: Budget, layers: tuple[SegmentLayer, ...] = ()) -> Solution:
    """The best placement that can be found within the budget.

    `layers` are segments of the pods of a gang of equal pods without parts inside.
    """
    if not problem.totals[0]:
        return Solution(Status.OPTIMAL, tuple({} for _ in problem.parts), bound="there is nothing to place")
    if not problem.tree.size:
        return infeasible("no node carries all labels of the topology")
    if len(problem.shapes) == 1:
        segments = layers if _is_one_group(problem) else segment_layers_of(problem)
        if segments is not None:
            budget.spend(500 + problem.tree.size / 20)
            return _of_equal_pods(problem, segments)
    budget.spend(reading(problem))
    impossible = shortage(problem) or crowd(problem)
    if impossible:
        return infeasible(impossible)
    assert not layers, "only gangs of equal pods without groups have segments of their own"
    return in_order_of_ranks(problem, _of_groups(problem, budget))


def _is_one_group(problem: Problem) -> bool:
    """True if only the gang itself has requirements."""
    return all(part.required is None and part.preferred is None for part in problem.parts[1:])


def _of_equal_pods(problem: Problem, layers: tuple[SegmentLayer, ...]) -> Solution:
    gang, shape = problem.parts[0], problem.shapes[0]
    wish = EqualPods(
        pods=problem.totals[0][shape],
        required=gang.required if gang.required is not None else WHOLE_TREE,
        preferred=gang.preferred,
        layers=layers,
        spread=problem.spread,
        running_at=gang.running_at,
        objective=problem.objective,
        roomiest=problem.roomiest,
    )
    found = place_equal(problem.tree, slots_at_home(problem, 0, shape), wish)
    if found.counts is None:
        short = shortage(problem)
        if short:
            return infeasible(short)
        segments = f" in {_segment_word(problem)} of {layers[0].size}" if layers else ""
        level = in_one(problem, wish.required)
        return infeasible(f"the gang needs {slots_text(wish.pods)}{segments}{level}, {but_gets(found.most)}")
    bound, status = "equal pods: counted exactly", Status.OPTIMAL
    if found.unproven or not found.wider_proven:
        unproven = [goal for goal in wish.objective if goal in found.unproven]
        bound = f"equal pods: counted; {_not_proven(unproven, wider=found.wider_proven)}"
        status = Status.FEASIBLE if wish.objective[0] in found.unproven else Status.OPTIMAL
    return Solution(status, _divided(problem, shape, found.counts), bound, wider_proven=found.wider_proven)


def _segment_word(problem: Problem) -> str:
    """What users call the segments of a gang: its groups, or its segments."""
    return "groups" if len(problem.parts) > 1 else "segments"


def _divided(problem: Problem, shape: int, counts: Counts) -> Placed:
    """Pods by position, dealt out to the parts in their order."""
    whole = Spots.of(counts)
    if len(problem.parts) == 1:
        return ({shape: whole},)
    # All at once, and each part a run of it: arrays for each part would cost 20 us.
    reached, ends = whole.counts.cumsum(), np.array([part.pods.get(shape, 0) for part in problem.parts]).cumsum()
    cuts = np.union1d(reached, ends[ends > 0])
    positions = whole.positions[reached.searchsorted(cuts)]
    shares = np.diff(cuts, prepend=0)
    behind = (cuts.searchsorted(ends) + (ends > 0)).tolist()
    return tuple(
        {shape: Spots(positions[first:end], shares[first:end])} if part.pods else {}
        for part, first, end in zip(problem.parts, [0, *behind], behind, strict=False)
    )


def _of_groups(problem: Problem, budget: Budget) -> Solution:
    """Groups, or pods of different shapes; proofs are about their first goal, `fewest-domains` or `closest`."""
    first = problem.objective[0]
    if first is Goal.CLOSEST:
        return _closest(problem, budget)
    solution = _placed_closely(problem, budget)
    if first is not Goal.FEWEST_DOMAINS and solution.found:
        only = "is exact for equal pods in one group only, these were searched by fewest-domains"
        bound = f"{solution.bound}; {first.value} {only}"
        return replace(solution, status=Status.FEASIBLE, bound=bound)
    return solution


def _closest(problem: Problem, budget: Budget) -> Solution:
    """Search inside single domains, from the lowest level up to the first level with a domain that holds all pods."""
    unsure = False
    for_each = budget.left / narrowed.MOST_DOMAINS
    for level, spans, complete in narrowed.from_below(problem):
        inside = [narrowed.inside_of(problem, *span) for span in spans]
        # Where there is too little room for a part, nothing is searched.
        tries = [
            each.moved(_placed_closely(each.problem, budget.at_most(for_each)))
            for each in inside
            if not shortage(each.problem)
        ]
        found = [solution for solution in tries if solution.found]
        if found:
            best = min(found, key=lambda solution: cost_of(problem, solution))
            where = f"all{in_one(problem, level)}"
            if unsure:
                return replace(best, status=Status.FEASIBLE, bound=f"{where}; {_not_proven([Goal.CLOSEST])}")
            return replace(best, status=Status.OPTIMAL, gap=0, bound=f"{where}, and no narrower domain holds them")
        unsure = unsure or not complete or any(solution.status is Status.LIMIT_REACHED for solution in tries)
    solution = _placed_closely(problem, budget)
    if solution.found and unsure:
        bound = f"{solution.bound}; {_not_proven([Goal.CLOSEST])}"
        return replace(solution, status=Status.FEASIBLE, bound=bound)
    return solution


def _placed_closely(problem: Problem, budget: Budget) -> Solution:
    """A place in as few preferred domains as possible, then in few of wider levels, with pods close to each other."""
    least = least_domains(problem)
    solution = close_place(problem, least, budget)
    if solution is None:
        solution = _placed_anywhere(problem, least, budget)
        solution = brought_together(problem, solution, budget)
    else:
        solution = replace(solution, status=Status.OPTIMAL, bound=_bound_text(_how(problem), least))
    if not solution.found or solution.wider_proven or not problem.prefers:
        return solution
    if domain_counts(problem, solution)[1:] == fewest_wider(problem):
        return replace(solution, wider_proven=True)
    return replace(solution, bound=f"{solution.bound}; {_not_proven([], wider=False)}")


def _placed_anywhere(problem: Problem, least: int, budget: Budget) -> Solution:
    """The search for a place in as few preferred domains as possible; nothing has fewer than `least`."""
    quick = quickly(problem, budget)
    if quick.status is Status.INFEASIBLE:
        return quick
    if quick.found and preferred_domains(problem, quick) == least:
        return replace(quick, status=Status.OPTIMAL, bound=_bound_text(_how(problem), least))
    try:
        exact = narrowed.solve(problem, budget, least)
    except OutOfWork:
        exact = Solution(Status.LIMIT_REACHED, bound=LIMIT_REACHED)
    if exact.found:
        least = max(least, preferred_domains(problem, exact) - exact.gap)
    if quick.found and _is_better(problem, quick, exact):
        exact = replace(quick, bound=f"{_how(problem)}; {exact.bound}", gap=preferred_domains(problem, quick))
    return _judged(problem, exact, least)


def _how(problem: Problem) -> str:
    """How a quick answer was found."""
    return "groups packed" if len(problem.shapes) == 1 else "groups placed by best fit"


def _is_better(problem: Problem, quick: Solution, exact: Solution) -> bool:
    if exact.found:
        more = preferred_domains(problem, quick) - preferred_domains(problem, exact)
        # Equally few domains: only a proven answer has minimised the leftover room in them.
        return more < 0 or (more == 0 and exact.status is not Status.OPTIMAL)
    return exact.status is not Status.INFEASIBLE


def _judged(problem: Problem, solution: Solution, least: int) -> Solution:
    """A solution that meets the bound is optimal, no matter which search found it."""
    if solution.status is not Status.FEASIBLE:
        return solution
    gap = min(solution.gap, preferred_domains(problem, solution) - least)
    if gap > 0:
        return replace(solution, gap=gap)
    return replace(solution, status=Status.OPTIMAL, gap=0, bound=_bound_text(solution.bound, least))


def _bound_text(how: str, least: int) -> str:
    return f"{how}; no fewer than {least} preferred domains hold all pods" if least else f"{how}; nothing was preferred"


def _not_proven(goals: Iterable[Goal], *, wider: bool = True) -> str:
    """`not proven to be the best by mean-distance`; also if only `wider` domains are unproven."""
    names = [] if wider else [f"{Goal.FEWEST_DOMAINS.value} of wider levels"]
    return f"not proven to be the best by {' and '.join((*names, *(goal.value for goal in goals)))}"
