"""Pods that every node must answer alike: same amounts, same wishes about the node.

In comes a wire pod, out goes its `PodClass`. Answers (fits, score) are kept per class, so ten thousand replicas of one
deployment cost one evaluation. `scheduling/answers.py` keeps those answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from bayplan.cluster.pods.checks import (
    check_affinity,
    check_containers,
    check_number_of_containers,
    check_number_of_volumes,
)
from bayplan.cluster.pods.declared_features import needed_features
from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.pods.resizing import resize_is_infeasible, running_amounts
from bayplan.cluster.pods.terms import NO_TERMS, PodTerms, has_terms, label_keys_of, labels_of, terms_of
from bayplan.cluster.reports.recent import Recent
from bayplan.cluster.volumes.needs import NO_VOLUMES, VolumeNeeds
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.volcano_annotations import POLICY, policy_in
from bayplan.kube.wire.core_v1 import NodeAffinity, Pod, PodSpec, Toleration

MOST_ZONES = "bayplan.io/max-numa-zones"
# A kubelet's masks have 64 bits.
_LIMIT = re.compile(r"[1-9]|[1-5][0-9]|6[0-4]")
# Bytes of JSON. An ordinary pod, reduced to what is read here, has about a thousand.
LARGE = 32 << 10
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
    numa_policy: str = ""
    """The Topology Manager policy that the pod asks for in Volcano's annotation, as written."""
    most_zones: int | None = None
    """How many NUMA zones the pod may get at most; None if it does not say."""
    features: int = 0
    """The features that a node must declare, as bits."""
    images: tuple[str, ...] = ()
    """The images of its containers and volumes, as nodes name them."""
    volumes: VolumeNeeds = NO_VOLUMES
    """What its claims and disks ask of a node at this moment; another class once they ask for something else."""


_Value = TypeVar("_Value")


def kept_with_class(work_out: Callable[[PodClass], _Value]) -> Callable[[PodClass], _Value]:
    """Compute a value once per class and store it on the class, so that it is freed with it.

    A weak dictionary would hash the class, which is long, at each call.
    """
    name = f"{work_out.__module__}.{work_out.__qualname__}"

    def found(pod: PodClass) -> _Value:
        kept = pod.__dict__
        if name not in kept:
            kept[name] = work_out(pod)
        value: _Value = kept[name]
        return value

    found.__doc__ = work_out.__doc__
    return found


# How to find out what the volumes of a pod need.
NeedsOf = Callable[[Pod], VolumeNeeds]


class PodClasses:
    """Interns pod classes, so that the class of a known kind of pod is found without reading its amounts again.

    The most recently used kinds are kept: a cluster that runs for months sees ever new ones.
    """

    def __init__(self, volumes_of: NeedsOf = lambda _: NO_VOLUMES) -> None:
        self._volumes_of = volumes_of
        self._classes: Recent[PodClass] = Recent()
        self._requests: Recent[PodRequest] = Recent()
        self._terms: Recent[PodTerms] = Recent()
        # Several steps of one decision ask about the same pod. Only without volumes: other objects may change those.
        self._last: tuple[Pod, PodClass] | None = None

    def of(self, pod: Pod) -> PodClass:
        """The class of a pod; raises `InvalidObject` if it says what no API server would accept."""
        if self._last is not None and self._last[0] is pod:
            return self._last[1]
        found = self._found(pod)
        if not pod.spec.volumes:
            self._last = pod, found
        return found

    def _found(self, pod: Pod) -> PodClass:
        self.terms_of(pod)
        check_number_of_volumes(pod)
        volumes = self._volumes_of(pod) if pod.spec.volumes else NO_VOLUMES
        key = _key(pod) if volumes is NO_VOLUMES else (_key(pod), volumes)
        known = self._classes.get(key)
        return known if known is not None else self._classes.put(key, pod_class_of(pod, volumes))

    def with_volumes(self, volumes_of: NeedsOf) -> PodClasses:
        """The same classes for a cluster with other volumes."""
        shared = PodClasses(volumes_of)
        shared._classes, shared._requests, shared._terms = self._classes, self._requests, self._terms
        return shared

    def request_of(self, pod: Pod) -> PodRequest:
        """The amounts of a pod that already has a node: which node it wanted makes no difference any more."""
        key = _request_key(pod)
        known = self._requests.get(key)
        return known if known is not None else self._requests.put(key, _checked_request(pod))

    def terms_of(self, pod: Pod) -> PodTerms:
        """What a pod says about other pods; it is no part of the class, because the answer to it changes with them."""
        if not has_terms(pod):
            return NO_TERMS
        key = _terms_key(pod)
        known = self._terms.get(key)
        return known if known is not None else self._terms.put(key, terms_of(pod))

    def __len__(self) -> int:
        return len(self._classes)


