"""A gang as numbers: nested parts, the pods of each by shape, and the domains that they must share.

The search (`search.py`) knows nothing of Kubernetes: nodes are positions in a tree's order, a shape is a class of equal
pods, and `slots[shape][position]` is how many of them the node's kubelet would admit. Levels are numbers, 0 the widest;
the node is the level below all labels.

Every part with a `required` level has all its pods, also those of inner parts, in one domain of that level. The goals
of the `objective` are preferences: usually few domains at `preferred` levels, then little leftover room in them, then
short distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.objective import USUAL, Objective

Counts = NDArray[np.int64]
Pods = Mapping[int, int]
"""Pods by shape, only shapes of which there are any: a gang may have thousands of them and thousands of parts."""
Mix = tuple[tuple[int, int], ...]
"""How many pods of which shape meet on a node: only shapes that are there, in ascending order."""
WHOLE_TREE = -1


class Status(Enum):
    """How much is known about an answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    LIMIT_REACHED = "limit reached"


# Parts and spots are structs: a gang of 64 groups makes as many of each, and a frozen dataclass takes 2 us to make.
class Part(Struct, frozen=True):
    """A group of pods: its own by shape, and those of parts whose `parent` it is. The gang itself is part 0.

    Parts with the same number in `apart` take different domains of their required level. Running members are at the
    positions `running_at`, and bind a part to the domain `home` of its required level, even if it is closed to others.
    """

    name: str
    parent: int
    pods: Pods
    required: int | None = None
    preferred: int | None = None
    apart: int | None = None
    home: int | None = None
    running_at: tuple[int, ...] = ()


class Mixes(Protocol):
    """What nodes say about several shapes at once, beyond their sums (`engine/numa/mixes.py`)."""

    @property
    def gave_up(self) -> bool:
        """True if a mix counted as refused because there were too many orders to try."""

    def admits(self, position: int, counts: Mix) -> bool:
        """True if a kubelet admits these pods of each shape."""

    def refused(self, position: int, counts: Mix) -> tuple[Mix, Sequence[int]] | None:
        """None if a kubelet admits these pods of each shape; else a smallest mix that it refuses, and where."""


@dataclass(frozen=True)
class Problem:
    """Parts (parents before children) and where pods of each shape fit.

    `amounts[shape]` and `free` are what a pod takes and what each position has, per resource, in total over the node.
    If several shapes meet on a node, both these sums and `mixes` decide; it is None if sums are enough. `spread` and
    `roomiest` are those of `choice.EqualPods`; `resources` are names for messages.
    """

    tree: Tree
    parts: tuple[Part, ...]
    slots: tuple[Counts, ...]
    amounts: NDArray[np.float64]
    free: NDArray[np.float64]
    spread: bool = False
    mixes: Mixes | None = None
    objective: Objective = USUAL
    roomiest: bool = False
    resources: tuple[str, ...] = ()

    @cached_property
    def totals(self) -> tuple[Pods, ...]:
        """Pods of each part by shape, those of the parts inside it included; shapes ascend."""
        totals = [dict(part.pods) for part in self.parts]
        for number in range(len(self.parts) - 1, 0, -1):
            around = totals[self.parts[number].parent]
            for shape, count in totals[number].items():
                around[shape] = around.get(shape, 0) + count
        return tuple([dict(sorted(each.items())) if len(each) > 1 else each for each in totals])

    def with_slots(self, slots: tuple[Counts, ...]) -> Problem:
        """The same gang on nodes with other slots; what does not depend on them is not counted again."""
        other = replace(self, slots=slots)
        other.__dict__.update({name: self.__dict__[name] for name in ("totals", "shapes") if name in self.__dict__})
        return other

    @cached_property
    def shapes(self) -> tuple[int, ...]:
        """The shapes that occur."""
        return tuple(self.totals[0])

    def home(self, number: int) -> tuple[int, int]:
        """The positions to which members that run already bind a part, or one around it; all if there are none."""
        first, end = 0, self.tree.size
        for part in around(self.parts, number) if self._are_homes else ():
            if part.home is not None and part.required is not None:
                low, high = self.tree.bounds(part.required, part.home)
                first, end = max(first, low), min(end, high)
        return first, end

    def closed(self, number: int) -> list[int]:
        """The domains of its level that a part cannot take, because a part that it is kept apart from runs there."""
        part = self.parts[number]
        return [] if part.apart is None or part.home is not None else self._homes_of_sets.get(part.apart, [])

    @cached_property
    def _are_homes(self) -> bool:
        return any(part.home is not None for part in self.parts)

    @cached_property
    def _homes_of_sets(self) -> dict[int, list[int]]:
        """For parts that keep apart from each other, where they run."""
        homes: dict[int, list[int]] = {}
        for part in self.parts:
            if part.apart is not None and part.home is not None:
                homes.setdefault(part.apart, []).append(part.home)
        return homes

    def used(self, number: int) -> list[int]:
        """The domains of a part's preferred level with running members: they cost nothing more."""
        part = self.parts[number]
        if part.preferred is None:
            return []
        return sorted({int(self.tree.domain_at[part.preferred][position]) for position in part.running_at})

    def required(self, number: int) -> int:
        """The lowest level that a part or one around it requires; `WHOLE_TREE` if none does."""
        levels = [part.required for part in around(self.parts, number) if part.required is not None]
        return max(levels, default=WHOLE_TREE)

    @cached_property
    def prefers(self) -> bool:
        """True if any part prefers a level."""
        return any(part.preferred is not None for part in self.parts)

    @cached_property
    def finest_level(self) -> int:
        """The lowest level that any part speaks of; `WHOLE_TREE` if none does."""
        named = [level for part in self.parts for level in (part.required, part.preferred) if level is not None]
        return max(named, default=WHOLE_TREE)


