"""Plugin interfaces. A plugin filters or scores all nodes at once and keeps no state.

* A filter returns one code per node: 0 passes, and `cause` explains any other code. A score is 0 to 100.
* `reads_usage` says whether placing a pod can change the answer. If not, the answer is kept until a node changes.
* A `ComparingPlugin` scores the remaining nodes against each other.
* A `RelationPlugin` looks at the labels of other pods. It judges each `IncomingPod`, not classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodTerms
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores, count


@runtime_checkable
class FilterPlugin(Protocol):
    """Rejects nodes that a pod cannot use."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    @property
    def reads_usage(self) -> bool:
        """True if placing a pod can change the answer."""
        ...

    def applies(self, pod: PodClass) -> bool:
        """False if every node passes."""
        ...

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return 0 for nodes that pass, else a code for `cause`; None if all pass."""
        ...

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Return the code of a single node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Explain a code in the words of an event."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores nodes from 0 to 100."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    @property
    def reads_usage(self) -> bool:
        """True if placing a pod can change the answer."""
        ...

    def applies_score(self, pod: PodClass) -> bool:
        """False if every node gets the same score."""
        ...

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return one score per node."""
        ...

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Return the score of a single node."""
        return of_one_node(self.scores, state, pod, row)


@runtime_checkable
class ComparingPlugin(Protocol):
    """Scores nodes relative to the other remaining nodes."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """False if all nodes are equal for a class of pods."""
        ...

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return one score for each remaining row, to be added to what `ScorePlugin.scores` gives it."""
        ...


@dataclass(frozen=True, slots=True)
class IncomingPod:
    """A pod to be placed: its terms about other pods, and the labels that their terms match."""

    pod_class: PodClass
    namespace: str
    namespace_labels: Labels
    labels: Labels
    terms: PodTerms

    @property
    def known_by(self) -> tuple[str, Labels, Labels]:
        """What selectors match: the namespace, its labels, and the pod's labels."""
        return self.namespace, self.namespace_labels, self.labels


class RelationPlugin(FilterPlugin, ScorePlugin, ABC):
    """A filter and score by the pods on the nodes. It never applies to a whole class of pods."""

    name: str
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """False for every class."""
        return False

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Pass every node."""
        return None

    def applies_score(self, pod: PodClass) -> bool:
        """False for every class."""
        return False

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return 0 for every node."""
        return np.zeros(count(rows), dtype=np.int32)

    @abstractmethod
    def details(self, state: ClusterState, incoming: IncomingPod, code: int, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Name the terms and pods behind a code of these rows, one sentence each, most relevant first."""

    @abstractmethod
    def refusals_of(self, state: ClusterState, incoming: IncomingPod) -> Codes | None:
        """Return 0 for rows that pass, else a code for `cause`; None if all pass."""

    @abstractmethod
    def scores_of(self, state: ClusterState, incoming: IncomingPod, rows: NDArray[np.intp]) -> Scores | None:
        """Return a score of 0 to 100 for each remaining row; None if all are equal."""


@dataclass(frozen=True, eq=False, slots=True)
class FixedRefusals(FilterPlugin):
    """A relation plugin's codes for one pod, as a filter for any class. Remedies try classes while other pods stay."""

    plugin: FilterPlugin
    codes: Codes
    reads_usage: bool = False

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self.plugin.name

    def applies(self, pod: PodClass) -> bool:
        """True for every class."""
        return True

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return the plugin's codes."""
        return self.codes[rows]

    def cause(self, pod: PodClass, code: int) -> str:
        """Return the plugin's message."""
        return self.plugin.cause(pod, code)


def normalized(scores: Scores) -> Scores:
    """Scale scores so that the largest one becomes 100, in kube-scheduler's integer arithmetic."""
    most = int(scores.max(initial=0))
    return scores if most == 0 else (scores * np.int64(MOST_SCORE) // most).astype(np.int32)


def of_one_node(
    answer: Callable[[ClusterState, PodClass, Rows], NDArray[np.integer[Any]] | None],
    state: ClusterState,
    pod: PodClass,
    row: int,
) -> int:
    """Derive a plugin's answer for one node from its answer for many."""
    codes = answer(state, pod, slice(row, row + 1))
    return 0 if codes is None else int(codes[0])
