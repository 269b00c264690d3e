"""The interface of a topology report cache, and the two caches that keep no copies: Passthrough and DiscardReserved.

The owner of a cache keeps its `reports` current: the latest report of each node, as the API server has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.compat.scheduler_plugins.cache.views import Desynced, View
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

Reports = Mapping[str, NodeResourceTopology]


class TopologyCache:
    """The base of all caches, and scheduler-plugins' Passthrough: it always shows the latest report."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def view(self, node: str) -> View:
        """Return the node as the filter sees it."""
        return View(fresh=True, topology=self._reports.get(node))

    def reserve(self, node: str, pod: Pod) -> None:
        """The scheduler chose a node for a pod."""

    def unreserve(self, node: str, pod: Pod) -> None:
        """The pod will not be bound to the node."""

    def post_bind(self, node: str, pod: Pod) -> None:
        """The pod was bound to the node."""

    def filter_rejected(self, node: str) -> None:
        """The filter rejected the node, possibly because too much is reserved."""

    def foreign_pod(self, node: str) -> None:
        """A foreign pod on the node was bound, changed or deleted."""

    def modified(self, topology: NodeResourceTopology) -> bool:
        """Handle a changed report; return True if the kubelet configuration differs from the copy."""
        return False

    def learn(self, topology: NodeResourceTopology) -> None:
        """Take in the first report of a node."""

    def forget(self, node: str) -> None:
        """Drop everything known about a node whose report is gone."""

    def resync(self, pods: Iterable[Pod]) -> list[str]:
        """Check the copies that may be wrong; return the nodes whose copy was replaced."""
        return []

    @property
    def desynced(self) -> Desynced:
        """Nodes whose copy may be wrong."""
        return Desynced([], [])


class DiscardReserved(TopologyCache):
    """Hides a node while a pod is in flight to it, from the decision to the bind. Pods are told apart by UID."""

    def __init__(self, reports: Reports) -> None:
        super().__init__(reports)
        self._in_flight: dict[str, set[str]] = {}

    def view(self, node: str) -> View:
        """Return the latest report; not fresh while a pod is in flight."""
        return View(fresh=False, topology=None) if self._in_flight.get(node) else super().view(node)

    def reserve(self, node: str, pod: Pod) -> None:
        """Hide the node."""
        self._in_flight.setdefault(node, set()).add(pod.metadata.uid)

    def unreserve(self, node: str, pod: Pod) -> None:
        """Show the node again once no other pod is in flight."""
        self._in_flight.get(node, set()).discard(pod.metadata.uid)

    def post_bind(self, node: str, pod: Pod) -> None:
        """Show the node again, though the next report may take a while."""
        self.unreserve(node, pod)