_Value = TypeVar("_Value")


def kept_with_problem(work_out: Callable[[Problem], _Value]) -> Callable[[Problem], _Value]:
    """Compute a value once per problem and store it there: bounds and searches ask for the same."""
    name = work_out.__qualname__

    def found(problem: Problem) -> _Value:
        kept = problem.__dict__
        if name not in kept:
            kept[name] = work_out(problem)
        value: _Value = kept[name]
        return value

    found.__doc__, found.__name__ = work_out.__doc__, name
    return found


class Spots(Struct, frozen=True):
    """Pods by position, only where there are any; positions ascend."""

    positions: NDArray[np.intp]
    counts: Counts

    @classmethod
    def of(cls, counts: Counts, first: int = 0) -> Spots:
        """Those of a run of positions that begins at `first`."""
        used = np.flatnonzero(counts)
        return cls(used + first, counts[used])


NOWHERE = Spots(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64))


Placed = tuple[Mapping[int, Spots], ...]
"""By part where its own pods are, by shape; only shapes of which it has any."""


@dataclass(frozen=True)
class Solution:
    """Where every part's pods go: `placed[part][shape]`.

    `bound` is a sentence: what proves that there is nothing better, or nothing at all. `gap` is by how many preferred
    domains the answer may be worse than the best; `wider_proven` that nothing has as few of them and fewer domains of
    wider levels.
    """

    status: Status
    placed: Placed = ()
    bound: str = ""
    gap: int = 0
    wider_proven: bool = False

    @property
    def found(self) -> bool:
        """True if every pod has a place."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)


def infeasible(bound: str) -> Solution:
    """A "no" with its proof."""
    return Solution(Status.INFEASIBLE, bound=bound)


def domains_used(problem: Problem, solution: Solution, number: int) -> int:
    """The number of domains of its preferred level that a part uses, with its inner parts and running members."""
    preferred = problem.parts[number].preferred
    return 0 if preferred is None else len(domains_at(problem, solution, number, preferred))


def preferred_domains(problem: Problem, solution: Solution) -> int:
    """The preferred domains of all parts that prefer a level."""
    return sum(domains_used(problem, solution, number) for number in range(len(problem.parts)))


def domain_counts(problem: Problem, solution: Solution) -> tuple[int, ...]:
    """What is minimised: preferred domains of all parts, then domains at each wider level, narrow ones first."""
    wider = []
    for level in range(problem.tree.node_level - 1, -1, -1):
        preferring = [number for number, part in enumerate(problem.parts) if level < (part.preferred or 0)]
        wider.append(sum(len(domains_at(problem, solution, number, level)) for number in preferring))
    return (preferred_domains(problem, solution), *wider)


def domains_at(problem: Problem, solution: Solution, number: int, level: int) -> set[int]:
    """The domains of a level with a part's pods, those of its inner parts, and its running members."""
    domain_at = problem.tree.domain_at[level]
    touched = (spots.positions for inner in within(problem.parts, number) for spots in solution.placed[inner].values())
    in_use = (int(domain_at[position]) for position in problem.parts[number].running_at)
    return set(in_use).union(*(domain_at[positions].tolist() for positions in touched))


def around(parts: Sequence[Part], number: int) -> Iterator[Part]:
    """A part and those around it, from inside out."""
    while number >= 0:
        yield parts[number]
        number = parts[number].parent


def within(parts: Sequence[Part], number: int) -> list[int]:
    """A part and all parts inside it."""
    inside = {number}
    for other in range(number + 1, len(parts)):
        if parts[other].parent in inside:
            inside.add(other)
    return sorted(inside)
