"""The nodes of one request: names or whole objects, and their rows in the columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.extender_v1 import ExtenderArgs, ExtenderFilterResult, NamedNode, NodeList
from bayplan.services.extender.requests import BadRequest, bad_request

Positions = NDArray[np.intp]
UNKNOWN = -1

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
        if arguments.node_names is not None:
            return cls(state, arguments.node_names)
        if arguments.nodes is None:
            raise BadRequest("NodeNames: is missing, and so is Nodes")
        objects = arguments.nodes.items or []
        names: list[str] = []
        for at, each in enumerate(objects):
            try:
                names.append(_named_node.decode(each).metadata.name)
            except msgspec.ValidationError as error:
                raise bad_request(error, f"Nodes.items[{at}]") from None
        return cls(state, names, objects)

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
