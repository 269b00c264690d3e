"""The objective of a gang's placement: goals, and the order in which they count.

    fewest-domains  domains of the preferred level that the gang uses; then those of each wider level
    mean-distance   the mean distance between two members, in edges of the tree
    fewest-nodes    the nodes that the gang uses
    least-leftover  the slots left over in the used domains of the preferred level, else of the required one;
                    for a gang in segments, room for whole segments, then slots
    closest         the largest distance between two members: the lowest common domain, as in Kueue

All are minimised. The order is lexicographic: a later goal decides only between placements that are equal by the ones
before. Goals that a user names come first, the others follow in their usual order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum


class Goal(Enum):
    """A quantity to minimise, by the name that users write."""

    FEWEST_DOMAINS = "fewest-domains"
    MEAN_DISTANCE = "mean-distance"
    FEWEST_NODES = "fewest-nodes"
    LEAST_LEFTOVER = "least-leftover"
    CLOSEST = "closest"


Objective = tuple[Goal, ...]
USUAL: Objective = tuple(Goal)
# What gangs in Kueue's or KAI's words mean by "preferred": one domain, of the lowest level that has one for all.
LOWEST_COMMON_DOMAIN: Objective = (Goal.CLOSEST, *(goal for goal in Goal if goal is not Goal.CLOSEST))


def objective_of(names: Sequence[str]) -> Objective:
    """The order of goals with these names first. Raises `ValueError` if a name is unknown or repeated."""
    known = {goal.value: goal for goal in Goal}
    for number, name in enumerate(names):
        if name not in known:
            raise ValueError(f'"{name}" must be one of {", ".join(known)}')
        if name in names[:number]:
            raise ValueError(f'"{name}" is there twice')
    first = tuple(known[name] for name in names)
    return (*first, *(goal for goal in USUAL if goal not in first))


def in_order(goals: Iterable[Goal]) -> str:
    """`fewest-domains, then mean-distance, then fewest-nodes`."""
    return ", then ".join(goal.value for goal in goals)
