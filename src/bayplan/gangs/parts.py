"""Parts of a gang: one with its search result, and how the largest of several is found.

`gangs/plans.py` and `gangs/optional_groups.py` choose which parts are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bayplan.cluster.state import pod_key
from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND
from bayplan.gangs.model import Group, LaterSeat
from bayplan.gangs.outline import Tried
from bayplan.gangs.preferences import preferences_of

# Limit on parts that are tried one by one.
MOST_PARTS = 100
# Where fewer may be harder, how many numbers each step of a bisection tries.
NEIGHBOURS = 8


@dataclass(frozen=True)
class PartOutcome:
    """A part of a gang and its search result; not `is_largest` if a larger part may fit as well.

    `later` are places for members that are still to come.
    """

    part: Group
    tried: Tried
    is_largest: bool = True
    later: Sequence[LaterSeat] = ()

    @property
    def found(self) -> bool:
        """True if this part fits."""
        return self.tried.status in FOUND

    @property
    def status(self) -> Status:
        """The status; never `OPTIMAL` if a larger part may fit."""
        if self.is_largest:
            return self.tried.status
        return Status.FEASIBLE if self.found else Status.LIMIT_REACHED

    def left_out(self, root: Group) -> tuple[str, ...]:
        """Return the pods of the whole gang that are not in this part."""
        if self.part is root:
            return ()
        return tuple(sorted(_names(root) - _names(self.part)))

    def relaxed(self, root: Group) -> tuple[str, ...]:
        """Return the dropped preferences of groups in this part."""
        if self.part is root:
            return ()
        kept = {group.name: group for group in self.part.every_group()}
        preferences = (each for each in preferences_of(root) if each.group in kept)
        return tuple(each.text for each in preferences if not each.is_kept_by(kept[each.group]))


def _names(root: Group) -> set[str]:
    return {pod_key(pod) for group in root.every_group() for pod in group.pods}


def fewest_left_out(
    outcome_of: Callable[[int], PartOutcome], highest: int, budget: Budget, *, is_monotone: bool
) -> PartOutcome:
    """Return what is found for the lowest number of things left out, up to `highest`; if nothing is, the last refusal.

    By bisection if the parts are monotone: a place for one is a place for all with more left out. Otherwise, or if that
    finds nothing because searches reach their limit, one number after another.
    """
    outcome = outcome_of(0)
    if outcome.found or not highest:
        return outcome
    if is_monotone:
        outcome = outcome_of(highest)
        if outcome.tried.status is not Status.INFEASIBLE:
            outcome = _bisected(outcome_of, 1, highest)
        if outcome.tried.status is not Status.LIMIT_REACHED:
            return outcome
    return _one_after_another(outcome_of, highest, budget)


def _one_after_another(outcome_of: Callable[[int], PartOutcome], highest: int, budget: Budget) -> PartOutcome:
    """Try number after number as far as the limit and the budget go, and bisect the rest."""
    outcome = outcome_of(0)
    is_settled = outcome.tried.status is Status.INFEASIBLE
    for number in range(1, highest + 1):
        if number == MOST_PARTS or budget.is_spent:
            return replace(_bisected(outcome_of, number, highest, NEIGHBOURS), is_largest=False)
        outcome = outcome_of(number)
        if outcome.found:
            break
        is_settled &= outcome.tried.status is Status.INFEASIBLE
    return replace(outcome, is_largest=outcome.is_largest and is_settled)


def _bisected(outcome_of: Callable[[int], PartOutcome], low: int, high: int, at_once: int = 1) -> PartOutcome:
    """Return what is found for the lowest number if more left out never harms; else for some number.

    A step tries up to `at_once` numbers: of groups that must be spread over four racks, only every fourth may fit.
    """
    outcome = outcome_of(high)
    while low < high:
        middle = (low + high) // 2
        for number in range(middle, min(middle + at_once, high)):
            larger = outcome_of(number)
            if larger.found:
                outcome, high = larger, number
                break
        else:
            low = min(middle + at_once, high)
    return outcome
