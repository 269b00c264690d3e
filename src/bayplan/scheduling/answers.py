"""Answers cached per pod class and repaired from the change log: a placement costs what changed, not what exists.

A `ClassAnswer` holds, for every node, which filter refuses it and its score. `refresh` asks the plugins again only for
changed rows, or for all rows after many changes. `scheduling/cycle.py` picks the best row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import Admission
from bayplan.engine.numa.rows import Rows, Scores
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Blocked, Profile

NOT_USABLE = -1
# Added to the total score of nodes that a class prefers regardless of scores, which always stay below it.
PREFERRED = 1 << 30
# Up to this many changed rows are judged one by one: 25 us each, and 220 us for any few together.
FEW_ROWS = 5
# A row without a node. No filter reaches this number: 127 filters fit below it.
NO_NODE = np.int16(0x7FFF)


class Answer(Protocol):
    """For every row, which filter refuses it and why (`blocked`), and its `total_score`."""

    blocked: Blocked

    @property
    def total_score(self) -> Scores:
        """The score of each row that passes, else -1."""
        ...

    @property
    def refused_by_replay(self) -> dict[int, Admission]:
        """Rows that pass all filters but that the kubelet's replay refuses."""
        ...

    def refuse(self, row: int, admission: Admission) -> None:
        """Record a replay's refusal: the row is skipped until it changes."""
        ...


def score_in(total_score: int) -> int:
    """Return the weighted scores contained in a total score."""
    return total_score & (PREFERRED - 1)


