"""Events that arrived before their node: pods bound to a node that is still unknown, and reports about such a node.

They are kept until the node appears (`cluster/state.py: set_node`), or until a newer event replaces them.
"""

from __future__ import annotations

from collections import defaultdict

from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.kube.wire.core_v1 import Pod


class Orphans:
    """Pods and reports by the node that they wait for."""

    def __init__(self) -> None:
        self.reports: dict[str, TopologyReport] = {}
        self._pods: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._awaited_by: dict[str, str] = {}

    def add(self, key: str, pod: Pod, node: str) -> None:
        """A pod waits for its node."""
        self._pods[node][key] = pod
        self._awaited_by[key] = node

    def drop(self, key: str) -> None:
        """A pod waits no longer, if it did."""
        node = self._awaited_by.pop(key, None)
        if node is not None:
            self._pods.get(node, {}).pop(key, None)

    def pods_for(self, node: str) -> list[Pod]:
        """The pods that waited for a node that is there now; they are no longer kept."""
        return list(self._pods.pop(node, {}).values())