def pod_class_of(pod: Pod, volumes: VolumeNeeds = NO_VOLUMES) -> PodClass:
    """Read everything about a pod that a node's answer may depend on; its `volumes` depend on other objects."""
    spec = pod.spec
    check_number_of_containers(pod)
    check_affinity(pod)
    return PodClass(
        request=_checked_request(pod),
        node_name=spec.node_name or None,
        node_selector=spec.node_selector or {},
        node_affinity=(spec.affinity.node_affinity if spec.affinity else None) or NodeAffinity(),
        tolerations=tuple(spec.tolerations or ()),
        host_ports=host_ports_of(spec),
        not_understood=_not_understood(spec),
        numa_policy=policy_in(pod.metadata.annotations),
        most_zones=most_zones_of(pod),
        features=needed_features(spec),
        images=images_of(spec),
        volumes=volumes,
    )


def are_alike(pod: Pod, other: Pod) -> bool:
    """True if two pods are of one class for certain, by a comparison that takes a tenth of reading one."""
    if pod.spec != other.spec or any(volume.ephemeral is not None for volume in pod.spec.volumes or ()):
        return False  # Ephemeral volumes have a claim for each pod.
    ours, theirs = pod.metadata.annotations, other.metadata.annotations
    if ours != theirs and any((ours or {}).get(key) != (theirs or {}).get(key) for key in (MOST_ZONES, POLICY)):
        return False
    return _status_key(pod) == _status_key(other)


def is_large(pod: Pod) -> bool:
    """True if a pod is so large (thousands of terms, containers or resources) that reading it would delay others."""
    return len(msgspec.json.encode((pod.spec, pod.metadata.labels))) > LARGE


def most_zones_of(pod: Pod) -> int | None:
    """The limit of `bayplan.io/max-numa-zones`; raises `InvalidObject` if invalid."""
    text = (pod.metadata.annotations or {}).get(MOST_ZONES)
    if text is None:
        return None
    if not _LIMIT.fullmatch(text):
        at = ObjectPath.of(pod).child("metadata").child("annotations").key(MOST_ZONES)
        raise InvalidObject(at, f'"{text}" is not allowed: must be a whole number from 1 to 64')
    return int(text)


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


def images_of(spec: PodSpec) -> tuple[str, ...]:
    """The images that a pod needs, one for each container and image volume, with the default tag if it has none."""
    written = [container.image for container in (*(spec.init_containers or ()), *(spec.containers or ()))]
    written += [volume.image.reference for volume in spec.volumes or () if volume.image is not None]
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in written if name)


def _checked_request(pod: Pod) -> PodRequest:
    request = effective_request(pod)
    check_containers(pod)
    return request


def _not_understood(spec: PodSpec) -> tuple[str, ...]:
    """Demands that no plugin judges yet; a decision that ignored them would be wrong, so it must say so."""
    found = []
    if spec.resource_claims:
        found.append("spec.resourceClaims")
    if spec.os is not None and spec.os.name not in ("", "linux"):
        found.append("spec.os.name")
    return tuple(found)


def _key(pod: Pod) -> bytes:
    """Everything that `pod_class_of` reads; for demands that no plugin judges, only that they are there."""
    spec = pod.spec
    return msgspec.json.encode(
        (
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            *_status_key(pod),
            spec.node_name,
            spec.node_selector,
            spec.affinity.node_affinity if spec.affinity else None,
            spec.tolerations,
            _not_understood(spec),
            needed_features(spec),
            policy_in(pod.metadata.annotations),
            (pod.metadata.annotations or {}).get(MOST_ZONES),
            [volume.image.reference for volume in spec.volumes or () if volume.image is not None],
        )
    )


def _request_key(pod: Pod) -> bytes:
    spec = pod.spec
    lists = (spec.init_containers or (), spec.containers or ())
    # Without images: pods of different programs often ask for the same amounts.
    amounts = [[(each.name, each.resources, each.ports, each.restart_policy) for each in listed] for listed in lists]
    return msgspec.json.encode((amounts, spec.overhead, spec.resources, *_status_key(pod)))


def _status_key(pod: Pod) -> tuple[object, ...]:
    """What is read of the status: the QoS class, and the amounts of a pod that is resized."""
    qos = pod.status.qos_class if pod.status else None
    running = running_amounts(pod)
    return (qos, running, resize_is_infeasible(pod)) if running else (qos,)


def _terms_key(pod: Pod) -> bytes:
    """Whatever `terms_of` reads.

    Of the labels only those that the terms refer to, because others differ from rank to rank.
    """
    affinity = pod.spec.affinity
    of_pods = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    referred = {key: labels_of(pod).get(key) for key in label_keys_of(pod)}
    return msgspec.json.encode((pod.metadata.namespace, referred, of_pods, pod.spec.topology_spread_constraints))
