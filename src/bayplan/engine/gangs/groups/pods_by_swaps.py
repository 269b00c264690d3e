"""Pods on nodes by swaps (`swapping.py`): packings of nearly full nodes that best fit misses. A "no" proves nothing."""

from __future__ import annotations

import numpy as np

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups.exhaustive import Amounts, Wanted
from bayplan.engine.gangs.groups.swapping import Places, Swaps
from bayplan.engine.gangs.problem import Problem, Spots

# Measured: pods that have a place on completely full nodes get it within 20 swaps.
MOST_SWAPS = 40


def pods_by_swaps(
    problem: Problem, budget: Budget, first: int, end: int, wanted: Wanted
) -> tuple[Amounts, dict[int, Spots]] | None:
    """What the nodes between two positions have left, and the pods on them by shape; None if no place was found."""
    shapes = [shape for shape, _ in wanted]
    kind = np.repeat(np.arange(len(shapes)), [number for _, number in wanted])
    free, amounts = problem.free[:, first:end], problem.amounts[shapes]
    slots = np.array([problem.slots[shape][first:end] for shape in shapes])
    takes = np.hstack((amounts, np.eye(len(shapes))))[kind]
    room = np.vstack((np.maximum(free, 0.0), slots)).T.astype(np.float64)

    def is_admitted(node: int, pods: Places) -> bool:
        """True if the node's kubelet admits these pods beside each other."""
        counts = np.bincount(kind[pods], minlength=len(shapes)).tolist()
        mix = tuple(sorted((shape, count) for shape, count in zip(shapes, counts, strict=True) if count))
        return problem.mixes is None or len(mix) < 2 or problem.mixes.admits(first + node, mix)

    at = Swaps(takes, room, kind.tolist(), (slots == 0)[kind]).search(budget, MOST_SWAPS, is_admitted)
    if at is None:
        return None
    counts = np.zeros(slots.shape, dtype=np.int64)
    np.add.at(counts, (kind, at), 1)
    spots = {
        shape: Spots(first + here.nonzero()[0], here[here > 0]) for shape, here in zip(shapes, counts, strict=True)
    }
    return free - amounts.T @ counts, spots
