"""Make room for a gang by moving others: who has to move where, so that everybody has a place afterwards.

Fragmented room is room all the same. In come a gang that does not fit and gangs that run and may be moved; out goes the smallest set of
them, by pods, that lets the gang in while each of them finds a new place. Nobody is left without one: this moves, it does not evict.
The state is changed to try things out and is the same again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from bayplan.cluster.state import pod_key
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.gang import Gang, GangDecision
from bayplan.scheduling.gang_cycle import GangScheduler, assume_gang, schedule_gang

# Sets of movable gangs that are tried, the smallest first.
MOST_TRIES = 200


@dataclass(frozen=True)
class Movable:
    """A running gang: in the form in which it would be placed anew, and its pods as they are bound now."""

    gang: Gang
    bound: tuple[Pod, ...]


@dataclass(frozen=True)
class Consolidation:
    """The gang's own decision, and one for each gang that moves."""

    decision: GangDecision
    moves: tuple[GangDecision, ...]


def consolidate(scheduler: GangScheduler, gang: Gang, movable: Sequence[Movable]) -> Consolidation | None:
    """The least movement that lets a gang in; None if none of those tried does."""
    for moving in _sets(movable):
        found = _try(scheduler, gang, moving)
        if found is not None:
            return found
    return None


def _sets(movable: Sequence[Movable]) -> Iterator[tuple[Movable, ...]]:
    """Sets of gangs by the number of pods that would move, as many as may be tried."""
    by_size = sorted(movable, key=lambda each: len(each.bound))
    sets = (chosen for number in range(1, len(by_size) + 1) for chosen in combinations(by_size, number))
    for _, chosen in zip(range(MOST_TRIES), sets, strict=False):
        yield chosen


def _try(scheduler: GangScheduler, gang: Gang, moving: Sequence[Movable]) -> Consolidation | None:
    state = scheduler.state
    for each in moving:
        for pod in each.bound:
            state.remove_pod(pod_key(pod))
    taken: list[str] = []
    try:
        decisions = []
        for one in (gang, *(each.gang for each in moving)):
            decision = schedule_gang(scheduler, one)
            seats = assume_gang(scheduler, one, decision) if decision.placed else None
            if seats is None:
                return None
            taken += [seat.pod for seat in seats]
            # Seats are made when somebody looks, which must be before the state goes back to what it was.
            decisions.append(decision)
            list(decision.seats)
        return Consolidation(decisions[0], tuple(decisions[1:]))
    finally:
        for key in taken:
            state.forget(key)
        for each in moving:
            for pod in each.bound:
                state.set_pod(pod)
