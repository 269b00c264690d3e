"""Seats: from counts per position to one place for every pod, with its rank, its segment and its path in the tree.

Ranks follow the order of the tree, so that neighbours in rank are neighbours in the network. Where different pods share a node, they
stand in the order in which that node's kubelet admits them (`engine/numa/mixes.py`): seats are taken from first to last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np

from bayplan.cluster.state import pod_key
from bayplan.gangs.model import Gang, Seat
from bayplan.gangs.numbers import Tried
from bayplan.gangs.ranks.parallelism import seated_by_groups


class Seats(Sequence[Seat]):
    """The seats of a decision, built lazily: a gang that keeps waiting is decided on more often than it is seated."""

    def __init__(self, gang: Gang, tried: Tried) -> None:
        self._of = gang, tried
        self._number = tried.outline.pods

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> Seat: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Seat]: ...
    def __getitem__(self, index: int | slice) -> Seat | Sequence[Seat]:
        return self._made[index]

    @cached_property
    def _made(self) -> tuple[Seat, ...]:
        return _seats(*self._of)


def _seats(gang: Gang, tried: Tried) -> tuple[Seat, ...]:
    outline, tree = tried.outline, tried.problem.tree
    paths = tree.paths[tree.node_level]
    ranks = gang.ranks
    size = outline.layers[-1].size if outline.layers else None
    found: list[tuple[Seat, int, int]] = []
    for pods_of, placed in zip(outline.pods_of, tried.solution.placed, strict=True):
        for shape, pods in pods_of.by_shape.items():
            positions = np.repeat(placed[shape].positions, placed[shape].counts).tolist()
            if gang.parallelism:
                positions = seated_by_groups(gang, tree, positions)
            for number, (pod, position) in enumerate(zip(pods, positions, strict=True)):
                key, path = pod_key(pod), paths[position]
                segment = number // size if size else pods_of.segment
                found.append((Seat(key, pods_of.group, path[-1], path, ranks[key], segment), position, shape))
    found.sort(key=lambda each: each[0].rank)
    return tuple(seat for seat, _, _ in (found if tried.mixes is None else _in_order_of_admission(found, tried)))


def _in_order_of_admission(seats: list[tuple[Seat, int, int]], tried: Tried) -> list[tuple[Seat, int, int]]:
    """Pods of different shapes on a node change places with each other, where its kubelet wants them in another order."""
    assert tried.mixes is not None
    on_node: dict[int, list[int]] = {}
    for index, (_, position, _) in enumerate(seats):
        on_node.setdefault(position, []).append(index)
    ordered = list(seats)
    for position, places in on_node.items():
        by_shape: dict[int, list[int]] = {}
        for index in places:
            by_shape.setdefault(seats[index][2], []).append(index)
        if len(by_shape) == 1:
            continue
        counts = tuple(sorted((shape, len(here)) for shape, here in by_shape.items()))
        order = tried.mixes.order(position, counts)
        assert order is not None, "the search has asked for this mix"
        for place, shape in zip(places, order, strict=True):
            ordered[place] = seats[by_shape[shape].pop(0)]
    return ordered
