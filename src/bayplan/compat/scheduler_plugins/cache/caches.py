"""The interface of a cache of topology reports, and the two simple caches, which keep no copies.

`reports` are the reports as the API server has them, by node. The owner of the cache keeps that mapping current.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from bayplan.compat.scheduler_plugins.cache.views import Desynced, View
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.topology_v1alpha2 import NodeResourceTopology

Reports = Mapping[str, NodeResourceTopology]


class TopologyCache(Protocol):
    """What happens to a pod and to reports, and what the filter sees of it."""

    def view(self, node: str) -> View:
        """The node as the filter sees it now."""

    def reserve(self, node: str, pod: Pod) -> None:
        """The scheduler has chosen a node for a pod."""

    def unreserve(self, node: str, pod: Pod) -> None:
        """It will not be bound there after all."""

    def post_bind(self, node: str, pod: Pod) -> None:
        """It was bound there."""

    def filter_rejected(self, node: str) -> None:
        """The filter refused the node, perhaps only because too much is reserved."""

    def foreign_pod(self, node: str) -> None:
        """A foreign pod was bound, changed or deleted there."""

    def modified(self, topology: NodeResourceTopology) -> bool:
        """The API server shows another report; True if the node's kubelet is configured otherwise than the copy says."""

    def learn(self, topology: NodeResourceTopology) -> None:
        """Take in the first report of a node that had none."""

    def forget(self, node: str) -> None:
        """A node's report is gone, and with it everything that was kept about it."""

    def resync(self, pods: Iterable[Pod]) -> list[str]:
        """One pass over nodes whose copy may be wrong; returned are the nodes whose copy was replaced."""

    @property
    def desynced(self) -> Desynced:
        """Nodes whose copy may be wrong."""


class Passthrough:
    """The report as it is: nothing is reserved, nothing is kept."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def view(self, node: str) -> View:
        """The latest report."""
        return View(fresh=True, topology=self._reports.get(node))

    def reserve(self, node: str, pod: Pod) -> None:
        """Changes nothing."""

    def unreserve(self, node: str, pod: Pod) -> None:
        """Changes nothing."""

    def post_bind(self, node: str, pod: Pod) -> None:
        """Changes nothing."""

    def filter_rejected(self, node: str) -> None:
        """Changes nothing."""

    def foreign_pod(self, node: str) -> None:
        """Changes nothing."""

    def modified(self, topology: NodeResourceTopology) -> bool:
        """There is no copy that could differ."""
        return False

    def learn(self, topology: NodeResourceTopology) -> None:
        """There are no copies."""

    def forget(self, node: str) -> None:
        """There are no copies."""

    def resync(self, pods: Iterable[Pod]) -> list[str]:
        """There is no copy to replace."""
        return []

    @property
    def desynced(self) -> Desynced:
        """No copies, none wrong."""
        return Desynced([], [])


class DiscardReserved(Passthrough):
    """The report as it is, but no node at all while a pod is on its way there, from the decision to the bind."""

    def __init__(self, reports: Reports) -> None:
        super().__init__(reports)
        self._on_the_way: dict[str, set[str]] = {}

    def view(self, node: str) -> View:
        """Not fresh while a pod is on its way."""
        if self._on_the_way.get(node):
            return View(fresh=False, topology=None)
        return super().view(node)

    def reserve(self, node: str, pod: Pod) -> None:
        """A pod is on its way; pods are told apart by UID."""
        self._on_the_way.setdefault(node, set()).add(pod.metadata.uid)

    def unreserve(self, node: str, pod: Pod) -> None:
        """It is not."""
        self._on_the_way.get(node, set()).discard(pod.metadata.uid)

    def post_bind(self, node: str, pod: Pod) -> None:
        """It has arrived, for all that anybody knows: the next report may be a while away."""
        self.unreserve(node, pod)
