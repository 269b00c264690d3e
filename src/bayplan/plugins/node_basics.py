"""The small filters every pod passes through: cordoned nodes, a fixed node name, taints, ports on the host.

Each one is what kube-scheduler calls by the same name. They look at node objects, so their answers are kept until a node
changes; only host ports depend on what runs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.pods.pod_class import HostPort, PodClass
from bayplan.cluster.pods.tolerations import tolerates
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores
from bayplan.kube.wire.core_v1 import Taint
from bayplan.plugins.base import of_one_node

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_NOBODY: Mapping[int, Sequence[HostPort]] = {}


@dataclass(frozen=True, slots=True)
class NodeUnschedulable:
    """Cordoned nodes take only pods that tolerate it."""

    name: str = "NodeUnschedulable"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """Not for pods that tolerate a cordon."""
        return not any(tolerates(toleration, UNSCHEDULABLE_TAINT) for toleration in pod.tolerations)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """1 for cordoned nodes."""
        return state.columns.unschedulable[rows].astype(np.uint8)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """kube-scheduler's words."""
        return "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class NodeName:
    """A pod that names its node can go nowhere else."""

    name: str = "NodeName"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """Only for pods with `spec.nodeName`."""
        return pod.node_name is not None

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """1 for every other node."""
        refused = np.ones(state.columns.size, dtype=np.uint8)
        row = state.rows.get(pod.node_name or "")
        if row is not None:
            refused[row] = 0
        return refused[rows]

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """kube-scheduler's words."""
        return "node(s) didn't match the requested node name"


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """Taints keep pods away unless tolerated; `PreferNoSchedule` only costs score."""

    name: str = "TaintToleration"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """Always: a taint may stand on any node."""
        return True

    def applies_score(self, pod: PodClass) -> bool:
        """Always, for the same reason."""
        return True

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """1 for nodes with a taint that the pod does not tolerate."""

        def refuses(taints: tuple[Taint, ...]) -> bool:
            return any(taint.effect in ("NoSchedule", "NoExecute") and not tolerated(pod, taint) for taint in taints)

        return state.taint_sets.judged(state.columns.taint_set[rows], refuses).astype(np.uint8)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """kube-scheduler's words, without the taint: nodes with different taints are counted together."""
        return "node(s) had untolerated taint(s)"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """100 without untolerated soft taints, 50 with one, 33 with two: a node's score depends on no other node."""

        def score(taints: tuple[Taint, ...]) -> int:
            soft = sum(taint.effect == "PreferNoSchedule" and not tolerated(pod, taint) for taint in taints)
            return MOST_SCORE // (1 + soft)

        return state.taint_sets.judged(state.columns.taint_set[rows], score)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.scores, state, pod, row)


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Two pods cannot have the same port of the same host."""

    name: str = "NodePorts"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """Only for pods that want host ports."""
        return bool(pod.host_ports)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """1 where another pod holds a wanted port."""
        refused = np.zeros(state.columns.size, dtype=np.uint8)
        for port in pod.host_ports:
            for row, held in state.port_users.get((port.protocol, port.number), _NOBODY).items():
                if any(port.conflicts(taken) for taken in held):
                    refused[row] = 1
        return refused[rows]

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node, without a look at the others."""
        for port in pod.host_ports:
            held = state.port_users.get((port.protocol, port.number), _NOBODY).get(row, ())
            if any(port.conflicts(taken) for taken in held):
                return 1
        return 0

    def cause(self, pod: PodClass, code: int) -> str:
        """kube-scheduler's words."""
        return "node(s) didn't have free ports for the requested pod ports"


def tolerated(pod: PodClass, taint: Taint) -> bool:
    """True if any of the pod's tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in pod.tolerations)
