"""The lightest pods whose removal makes room for a gang, by amounts alone: a bound for every plan, and mostly the plan.

Room comes in bins: a NUMA zone where pods must not span zones, otherwise a node. For each bin all sets of its pods are
tried at once (columns: bins, sets, resources), which gives the least weight for each number of gang members that the
bin is to hold. Bins are independent, so a table over the members that are seated so far combines them exactly.

Whatever else decides (rules between pods, budgets, gangs among the victims) only adds to the weight. So the result is
a lower bound; `gangs/preemption/cheapest.py` branches until it is a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.preemption.victims import PRIORITY_OFFSET

Weights = NDArray[np.int64]
# Above every sum of weights, and far enough below 2^63 that two of them can be added.
TOO_HEAVY = np.int64(1) << 61
# Beyond these, covering is not attempted: sets of one bin, and combinations of members.
MOST_PODS_OF_A_BIN = 12
MOST_STATES = 4_096
# One unit is about a microsecond; an array of a thousand numbers takes about three to go through.
WORK_OF_A_NUMBER = 0.004
WORK_OF_A_BIN = 20


def weight_of(priority: int) -> int:
    """What a victim weighs: its priority as upstream counts it, and of equal sums the fewer victims."""
    return ((priority + PRIORITY_OFFSET) << 10) + 1


@dataclass(frozen=True, slots=True)
class BinPod:
    """A pod that holds something in a bin. One in several bins has a share of its weight in each."""

    key: str
    weight: int
    frees: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bin:
    """A zone or a node: free room and all room by resource, what one member of each class takes, and its pods.

    A class that must not be there has None.
    """

    free: tuple[float, ...]
    total: tuple[float, ...]
    takes: tuple[tuple[float, ...] | None, ...]
    pods: tuple[BinPod, ...]


@dataclass(frozen=True, slots=True)
class Cover:
    """The lightest pods that make room, and what they weigh."""

    weight: int
    pods: frozenset[str]


class TooLarge(Exception):
    """There are too many pods in one bin, or too many combinations of members."""


def lightest_cover(
    bins: Sequence[Bin],
    wanted: tuple[int, ...],
    budget: Budget,
    leaving: Collection[str] = (),
    staying: Collection[str] = (),
) -> Cover | None:
    """The lightest pods whose removal makes room for so many members of each class; None if no pods suffice.

    Pods that are `leaving` weigh nothing, those that are `staying` are not taken.
    """
    if prod(each + 1 for each in wanted) > MOST_STATES:
        raise TooLarge
    here = [_Open.of(each, leaving, staying) for each in bins]
    configurations = _configurations(here, wanted)
    weights, sets = _by_bin(here, configurations, budget)
    chosen = _worth_looking_at(weights, sum(wanted))
    tables = _combine(weights[chosen], configurations, wanted, budget)
    least = int(tables[-1][wanted])
    if least >= TOO_HEAVY:
        return None
    return Cover(least, _read_back(tables, weights, sets, chosen, configurations, here, wanted))


@dataclass(frozen=True, slots=True)
class _Open:
    """A bin with the pods that are undecided; those that leave have left."""

    free: tuple[float, ...]
    total: tuple[float, ...]
    takes: tuple[tuple[float, ...] | None, ...]
    pods: tuple[BinPod, ...]

    @staticmethod
    def of(each: Bin, leaving: Collection[str], staying: Collection[str]) -> _Open:
        free = list(each.free)
        undecided = []
        for pod in each.pods:
            if pod.key in leaving:
                free = [left + freed for left, freed in zip(free, pod.frees, strict=True)]
            elif pod.key not in staying:
                undecided.append(pod)
        if len(undecided) > MOST_PODS_OF_A_BIN:
            raise TooLarge
        return _Open(tuple(free), each.total, each.takes, tuple(undecided))

    def most(self, number: int) -> int:
        """How many members of a class it can hold at most."""
        takes = self.takes[number]
        if takes is None:
            return 0
        room = (
            min(free + sum(pod.frees[index] for pod in self.pods), self.total[index])
            for index, free in enumerate(self.free)
        )
        return max(min((int(left // take) for left, take in zip(room, takes, strict=True) if take), default=0), 0)


def _configurations(bins: Sequence[_Open], wanted: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The combinations of members that one bin can hold; none at all comes first."""
    most = [min(count, max((each.most(number) for each in bins), default=0)) for number, count in enumerate(wanted)]
    if prod(each + 1 for each in most) > MOST_STATES:
        raise TooLarge
    return list(product(*(range(each + 1) for each in most)))


