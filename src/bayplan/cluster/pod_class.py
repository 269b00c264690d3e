"""Pods that every node must answer alike: same amounts, same wishes about the node.

In comes a wire pod, out goes its `PodClass`. Answers (fits, score) are kept per class, so ten thousand replicas of one
deployment cost one evaluation. `scheduling/answers.py` keeps those answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bayplan.cluster.pod_request import PodRequest, effective_request
from bayplan.kube.core_v1 import NodeAffinity, Pod, PodSpec, Toleration
from bayplan.kube.errors import InvalidObject, ObjectPath

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, never bound to


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port a pod occupies on the node itself. An empty address means every address."""

    protocol: str
    number: int
    address: str

    def conflicts(self, other: HostPort) -> bool:
        """Same protocol and number, and addresses that overlap."""
        same = self.protocol == other.protocol and self.number == other.number
        return same and (self.address == other.address or not self.address or not other.address)


@dataclass(frozen=True, eq=False)
class PodClass:
    """What a node's answer may depend on. Compared by identity: `PodClasses` hands out one object per class."""

    request: PodRequest
    node_name: str | None
    node_selector: dict[str, str]
    node_affinity: NodeAffinity
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    not_understood: tuple[str, ...]


class PodClasses:
    """Interns pod classes, so that the class of a known kind of pod is found without reading its amounts again."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodClass] = {}

    def of(self, pod: Pod) -> PodClass:
        """The class of a pod; raises `InvalidObject` if its amounts make no sense."""
        key = _key(pod)
        known = self._known.get(key)
        if known is None:
            known = pod_class_of(pod)
            self._known[key] = known
        return known

    def __len__(self) -> int:
        return len(self._known)


def pod_class_of(pod: Pod) -> PodClass:
    """Read everything about a pod that a node's answer may depend on."""
    spec = pod.spec
    node_affinity = (spec.affinity.node_affinity if spec.affinity else None) or NodeAffinity()
    _check_weights(node_affinity, ObjectPath.of(pod).child("spec.affinity.nodeAffinity"))
    return PodClass(
        request=effective_request(pod),
        node_name=spec.node_name or None,
        node_selector=spec.node_selector or {},
        node_affinity=node_affinity,
        tolerations=tuple(spec.tolerations or ()),
        host_ports=host_ports_of(spec),
        not_understood=_not_understood(spec),
    )


def host_ports_of(spec: PodSpec) -> tuple[HostPort, ...]:
    """Ports taken on the node, by application containers and sidecars alike."""
    sidecars = [container for container in spec.init_containers or [] if container.restart_policy == "Always"]
    containers = [*sidecars, *(spec.containers or [])]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, "" if port.host_ip == ANY_ADDRESS else port.host_ip)
        for container in containers
        for port in container.ports or []
        if port.host_port
    )


def _check_weights(affinity: NodeAffinity, at: ObjectPath) -> None:
    wishes = affinity.preferred_during_scheduling_ignored_during_execution or []
    for index, wish in enumerate(wishes):
        if not 1 <= wish.weight <= 100:
            where = at.child("preferredDuringSchedulingIgnoredDuringExecution").item(index).child("weight")
            raise InvalidObject(where, f"{wish.weight} is not allowed: must be 1 to 100")


def _not_understood(spec: PodSpec) -> tuple[str, ...]:
    """Demands that no plugin judges yet; a decision that ignored them would be wrong, so it must say so."""
    found = []
    if spec.affinity and spec.affinity.pod_affinity:
        found.append("spec.affinity.podAffinity")
    if spec.affinity and spec.affinity.pod_anti_affinity:
        found.append("spec.affinity.podAntiAffinity")
    if spec.topology_spread_constraints:
        found.append("spec.topologySpreadConstraints")
    return tuple(found)


def _key(pod: Pod) -> bytes:
    spec = pod.spec
    return msgspec.json.encode(
        (
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            spec.node_name,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            pod.status.qos_class if pod.status else None,
        )
    )
