"""Make room for a gang by moving running gangs, on a copy of the state: what KAI's consolidation is compared with.

Finds the smallest set of movable gangs, by pods, that lets the gang in while each of them finds a new place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod

# Limits on sets of movable gangs that are considered, and on those that are tried, smallest first.
MOST_SETS = 5000
MOST_TRIES = 200


@dataclass(frozen=True)
class Movable:
    """A running gang as it would be placed again, and its pods as they are bound now."""

    gang: Gang
    bound: tuple[Pod, ...]


@dataclass(frozen=True)
class Consolidation:
    """The decision for the gang, and one for each gang that moves."""

    decision: GangDecision
    moves: tuple[GangDecision, ...]


def consolidate(scheduler: GangScheduler, gang: Gang, movable: Sequence[Movable]) -> Consolidation | None:
    """Return the least movement that lets a gang in; None if no set tried does."""
    for moving in _sets(movable):
        found = _try(scheduler, gang, moving)
        if found is not None:
            return found
    return None


def _sets(movable: Sequence[Movable]) -> Iterator[tuple[Movable, ...]]:
    """Yield sets of gangs by the number of pods that would move."""
    sets = (chosen for number in range(1, len(movable) + 1) for chosen in combinations(movable, number))
    considered = list(islice(sets, MOST_SETS))
    yield from sorted(considered, key=lambda chosen: sum(len(each.bound) for each in chosen))[:MOST_TRIES]


def _try(scheduler: GangScheduler, gang: Gang, moving: Sequence[Movable]) -> Consolidation | None:
    trial = scheduler.without(pod for each in moving for pod in each.bound)
    decisions = []
    for one in (gang, *(each.gang for each in moving)):
        decision = schedule_gang(trial, one)
        if not decision.placed or assume_gang(trial, one, decision) is None:
            return None
        decisions.append(decision)
    return Consolidation(decisions[0], tuple(decisions[1:]))