def _by_bin(
    bins: Sequence[_Open], configurations: Sequence[tuple[int, ...]], budget: Budget
) -> tuple[Weights, NDArray[np.intp]]:
    """For each bin and configuration, the least weight and the number of the set that has it."""
    pods = max((len(each.pods) for each in bins), default=0)
    resources = len(bins[0].free) if bins else 0
    size = 1 << pods
    budget.spend(len(bins) * (WORK_OF_A_BIN + size * len(configurations) * (resources + 1) * WORK_OF_A_NUMBER))
    frees = np.zeros((len(bins), pods, resources))
    heavy = np.full((len(bins), pods), TOO_HEAVY >> 4, dtype=np.int64)
    for number, each in enumerate(bins):
        for position, pod in enumerate(each.pods):
            frees[number, position], heavy[number, position] = pod.frees, pod.weight
    members = (np.arange(size)[:, np.newaxis] >> np.arange(pods)) & 1
    free = np.array([each.free for each in bins]).reshape(len(bins), resources)
    total = np.array([each.total for each in bins]).reshape(len(bins), resources)
    room = np.minimum(free[:, np.newaxis] + members @ frees, total[:, np.newaxis])
    weight = heavy @ members.T
    weights = np.full((len(bins), len(configurations)), TOO_HEAVY, dtype=np.int64)
    sets = np.zeros(weights.shape, dtype=np.intp)
    # A class that a bin must not hold takes more than there is.
    takes = np.array([[each or (np.inf,) * resources for each in one.takes] for one in bins])
    for number, configuration in enumerate(configurations):
        held = [index for index, count in enumerate(configuration) if count]
        need = sum((configuration[index] * takes[:, index] for index in held), np.zeros(free.shape))
        suffices = (room >= need[:, np.newaxis]).all(axis=2)
        of_sets = np.where(suffices, weight, TOO_HEAVY)
        sets[:, number] = best = of_sets.argmin(axis=1)
        weights[:, number] = of_sets[np.arange(len(bins)), best]
    weights[weights >= TOO_HEAVY >> 4] = TOO_HEAVY
    return weights, sets


def _worth_looking_at(weights: Weights, members: int) -> NDArray[np.intp]:
    """The bins that a best plan can use: one per member, so for each configuration that many of the lightest."""
    if len(weights) <= 2 * members:
        return np.arange(len(weights))
    lightest = np.argsort(weights, axis=0, kind="stable")[:members]
    return np.unique(lightest)


def _combine(
    weights: Weights, configurations: Sequence[tuple[int, ...]], wanted: tuple[int, ...], budget: Budget
) -> list[Weights]:
    """After each bin, the least weight for every number of seated members."""
    shape = tuple(each + 1 for each in wanted)
    table = np.full(shape, TOO_HEAVY, dtype=np.int64)
    table[(0,) * len(shape)] = 0
    tables = [table]
    budget.spend(len(weights) * (WORK_OF_A_BIN + len(configurations) * (2 + table.size * WORK_OF_A_NUMBER)))
    for of_bin in weights:
        larger = table.copy()
        for number, configuration in enumerate(configurations):
            if number and of_bin[number] < TOO_HEAVY:
                to = larger[tuple(slice(each, None) for each in configuration)]
                source = table[tuple(slice(None, have - each) for have, each in zip(shape, configuration, strict=True))]
                np.minimum(to, source + of_bin[number], out=to)
        table = larger
        tables.append(table)
    return tables


def _read_back(
    tables: Sequence[Weights],
    weights: Weights,
    sets: NDArray[np.intp],
    chosen: NDArray[np.intp],
    configurations: Sequence[tuple[int, ...]],
    bins: Sequence[_Open],
    wanted: tuple[int, ...],
) -> frozenset[str]:
    """The pods of a lightest combination, from the last bin to the first."""
    left, victims = wanted, set()
    for step in range(len(chosen), 0, -1):
        number = int(chosen[step - 1])
        for index, configuration in enumerate(configurations):
            before = tuple(have - each for have, each in zip(left, configuration, strict=True))
            if min(before) < 0:
                continue
            weight = weights[number, index] if any(configuration) else 0
            if tables[step - 1][before] + weight == tables[step][left]:
                members = int(sets[number, index]) if any(configuration) else 0
                victims |= {pod.key for position, pod in enumerate(bins[number].pods) if members >> position & 1}
                left = before
                break
    return frozenset(victims)
