"""Placements of one gang that were searched apart, compared by its goals."""

from __future__ import annotations

import numpy as np

from bayplan.engine.gangs.closeness import spanned
from bayplan.engine.gangs.groups.gathering import closeness
from bayplan.engine.gangs.objective import Goal
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts, Problem, Solution, domain_counts, domains_at

Measures = tuple[tuple[int, ...], ...]


def by_goals(problem: Problem, solution: Solution) -> Measures:
    """What is minimised, in the order of the gang's goals; the slots are those with which it was searched."""
    return tuple(_measure(problem, solution, goal) for goal in problem.objective)


def _measure(problem: Problem, solution: Solution, goal: Goal) -> tuple[int, ...]:
    match goal:
        case Goal.FEWEST_DOMAINS:
            return domain_counts(problem, solution)
        case Goal.MEAN_DISTANCE:
            return (-closeness(problem, solution.placed),)
        case Goal.FEWEST_NODES:
            return (0 if problem.spread else len(domains_at(problem, solution, 0, problem.tree.node_level)),)
        case Goal.LEAST_LEFTOVER:
            leftover = _leftover(problem, solution)
            return (-leftover if problem.roomiest else leftover,)
        case Goal.CLOSEST:
            return (-spanned(problem, solution),)


def _leftover(problem: Problem, solution: Solution) -> int:
    """Slots in the used domains, of all shapes: the gang takes equally many of them wherever it is."""
    part, tree = problem.parts[0], problem.tree
    level = part.preferred if part.preferred is not None else problem.required(0)
    slots: Counts = np.add.reduce([problem.slots[shape] for shape in problem.shapes])
    if level == WHOLE_TREE:
        return int(slots.sum())
    sums = tree.sums(slots, level)
    return int(sum(sums[domain] for domain in domains_at(problem, solution, 0, level)))
