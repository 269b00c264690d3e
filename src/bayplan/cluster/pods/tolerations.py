"""Kubernetes' rule for one toleration and one taint; who asks decides which taints matter and what follows."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Taint, Toleration

# A cordoned node refuses pods that do not tolerate this, whether or not it has the taint itself.
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
KEEPS_PODS_OFF = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if a toleration covers a taint. Operators that compare numbers are not part of the rule."""
    if not speaks_of(toleration, taint):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.operator or "Equal") == "Equal" and toleration.value == taint.value


def speaks_of(toleration: Toleration, taint: Taint) -> bool:
    """True if effect and key of a toleration, where it names them, are those of a taint."""
    return toleration.effect in ("", taint.effect) and toleration.key in ("", taint.key)


def taint_text(taint: Taint | Toleration) -> str:
    """`key=value:effect`, as kubectl writes a taint; of a toleration, the taints that it covers."""
    return f"{taint.key}{taint.value and f'={taint.value}'}{taint.effect and f':{taint.effect}'}"
