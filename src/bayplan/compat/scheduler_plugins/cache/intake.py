"""Reports through one of scheduler-plugins' caches: the state sees what the cache shows, and keeps no ledger of its
own.

In come the same calls as for a plain `ReportIntake` (`cluster/reports/intake.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from bayplan.cluster.reports.intake import DISCARD_RESERVED, NO_FOREIGN_PODS, OVER_RESERVE, ReportIntake, ReportSettings
from bayplan.cluster.reports.topology_report import read_report
from bayplan.cluster.state import ClusterState
from bayplan.compat.scheduler_plugins.cache.caches import DiscardReserved, TopologyCache
from bayplan.compat.scheduler_plugins.cache.over_reserve import ONLY_EXCLUSIVE, OverReserve
from bayplan.compat.scheduler_plugins.cache.views import is_foreign, resource_names
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology


class CachedIntake(ReportIntake):
    """One of scheduler-plugins' caches stands between the reports and the state.

    Two gaps of the original are closed: a report that appears after the start is taken in, and one that vanishes is
    forgotten.
    """

    def __init__(self, state: ClusterState, settings: ReportSettings, profiles: Collection[str]) -> None:
        super().__init__(state, settings)
        self._settings = settings
        self._profiles = frozenset(profiles)
        self._reports: dict[str, NodeResourceTopology] = {}
        self._hidden: set[str] = set()
        self._unreadable: set[str] = set()
        self.cache = self._new_cache()
        state.promises.keeps_ledger = False

    def _new_cache(self) -> TopologyCache:
        settings = self._settings
        if settings.accounting == DISCARD_RESERVED:
            return DiscardReserved(self._reports)
        return OverReserve(
            self._reports,
            resync_method=settings.resync_method,
            informer_mode=settings.informer_mode,
            preemption_mode=settings.preemption_mode,
        )

    def topology(self, topology: NodeResourceTopology, now: float) -> None:
        """The first report of a node is taken in at once, later ones when the cache says so."""
        read_report(topology)
        node = topology.metadata.name
        self._unreadable.discard(node)
        self._reports[node] = topology
        self.cache.learn(topology)
        if self._settings.follows_configuration:
            self.cache.modified(topology)
        self._show(node)

    def topology_unreadable(self, node: str, now: float) -> None:
        """Nothing is known of the node until a better report comes."""
        self.topology_gone(node)
        self._unreadable.add(node)
        self._show(node)

    def topology_gone(self, node: str) -> None:
        """Forget the report and everything that was kept about it."""
        self._unreadable.discard(node)
        self._reports.pop(node, None)
        self.cache.forget(node)
        self._show(node)

    def numatopology(self, topology: Numatopology, now: float) -> None:
        """scheduler-plugins knows nothing of these."""

    def numatopology_unreadable(self, node: str, now: float) -> None:
        """Nor of these."""

    def numatopology_gone(self, node: str) -> None:
        """Nor did it ever."""

    def reserved(self, node: str, pod: Pod) -> None:
        """Subtract a pod, or hide the node until it is bound."""
        self.cache.reserve(node, pod)
        self._show(node)

    def unreserved(self, node: str, pod: Pod) -> None:
        """Undo that."""
        self.cache.unreserve(node, pod)
        self._show(node)

    def bound(self, node: str, pod: Pod) -> None:
        """The pod has arrived."""
        before = self.cache.view(node)
        self.cache.post_bind(node, pod)
        if self.cache.view(node) != before:
            self._show(node)

    def pod_changed(self, pod: Pod) -> None:
        """A foreign pod makes the node's copy doubtful."""
        node = pod.spec.node_name
        detected = self._settings.foreign_pods_detect
        if not node or detected == NO_FOREIGN_PODS:
            return
        reported = resource_names(self._reports.get(node))
        if is_foreign(pod, self._profiles, only_exclusive=detected == ONLY_EXCLUSIVE, reported=reported):
            self.cache.foreign_pod(node)
            self._show(node)

    def refused(self, node: str) -> None:
        """The node may be refused only because of what is reserved: look at it in the next pass."""
        self.cache.filter_rejected(node)

    @property
    def counts_refusals(self) -> bool:
        """Only a cache that reserves too much learns from refusals."""
        return self._settings.accounting == OVER_RESERVE

    @property
    def doubts(self) -> bool:
        """Whether some node's copy may be wrong."""
        desynced = self.cache.desynced
        return bool(desynced.maybe_overreserved or desynced.config_changed)

    def resync(self, now: float) -> bool:
        """One pass over nodes whose copy may be wrong; nodes that were hidden before they were known are hidden now."""
        desynced = self.cache.desynced
        before = {node: self.cache.view(node) for node in (*desynced.maybe_overreserved, *desynced.config_changed)}
        replaced = self.cache.resync(self.state.bound.values())
        for node in {*replaced, *self._hidden}:
            self._show(node)
        return any(before[node].topology != self.cache.view(node).topology for node in replaced)

    def _show(self, node: str) -> None:
        """Let the state see what the cache shows."""
        view = self.cache.view(node)
        if not view.fresh:
            self._hidden.add(node)
            if node in self.state.rows:
                self.state.set_fresh(node, fresh=False)
            return
        self._hidden.discard(node)
        if node in self.state.rows:
            self.state.set_fresh(node, fresh=True)
        if view.topology is not None:
            self.state.set_topology(view.topology)
        elif node in self._unreadable:
            self.state.set_unreadable_topology(node)
        else:
            self.state.remove_topology(node)
