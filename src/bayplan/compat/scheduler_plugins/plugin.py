"""NodeResourceTopologyMatch with `filterMode: Upstream`: scheduler-plugins' answers as they are, for those who come
from there.

Its filter looks at Guaranteed pods and two policies only (`filter.py`), and its LeastNUMANodes at the zones that it
would pick itself (`engine/numa/least_numa.py`). What the kubelet will say afterwards plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.compat.scheduler_plugins.filter import UpstreamVerdict, upstream_verdicts
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.least_numa import least_numa_scores
from bayplan.engine.numa.placement import Placement, place_by_amounts
from bayplan.engine.numa.rows import Codes, Rows, Scores
from bayplan.plugins.base import of_one_node
from bayplan.plugins.node_resource_topology_args import LEAST_NUMA_NODES
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch

_CAUSES = {
    UpstreamVerdict.DATA_INVALID: "invalid node topology data",
    UpstreamVerdict.INIT_CONTAINER: "cannot align init container",
    UpstreamVerdict.SIDECAR_CONTAINER: "cannot align sidecar container",
    UpstreamVerdict.CONTAINER: "cannot align container",
    UpstreamVerdict.POD: "cannot align pod",
}


@dataclass(frozen=True)
class UpstreamTopologyMatch(NodeResourceTopologyMatch):
    """Filter and score as scheduler-plugins does."""

    def applies(self, pod: PodClass) -> bool:
        """To every pod: a node whose report is unusable is refused to all."""
        return True

    def applies_score(self, pod: PodClass) -> bool:
        """Only Guaranteed pods have scores."""
        return pod.request.guaranteed

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """One verdict per node."""
        return upstream_verdicts(state.columns, pod.request, rows)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Why, in scheduler-plugins' exact words."""
        return _CAUSES[UpstreamVerdict(code)]

    @property
    def zone_rules(self) -> tuple[int, ...]:
        """The codes that mean: there is enough in the zones, but not in the zones that the policy allows."""
        return tuple(verdict for verdict in UpstreamVerdict if verdict > UpstreamVerdict.DATA_INVALID)

    @property
    def size_rules(self) -> tuple[int, ...]:
        """The same codes."""
        return self.zone_rules

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """The configured strategy."""
        if self._strategy == LEAST_NUMA_NODES:
            return least_numa_scores(state.columns, state.hardware_classes, pod.request, rows)
        return super().scores(state, pod, rows)

    def place(self, state: ClusterState, pod: PodClass, row: int) -> Placement:
        """The zones where amounts tell them."""
        return place_by_amounts(state, row, demand(pod), self._assumptions) or Placement()

    @property
    def leaves_strategy_open(self) -> bool:
        """Never: scheduler-plugins' default is LeastAllocated."""
        return False

    def prefers_reported(self, pod: PodClass) -> bool:
        """Never: scheduler-plugins takes nodes without a report like any other."""
        return False

    @property
    def _as_upstream(self) -> bool:
        return True

    @property
    def _counts_zones(self) -> bool:
        return False
