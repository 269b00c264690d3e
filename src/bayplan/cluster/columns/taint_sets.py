"""The sets of taints that nodes have, each under a small number, so that equal ones are judged once.

Autoscalers write moments into taints: over months a cluster sees any number of sets, of which few exist at a time. So a
set goes with the last node that has it, and its number is used again. Number 0 is "no taints".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.wire.core_v1 import Taint

NO_TAINTS = 0
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class TaintSets:
    """Sets by number, and how many nodes have each."""

    def __init__(self) -> None:
        self._sets: list[tuple[Taint, ...]] = [()]
        self._nodes: list[int] = [0]
        self._numbers: dict[tuple[Taint, ...], int] = {(): NO_TAINTS}
        self._free: list[int] = []
        self.soft: Counter[Taint] = Counter()
        """Taints that only lower scores, by the number of sets that have them."""

    def __getitem__(self, number: int) -> tuple[Taint, ...]:
        return self._sets[number]

    def __len__(self) -> int:
        """How many numbers there are, those that are free included."""
        return len(self._sets)

    @property
    def all_empty(self) -> bool:
        """True if no node has a taint."""
        return len(self._sets) - len(self._free) == 1

    def replace(self, before: int, taints: tuple[Taint, ...]) -> int:
        """A node that had one set has another now; the number of that."""
        number = self._numbers.get(taints)
        if number is None:
            number = self._numbers[taints] = self._free.pop() if self._free else self._new_number()
            self._sets[number] = taints
            self.soft.update(_soft(taints))
        self._nodes[number] += 1
        self._nodes[before] -= 1
        if before != NO_TAINTS and not self._nodes[before]:
            del self._numbers[self._sets[before]]
            self.soft -= Counter(_soft(self._sets[before]))
            self._sets[before] = ()
            self._free.append(before)
        return number

    def _new_number(self) -> int:
        self._sets.append(())
        self._nodes.append(0)
        return len(self._sets) - 1

    def judged(self, numbers: NDArray[np.int32], judge: Callable[[tuple[Taint, ...]], int]) -> NDArray[np.int32]:
        """By node, what `judge` says of its set.

        Each set that occurs in `numbers` is judged once, the others are not.
        """
        occurs = np.zeros(len(self._sets), dtype=np.bool_)
        occurs[numbers] = True
        verdicts = np.zeros(len(self._sets), dtype=np.int32)
        for number in np.flatnonzero(occurs).tolist():
            verdicts[number] = judge(self._sets[number])
        of_nodes: NDArray[np.int32] = verdicts[numbers]
        return of_nodes


def _soft(taints: tuple[Taint, ...]) -> list[Taint]:
    return [taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE]
