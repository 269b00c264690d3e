"""Pods that say of themselves whether they may be evicted for more important ones, in the words of other systems."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Pod

KAI_PREEMPTIBILITY = "kai.scheduler/preemptibility"
NON_PREEMPTIBLE = "non-preemptible"
VOLCANO_PREEMPTABLE = "volcano.sh/preemptable"


def is_preemptible(pod: Pod) -> bool:
    """False if a pod must stay: KAI's label says `non-preemptible`, or Volcano's annotation or label `false`."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    if labels.get(KAI_PREEMPTIBILITY) == NON_PREEMPTIBLE:
        return False
    return "false" not in (labels.get(VOLCANO_PREEMPTABLE), annotations.get(VOLCANO_PREEMPTABLE))
