"""What a filter sees of a node through a cache, and the arithmetic of a pessimistic reservation.

scheduler-plugins does not know in which zone the kubelet will put a pod. So it subtracts the pod's reservation from
every zone that has the resource, never below zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.cluster.columns.resource_kinds import containers_that_hold_exclusively, holds_exclusively
from bayplan.cluster.pods.request import CPU, AmountError, Amounts, amount_of, effective_request
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    NodeResourceTopology,
    Zone,
    ZoneResource,
    resources_of,
    zones_of,
)


@dataclass(frozen=True, slots=True)
class View:
    """A node's report as a cache shows it; `generation` counts the passes in which copies were replaced."""

    fresh: bool
    topology: NodeResourceTopology | None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Desynced:
    """Names of nodes whose copy may be wrong: because of reservations or foreign pods, or because of a changed
    configuration.
    """

    maybe_overreserved: list[str]
    config_changed: list[str]


def less(topology: NodeResourceTopology, reserved: Amounts) -> NodeResourceTopology:
    """A report with the sum of requests subtracted from every zone."""
    return replace(topology, zones=[_less(zone, reserved) for zone in zones_of(topology)])


def _less(zone: Zone, reserved: Amounts) -> Zone:
    return replace(zone, resources=[_left(name, resource, reserved) for name, resource in resources_of(zone)])


def _left(name: str, resource: ZoneResource, reserved: Amounts) -> ZoneResource:
    left_before = resource.allocatable if resource.available is None else resource.available
    named = replace(resource, name=name, available=left_before)
    if not reserved.get(name) or left_before is None:
        return named
    try:
        left = max(0, amount_of(name, left_before) - reserved[name])
    except AmountError:
        return named  # nothing can be subtracted from a malformed amount; the reader of the report will say so
    return replace(named, available=f"{left}m" if name == CPU else left)


def resource_names(topology: NodeResourceTopology | None) -> set[str]:
    """The resources that a report has in any zone, whatever its type."""
    if topology is None:
        return set()
    return {name for zone in zones_of(topology) for name, _ in resources_of(zone)}


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
    """A pod with what it holds exclusively: container by container if victims may have to be
    chosen, else in one word.
    """
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
