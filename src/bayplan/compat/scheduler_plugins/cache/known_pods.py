"""Which pods count: for a node's fingerprint, as holders of something exclusive, as foreign.

scheduler-plugins sees pods through an informer. The *Shared* one hides pods that have ended, so only running pods are counted;
a *Dedicated* one shows them all, and only those are left out that have no node or have not been started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bayplan.cluster.columns.resource_kinds import containers_that_hold_exclusively, holds_exclusively
from bayplan.cluster.pods.request import effective_request
from bayplan.kube.wire.core_v1 import Pod

DEDICATED = "Dedicated"
PREEMPTION_ENABLED = "Enabled"

# Whether a pod holds something exclusively; where its pinned containers are listed, they say it instead.
NOTHING, SOMETHING, SEE_CONTAINERS = "none", "alloc", "unknown"


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod on a node, as far as fingerprints and preemption need to know it."""

    namespace: str
    name: str
    exclusive_resources: str = NOTHING
    pinned_containers: tuple[str, ...] = ()

    @property
    def holds_exclusively(self) -> bool:
        """True if the pod holds something of a zone for itself alone."""
        if self.exclusive_resources == SEE_CONTAINERS:
            return bool(self.pinned_containers)
        return self.exclusive_resources == SOMETHING


def counts(pod: Pod, informer_mode: str) -> bool:
    """Does the informer show this pod as one that may occupy its node?"""
    phase = pod.status.phase if pod.status else None
    if informer_mode != DEDICATED:
        return phase == "Running"
    return bool(pod.spec.node_name) and phase != "Pending"


def pods_by_node(
    pods: Iterable[Pod], informer_mode: str, preemption_mode: str, reported: Mapping[str, Collection[str]]
) -> dict[str, list[KnownPod]]:
    """The pods that count, by node; `reported` are the resource names in each node's report."""
    found: dict[str, list[KnownPod]] = {}
    for pod in pods:
        if counts(pod, informer_mode):
            node = pod.spec.node_name or ""
            found.setdefault(node, []).append(known_pod(pod, preemption_mode, reported.get(node, ())))
    return found


def known_pod(pod: Pod, preemption_mode: str, reported: Collection[str]) -> KnownPod:
    """A pod with what it holds exclusively: container by container if victims may have to be chosen, else in one word."""
    pinned = tuple(containers_that_hold_exclusively(effective_request(pod), reported))
    namespace, name = pod.metadata.namespace or "", pod.metadata.name
    if preemption_mode == PREEMPTION_ENABLED:
        return KnownPod(namespace, name, SEE_CONTAINERS, pinned)
    return KnownPod(namespace, name, SOMETHING if pinned else NOTHING)


def is_foreign(pod: Pod, profiles: Collection[str], *, only_exclusive: bool, reported: Collection[str]) -> bool:
    """Did another scheduler bind the pod, so that nothing was reserved for it here?"""
    if not pod.spec.node_name or (pod.spec.scheduler_name or "") in profiles:
        return False
    return not only_exclusive or holds_exclusively(effective_request(pod), reported)
