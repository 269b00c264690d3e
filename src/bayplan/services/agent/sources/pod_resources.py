"""What the kubelet says about its pods, as plain data: who holds which CPUs, memory and devices, and what may be held at all.

The kubelet says it over its podresources socket (`List` and `GetAllocatableResources`), and its state files say a part of it
(`services/agent/sources/state_files.py`). Either way it arrives here; `accounting.py` turns it into amounts per zone. Zones are NUMA ids as the kubelet
gave them, not yet checked against the machine; no zones means that the location is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

PodName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """So many bytes of memory or of one size of huge pages, in one zone or somewhere in several."""

    type: str
    size: int
    zones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of one resource that are in the same zones."""

    resource: str
    ids: tuple[str, ...]
    zones: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds. `claims` are names of DRA claims, which take no part in NUMA alignment."""

    name: str
    cpus: tuple[int, ...] = ()
    devices: tuple[DeviceGroup, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod holds. Init containers that have ended are in it only if a state file told of them."""

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...]

    @property
    def key(self) -> PodName:
        """What others know the pod by."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What pods may hold in all: CPUs without reserved ones, healthy devices, memory without reservations.

    `cpus` is empty where no CPU is ever exclusive, and `memory` where no Memory Manager runs.
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
    """True if one of the patterns is about this pod."""
    namespace, name = pod
    return any(_fits(namespace, each.namespace) and _fits(name, each.name) for each in patterns)


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[^", "[!"))  # the other way to write "none of these"


def cpus_of(pods: Iterable[PodResources]) -> Iterator[tuple[PodResources, ContainerResources]]:
    """Every container that holds CPUs, with its pod."""
    for pod in pods:
        for container in pod.containers:
            if container.cpus:
                yield pod, container


def shared_pool_of(pods: Iterable[PodResources], namespace: str, pod_name: str, container_name: str) -> frozenset[int]:
    """The CPUs of a container that is known to have none of its own; empty if it does not run.

    Old kubelets list the shared pool for such containers. One of them, named by the user, then shows what is shared.
    """
    for pod, container in cpus_of(pods):
        if pod.key == (namespace, pod_name) and container.name == container_name:
            return frozenset(container.cpus)
    return frozenset()


def without_cpus(pods: Sequence[PodResources], cpus: frozenset[int]) -> list[PodResources]:
    """The same pods, holding none of these CPUs."""
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
