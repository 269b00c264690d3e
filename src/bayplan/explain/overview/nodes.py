"""A NUMA summary of every node: status, report, free amounts, largest aligned pod, fragmentation, rejected pods.

The cluster's columns and pods come in; a `NodeList` goes out. `nodes_text.py` writes the table, `nodes_document` the
document. `engine/numa/fragmentation.py` defines fragmentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_EXPECTED,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_UNCLEAR,
    TOPOLOGY_USABLE,
)
from bayplan.cluster.node_status import Closing, closings
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet.verdict import (
    EMPTY_POD_SHARED_POOL_ERROR,
    SMT_ALIGNMENT_ERROR,
    TOPOLOGY_AFFINITY_ERROR,
    UNEXPECTED_ADMISSION_ERROR,
)
from bayplan.engine.numa.fragmentation import Aligned, aligned_amounts, fragmentation
from bayplan.explain.amounts import count
from bayplan.explain.documents import API_VERSION, Document, amounts_document
from bayplan.explain.topology.closed import ClosedNodeGroup, closed_nodes
from bayplan.kube.wire.core_v1 import Pod

# What is known about a node's zones, by the number in the topology column.
REPORTS = {
    NO_TOPOLOGY: "none",
    TOPOLOGY_EXPECTED: "expected",
    TOPOLOGY_USABLE: "fresh",
    TOPOLOGY_INVALID: "invalid",
    TOPOLOGY_STALE: "stale",
    TOPOLOGY_UNCLEAR: "unclear",
}
IN_WORDS = {
    "expected": "awaiting the first report",
    "unclear": "with an unclear report",
    "invalid": "with an invalid report",
}
FRESH, NONE = REPORTS[TOPOLOGY_USABLE], REPORTS[NO_TOPOLOGY]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """One node.

    `largest` are the amounts of the largest aligned pod, in `zone`; None if zones or alignment are missing.

    `fragmentation` is by resource, without those that have nothing free in zones. `refused` counts pods by the
    kubelet's reason.
    """

    node: str
    closing: Closing
    taints: tuple[str, ...]
    report: str
    age: float | None
    policy: str | None
    scope: str | None
    zones: int
    free: Mapping[str, int]
    total: Mapping[str, int]
    largest: Mapping[str, int] | None
    zone: int | None
    fragmentation: Mapping[str, float]
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes in the order of the cluster, the shown resources, and which nodes are closed by what."""

    nodes: tuple[NodeSummary, ...]
    resources: tuple[str, ...]
    closed: tuple[ClosedNodeGroup, ...]

    @property
    def answer(self) -> str:
        """`6 nodes: 4 with a NUMA report, 2 without a report; 1 closed (1 cordoned); 2 fragmented`."""
        by_report = {each: sum(node.report == each for node in self.nodes) for each in REPORTS.values()}
        words = [f"{by_report[FRESH]} with a NUMA report"] if by_report[FRESH] else []
        words += [
            f"{number} {IN_WORDS.get(each, each)}"
            for each, number in by_report.items()
            if number and each not in (FRESH, NONE)
        ]
        words += [f"{by_report[NONE]} without a report"] if by_report[NONE] else []
        sentence = f"{count(len(self.nodes), 'node')}: {', '.join(words)}"
        fragmented = sum(1 for node in self.nodes if any(node.fragmentation.values()))
        refused = sum(sum(node.refused.values()) for node in self.nodes)
        by = [node.closing for node in self.nodes if node.closing]
        kinds = {
            "NotReady": sum(each.not_ready for each in by),
            "cordoned": sum(each.cordoned for each in by),
            "tainted": sum(bool(each.taints) for each in by),
        }
        closed = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
        sentence += f"; {len(by)} closed ({closed})" if by else ""
        sentence += f"; {fragmented} fragmented" if fragmented else ""
        return sentence + (f"; {count(refused, 'pod')} refused by kubelets" if refused else "")


