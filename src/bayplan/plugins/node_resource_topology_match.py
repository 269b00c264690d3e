"""NodeResourceTopologyMatch: only nodes whose kubelet would admit the pod, best NUMA fit first.

Takes scheduler-plugins' arguments unchanged. The verdict is that of the node's Topology Manager, for every policy
(`engine/numa/admission.py`); with `filterMode: Upstream` it is scheduler-plugins' (`bayplan.compat`). Without a
scoring strategy the plugin scores twice: fewer and closer zones first, then LeastAllocated (`scores_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions, MissingReport
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.admission import Verdict, admits_in_single_zones, verdicts
from bayplan.engine.numa.allocation_scores import STRATEGIES, allocation_score, allocation_scores
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.one_node import ONE_NODE_STRATEGIES
from bayplan.engine.numa.placement import Placement, place_on, within_zones
from bayplan.engine.numa.rows import Codes, Rows, Scores
from bayplan.engine.numa.zones_needed import kubelet_least_numa_score, kubelet_least_numa_scores
from bayplan.extensions import FILTER_MODE, compat
from bayplan.plugins.base import FilterPlugin, ScorePlugin, of_one_node
from bayplan.plugins.node_resource_topology_args import (
    LEAST_NUMA_NODES,
    FilterMode,
    NodeResourceTopologyMatchArgs,
    ScoringStrategy,
    read_arguments,
)

NAME = "NodeResourceTopologyMatch"
# Weight of fewer and closer zones relative to LeastAllocated. With the default weights, one more zone costs 120 points
# and zones that are not the closest cost 60: above NodeResourcesFit (100), below a preferred node affinity (200).
FEWER_ZONES_FIRST = 5

_KUBELET_CAUSES = {
    Verdict.DATA_INVALID: "invalid node topology data",
    Verdict.DATA_STALE: "node topology data is not fresh",
    Verdict.NO_REPORT: "NUMA zones unknown (no NodeResourceTopology)",
    Verdict.REPORT_EXPECTED: "NUMA zones unknown yet (new node, no NodeResourceTopology so far)",
    Verdict.NOT_IN_ONE_ZONE: "no single NUMA zone holds the request",
    Verdict.NO_COMMON_SET: "no set of NUMA zones is the smallest for every requested resource (policy restricted)",
    Verdict.ZONES_SHORT: "NUMA zones hold too little in sum",
    Verdict.NOT_WHOLE_CORES: "full-pcpus-only: a container's CPUs are not a multiple of the threads of a core",
}


@dataclass(frozen=True)
class NodeResourceTopologyMatch(FilterPlugin, ScorePlugin):
    """Filter, score and zone choice by the NUMA zones that nodes report."""

    arguments: NodeResourceTopologyMatchArgs = field(default_factory=lambda: read_arguments(None))
    name: str = NAME
    reads_usage: bool = True
    names_strategy: bool = True
    """False if the arguments name no scoring strategy."""

    def applies(self, pod: PodClass) -> bool:
        """False for pods that no kubelet manager aligns."""
        return not demand(pod).nothing_to_align

    def applies_score(self, pod: PodClass) -> bool:
        """False if all nodes score the same: nothing to align, or not Guaranteed where zones are not counted."""
        return not demand(pod).nothing_to_align if self._counts_zones else pod.request.guaranteed

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return one verdict per node."""
        return verdicts(state.columns, demand(pod), rows, self._assumptions)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Return the verdict of one node; most nodes pass the quick check."""
        if admits_in_single_zones(state.columns, demand(pod), row, self._assumptions):
            return 0
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Explain a verdict."""
        return _KUBELET_CAUSES[Verdict(code)]

    @property
    def zone_rules(self) -> tuple[int, ...]:
        """Codes for nodes with enough resources, but not in zones that the policy allows."""
        return Verdict.NOT_IN_ONE_ZONE, Verdict.NO_COMMON_SET

    @property
    def size_rules(self) -> tuple[int, ...]:
        """Codes for nodes that are too small if they are given to an empty node."""
        return *self.zone_rules, Verdict.ZONES_SHORT, Verdict.NOT_WHOLE_CORES

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Score by the configured strategy."""
        if self._counts_zones:
            return kubelet_least_numa_scores(
                state.columns, state.hardware_classes, demand(pod), rows, self._assumptions
            )
        strategy = STRATEGIES[self._strategy]
        as_upstream = self._as_upstream
        return allocation_scores(state.columns, pod.request, rows, strategy, self._weights, as_upstream=as_upstream)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Score one node."""
        if self._counts_zones:
            return kubelet_least_numa_score(state.columns, state.hardware_classes, demand(pod), row, self._assumptions)
        if self._strategy in ONE_NODE_STRATEGIES:
            return allocation_score(
                state.columns, pod.request, row, self._strategy, self._weights, as_upstream=self._as_upstream
            )
        return of_one_node(self.scores, state, pod, row)

    def place(self, state: ClusterState, pod: PodClass, row: int) -> Placement:
        """Return the zones of each container on the chosen node, or the kubelet's refusal."""
        placement = place_on(state, row, pod.request, demand(pod), self._assumptions)
        return placement if pod.most_zones is None else within_zones(placement, pod.most_zones)

    @property
    def leaves_strategy_open(self) -> bool:
        """True if no strategy is configured: fewer and closer zones come first."""
        return not self.names_strategy

    def prefers_reported(self, pod: PodClass) -> bool:
        """True if nodes without a report are a last resort for these pods."""
        prefers = self._assumptions.missing_report is MissingReport.PREFER_REPORTED
        return prefers and demand(pod).needs_report

    def remark(self, state: ClusterState, pod: PodClass, row: int) -> str:
        """Return a warning for users if the pod needs the node's zones and they are unknown, else an empty string."""
        if state.columns.topology[row] > NO_TOPOLOGY or not demand(pod).needs_report:
            return ""
        return f"NUMA zones of {state.names[row]} are unknown (no NodeResourceTopology)"

    @property
    def _as_upstream(self) -> bool:
        """True to score with scheduler-plugins' rounding."""
        return False

    # Cached: a placement in a known class has no time to read arguments again.

    @cached_property
    def _assumptions(self) -> Assumptions:
        return self.arguments.assumptions

    @cached_property
    def _counts_zones(self) -> bool:
        return self._strategy == LEAST_NUMA_NODES

    @cached_property
    def _strategy(self) -> str:
        return self.arguments.strategy.type

    @cached_property
    def _weights(self) -> dict[str, int]:
        return {entry.name: entry.weight for entry in self.arguments.strategy.resources}


def topology_match(
    arguments: NodeResourceTopologyMatchArgs, *, names_strategy: bool = True
) -> NodeResourceTopologyMatch:
    """Return the plugin for the filter mode of its arguments."""
    kind: type[NodeResourceTopologyMatch] = NodeResourceTopologyMatch
    if arguments.mode is not FilterMode.KUBELET:
        kind = compat(FILTER_MODE, arguments.mode.value)
    return kind(arguments, names_strategy=names_strategy)


def scores_of(plugin: ScorePlugin, weight: int) -> Iterator[tuple[ScorePlugin, int]]:
    """Return the scores of a configured plugin with their weights."""
    if isinstance(plugin, NodeResourceTopologyMatch) and plugin.leaves_strategy_open:
        fewer_zones = msgspec.structs.replace(plugin.arguments, scoring_strategy=ScoringStrategy(type=LEAST_NUMA_NODES))
        yield NodeResourceTopologyMatch(fewer_zones, name=LEAST_NUMA_NODES), weight * FEWER_ZONES_FIRST
    yield plugin, weight
