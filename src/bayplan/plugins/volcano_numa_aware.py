"""`numa-aware`: Volcano's plugin. Pods select nodes by Topology Manager policy; fewer NUMA zones score higher.

The annotation `volcano.sh/numa-topology-policy` of a pod selects nodes:

    none, or absent       any node; a node whose kubelet aligns pods must be able to admit it
    best-effort           nodes with that policy
    restricted            nodes with that policy whose kubelet would admit the pod
    single-numa-node      likewise

The admission verdict is `NodeResourceTopologyMatch`'s; the policy gate and the score are this plugin's. With
`compatibility: volcano` the verdict is Volcano's (`bayplan.compat`), and `NodeResourceTopologyMatch` is off unless the
profile enables it by name. `matchPolicyless` lets pods with a policy use nodes without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, Assumptions, Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.least_numa import relative_width_scores
from bayplan.engine.numa.rows import Codes, Rows, Scores, count
from bayplan.engine.numa.zones_needed import NOT_KNOWN, zones_needed
from bayplan.extensions import NUMA_AWARE, compat
from bayplan.kube.errors import field_and_problem
from bayplan.kube.volcano_annotations import NO_POLICIES, POLICIES, POLICY
from bayplan.plugins.base import FilterPlugin, ScorePlugin, of_one_node
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch

NAME = "numa-aware"
KUBELET, VOLCANO = "kubelet", "volcano"
LARGEST_WEIGHT = 1000
ARGUMENTS = ("weight", "matchPolicyless", "compatibility")
AS_VOLCANO_ALONE = (
    f"{NAME} with compatibility: {VOLCANO} answers as Volcano does, so {TOPOLOGY_MATCH} is off:"
    " kubelets may refuse what it admits"
)


class NumaAwareArgs(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments as written."""

    api_version: str = ""
    kind: str = ""
    weight: int = 1
    match_policyless: bool = False
    compatibility: str = KUBELET


def read_arguments(raw: dict[str, Any] | None) -> NumaAwareArgs:
    """Decode and validate; raises `ArgumentError` naming the field."""
    unknown = sorted(set(raw or {}) - {*ARGUMENTS, "apiVersion", "kind"})
    if unknown:
        raise ArgumentError(f"{unknown[0]}: {NAME} takes no such argument; it takes {', '.join(ARGUMENTS)}")
    try:
        arguments = msgspec.convert(raw or {}, NumaAwareArgs)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error)
        raise ArgumentError(f"{where}: {problem}" if where else problem) from None
    if not 0 <= arguments.weight <= LARGEST_WEIGHT:
        raise ArgumentError(f"weight: {arguments.weight} is not allowed: must be 0 to {LARGEST_WEIGHT}")
    if arguments.compatibility not in (KUBELET, VOLCANO):
        raise ArgumentError(
            f'compatibility: "{arguments.compatibility}" is not allowed: must be {KUBELET} or {VOLCANO}'
        )
    return arguments


class GateRefusal(IntEnum):
    """Why a node fails the policy gate; smaller codes are the kubelet's `Verdict`."""

    NO_REPORT = 16
    NOT_STATIC = 17
    UNKNOWN_POLICY = 18
    NO_FREE_CPUS = 19
    NOT_ASSIGNABLE = 20
    OTHER_POLICY = 32
    """Plus the number of the node's policy."""


