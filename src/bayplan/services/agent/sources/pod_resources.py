"""What pods hold and what is allocatable, as plain data from the podresources API and the state files.

`accounting.py` turns it into amounts per zone. Zones are the kubelet's NUMA ids, not yet checked against the machine;
no zones means an unknown location.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

PodName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Bytes of memory or of one size of huge pages, in one zone or spread over several."""

    type: str
    size: int
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of one resource in the same zones."""

    resource: str
    ids: tuple[str, ...]
    zones: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds. `claims` are DRA claims, which are not NUMA-aligned."""

    name: str
    cpus: tuple[int, ...] = ()
    devices: tuple[DeviceGroup, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod holds. Finished init containers are included only if a state file has them."""

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...]

    @property
    def key(self) -> PodName:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Allocatable:
    """Unreserved CPUs and memory, and healthy devices.

    `cpus` is empty without a static CPU Manager, `memory` without a Memory Manager.
    """

    cpus: tuple[int, ...] = ()
    devices: tuple[DeviceGroup, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class PodPattern:
    """Shell patterns for the namespace and the name of pods."""

    namespace: str
    name: str


def matches_any(pod: PodName, patterns: Iterable[PodPattern]) -> bool:
    """Whether a pattern matches the pod."""
    namespace, name = pod
    return any(_fits(namespace, each.namespace) and _fits(name, each.name) for each in patterns)


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[^", "[!"))  # both mean "none of these"


def cpus_of(pods: Iterable[PodResources]) -> Iterator[tuple[PodResources, ContainerResources]]:
    """Every container that holds CPUs, with its pod."""
    for pod in pods:
        for container in pod.containers:
            if container.cpus:
                yield pod, container


def shared_pool_of(pods: Iterable[PodResources], namespace: str, pod_name: str, container_name: str) -> frozenset[int]:
    """The CPUs of a container without exclusive CPUs, for which old kubelets list the shared pool.

    Empty if the container does not run.
    """
    for pod, container in cpus_of(pods):
        if pod.key == (namespace, pod_name) and container.name == container_name:
            return frozenset(container.cpus)
    return frozenset()


def without_cpus(pods: Sequence[PodResources], cpus: frozenset[int]) -> list[PodResources]:
    """The pods without these CPUs."""
    if not cpus:
        return list(pods)
    return [
        replace(
            pod,
            containers=tuple(
                replace(container, cpus=tuple(cpu for cpu in container.cpus if cpu not in cpus))
                for container in pod.containers
            ),
        )
        for pod in pods
    ]
