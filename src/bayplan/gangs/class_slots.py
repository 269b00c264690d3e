"""Slots of one class of pods for every node, cached and repaired from the change log like `scheduling/answers.py`.

`refresh` recounts only changed nodes (`engine/slots/slots.py`). Nodes that a filter of the profile refuses have no
slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.needs import NO_VOLUMES
from bayplan.engine.budget import UNLIMITED, Budget, OutOfWork
from bayplan.engine.numa.rows import Rows
from bayplan.engine.slots.in_zones import slots_in_zones
from bayplan.engine.slots.slots import slots
from bayplan.gangs.numa_level import NO_BUNDLE
from bayplan.plugins.volume_binding import volume_slots
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.profile import PASSES, Profile

SlotCounts = NDArray[np.int32]

# The cost of reading a class, asking all filters and counting by amounts: about that of 5,000 nodes.
WORK_OF_A_CLASS = 500
NODES_PER_WORK = 10


class ClassSlots:
    """One class's slots for every row. Without a NUMA plugin in the profile, kubelets' defaults are assumed.

    With a `bundle`, slots count bundles of that many pods that share a NUMA zone.
    """

    def __init__(
        self, state: ClusterState, pod: PodClass, profile: Profile, answer: ClassAnswer, bundle: int = NO_BUNDLE
    ) -> None:
        self._state = state
        self._bundle = bundle
        self._pod = pod
        self._answer = answer
        self._assumptions = profile.assumptions
        self._node_cursor = -1
        self._usage_cursor = -1
        self._counted_to = 0
        self._budget = UNLIMITED
        self._counts: SlotCounts = np.zeros(0, dtype=np.int32)
        self.version = 0
        """Changes whenever a count changes. Most changes of nodes change none."""

    def refresh(self, most: int, budget: Budget = UNLIMITED) -> SlotCounts:
        """Return the slots of every row, at most `most` each.

        The array changes with the next call; copy it to keep it. Raises `OutOfWork` if the budget ends. The next call
        then counts again, with finished replays remembered.
        """
        self._budget = budget
        try:
            self._repair(most)
            if most > self._counted_to:
                # Rows that reached the old limit may have more.
                self._count(np.nonzero(self._counts >= self._counted_to)[0], most)
                self._counted_to = most
        except OutOfWork:
            self._node_cursor = self._usage_cursor = -1
            raise
        return self._counts if most == self._counted_to else np.minimum(self._counts, np.int32(most))

    def _repair(self, most: int) -> None:
        """Recount the changed rows; or all rows after many changes, up to the new limit."""
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
            self._recount(slice(0, size), self._counted_to)
            return
        changed = np.union1d(nodes, usage) if len(nodes) else usage
        if len(changed) == 1:
            self._count_one(int(changed[0]))
        elif len(changed):
            self._count(changed, self._counted_to)

    def _count_one(self, row: int) -> None:
        """Handle the common case: one placement changed one row."""
        passes = self._answer.blocked[row] == PASSES
        rows = slice(row, row + 1)
        count = self._slots(rows, self._counted_to)[0] if passes else 0
        if count != self._counts[row]:
            self._counts[row] = count
            self.version += 1

    def _count(self, rows: Rows, most: int) -> None:
        before = self._counts[rows].copy()
        self._recount(rows, most)
        self.version += int(not np.array_equal(before, self._counts[rows]))

    def _recount(self, rows: Rows, most: int) -> None:
        passing = self._answer.blocked[rows] == PASSES
        if not passing.all():
            self._counts[rows] = 0
            rows = (np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)[passing]
        if passing.any():
            self._counts[rows] = self._slots(rows, most)

    def _slots(self, rows: Rows, most: int) -> SlotCounts:
        counts = slots(self._state, self._pod, self._assumptions, rows, most, self._budget)
        if self._pod.volumes is not NO_VOLUMES:
            with_volumes = volume_slots(self._state, self._pod)
            if with_volumes is not None:
                counts = np.minimum(counts, with_volumes[rows]).astype(np.int32)
        if self._bundle == NO_BUNDLE:
            return counts
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return slots_in_zones(self._state, self._pod, self._assumptions, numbers, counts, self._bundle, self._budget)