class ClassAnswer:
    """One class's answer for every row: -1 if it is refused, with `PREFERRED` added if the class prefers the node.

    Nothing is scored before the first access to `total_score`: gangs only ask which nodes pass.
    """

    def __init__(self, state: ClusterState, pod: PodClass, profile: Profile) -> None:
        self.pod = pod
        self._state = state
        self._prefers_reported = profile.topology is not None and profile.topology.prefers_reported(pod)
        self._profile = profile.for_class(pod)
        self._node_cursor = -1
        self._usage_cursor = -1
        self._blocked_by_node: Blocked = np.zeros(0, dtype=np.int16)
        self._score_of_node: Scores = np.zeros(0, dtype=np.int32)
        self.blocked: Blocked = np.zeros(0, dtype=np.int16)
        self.refused_by_replay: dict[int, Admission] = {}
        self._total_score: Scores | None = None

    @property
    def total_score(self) -> Scores:
        """The score of each row that passes, else -1."""
        if self._total_score is None:
            size = len(self.blocked)
            self._score_of_node, self._total_score = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
            try:
                self._score_nodes(slice(0, size))
                self._score_usage(slice(0, size))
            except Exception:
                # A plugin failed: in half an answer every node would look usable.
                self._total_score = None
                raise
            self._total_score[list(self.refused_by_replay)] = NOT_USABLE
        return self._total_score

    def refresh(self) -> ClassAnswer:
        """Bring the answer up to date with the change logs."""
        state = self._state
        node_log, usage_log = state.node_log, state.usage_log
        if self._node_cursor == node_log.end and self._usage_cursor == usage_log.end:
            return self
        nodes, usage = node_log.since(self._node_cursor), usage_log.since(self._usage_cursor)
        size = state.columns.size
        if nodes is None or usage is None or size != len(self.blocked) or 2 * (len(nodes) + len(usage)) > size + 64:
            self._resize(size)
            self.refused_by_replay.clear()
            self._judge_nodes(slice(0, size))
            self._judge_usage(slice(0, size))
        else:
            if len(nodes):
                self._judge_nodes(nodes)
                usage = np.union1d(nodes, usage) if len(usage) else nodes
            for row in usage if self.refused_by_replay else ():
                self.refused_by_replay.pop(int(row), None)
            if len(usage) <= FEW_ROWS:
                for row in usage.tolist():
                    self._judge_usage_of_one(row)
            else:
                self._judge_usage(usage)
        self._node_cursor, self._usage_cursor = node_log.end, usage_log.end
        return self

    def refuse(self, row: int, admission: Admission) -> None:
        """Record a replay's refusal: the row is skipped until it changes."""
        self.refused_by_replay[row] = admission
        self.total_score[row] = NOT_USABLE

    @property
    def blocked_by_node(self) -> Blocked:
        """Refusals by filters that look at node objects alone."""
        return self._blocked_by_node

    def _resize(self, size: int) -> None:
        if size != len(self.blocked):
            self._blocked_by_node = np.zeros(size, dtype=np.int16)
            self.blocked = np.zeros(size, dtype=np.int16)
            self._total_score = None

    def _judge_nodes(self, rows: Rows) -> None:
        blocked = self._profile.blocked_by_node(self._state, rows)
        self._blocked_by_node[rows] = PASSES if blocked is None else blocked
        here = self._state.columns.present[rows]
        if not here.all():
            self._blocked_by_node[rows] = np.where(here, self._blocked_by_node[rows], NO_NODE)
        if self._total_score is not None:
            self._score_nodes(rows)

    def _judge_usage(self, rows: Rows) -> None:
        blocked = self._blocked_by_node[rows]
        by_usage = self._profile.blocked_by_usage(self._state, rows)
        if by_usage is not None:
            blocked = np.where(blocked == PASSES, by_usage, blocked)
        self.blocked[rows] = blocked
        if self._total_score is not None:
            self._score_usage(rows)

    def _score_nodes(self, rows: Rows) -> None:
        self._score_of_node[rows] = self._profile.score_of_node(self._state, rows)

    def _score_usage(self, rows: Rows) -> None:
        score = self._score_of_node[rows] + self._profile.score_of_usage(self._state, rows)
        if self._prefers_reported:
            score = score + np.where(self._state.columns.topology[rows] > NO_TOPOLOGY, np.int32(PREFERRED), np.int32(0))
        self.total_score[rows] = np.where(self.blocked[rows] == PASSES, score, NOT_USABLE)

    def _judge_usage_of_one(self, row: int) -> None:
        """Handle the common case: few placements changed few rows."""
        blocked = int(self._blocked_by_node[row])
        if blocked == PASSES:
            blocked = self._profile.blocked_by_usage_of_one(self._state, row)
        self.blocked[row] = blocked
        if self._total_score is None:
            return
        score = NOT_USABLE
        if blocked == PASSES:
            score = int(self._score_of_node[row]) + self._profile.score_of_usage_of_one(self._state, row)
            if self._prefers_reported and self._state.columns.topology[row] > NO_TOPOLOGY:
                score += PREFERRED
        self._total_score[row] = score


class ClassAnswers:
    """An LRU cache of answers by profile and pod class."""

    def __init__(self, state: ClusterState, most: int = 1024) -> None:
        self._state = state
        self._most = most
        self._answers: dict[tuple[str, PodClass], ClassAnswer] = {}

    def for_class(self, pod: PodClass, profile: Profile) -> ClassAnswer:
        """Return the current answer for a class of pods."""
        key = (profile.name, pod)
        answer = self._answers.pop(key, None) or ClassAnswer(self._state, pod, profile)
        self._answers[key] = answer  # most recently used
        if len(self._answers) > self._most:
            del self._answers[next(iter(self._answers))]
        return answer.refresh()

    def rows_refused_for_zones(self, pod: PodClass, profile: Profile) -> Iterator[int]:
        """Yield the nodes that only the profile's NUMA filter refuses, after all filters before it passed."""
        blocked = self.for_class(pod, profile).blocked
        for position, plugin in enumerate(profile.filters):
            if plugin is profile.topology:
                yield from np.flatnonzero((blocked // CODES_PER_FILTER == position) & (blocked != PASSES)).tolist()
