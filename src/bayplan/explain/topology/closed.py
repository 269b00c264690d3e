"""Nodes that take no new pods, grouped by what closes them, in words and as data.

1 node is NotReady: gpu-h100-3
5 nodes are closed by nvidia.com/gpu=present:NoSchedule: gpu-a100-1, gpu-h100-[1-4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.node_status import Closing, Closings
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import count
from bayplan.explain.documents import Document, amounts_document
from bayplan.explain.topology.hostlist import hostlist


@dataclass(frozen=True, slots=True)
class ClosedNodeGroup:
    """Nodes closed by the same, and what pods leave there."""

    by: Closing
    nodes: tuple[str, ...]
    free: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """`5 nodes are closed by nvidia.com/gpu=present:NoSchedule: gpu-a100-1, gpu-h100-[1-4]`."""
        words = ["NotReady"] if self.by.not_ready else []
        words += ["cordoned"] if self.by.cordoned else []
        words += [f"closed by {', '.join(map(taint_text, self.by.taints))}"] if self.by.taints else []
        verb = "is" if len(self.nodes) == 1 else "are"
        return f"{count(len(self.nodes), 'node')} {verb} {' and '.join(words)}: {hostlist(self.nodes)}"


def closed_nodes(
    state: ClusterState, rows: NDArray[np.intp], found: Closings, resources: Sequence[str] = ()
) -> tuple[ClosedNodeGroup, ...]:
    """The closed ones of some nodes, with what is free there of some resources."""
    groups = []
    for number, by in enumerate(found.kinds[1:], 1):
        members = rows[found.numbers == number]
        free = {
            name: int(state.columns.free[state.columns.index_of(name), members].clip(0).sum()) for name in resources
        }
        groups.append(ClosedNodeGroup(by, tuple(state.names[row] for row in members.tolist()), free))
    return tuple(groups)


def closed_document(closed: Sequence[ClosedNodeGroup]) -> list[Document]:
    """The field `closed` of documents."""
    return [
        {
            "causes": list(each.by.causes),
            "nodes": list(each.nodes),
            "free": amounts_document({name: amount for name, amount in each.free.items() if amount}),
        }
        for each in closed
    ]
