"""Volcano's Numatopology, as its resource-exporter writes it: the node's CPUs, which are free, who holds the others.

`report.py` decides what to publish; `cluster/reports/numatopology.py` reads such objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import (
    API_VERSION,
    CPU_MANAGER_POLICY,
    KIND,
    TIMESTAMP_ANNOTATION,
    TOPOLOGY_MANAGER_POLICY,
    ContainerAllocation,
    CpuInfo,
    NumatopologySpec,
    PodAllocation,
    ResourceInfo,
)
from bayplan.services.agent.sources.pod_resources import PodResources
from bayplan.services.agent.sources.sysfs import Hardware


class CpuUse(NamedTuple):
    """Free CPUs, ascending, and the pods that hold the others."""

    free: tuple[int, ...]
    pods: list[PodAllocation]


def cpus_in_list(known: Iterable[int], pods: Iterable[PodResources]) -> CpuUse:
    """CPU use as the podresources API lists it: every other CPU is free. Pods are known by name."""
    cpus = frozenset(known)
    used: set[int] = set()
    allocations = []
    for pod in pods:
        held = {container.name: cpus.intersection(container.cpus) for container in pod.containers}
        used.update(*held.values())
        allocations.append(
            PodAllocation(namespace=pod.namespace, name=pod.name, container_allocations=container_allocations(held))
        )
    return CpuUse(tuple(sorted(cpus - used)), sorted_pods(allocations))


def sorted_pods(pods: Iterable[PodAllocation]) -> list[PodAllocation]:
    """Pods that hold a CPU, by UID, namespace and name."""
    holders = (pod for pod in pods if pod.container_allocations != [])
    return sorted(holders, key=lambda pod: (pod.uid, pod.namespace, pod.name))


def container_allocations(cpus_of: Mapping[str, Iterable[int]]) -> list[ContainerAllocation]:
    """Containers that hold a CPU, by name."""
    texts = {name: cpu_list(cpus) for name, cpus in sorted(cpus_of.items())}
    return [ContainerAllocation(name=name, allocations={CPU: text}) for name, text in texts.items() if text]


def policies_of(configuration: Mapping[str, Any] | None) -> dict[str, str]:
    """The policies as written: empty if the configuration omits them, `none` without a configuration."""
    if configuration is None:
        return {CPU_MANAGER_POLICY: "none", TOPOLOGY_MANAGER_POLICY: "none"}
    return {
        CPU_MANAGER_POLICY: configuration.get("cpuManagerPolicy") or "",
        TOPOLOGY_MANAGER_POLICY: configuration.get("topologyManagerPolicy") or "",
    }


def places_on(hardware: Hardware) -> dict[int, CpuInfo]:
    """The location of each CPU that is in a zone; cores have the kernel's own numbers, which repeat in every socket."""
    return {
        cpu.id: CpuInfo(numa=cpu.zone, socket=cpu.socket, core=cpu.kernel_core)
        for cpu in hardware.cpus.values()
        if cpu.zone is not None
    }


def numatopology_document(
    node: str, places: Mapping[int, CpuInfo], use: CpuUse, policies: Mapping[str, str], reserved: str, *, now: float
) -> dict[str, Any]:
    """The object without zeros and empty lists. Its timestamp makes readers process an unchanged one."""
    spec = NumatopologySpec(
        policies=dict(policies),
        res_reserved={CPU: reserved},
        numares={CPU: ResourceInfo(allocatable=cpu_list(use.free), capacity=len(places))},
        cpu_detail={str(number): place for number, place in sorted(places.items())},
        pod_allocations=use.pods or None,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node, "annotations": {TIMESTAMP_ANNOTATION: str(int(now))}},
        "spec": msgspec.to_builtins(spec),
    }
