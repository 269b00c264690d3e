"""Pods that say of themselves whether they may be evicted for more important ones, in the words of other systems."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Pod

KAI_PREEMPTIBILITY = "kai.scheduler/preemptibility"
NON_PREEMPTIBLE = "non-preemptible"
VOLCANO_PREEMPTABLE = "volcano.sh/preemptable"


def forbids_eviction(pod: Pod) -> str:
    """The label or annotation by which a pod must stay: KAI's `non-preemptible`, or Volcano's `false`.

    Empty if there is none.
    """
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    if labels.get(KAI_PREEMPTIBILITY) == NON_PREEMPTIBLE:
        return f"label {KAI_PREEMPTIBILITY}: {NON_PREEMPTIBLE}"
    for kind, written in (("label", labels), ("annotation", annotations)):
        if written.get(VOLCANO_PREEMPTABLE) == "false":
            return f'{kind} {VOLCANO_PREEMPTABLE}: "false"'
    return ""
