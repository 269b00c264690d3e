"""Volcano's books: sets of CPUs that are free, and pods that were scheduled but that the node's object does not list
yet.

A node's view is what its object says is free, less what such pods were given. If *any* of them is missing in the
object, *all* of them stay subtracted, those that are listed already as well: the kubelet may have chosen other CPUs for
them. `cluster/reports/ledger.py` is how bayplan does it: one pod at a time, and by amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from bayplan.compat.volcano.numa.machine import Cpus

Sets = Mapping[str, Cpus]
"""Per resource the ids that are free, or taken."""


class PodId(NamedTuple):
    """A pod by all its names. Objects list some pods by their uid alone and others by namespace and name alone."""

    uid: str = ""
    name: str = ""
    namespace: str = ""

    def text(self) -> str:
        """As Volcano writes it where a pod is the key of a map."""
        return msgspec.json.encode(self._asdict()).decode()

    @classmethod
    def of_text(cls, text: str) -> PodId:
        """The opposite of `text`."""
        return cls(**msgspec.json.decode(text, type=dict[str, str]))


@dataclass
class NodeBooks:
    """What one node's object says, and the pods that it might not list yet. `free` is None without an object."""

    free: Sets | None = None
    listed: Collection[PodId] = ()
    unassigned: dict[PodId, Sets] = field(default_factory=dict)

    def refresh(self) -> Sets | None:
        """The free sets as the next session sees them. Pods are forgotten when the object lists every one of them."""
        if self.free is None:
            return None
        if all(is_listed(pod, self.listed) for pod in self.unassigned):
            self.unassigned = {}
        view = dict(self.free)
        for sets in self.unassigned.values():
            view = allocated(view, sets)
        return view

    def copy(self) -> NodeBooks:
        """Books of their own; sets never change, so they are shared."""
        return NodeBooks(None if self.free is None else dict(self.free), tuple(self.listed), dict(self.unassigned))


def is_listed(pod: PodId, listed: Collection[PodId]) -> bool:
    """Whether an object lists a pod: by its uid, or by namespace and name."""
    return any(
        other.uid == pod.uid or (other.name == pod.name and other.namespace == pod.namespace) for other in listed
    )


def allocated(node: Sets, pod: Sets) -> dict[str, Cpus]:
    """A node's sets after a pod took its own; resources that the node does not have are passed over."""
    return _with_each(node, pod, lambda here, there: here - there)


def released(node: Sets, pod: Sets) -> dict[str, Cpus]:
    """A node's sets after a pod gave its own back, no matter which pod owned them before."""
    return _with_each(node, pod, lambda here, there: here | there)


def _with_each(node: Sets, pod: Sets, change: Callable[[Cpus, Cpus], Cpus]) -> dict[str, Cpus]:
    return {name: change(here, pod[name]) if name in pod else here for name, here in node.items()}


def note_unassigned(nodes: Mapping[str, NodeBooks], scheduled: Mapping[str, Mapping[PodId, Sets]]) -> None:
    """The end of a session: pods by node enter the books. Nodes that are gone are passed over."""
    for name, pods in scheduled.items():
        if name in nodes:
            nodes[name].unassigned.update(pods)


def clear_unassigned(nodes: Mapping[str, NodeBooks], pod: PodId, node: str) -> None:
    """A pod ended, or was taken back: its node forgets it.

    The node that the scheduler chose counts before the pod's own.
    """
    if node in nodes:
        nodes[node].unassigned.pop(pod, None)
