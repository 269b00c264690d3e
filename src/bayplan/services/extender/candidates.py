"""The nodes of one request: names or whole objects, and their rows in the columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.extender_v1 import ABSENT, ExtenderArgs, ExtenderFilterResult, NamedNode, NodeList
from bayplan.services.extender.requests import BadRequest, decoded

Positions = NDArray[np.intp]
UNKNOWN = -1

_names = msgspec.json.Decoder(list[str])
_named_node = msgspec.json.Decoder(NamedNode)


class Candidates:
    """Nodes in the order of the request. `objects` is None if the request has names only (`nodeCacheCapable: true`)."""

    def __init__(self, state: ClusterState, names: list[str], objects: list[Raw] | None = None) -> None:
        self.names = names
        self.objects = objects
        self.rows: Positions = np.fromiter(map(state.rows.get, names, repeat(UNKNOWN)), dtype=np.intp, count=len(names))

    @classmethod
    def of(cls, state: ClusterState, arguments: ExtenderArgs) -> Candidates:
        """The nodes of a request; raises `BadRequest` if it has none or a malformed one."""
        if arguments.node_names != ABSENT:
            return cls(state, decoded(_names, arguments.node_names, "NodeNames"))
        if arguments.nodes is None:
            raise BadRequest("NodeNames: is missing, and so is Nodes")
        objects = arguments.nodes.items or []
        heads = (decoded(_named_node, each, f"Nodes.items[{at}]") for at, each in enumerate(objects))
        return cls(state, [head.metadata.name for head in heads], objects)

    @property
    def known(self) -> Positions:
        """Positions of nodes that have a row."""
        return np.flatnonzero(self.rows != UNKNOWN)

    def result(
        self, passing: Sequence[int], failed: dict[str, str], unresolvable: dict[str, str]
    ) -> ExtenderFilterResult:
        """The answer in the form of the request."""
        everything = len(passing) == len(self.names)
        if self.objects is None:
            names = self.names if everything else [self.names[position] for position in passing]
            return ExtenderFilterResult(
                node_names=names, failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable
            )
        objects = self.objects if everything else [self.objects[position] for position in passing]
        return ExtenderFilterResult(
            nodes=NodeList(objects), failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable
        )


class RecentCandidates:
    """The candidates of the last request with names: `prioritize` repeats those that `filter` got if all of them
    passed.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._names = b""
        self._version = -1
        self._candidates: Candidates | None = None

    def of(self, arguments: ExtenderArgs) -> Candidates:
        """The nodes of a request; raises `BadRequest` as `Candidates.of` does."""
        if arguments.node_names == ABSENT:
            return Candidates.of(self._state, arguments)
        names, version = bytes(arguments.node_names), self._state.node_log.end
        if self._candidates is None or version != self._version or names != self._names:
            self._candidates = Candidates.of(self._state, arguments)
            self._names, self._version = names, version
        return self._candidates
