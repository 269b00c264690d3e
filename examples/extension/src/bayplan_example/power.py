"""PowerBudget: keeps pods off nodes whose rack is close to its power limit, and prefers those with the most headroom.

Nodes carry their rack's headroom in watts as a label. A plugin is asked about all nodes at once, so it looks at arrays,
not at nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.api import ArgumentError, ClusterState, Codes, PodClass, Rows, Scores, of_one_node

NAME = "PowerBudget"
LABEL = "example.com/headroom-watts"
TOO_LITTLE = 1


@dataclass(frozen=True)
class PowerBudget:
    """Filter and score by the headroom of a node's rack."""

    least_watts: int = 500
    name: str = NAME
    reads_usage: bool = False  # labels do not change when a pod is placed

    def applies(self, pod: PodClass) -> bool:
        """To every pod."""
        return True

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """0 where a node passes, else a code that `cause` explains."""
        return np.where(_headroom(state, rows) >= self.least_watts, 0, TOO_LITTLE).astype(np.uint8)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """The words of the event."""
        return f"rack has less than {self.least_watts} W of headroom"

    def applies_score(self, pod: PodClass) -> bool:
        """To every pod."""
        return True

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """0 to 100: a kilowatt of headroom is ten points."""
        points: Scores = np.clip(_headroom(state, rows) // 100, 0, 100).astype(np.int32)
        return points

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.scores, state, pod, row)


def _headroom(state: ClusterState, rows: Rows) -> Any:
    """The label as a number, by row; a node without it has none."""
    numbers, is_number = state.labels.whole_numbers(LABEL)
    codes = state.labels.codes(LABEL)[rows]
    return np.where(is_number, numbers, 0)[codes]


def power_budget(arguments: dict[str, Any] | None) -> PowerBudget:
    """Read `pluginConfig` of a KubeSchedulerConfiguration."""
    given = arguments or {}
    unknown = sorted(set(given) - {"leastWatts", "apiVersion", "kind"})
    if unknown:
        raise ArgumentError(f"{unknown[0]}: unknown argument; {NAME} accepts leastWatts")
    least = given.get("leastWatts", PowerBudget.least_watts)
    if type(least) is not int or least < 0:
        raise ArgumentError(f"leastWatts: Invalid value: {least!r}: must be a whole number of watts")
    return PowerBudget(least)
