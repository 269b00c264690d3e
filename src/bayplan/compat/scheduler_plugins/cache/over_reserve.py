"""OverReserve: copies of the reports, less what was reserved since, until a newer report proves to show the same pods.

A node is *dirty* when the filter refused it (perhaps only because reservations count in every zone) or when a foreign
pod was bound there; in the second case its copy is hidden altogether. For dirty nodes only, `resync` compares the
fingerprint in the latest report with the pods known on the node. If they agree, the copy is replaced, its reservations
and marks are dropped, and the generation rises. If the kubelet's configuration differs from the copy, the copy is
replaced without any comparison.

As recorded from scheduler-plugins, including its gaps: a report that appears later than the cache is not picked up
automatically, a report that vanishes stays, and a node without pods is never compared. Callers can close the first two
gaps with `learn` and `forget` (`cluster/reports/intake.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bayplan.cluster.pods.request import Amounts, effective_request
from bayplan.cluster.reports.fingerprint import METHOD_EXCLUSIVE, Check, check, published_in
from bayplan.cluster.reports.reported_settings import upstream_settings_of
from bayplan.compat.scheduler_plugins.cache.caches import Reports, TopologyCache
from bayplan.compat.scheduler_plugins.cache.views import (
    DEDICATED,
    Desynced,
    KnownPod,
    View,
    less,
    pods_by_node,
    resource_names,
)
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

AUTODETECT = "Autodetect"
ONLY_EXCLUSIVE = "OnlyExclusiveResources"


class OverReserve(TopologyCache):
    """Copies of all reports that there were at the start, and what was reserved since."""

    def __init__(
        self,
        reports: Reports,
        *,
        resync_method: str = AUTODETECT,
        informer_mode: str = DEDICATED,
        preemption_mode: str = "Disabled",
    ) -> None:
        super().__init__(reports)
        self._resync_method = resync_method
        self._informer_mode = informer_mode
        self._preemption_mode = preemption_mode
        self._generation = 0
        self._copies = dict(reports)
        self._reserved: dict[str, dict[str, Amounts]] = {}
        # By node, the sum of what is reserved, and the copy less that sum as long as nothing changes.
        self._sums: dict[str, Counter[str]] = {}
        self._reduced: dict[str, NodeResourceTopology] = {}
        self._rejected: set[str] = set()
        self._with_foreign_pods: set[str] = set()
        self._configured_otherwise: set[str] = set()

    def view(self, node: str) -> View:
        """The copy minus the reservations; nothing while a foreign pod is not accounted for."""
        if node in self._with_foreign_pods:
            return View(fresh=False, topology=None, generation=self._generation)
        topology = self._copies.get(node)
        if topology is not None and self._reserved.get(node):
            if node not in self._reduced:
                self._reduced[node] = less(topology, self._sums[node])
            topology = self._reduced[node]
        return View(fresh=True, topology=topology, generation=self._generation)

    def reserve(self, node: str, pod: Pod) -> None:
        """Remember what a pod asks for under its name. A node without a copy has nothing to subtract it from."""
        if node in self._copies:
            self.unreserve(node, pod)
            amounts = effective_request(pod).largest_or_sum
            self._reserved.setdefault(node, {})[_name_of(pod)] = amounts
            self._sums.setdefault(node, Counter()).update(amounts)

    def unreserve(self, node: str, pod: Pod) -> None:
        """Forget it again."""
        forgotten = self._reserved.get(node, {}).pop(_name_of(pod), None)
        if forgotten is not None:
            self._sums[node].subtract(forgotten)
        self._reduced.pop(node, None)

    def filter_rejected(self, node: str) -> None:
        """The node is dirty."""
        self._rejected.add(node)

    def foreign_pod(self, node: str) -> None:
        """The node is dirty and hidden, if there is a copy at all."""
        if node in self._copies:
            self._with_foreign_pods.add(node)

    def modified(self, topology: NodeResourceTopology) -> bool:
        """Mark the node if policy, scope or the limit of NUMA nodes differ from the copy's."""
        node = topology.metadata.name
        copy = self._copies.get(node)
        if copy is None or _configuration(copy) == _configuration(topology):
            return False
        self._configured_otherwise.add(node)
        return True

    def learn(self, topology: NodeResourceTopology) -> None:
        """Take in the first report of a node that had none."""
        self._copies.setdefault(topology.metadata.name, topology)

    def forget(self, node: str) -> None:
        """A node's report is gone, and with it everything that was kept about it."""
        self._copies.pop(node, None)
        self._clear(node)

    @property
    def desynced(self) -> Desynced:
        """Dirty nodes, and nodes that are configured otherwise."""
        return Desynced(sorted(self._rejected | self._with_foreign_pods), sorted(self._configured_otherwise))

    def resync(self, pods: Iterable[Pod]) -> list[str]:
        """Replace the copies of dirty nodes whose latest report shows the pods known there, and those configured
        otherwise.
        """
        desynced = self.desynced
        if not desynced.maybe_overreserved and not desynced.config_changed:
            return []
        reported = {node: resource_names(copy) for node, copy in self._copies.items()}
        known = pods_by_node(pods, self._informer_mode, self._preemption_mode, reported)
        agreeing = [node for node in desynced.maybe_overreserved if self._shows(node, known.get(node, []))]
        replaced = sorted({*agreeing, *(node for node in desynced.config_changed if node in self._reports)})
        for node in replaced:
            self._copies[node] = self._reports[node]
            self._clear(node)
        self._generation += bool(replaced)
        return replaced

    def _shows(self, node: str, pods: list[KnownPod]) -> bool:
        """Does a node's latest report show exactly these pods?"""
        latest = self._reports.get(node)
        if latest is None or not pods:
            return False
        published, only_exclusive = fingerprint_in(latest, self._resync_method)
        counted = [(pod.namespace, pod.name) for pod in pods if pod.holds_exclusively or not only_exclusive]
        return check(published, counted) is Check.OK

    def _clear(self, node: str) -> None:
        for kept in (self._reserved, self._sums, self._reduced):
            kept.pop(node, None)
        for marked in (self._rejected, self._with_foreign_pods, self._configured_otherwise):
            marked.discard(node)


def fingerprint_in(topology: NodeResourceTopology, resync_method: str) -> tuple[str, bool]:
    """The fingerprint that a report publishes, and whether it is over pods with exclusive resources only.

    Only Autodetect believes the report about that. A fingerprint in the annotation is over all pods, whatever was
    configured.
    """
    published, method, in_annotation = published_in(topology)
    only_exclusive = resync_method == ONLY_EXCLUSIVE or (resync_method == AUTODETECT and method == METHOD_EXCLUSIVE)
    return published, only_exclusive and not in_annotation


def _configuration(topology: NodeResourceTopology) -> tuple[object, ...]:
    settings = upstream_settings_of(topology)
    return settings.policy, settings.scope, settings.max_numa_nodes


def _name_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace or ''}/{pod.metadata.name}"
