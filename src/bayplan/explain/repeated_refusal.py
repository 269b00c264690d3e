"""The last refusal, for pods that are equal to the refused one but for their names.

As long as no pod is placed, each of them would be told the same. So ninety thousand replicas are refused only once.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.cluster.state import pod_key
from bayplan.cluster.volumes.needs import NO_VOLUMES
from bayplan.explain.placement import PodOutcome
from bayplan.kube.wire.core_v1 import Pod


class RepeatedRefusal:
    """The last pod that was refused on a cluster, and its outcome; nothing once another one was placed or held back.

    Pods with claims or disks are always decided: their claims can be named after them.
    """

    def __init__(self, classes: PodClasses) -> None:
        self._classes = classes
        self._last: tuple[Pod, PodOutcome] | None = None

    def note(self, pod: Pod, outcome: PodOutcome) -> None:
        """A pod was decided, and placed if it could be."""
        is_refused = outcome.refusal is not None and self._classes.of(pod).volumes is NO_VOLUMES
        self._last = (pod, outcome) if is_refused else None

    def for_one_like(self, pod: Pod) -> PodOutcome | None:
        """The outcome of a pod that is equal to the last one but for its name; None if it must be decided."""
        if self._last is None:
            return None
        before, outcome = self._last
        metadata = msgspec.structs.replace(pod.metadata, name=before.metadata.name)
        is_equal = (metadata, pod.spec, pod.status) == (before.metadata, before.spec, before.status)
        if outcome.refusal is None or not is_equal:
            return None
        key = pod_key(pod)
        return replace(
            outcome,
            decision=msgspec.structs.replace(outcome.decision, pod=key),
            refusal=replace(outcome.refusal, pod=key),
        )
