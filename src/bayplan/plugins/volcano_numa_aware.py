"""`numa-aware`: Volcano's plugin. Pods choose nodes by Topology Manager policy, and the node that needs the fewest NUMA zones is best.

A pod asks for a policy in the annotation `volcano.sh/numa-topology-policy`:

    none, or nothing      any node; a node whose kubelet aligns pods must be able to admit it
    best-effort           nodes with that policy
    restricted            nodes with that policy whose kubelet would admit the pod
    single-numa-node      likewise

The node's kubelet is judged as `NodeResourceTopologyMatch` does it: all resources, init containers, both scopes; only the gate in front and the
score are this plugin's own. With `compatibility: volcano` the answer is Volcano's (`bayplan.compat`). A profile that
asks for it does without `NodeResourceTopologyMatch`, which would refuse more, unless that is switched on by name.

Arguments: `weight` of the score, `matchPolicyless` (a pod with a policy may also use nodes without one), `compatibility`.
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
from bayplan.engine.numa.rows import Codes, Rows, count
from bayplan.engine.numa.scores import Scores
from bayplan.engine.numa.zones_needed import NOT_KNOWN, zones_needed
from bayplan.extensions import NUMA_AWARE, compat
from bayplan.kube.errors import field_and_problem
from bayplan.kube.wire.volcano_annotations import NO_POLICIES, POLICIES, POLICY
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
    """The arguments as written."""

    api_version: str = ""
    kind: str = ""
    weight: int = 1
    match_policyless: bool = False
    compatibility: str = KUBELET


def read_arguments(raw: dict[str, Any] | None) -> NumaAwareArgs:
    """Decode and validate; raises `ArgumentError` naming the field."""
    unknown = sorted(set(raw or {}) - {*ARGUMENTS, "apiVersion", "kind"})
    if unknown:
        raise ArgumentError(f"{unknown[0]}: is no argument of {NAME}; there are {', '.join(ARGUMENTS)}")
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
    """Why a node is not even looked at; below these numbers is the kubelet's `Verdict`."""

    NO_REPORT = 16
    NOT_STATIC = 17
    UNKNOWN_POLICY = 18
    NO_FREE_CPUS = 19
    NOT_ASSIGNABLE = 20
    OTHER_POLICY = 32
    """To this the number of the node's policy is added."""


@dataclass(frozen=True)
class NumaAware(NodeResourceTopologyMatch):
    """Filter by policy and by what the node's kubelet would admit; score by the number of zones."""

    name: str = NAME
    settings: NumaAwareArgs = field(default_factory=NumaAwareArgs)

    def applies(self, pod: PodClass) -> bool:
        """To pods that ask for a policy, and to those that a kubelet would align."""
        return pod.numa_policy not in NO_POLICIES or super().applies(pod)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """The gate first, then the verdict of the node's kubelet."""
        at_the_gate = self._gate(state, pod, rows)
        by_kubelet = super().refusals(state, pod, rows)
        if at_the_gate is None or by_kubelet is None:
            return by_kubelet if at_the_gate is None else at_the_gate
        return np.where(at_the_gate != 0, at_the_gate, by_kubelet)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Why."""
        if code < GateRefusal.NO_REPORT:
            return super().cause(pod, code)
        return _words(pod.numa_policy, code)

    def applies_score(self, pod: PodClass) -> bool:
        """Nodes are compared with each other (`scores_among`); no node has a score of its own."""
        return False

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """See `applies_score`."""
        return np.zeros(count(rows), dtype=np.int32)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """See `applies_score`."""
        return 0

    def compares(self, pod: PodClass) -> bool:
        """Whatever the policy that a pod asks for, it should go where it needs the fewest zones."""
        return pod.request.guaranteed and bool(self.settings.weight) and not demand(pod).nothing_to_align

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """`weight * (100 - 100 * zones needed / most zones needed)`, in Volcano's whole numbers.

        A node whose zones are unknown needs as many as the worst of the others: it gets the formula's lowest score and does not change theirs.
        """
        needed = zones_needed(state.columns, state.hardware_classes, demand(pod), rows, self._assumptions)
        needed = np.where(needed == NOT_KNOWN, max(int(needed.max()), 1), needed)
        return relative_width_scores(needed, self.settings.weight).astype(np.int32)

    @property
    def as_volcano(self) -> bool:
        """The answer is Volcano's, not the kubelet's."""
        return self.settings.compatibility == VOLCANO

    def _gate(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        return _gate(state, pod, rows, self._assumptions, match_policyless=self.settings.match_policyless)


@dataclass(frozen=True)
class PolicyGate:
    """The gate alone, in every profile that neither switches `numa-aware` on by name nor off: a pod's policy is honoured either way."""

    assumptions: Assumptions = field(default_factory=Assumptions)
    name: str = NAME
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """To pods that ask for a policy."""
        return pod.numa_policy not in NO_POLICIES and pod.request.guaranteed

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """One code per node."""
        return _gate(state, pod, rows, self.assumptions)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """Why."""
        return _words(pod.numa_policy, code)


def _gate(
    state: ClusterState, pod: PodClass, rows: Rows, assumptions: Assumptions, *, match_policyless: bool = False
) -> Codes | None:
    """Codes of nodes whose policy is not the one that the pod asks for; None if it asks for none."""
    policy = pod.numa_policy
    # A kubelet aligns no CPUs of other pods, so there is nothing to choose a node for.
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
    """The plugin with the verdict that its arguments name."""
    if settings.compatibility == KUBELET:
        return NumaAware(settings=settings)
    plugin: NumaAware = compat(NUMA_AWARE, settings.compatibility)(settings=settings)
    return plugin


def answers_as_volcano(plugins: Iterable[FilterPlugin | ScorePlugin]) -> bool:
    """True if one of the plugins is `numa-aware` with Volcano's answers, to which nothing else may add refusals unasked."""
    return any(isinstance(plugin, NumaAware) and plugin.as_volcano for plugin in plugins)


def _words(policy: str, code: int) -> str:
    if code >= GateRefusal.OTHER_POLICY:
        of_node = Policy(code - GateRefusal.OTHER_POLICY).text
        return f"node's topology policy is {of_node}, the pod asks for {policy}"
    return {
        GateRefusal.NO_REPORT: f"node reports no NUMA topology, the pod asks for topology policy {policy}",
        GateRefusal.NOT_STATIC: f"node's CPU Manager is not static, the pod asks for topology policy {policy}",
        GateRefusal.UNKNOWN_POLICY: f'annotation {POLICY}: "{policy}" is no policy; expected {", ".join(POLICIES)}',
    }[GateRefusal(code)]
