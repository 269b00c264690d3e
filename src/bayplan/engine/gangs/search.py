"""Find a place for a whole gang, or prove that there is none. Cheap arguments come first, each only if the one before did not settle it.

1. *Bounds.* Too few slots in sum, or no required domain that holds enough: a proof, and the sentence that users read.
2. *Equal pods, one constraint* (`equal_pods.py`): arithmetic, always exact.
3. *Groups of equal pods* (`packing.py`): a depth-first search; exact about whether, and optimal if it meets the bound on domains.
4. *The rest* (`program.py`): HiGHS, within a time limit, on the required domains one after another if the whole is too large.

The answer says which of these it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayplan.engine.gangs import program
from bayplan.engine.gangs.equal_pods import Layer, Wish, place_equal
from bayplan.engine.gangs.packing import pack
from bayplan.engine.gangs.problem import (
    NOWHERE,
    WHOLE_TREE,
    Counts,
    Problem,
    Solution,
    Spots,
    Status,
    domains_used,
    infeasible,
)

# Required domains that an exact search looks into one by one, the tightest first.
MOST_DOMAINS = 12


def search(problem: Problem, layers: tuple[Layer, ...] = (), seconds: float = program.SECONDS) -> Solution:
    """The best placement that can be found. `layers` are slices of the pods of a gang without parts inside."""
    if not any(problem.totals[0]):
        return Solution(Status.OPTIMAL, _nothing(problem), bound="there is nothing to place")
    if not problem.tree.size:
        return infeasible("no node carries all labels of the topology")
    too_little = _shortage(problem)
    if too_little:
        return infeasible(too_little)
    if len(problem.shapes) == 1 and _is_one_group(problem):
        return _of_equal_pods(problem, layers)
    if len(problem.shapes) == 1:
        return _of_groups(problem, seconds)
    return _of_shapes(problem, seconds)


def _nothing(problem: Problem) -> tuple[tuple[Spots, ...], ...]:
    return tuple(tuple(NOWHERE for _ in problem.slots) for _ in problem.parts)


def _shortage(problem: Problem) -> str:
    """A part that no domain of its level holds, counted for each shape alone; an empty text if there is none."""
    for number, part in enumerate(problem.parts):
        level = part.required if part.required is not None else WHOLE_TREE
        for shape in problem.shapes:
            wanted = problem.totals[number][shape]
            room = problem.tree.sums(problem.slots[shape], level) if level != WHOLE_TREE else problem.slots[shape]
            most = int(room.sum() if level == WHOLE_TREE else room.max(initial=0))
            if most < wanted:
                who = f"group {part.name}" if part.name else "the gang"
                return f"{who} needs {wanted} slots{_in_one(problem, level)}, the most there are is {most}"
    return ""


def _in_one(problem: Problem, level: int) -> str:
    if level == WHOLE_TREE:
        return ""
    if level == problem.tree.node_level:
        return " on one node"
    return f" in one {problem.tree.levels[level]}"


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
    )
    found = place_equal(problem.tree, problem.slots[shape], wish)
    if found.counts is None:
        slices = f" in slices of {layers[0].size}" if layers else ""
        level = _in_one(problem, wish.required)
        return infeasible(f"the gang needs {wish.pods} slots{slices}{level}, the most there are is {found.most}")
    return Solution(Status.OPTIMAL, _divided(problem, shape, found.counts), "equal pods: counted exactly")


def _divided(problem: Problem, shape: int, counts: Counts) -> tuple[tuple[Spots, ...], ...]:
    """Pods by position, dealt out to the parts in their order."""
    whole = Spots.of(counts)
    placed = [[NOWHERE for _ in problem.slots] for _ in problem.parts]
    if len(problem.parts) == 1:
        placed[0][shape] = whole
        return tuple(tuple(each) for each in placed)
    reached = np.cumsum(whole.counts)
    taken = 0
    for number, part in enumerate(problem.parts):
        until = taken + part.pods[shape]
        share = np.diff(np.minimum(reached, until) - np.minimum(reached, taken), prepend=0)
        used = np.flatnonzero(share)
        placed[number][shape] = Spots(whole.positions[used], share[used])
        taken = until
    return tuple(tuple(each) for each in placed)


def _of_groups(problem: Problem, seconds: float) -> Solution:
    packed = pack(problem)
    if packed.status is Status.INFEASIBLE:
        return packed
    wishes = [number for number, part in enumerate(problem.parts) if part.preferred is not None]
    if packed.found:
        if not wishes:
            return replace(packed, status=Status.OPTIMAL, bound="groups packed; nothing was preferred")
        used, least = domains_used(problem, packed, 0), _fewest_domains(problem)
        if wishes == [0] and used == least:
            return replace(
                packed, status=Status.OPTIMAL, bound=f"no fewer than {least} preferred domains hold all pods"
            )
    exact = _exact(problem, seconds)
    if exact.found or exact.status is Status.INFEASIBLE or not packed.found:
        return exact
    gap = domains_used(problem, packed, 0) - _fewest_domains(problem)
    return replace(packed, bound=f"groups packed; {exact.bound}", gap=max(gap, 0))


def _of_shapes(problem: Problem, seconds: float) -> Solution:
    return _exact(problem, seconds)


def _fewest_domains(problem: Problem) -> int:
    """A bound: so many preferred domains hold all pods if groups did not matter; 0 if nothing is preferred."""
    gang, shape = problem.parts[0], problem.shapes[0]
    if gang.preferred is None:
        return 0
    required = gang.required if gang.required is not None else WHOLE_TREE
    wish = Wish(problem.totals[0][shape], required, gang.preferred)
    return place_equal(problem.tree, problem.slots[shape], wish).domains


def _exact(problem: Problem, seconds: float) -> Solution:
    """HiGHS on the whole, or on the most promising required domains one after another."""
    whole = program.solve(problem, seconds)
    if whole.found or whole.status is Status.INFEASIBLE:
        return whole
    best = whole
    domains = list(_promising(problem))
    for inside in domains[:MOST_DOMAINS]:
        part = program.solve(inside, seconds / MOST_DOMAINS)
        if part.found and (not best.found or domains_used(problem, part, 0) < domains_used(problem, best, 0)):
            best = replace(part, status=Status.FEASIBLE, bound="exact inside the domains that were looked into")
            if domains_used(problem, best, 0) <= 1:
                break
    return best


def _promising(problem: Problem) -> Iterator[Problem]:
    """The problem restricted to single domains of the gang's required level, those with the least room first."""
    level = problem.parts[0].required
    if level is None or level == problem.tree.node_level:
        return
    sums = {shape: problem.tree.sums(problem.slots[shape], level) for shape in problem.shapes}
    enough = np.logical_and.reduce([sums[shape] >= problem.totals[0][shape] for shape in problem.shapes])
    room = np.add.reduce([sums[shape] for shape in problem.shapes])
    for domain in sorted(np.flatnonzero(enough), key=lambda domain: int(room[domain])):
        first, end = problem.tree.bounds(level, int(domain))
        inside = np.zeros(problem.tree.size, dtype=np.int64)
        inside[first:end] = 1
        yield replace(problem, slots=tuple(counts * inside for counts in problem.slots))