@dataclass(frozen=True)
class NumaAware(NodeResourceTopologyMatch):
    """Filter by policy and by the kubelet's admission; score by the number of zones."""

    name: str = NAME
    settings: NumaAwareArgs = field(default_factory=NumaAwareArgs)

    def applies(self, pod: PodClass) -> bool:
        """True for pods that ask for a policy or that a kubelet aligns."""
        return pod.numa_policy not in NO_POLICIES or super().applies(pod)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Apply the policy gate, then the kubelet's verdict."""
        at_the_gate = self._gate(state, pod, rows)
        by_kubelet = super().refusals(state, pod, rows)
        if at_the_gate is None or by_kubelet is None:
            return by_kubelet if at_the_gate is None else at_the_gate
        return np.where(at_the_gate != 0, at_the_gate, by_kubelet)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Check one node; the superclass has a shortcut that skips the gate."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Explain a code."""
        if code < GateRefusal.NO_REPORT:
            return super().cause(pod, code)
        return _words(pod.numa_policy, code)

    def applies_score(self, pod: PodClass) -> bool:
        """False: nodes are scored against each other (`scores_among`)."""
        return False

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """True for Guaranteed pods with something to align, whatever policy they ask for."""
        return pod.request.guaranteed and bool(self.settings.weight) and not demand(pod).nothing_to_align

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return `weight * (100 - 100 * zones needed / most zones needed)`, in Volcano's integer arithmetic.

        A node with unknown zones gets the lowest score and does not change the others.
        """
        needed = zones_needed(state.columns, state.hardware_classes, demand(pod), rows, self._assumptions)
        needed = np.where(needed == NOT_KNOWN, max(int(needed.max()), 1), needed)
        return relative_width_scores(needed, self.settings.weight).astype(np.int32)

    @property
    def as_volcano(self) -> bool:
        """True if the verdict is Volcano's instead of the kubelet's."""
        return self.settings.compatibility == VOLCANO

    def _gate(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        return _gate(state, pod, rows, self._assumptions, match_policyless=self.settings.match_policyless)


@dataclass(frozen=True)
class PolicyGate(FilterPlugin):
    """The policy gate alone: active in every profile that neither enables nor disables `numa-aware` by name."""

    assumptions: Assumptions = field(default_factory=Assumptions)
    name: str = NAME
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for Guaranteed pods that ask for a policy."""
        return pod.numa_policy not in NO_POLICIES and pod.request.guaranteed

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return one code per node."""
        return _gate(state, pod, rows, self.assumptions)

    def cause(self, pod: PodClass, code: int) -> str:
        """Explain a code."""
        return _words(pod.numa_policy, code)


def _gate(
    state: ClusterState, pod: PodClass, rows: Rows, assumptions: Assumptions, *, match_policyless: bool = False
) -> Codes | None:
    """Return a code for nodes whose policy is not the requested one; None if the pod asks for none."""
    policy = pod.numa_policy
    # Kubelets align only Guaranteed pods.
    if policy in NO_POLICIES or not pod.request.guaranteed:
        return None
    if policy not in POLICIES:
        return np.full(count(rows), GateRefusal.UNKNOWN_POLICY, dtype=np.uint8)
    columns = state.columns
    of_node = columns.policy[rows]
    no_report = columns.topology[rows] <= NO_TOPOLOGY
    codes = np.where(of_node == POLICY_BY_TEXT[policy], 0, GateRefusal.OTHER_POLICY + of_node).astype(np.uint8)
    static = columns.cpu_static[rows] != 0 if assumptions.cpu_manager_static else columns.cpu_static[rows] == 1
    codes[~static] = GateRefusal.NOT_STATIC
    codes[no_report] = GateRefusal.NO_REPORT
    if match_policyless:
        codes[no_report | (of_node == Policy.NONE)] = 0
    return codes


def numa_aware(settings: NumaAwareArgs) -> NumaAware:
    """Return the plugin for the `compatibility` of its arguments."""
    if settings.compatibility == KUBELET:
        return NumaAware(settings=settings)
    plugin: NumaAware = compat(NUMA_AWARE, settings.compatibility)(settings=settings)
    return plugin


def answers_as_volcano(plugins: Iterable[FilterPlugin | ScorePlugin]) -> bool:
    """True if one of the plugins is `numa-aware` with Volcano's verdict."""
    return any(isinstance(plugin, NumaAware) and plugin.as_volcano for plugin in plugins)


def _words(policy: str, code: int) -> str:
    if code >= GateRefusal.OTHER_POLICY:
        of_node = Policy(code - GateRefusal.OTHER_POLICY).text
        return f"node's topology policy is {of_node}, the pod asks for {policy}"
    return {
        GateRefusal.NO_REPORT: f"node reports no NUMA topology, the pod asks for topology policy {policy}",
        GateRefusal.NOT_STATIC: f"node's CPU Manager is not static, the pod asks for topology policy {policy}",
        GateRefusal.UNKNOWN_POLICY: f'annotation {POLICY}: unknown policy "{policy}"; expected {", ".join(POLICIES)}',
    }[GateRefusal(code)]
