"""Sets of several zones, for pods that no single zone holds: which size every resource agrees on, which set is taken.

`restricted` admits a set only if it is the smallest possible for each resource. "Possible" is judged by totals. CPUs and each
device resource are judged on their own; memory and huge pages are one question, because the Memory Manager asks for all
its types at once. `engine/numa/admission.py` calls this for the few nodes where one zone is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.numa.subsets import TABLE_ZONES, sets_of_size
from bayplan.engine.numa.wide_nodes import find_feasible_set

ZoneGrid = NDArray[np.float64]
PerNode = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ManagerQuestion:
    """What one manager is asked: for each resource what is left [zone, node] and the amount per node.

    An amount of 0 means that the node does not align the resource. What could be is in `reach` [k, node], the most that k + 1
    zones have in total, if the question is about one resource; else in `totals` [zone, node] of each.
    """

    left: list[ZoneGrid]
    amounts: list[PerNode]
    reach: ZoneGrid | None = None
    totals: list[ZoneGrid] = field(default_factory=list)


def sets_for_all(questions: list[ManagerQuestion]) -> NDArray[np.uint64]:
    """Per node the set of zones that is smallest for every question and free for all of them, as bits; 0 if none is."""
    sizes = _common_smallest_size(questions)
    bits = np.zeros(len(sizes), dtype=np.uint64)
    left = [grid for question in questions for grid in question.left]
    amounts = [amount for question in questions for amount in question.amounts]
    for size in np.unique(sizes[sizes > 1]):
        chosen = np.nonzero(sizes == size)[0]
        here = slice(None) if len(chosen) == len(sizes) else chosen
        bits[here] = _first_set_that_holds(
            int(size), [grid[:, here] for grid in left], [amount[here] for amount in amounts]
        )
    return bits


def _common_smallest_size(questions: list[ManagerQuestion]) -> NDArray[np.int64]:
    """The number of zones whose totals answer a question, if it is the same for every question; else 0."""
    common = np.zeros(len(questions[0].amounts[0]), dtype=np.int64)
    agree = np.ones(len(common), dtype=np.bool_)
    for question in questions:
        size = _smallest_size(question)
        matters = np.logical_or.reduce([amount > 0 for amount in question.amounts])
        agree &= ~matters | ((size > 0) & ((common == 0) | (common == size)))
        common = np.where(matters, size, common)
    return np.where(agree, common, 0)


def _smallest_size(question: ManagerQuestion) -> NDArray[np.int64]:
    """How many zones it takes by totals; 0 if all of them are not enough."""
    if question.reach is not None:
        reached = question.reach >= question.amounts[0]
        return np.where(reached.any(axis=0), reached.argmax(axis=0) + 1, 0)
    zones, nodes = question.totals[0].shape
    smallest = np.zeros(nodes, dtype=np.int64)
    for size in range(1, zones + 1):
        unanswered = np.nonzero(smallest == 0)[0]
        if not len(unanswered):
            break
        held = _first_set_that_holds(
            size, [grid[:, unanswered] for grid in question.totals], [want[unanswered] for want in question.amounts]
        )
        smallest[unanswered[held != 0]] = size
    return smallest


def _first_set_that_holds(size: int, grids: list[ZoneGrid], amounts: list[PerNode]) -> NDArray[np.uint64]:
    """For each node the preferred set of `size` zones that holds every amount, as bits; 0 if there is none."""
    zones, nodes = grids[0].shape
    if zones > TABLE_ZONES:
        wide = [
            find_feasible_set(size, [grid[:, node] for grid in grids], [float(amount[node]) for amount in amounts])
            for node in range(nodes)
        ]
        return np.array(wide, dtype=np.uint64)
    table = sets_of_size(zones, size)
    holds = np.ones((len(table.bits), nodes), dtype=np.bool_)
    for grid, amount in zip(grids, amounts, strict=True):
        holds &= table.members @ grid >= amount
    return np.where(holds.any(axis=0), table.bits[holds.argmax(axis=0)], np.uint64(0))
