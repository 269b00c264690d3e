"""Slots of one class of pods for every node, cached and repaired from the change log, as answers are (`scheduling/answers.py`).

A gang asks for the same class again and again, and between two calls only a few nodes change. `refresh` recounts those
(`engine/slots/slots.py`) and says which they were, so that callers that keep sums over racks can repair these too. Nodes that a filter
of the profile refuses have no slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import UNLIMITED, Budget, OutOfWork
from bayplan.engine.numa.rows import Rows
from bayplan.engine.slots.in_zones import slots_in_zones
from bayplan.engine.slots.slots import slots
from bayplan.gangs.numa_level import NO_UNIT
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.profile import PASSES, Profile

SlotCounts = NDArray[np.int32]

# What it takes to read a class, to ask all filters and to count by amounts: about as much as for 5,000 nodes.
WORK_OF_A_CLASS = 500
NODES_PER_WORK = 10


class ClassSlots:
    """One class's slots for every row. A profile without zones counts by what kubelets do all the same.

    With a `unit`, slots are counted in units of so many pods that share a NUMA zone.
    """

    def __init__(
        self, state: ClusterState, pod: PodClass, profile: Profile, answer: ClassAnswer, unit: int = NO_UNIT
    ) -> None:
        self._state = state
        self._unit = unit
        self._pod = pod
        self._answer = answer
        self._assumptions = profile.topology.arguments.assumptions if profile.topology else Assumptions()
        self._node_cursor = -1
        self._usage_cursor = -1
        self._counted_to = 0
        self._asked_before = 0
        self._budget = UNLIMITED
        self._counts: SlotCounts = np.zeros(0, dtype=np.int32)
        self.version = 0
        """Another number whenever a count has become another: most changes of nodes change none."""

    def refresh(self, most: int, budget: Budget = UNLIMITED) -> tuple[SlotCounts, NDArray[np.intp] | None]:
        """The slots of every row, at most `most` each, and the rows counted since the last call; None stands for all.

        The counts are this object's own and change with the next call: callers that keep them take a copy. If the budget ends, `OutOfWork` is raised, and the
        next call counts again; replays that were finished are remembered.
        """
        self._budget = budget
        try:
            changed = self._repair(most)
            if most > self._counted_to:
                # Rows that reached the old limit may have more.
                self._count(np.nonzero(self._counts >= self._counted_to)[0], most)
                self._counted_to = most
        except OutOfWork:
            self._node_cursor = self._usage_cursor = -1
            raise
        if most != self._asked_before:
            changed = None
        self._asked_before = most
        return (self._counts if most == self._counted_to else np.minimum(self._counts, np.int32(most))), changed

    def _repair(self, most: int) -> NDArray[np.intp] | None:
        """Count the rows that changed, and say which; where all have to be counted, at once as far as is asked now."""
        state = self._state
        node_log, usage_log = state.node_log, state.usage_log
        nodes, usage = node_log.since(self._node_cursor), usage_log.since(self._usage_cursor)
        self._node_cursor, self._usage_cursor = node_log.end, usage_log.end
        self._answer.refresh()
        size = state.columns.size
        if nodes is None or usage is None or size != len(self._counts) or 2 * (len(nodes) + len(usage)) > size + 64:
            self._counts = np.zeros(size, dtype=np.int32)
            self.version += 1
            self._budget.spend(WORK_OF_A_CLASS + size / NODES_PER_WORK)
            self._counted_to = max(self._counted_to, most)
            self._count(slice(0, size), self._counted_to)
            return None
        changed = np.union1d(nodes, usage) if len(nodes) else usage
        if len(changed) == 1:
            self._count_one(int(changed[0]))
        elif len(changed):
            self._count(changed, self._counted_to)
        return changed

    def _count_one(self, row: int) -> None:
        """The common case: one placement since the last question."""
        passes = self._answer.blocked[row] == PASSES
        rows = slice(row, row + 1)
        count = self._slots(rows, self._counted_to)[0] if passes else 0
        if count != self._counts[row]:
            self._counts[row] = count
            self.version += 1

    def _count(self, rows: Rows, most: int) -> None:
        asked, before = rows, self._counts[rows].copy()
        passing = self._answer.blocked[rows] == PASSES
        if not passing.all():
            self._counts[rows] = 0
            rows = (np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)[passing]
        if passing.any():
            self._counts[rows] = self._slots(rows, most)
        self.version += int(not np.array_equal(before, self._counts[asked]))

    def _slots(self, rows: Rows, most: int) -> SlotCounts:
        counts = slots(self._state, self._pod, self._assumptions, rows, most, self._budget)
        if self._unit == NO_UNIT:
            return counts
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return slots_in_zones(self._state, self._pod, self._assumptions, numbers, counts, self._unit, self._budget)
