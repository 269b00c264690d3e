"""Pods that a kubelet rejected: Failed with one of its admission reasons."""

from __future__ import annotations

from bayplan.engine.kubelet.verdict import (
    EMPTY_POD_SHARED_POOL_ERROR,
    SMT_ALIGNMENT_ERROR,
    TOPOLOGY_AFFINITY_ERROR,
    UNEXPECTED_ADMISSION_ERROR,
)
from bayplan.kube.wire.core_v1 import Pod

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
