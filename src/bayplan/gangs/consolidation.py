"""Make room for a gang by moving others: which gangs must move, and where, so that all have a place afterwards.

Fragmented room is still room. The input is a gang that does not fit and running gangs that may be moved. The output is the smallest set
of these, by pods, that lets the gang in while each of them finds a new place. None is left without a place: this moves, it does not
evict. All attempts run on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from bayplan.cluster.state import pod_key
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers

# Sets of movable gangs that are thought of, and how many of them are tried, the smallest by pods first.
MOST_SETS = 5000
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
    sets = (chosen for number in range(1, len(movable) + 1) for chosen in combinations(movable, number))
    thought_of = list(islice(sets, MOST_SETS))
    yield from sorted(thought_of, key=lambda chosen: sum(len(each.bound) for each in chosen))[:MOST_TRIES]


def _try(scheduler: GangScheduler, gang: Gang, moving: Sequence[Movable]) -> Consolidation | None:
    state = scheduler.state.copy()
    trial = GangScheduler(state, scheduler.trees.over(state), scheduler.profile, ClassAnswers(state))
    for each in moving:
        for pod in each.bound:
            state.remove_pod(pod_key(pod))
    decisions = []
    for one in (gang, *(each.gang for each in moving)):
        decision = schedule_gang(trial, one)
        if not decision.placed or assume_gang(trial, one, decision) is None:
            return None
        decisions.append(decision)
    return Consolidation(decisions[0], tuple(decisions[1:]))