def node_list(
    state: ClusterState, rows: NDArray[np.intp], resources: Sequence[str], pods: Iterable[Pod], now: float
) -> NodeList:
    """Summarise the nodes of `rows`, as of `now` (seconds since 1970)."""
    columns = state.columns
    amounts = {name: aligned_amounts(state, name, rows) for name in resources}
    zone = _freest_zone(state, amounts, rows)
    shares = {name: fragmentation(each.largest, each.at_best) for name, each in amounts.items()}
    free = {name: np.maximum(columns.free[columns.index_of(name)][rows], 0).astype(np.int64) for name in resources}
    total = {name: columns.allocatable[columns.index_of(name)][rows].astype(np.int64) for name in resources}
    refused = _refused(pods)
    closing = closings(state, rows)
    found = []
    for number, row in enumerate(rows.tolist()):
        report = state.reports[row]
        known = report is not None and report.readable
        parts = {name: float(share[number]) for name, share in shares.items() if not np.isnan(share[number])}
        found.append(
            NodeSummary(
                node=state.names[row],
                closing=closing[number],
                taints=tuple(map(taint_text, state.taint_sets[int(columns.taint_set[row])])),
                report=REPORTS[int(columns.topology[row])],
                age=max(0.0, now - report.made_at) if report is not None and report.made_at is not None else None,
                policy=Policy(int(columns.policy[row])).text if known else None,
                scope=Scope(int(columns.scope[row])).text if known else None,
                zones=len(report.zones) if report is not None else 0,
                free={name: int(column[number]) for name, column in free.items() if total[name][number]},
                total={name: int(column[number]) for name, column in total.items() if column[number]},
                largest={
                    name: int(each.by_zone[zone[number], number])
                    for name, each in amounts.items()
                    if each.by_zone[zone[number], number]
                }
                if parts
                else None,
                zone=report.zones[zone[number]].id if parts and report is not None else None,
                fragmentation=parts,
                refused=refused.get(state.names[row], {}),
            )
        )
    return NodeList(tuple(found), tuple(resources), closed_nodes(state, rows, closing))


def nodes_document(listed: NodeList) -> Document:
    """What `bayplan nodes -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeList",
        "answer": listed.answer,
        "items": [
            {
                "node": node.node,
                "status": node.closing.status,
                "taints": list(node.taints),
                "report": node.report,
                "reportAgeSeconds": None if node.age is None else round(node.age),
                "policy": node.policy,
                "scope": node.scope,
                "zones": node.zones,
                "free": amounts_document(node.free),
                "allocatable": amounts_document(node.total),
                "largestAligned": None
                if node.largest is None
                else {"zone": node.zone, "amounts": amounts_document(node.largest)},
                "fragmentation": {name: round(share, 4) for name, share in node.fragmentation.items()},
                "refused": dict(node.refused),
            }
            for node in listed.nodes
        ],
    }


def _refused(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """By node, the number of existing pods that its kubelet rejected, by reason."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        reason = refusal_reason(pod)
        if reason and pod.spec.node_name:
            of_node = found.setdefault(pod.spec.node_name, {})
            of_node[reason] = of_node.get(reason, 0) + 1
    return found


def _freest_zone(state: ClusterState, amounts: Mapping[str, Aligned], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Per node, the position of the zone with the largest mean share of free resources; the first of equals."""
    columns = state.columns
    shares = np.zeros((columns.zone_available.shape[1], len(rows)))
    for name, each in amounts.items():
        largest = columns.zone_total_largest[columns.index_of(name)][rows]
        shares += np.divide(each.by_zone, largest, out=np.zeros_like(each.by_zone), where=largest > 0)
    found: NDArray[np.intp] = shares.argmax(axis=0)
    return found


# -- pods that a kubelet rejected -------------------------------------------------------------------------------------


REASONS = frozenset(
    {TOPOLOGY_AFFINITY_ERROR, SMT_ALIGNMENT_ERROR, UNEXPECTED_ADMISSION_ERROR, EMPTY_POD_SHARED_POOL_ERROR}
    # The general predicates, and other checks of every kubelet.
    | {"NodeAffinity", "NodePorts", "NodeName", "TaintToleration", "InvalidNodeInfo", "UnexpectedPredicateFailureType"}
    | {
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodFeatureUnsupported",
        "SysctlForbidden",
        "AppArmor",
    }
)
OUT_OF = "OutOf"  # OutOfcpu, OutOfmemory, OutOfpods


def refusal_reason(pod: Pod) -> str:
    """The kubelet's reason; empty for admitted pods, even if they failed later."""
    status = pod.status
    reason = status.reason or "" if status is not None and status.phase == "Failed" else ""
    return reason if reason in REASONS or reason.startswith(OUT_OF) else ""
