"""Small filters that every pod passes through: cordoned nodes, `spec.nodeName`, taints and host ports.

Each behaves as kube-scheduler's plugin of the same name. Only host ports depend on the pods of a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.taint_sets import PREFER_NO_SCHEDULE
from bayplan.cluster.pods.pod_class import HostPort, PodClass
from bayplan.cluster.pods.tolerations import KEEPS_PODS_OFF, UNSCHEDULABLE_TAINT, tolerates
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores, count
from bayplan.kube.wire.core_v1 import Taint
from bayplan.plugins.base import FilterPlugin, ScorePlugin, normalized

_NO_USERS: Mapping[int, Sequence[HostPort]] = {}


@dataclass(frozen=True, slots=True)
class NodeUnschedulable(FilterPlugin):
    """Cordoned nodes accept only pods that tolerate it."""

    name: str = "NodeUnschedulable"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """False for pods that tolerate a cordon."""
        return not tolerated(pod, UNSCHEDULABLE_TAINT)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for cordoned nodes."""
        return state.columns.unschedulable[rows].astype(np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class NodeName(FilterPlugin):
    """A pod with `spec.nodeName` can use only that node."""

    name: str = "NodeName"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True for pods with `spec.nodeName`."""
        return pod.node_name is not None

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for every other node."""
        refused = np.ones(state.columns.size, dtype=np.uint8)
        row = state.rows.get(pod.node_name or "")
        if row is not None:
            refused[row] = 0
        return refused[rows]

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) didn't match the requested node name"


@dataclass(frozen=True, slots=True)
class TaintToleration(FilterPlugin, ScorePlugin):
    """Untolerated taints refuse pods; `PreferNoSchedule` only lowers the score."""

    name: str = "TaintToleration"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True: any node may be tainted."""
        return True

    def applies_score(self, pod: PodClass) -> bool:
        """True: any node may be tainted."""
        return True

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        """Return 1 for nodes with an untolerated taint."""
        if state.taint_sets.all_empty:
            return None

        def refuses(taints: tuple[Taint, ...]) -> bool:
            return bool(self.untolerated(pod, taints))

        return state.taint_sets.judged(state.columns.taint_set[rows], refuses).astype(np.uint8)

    @staticmethod
    def untolerated(pod: PodClass, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
        """Return the taints that keep a pod off a node."""
        return tuple(taint for taint in taints if taint.effect in KEEPS_PODS_OFF and not tolerated(pod, taint))

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message, without the taint: nodes with different taints are counted together."""
        return "node(s) had untolerated taint(s)"

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        """Return 100 for every node; `scores_among` takes from it."""
        return np.full(count(rows), MOST_SCORE, dtype=np.int32)

    def compares(self, state: ClusterState, pod: PodClass) -> bool:
        """True if any node has a soft taint that the pod does not tolerate."""
        return any(not tolerated(pod, taint) for taint in state.taint_sets.soft)

    def scores_among(self, state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> Scores:
        """Return 0 without untolerated soft taints, and -100 for the rows that have the most of them."""

        def soft(taints: tuple[Taint, ...]) -> int:
            return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerated(pod, taint) for taint in taints)

        return -normalized(state.taint_sets.judged(state.columns.taint_set[rows], soft))


@dataclass(frozen=True, slots=True)
class NodeDeclaredFeatures(FilterPlugin):
    """Some fields of a pod need kubelets that declare a feature."""

    name: str = "NodeDeclaredFeatures"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True for pods that need a feature."""
        return bool(pod.features)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for nodes that lack a feature."""
        needed = np.uint8(pod.features)
        refused: Codes = ((state.columns.features[rows] & needed) != needed).astype(np.uint8)
        return refused

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) didn't match Pod's required features"


@dataclass(frozen=True, slots=True)
class NodePorts(FilterPlugin):
    """Two pods cannot use the same port of one host."""

    name: str = "NodePorts"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for pods that request host ports."""
        return bool(pod.host_ports)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 where another pod holds a requested port."""
        refused = np.zeros(state.columns.size, dtype=np.uint8)
        for port in pod.host_ports:
            for row, held in state.bookings.port_users.get((port.protocol, port.number), _NO_USERS).items():
                if any(port.conflicts(taken) for taken in held):
                    refused[row] = 1
        return refused[rows]

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Check one node without looking at the others."""
        for port in pod.host_ports:
            held = state.bookings.port_users.get((port.protocol, port.number), _NO_USERS).get(row, ())
            if any(port.conflicts(taken) for taken in held):
                return 1
        return 0

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) didn't have free ports for the requested pod ports"


def tolerated(pod: PodClass, taint: Taint) -> bool:
    """True if one of the pod's tolerations matches the taint."""
    return any(tolerates(toleration, taint) for toleration in pod.tolerations)
