"""What a plugin is: a named behaviour that judges or scores all nodes at once and keeps no state of its own.

A filter answers with one small number per node, 0 for "passes"; `cause` turns any other number into words. A score answers
with 0 to 100. `reads_usage` says whether the answer can change when a pod is placed: answers of plugins that only look
at node objects are kept until a node changes. Both are asked for many nodes at once, or, right after a placement, for the one
node that changed; a plugin without a faster way for one node answers through `of_one_node`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Codes, Rows
from bayplan.engine.scores import Scores


class FilterPlugin(Protocol):
    """Says which nodes a pod cannot use."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    @property
    def reads_usage(self) -> bool:
        """True if placing a pod can change the answer."""
        ...

    def applies(self, pod: PodClass) -> bool:
        """False if every node would pass, so that asking can be saved."""
        ...

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """0 for nodes that pass, else a code that `cause` explains; None if all pass."""
        ...

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for a single node."""
        ...

    def cause(self, pod: PodClass, code: int) -> str:
        """What a code means, in the words of an event."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Says how good a node is for a pod, from 0 to 100."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    @property
    def reads_usage(self) -> bool:
        """True if placing a pod can change the answer."""
        ...

    def applies_score(self, pod: PodClass) -> bool:
        """False if every node would get the same score."""
        ...

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """One score per node."""
        ...

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for a single node."""
        ...


def of_one_node(
    answer: Callable[[ClusterState, PodClass, Rows], NDArray[np.integer[Any]] | None],
    state: ClusterState,
    pod: PodClass,
    row: int,
) -> int:
    """What a plugin's answer for many nodes says about one."""
    codes = answer(state, pod, slice(row, row + 1))
    return 0 if codes is None else int(codes[0])
