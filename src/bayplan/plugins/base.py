"""What a plugin is: a named behaviour that judges or scores all nodes at once and keeps no state of its own.

A filter answers with one small number per node, 0 for "passes"; `cause` turns any other number into words. A score answers
with 0 to 100. `reads_usage` says whether the answer can change when a pod is placed: answers of plugins that only look
at node objects are kept until a node changes. Both are asked for many nodes at once, or, right after a placement, for the one
node that changed; a plugin without a faster way for one node answers through `of_one_node`.

What other pods mean for a pod depends on labels, which are no part of its class. `RelationPlugin` is for that: it says nothing about classes
and judges each `Newcomer` by itself (`scheduling/relations.py` asks it). A `ComparingPlugin` scores the nodes that are left against each other.
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
from bayplan.engine.numa.rows import Codes, Rows, count
from bayplan.engine.numa.scores import Scores


@runtime_checkable
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


@runtime_checkable
class ComparingPlugin(Protocol):
    """Says how good nodes are beside each other: what one is worth depends on who else is left."""

    @property
    def name(self) -> str:
        """The name users write in a scheduler configuration."""
        ...

    def compares(self, pod: PodClass) -> bool:
        """False if it has nothing to say about a class of pods."""
        ...

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """One score, not below 0, for each of the rows that are left."""
        ...


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A pod that looks for a place: what it says about others, and what others know it by."""

    pod_class: PodClass
    namespace: str
    namespace_labels: Labels
    labels: Labels
    terms: PodTerms

    @property
    def known_by(self) -> tuple[str, Labels, Labels]:
        """What a selector looks at: the namespace, its labels, and the pod's own."""
        return self.namespace, self.namespace_labels, self.labels


class RelationPlugin(ABC):
    """A filter and score that looks at the pods on the nodes. To a whole class of pods it has nothing to say."""

    name: str
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """Never to a class."""
        return False

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Refuse no node, whatever the class."""
        return None

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return 0

    def applies_score(self, pod: PodClass) -> bool:
        """Never to a class."""
        return False

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """The same for every node."""
        return np.zeros(count(rows), dtype=np.int32)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for every node."""
        return 0

    @abstractmethod
    def cause(self, pod: PodClass, code: int) -> str:
        """What a code means, in the words of an event."""

    @abstractmethod
    def details(self, state: ClusterState, newcomer: Newcomer, code: int, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Which terms and pods are behind a code that these rows have, one sentence each, the most telling first."""

    @abstractmethod
    def refusals_of(self, state: ClusterState, newcomer: Newcomer) -> Codes | None:
        """For every row 0 if it passes, else a code that `cause` explains; None if all pass."""

    @abstractmethod
    def scores_of(self, state: ClusterState, newcomer: Newcomer, rows: NDArray[np.intp]) -> Scores | None:
        """One score of 0 to 100 for each of the rows that are left; None if they are all alike."""


def of_one_node(
    answer: Callable[[ClusterState, PodClass, Rows], NDArray[np.integer[Any]] | None],
    state: ClusterState,
    pod: PodClass,
    row: int,
) -> int:
    """What a plugin's answer for many nodes says about one."""
    codes = answer(state, pod, slice(row, row + 1))
    return 0 if codes is None else int(codes[0])
