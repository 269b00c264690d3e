"""Groups: the parts of a gang that take a domain of their own, with the pods bound to exactly that domain.

A part takes a domain if it requires a lower level than its surroundings. Pods of other parts are bound to the domain of
the nearest outer group, or else to the whole tree (`WHOLE_GANG`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from msgspec import Struct

from bayplan.engine.gangs.problem import WHOLE_TREE, Counts, Pods, Problem, kept_with_problem

# The group around all groups, which can use the whole tree.
WHOLE_GANG = -1


class DomainGroup(Struct, frozen=True):
    """A part that takes a domain: its number, its outer group, and its level.

    `home` is the only domain that it can take, `closed` are domains that it cannot; groups with the same number in
    `apart` take different ones.
    """

    part: int
    around: int
    level: int
    home: int | None = None
    apart: int | None = None
    closed: Sequence[int] = ()


@dataclass(frozen=True)
class Groups:
    """All groups of a problem, outer ones before those inside, and to which of them each part is bound."""

    problem: Problem
    groups: tuple[DomainGroup, ...]
    bound_by: tuple[int, ...]

    @cached_property
    def by_part(self) -> dict[int, DomainGroup]:
        """Groups by the number of their part."""
        return {group.part: group for group in self.groups}

    @cached_property
    def level_of(self) -> dict[int, int]:
        """The level at which each group takes a domain."""
        return {WHOLE_GANG: WHOLE_TREE} | {group.part: group.level for group in self.groups}

    @cached_property
    def inside(self) -> dict[int, list[DomainGroup]]:
        """The groups directly inside each group."""
        inside: dict[int, list[DomainGroup]] = {group: [] for group in self.level_of}
        for group in self.groups:
            inside[group.around].append(group)
        return inside

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """The parts whose own pods are bound to each group's domain."""
        members: dict[int, list[int]] = {group: [] for group in self.level_of}
        for number, part in enumerate(self.problem.parts):
            if part.pods:
                members[self.bound_by[number]].append(number)
        return members

    @cached_property
    def own(self) -> dict[int, Mapping[int, int]]:
        """By group the pods that are bound to exactly its domain, by shape."""
        return {group: self._pods(parts) for group, parts in self.members.items()}

    def _pods(self, parts: Sequence[int]) -> dict[int, int]:
        pods: dict[int, int] = {}
        for number in parts:
            for shape, count in self.problem.parts[number].pods.items():
                pods[shape] = pods.get(shape, 0) + count
        return pods


@kept_with_problem
def groups_of(problem: Problem) -> Groups:
    """The parts that narrow the domain of their surroundings, parents first."""
    groups: list[DomainGroup] = []
    level_of = {WHOLE_GANG: WHOLE_TREE}
    bound_by: list[int] = []
    for number, part in enumerate(problem.parts):
        around = bound_by[part.parent] if part.parent >= 0 else WHOLE_GANG
        level = part.required if part.required is not None else WHOLE_TREE
        if problem.totals[number] and level > level_of[around]:
            groups.append(DomainGroup(number, around, level, part.home, part.apart, problem.closed(number)))
            level_of[number] = level
            around = number
        bound_by.append(around)
    return Groups(problem, tuple(groups), tuple(bound_by))


# Rows for more sizes of one resource, or for more shapes, cost more than they tell: then the largest sizes have one.
MOST_SIZES = 8
MOST_SHAPES = 8
# A node with more units of a resource, in multiples of what all pods take, has nearly every sum.
MOST_UNITS = 4_096


@dataclass(frozen=True)
class CapacityRows:
    """`per_pod[shape, row]` is what a pod counts in a row; `per_node[row, position]` is the capacity of a node."""

    per_pod: Counts
    per_node: Counts

    def of(self, pods: Pods) -> Counts:
        """What these pods by shape count."""
        rows: Counts = np.array(list(pods.values()), dtype=np.int64) @ self.per_pod[np.array(list(pods), dtype=np.intp)]
        return rows

    def of_each(self, groups: Sequence[Pods]) -> Counts:
        """What the pods of each group count; equal groups are counted once."""
        kinds = [tuple(pods.items()) for pods in groups]
        known = {kind: self.of(pods) for kind, pods in dict(zip(kinds, groups, strict=True)).items()}
        return np.array([known[kind] for kind in kinds])


@kept_with_problem
def capacity_rows(problem: Problem) -> CapacityRows:
    """The rows of a problem; the last ones are about single shapes, if there are few."""
    return _rows(problem, every_shape=len(problem.shapes) <= MOST_SHAPES)


def capacity_rows_of_every_shape(problem: Problem) -> CapacityRows:
    """The rows of a problem; the last ones are about single shapes."""
    return _rows(problem, every_shape=True)


def share_rows(problem: Problem, inner: Problem, first: int, end: int) -> None:
    """Give a problem over the nodes between two positions the rows of the whole, if they are known."""
    rows: CapacityRows | None = problem.__dict__.get(capacity_rows.__name__)
    if rows is not None:
        inner.__dict__[capacity_rows.__name__] = CapacityRows(rows.per_pod, rows.per_node[:, first:end])


def _rows(problem: Problem, *, every_shape: bool) -> CapacityRows:
    shapes = list(problem.shapes)
    pods: list[Counts] = []
    nodes: list[Counts] = []
    for resource in range(problem.free.shape[0]):
        amounts = problem.amounts[:, resource].astype(np.int64)
        used = sorted({int(amount) for amount in amounts[shapes] if amount > 0})
        if not used:
            continue
        free = np.maximum(problem.free[resource], 0.0)
        unit = gcd(*used)
        units = (free // unit).astype(np.int64)
        pods.append(amounts // unit)
        nodes.append(units)
        for size in used[-MOST_SIZES:]:
            if size > unit:
                pods.append(amounts // size)
                nodes.append((free // size).astype(np.int64))
        for number, size in enumerate(used[-MOST_SIZES:]):
            # Sums of multiples of a size say no more than how many of it fit.
            larger = used[-MOST_SIZES:][number:]
            if any(each % size for each in larger) and units.max(initial=0) <= MOST_UNITS:
                pods.append(np.where(amounts >= size, amounts // unit, 0))
                nodes.append(_largest_sums(units, [each // unit for each in larger]))
    if every_shape:
        for shape in shapes:
            pods.append(np.arange(len(problem.slots)) == shape)
            nodes.append(problem.slots[shape])
    return CapacityRows(np.array(pods, dtype=np.int64).T, np.array(nodes))


def _largest_sums(units: Counts, sizes: Sequence[int]) -> Counts:
    """By node the most that pods of these sizes can take of it: of 5 units, pods of 2 and 4 take 4."""
    most = int(units.max(initial=0))
    sums = 1
    for size in sizes:
        step = size
        while step <= most:
            sums |= sums << step
            step *= 2
    bits = np.frombuffer((sums & ((1 << most + 1) - 1)).to_bytes(most // 8 + 1, "little"), dtype=np.uint8)
    possible = np.unpackbits(bits, bitorder="little")[: most + 1]
    largest: Counts = np.maximum.accumulate(np.where(possible, np.arange(most + 1), 0))
    return largest[units]
