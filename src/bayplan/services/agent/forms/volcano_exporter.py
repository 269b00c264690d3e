"""Volcano's Numatopology, as its resource-exporter writes it and as its scheduler reads it.

The object knows CPUs only: where each one sits (the kernel's core numbers, which repeat in every socket), which are free, who has the others, two
policies and an amount that is reserved. `numatopology_document` writes one from what the agent knows anyway. The functions before it do what the exporter
does with its own sources, faults included; `as_volcano_reads` is what the scheduler makes of the text. How bayplan itself reads such an object is
in `cluster/reports/numatopology.py`, and what it writes by choice in `report.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.kube.quantity import Quantity, QuantityError, parse
from bayplan.kube.wire.numatopology_v1alpha1 import (
    API_VERSION,
    CPU_MANAGER_POLICY,
    KIND,
    TIMESTAMP_ANNOTATION,
    TOPOLOGY_MANAGER_POLICY,
    ContainerAllocation,
    CpuInfo,
    Numatopology,
    NumatopologySpec,
    PodAllocation,
    ResourceInfo,
)
from bayplan.services.agent.sources.pod_resources import PodResources
from bayplan.services.agent.sources.state_files import CpuState
from bayplan.services.agent.sources.sysfs import Hardware

STORAGE = "ephemeral-storage"
_RESERVABLE = (CPU, MEMORY, STORAGE)
_EVICTION_SIGNALS = {"memory.available": MEMORY, "nodefs.available": STORAGE}
_NOTHING = Quantity(0)
_INTEGER = re.compile(r"[+-]?[0-9]+")

Quantities = Mapping[str, str | int | float]


class CannotExport(ValueError):
    """A source that the exporter gives up on; what it published before stays."""


class CpuUse(NamedTuple):
    """Free CPUs, ascending, and who has the others."""

    free: tuple[int, ...]
    pods: list[PodAllocation]


# -- who has which CPUs ------------------------------------------------------------------------------------------------


def cpus_in_text(text: str) -> tuple[int, ...]:
    """The CPUs of a list, in Volcano's reading: parts with more than one dash and ranges that go backwards are nothing."""
    text = text.strip("\n")
    found: list[int] = []
    for part in text.split(",") if text else ():
        bounds = part.split("-")
        if len(bounds) > 2:
            continue
        if not all(_INTEGER.fullmatch(bound) for bound in bounds):
            raise CannotExport(f'"{text}" is no list of CPUs such as 0-3,8')
        found.extend(range(int(bounds[0]), int(bounds[-1]) + 1))
    return tuple(found)


def cpus_in_state(state: CpuState) -> CpuUse:
    """From `cpu_manager_state`: what is shared is free. Pods are known by UID."""
    pods = [PodAllocation(uid=uid, container_allocations=_of_containers(held)) for uid, held in state.entries.items()]
    return CpuUse(tuple(sorted(state.shared_cpus)), sorted_pods(pods))


def cpus_in_list(known: Iterable[int], pods: Iterable[PodResources]) -> CpuUse:
    """From the podresources socket: every CPU that no container is listed with is free. Pods are known by name."""
    cpus = frozenset(known)
    used: set[int] = set()
    allocations = []
    for pod in pods:
        held = {container.name: cpus.intersection(container.cpus) for container in pod.containers}
        used.update(*held.values())
        allocations.append(
            PodAllocation(namespace=pod.namespace, name=pod.name, container_allocations=_of_containers(held))
        )
    return CpuUse(tuple(sorted(cpus - used)), sorted_pods(allocations))


def sorted_pods(pods: Iterable[PodAllocation]) -> list[PodAllocation]:
    """Pods that have a CPU in the order of the object: by UID, namespace and name."""
    holders = (pod for pod in pods if pod.container_allocations != [])
    return sorted(holders, key=lambda pod: (pod.uid, pod.namespace, pod.name))


def _of_containers(cpus_of: Mapping[str, Iterable[int]]) -> list[ContainerAllocation]:
    """Containers that have a CPU, by name."""
    texts = {name: cpu_list(cpus) for name, cpus in sorted(cpus_of.items())}
    return [ContainerAllocation(name=name, allocations={CPU: text}) for name, text in texts.items() if text]


def by_numa(cpus: Iterable[int], numa_of: Mapping[int, int]) -> dict[int, list[int]]:
    """CPUs by NUMA node; one that sysfs does not know counts for node 0."""
    found: dict[int, list[int]] = {}
    for cpu in cpus:
        found.setdefault(numa_of.get(cpu, 0), []).append(cpu)
    return found


# -- reservations and policies -----------------------------------------------------------------------------------------


def resource_list(written: Quantities | None) -> dict[str, Quantity]:
    """What a kubelet may keep back: amounts of CPU, memory and storage, none of them negative."""
    found = {}
    for name, text in (written or {}).items():
        if name not in _RESERVABLE:
            raise CannotExport(f'cannot reserve "{name}": must be one of {", ".join(_RESERVABLE)}')
        try:
            found[name] = parse(text)
        except QuantityError as error:
            raise CannotExport(f"{name}: {error}") from None
        if found[name].nano < 0:
            raise CannotExport(f'{name}: "{text}" is negative: must be 0 or more')
    return found


def reserved_amounts(configuration: Mapping[str, Any], capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What is kept back of each resource that the machine has: for the kubelet, for the system, and before pods are evicted."""
    kept = (
        resource_list(configuration.get("kubeReserved")),
        resource_list(configuration.get("systemReserved")),
        _before_eviction(configuration.get("evictionHard") or {}, capacity),
    )
    sums = {name: sum((each[name] for each in kept if name in each), _NOTHING) for name in capacity}
    return {name: amount for name, amount in sums.items() if not amount.is_zero}


def _before_eviction(thresholds: Mapping[str, str], capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    found = {}
    for signal, text in thresholds.items():
        name = _EVICTION_SIGNALS.get(signal, "")
        try:
            if text.endswith("%"):
                amount = parse(int(capacity.get(name, _NOTHING).value() * float(text[:-1]) / 100))
            else:
                amount = parse(text)
        except ValueError:
            raise CannotExport(f'evictionHard: {signal}: "{text}" is neither a quantity nor a percentage') from None
        if name:
            found[name] = amount
    return found


def reserved_cpu(configuration: Mapping[str, Any], flag: Mapping[str, str] | None = None) -> str:
    """The one reservation that is published: the exporter's own flag if it is given, else what the kubelet's configuration comes to."""
    if flag and CPU in flag:
        return flag[CPU]
    try:
        return str(reserved_amounts(configuration, {CPU: _NOTHING}).get(CPU, _NOTHING))
    except CannotExport:
        return str(_NOTHING)


def policies_of(configuration: Mapping[str, Any] | None) -> dict[str, str]:
    """Taken as written: nothing for what the configuration leaves out, `none` only while there is no configuration."""
    if configuration is None:
        return {CPU_MANAGER_POLICY: "none", TOPOLOGY_MANAGER_POLICY: "none"}
    return {
        CPU_MANAGER_POLICY: configuration.get("cpuManagerPolicy") or "",
        TOPOLOGY_MANAGER_POLICY: configuration.get("topologyManagerPolicy") or "",
    }


# -- the object --------------------------------------------------------------------------------------------------------


def places_on(hardware: Hardware) -> dict[int, CpuInfo]:
    """Where CPUs sit, cores by the kernel's own numbers; CPUs in no zone are not in it."""
    return {
        cpu.id: CpuInfo(numa=cpu.zone, socket=cpu.socket, core=cpu.kernel_core)
        for cpu in hardware.cpus.values()
        if cpu.zone is not None
    }


def numatopology_document(
    node: str, places: Mapping[int, CpuInfo], use: CpuUse, policies: Mapping[str, str], reserved: str, *, now: float
) -> dict[str, Any]:
    """The object, with zeros and empty lists left out. Its time stamp makes readers look even if they have seen the rest."""
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


class VolcanoView(NamedTuple):
    """A node's CPUs as Volcano's scheduler has them after reading the object; reserved ones are only counted, None if that cannot be read."""

    policies: Mapping[str, str]
    reserved_milli: int | None
    free: tuple[int, ...]
    capacity: int
    places: Mapping[int, CpuInfo]
    pods: Sequence[PodAllocation]


def as_volcano_reads(topology: Numatopology) -> VolcanoView:
    """What remains of an object: a list that cannot be read is empty, a reservation that cannot be read is unknown (None), and a CPU without a number is CPU 0."""
    spec = topology.spec
    cpu = (spec.numares or {}).get(CPU, ResourceInfo())
    try:
        free = tuple(sorted(set(cpus_in_text(cpu.allocatable))))
    except CannotExport:
        free = ()
    try:
        amounts = {name: parse(text) for name, text in (spec.res_reserved or {}).items()}
        reserved = amounts.get(CPU, _NOTHING).milli()
    except QuantityError:
        reserved = None
    places = {
        int(number) if _INTEGER.fullmatch(number) else 0: place for number, place in (spec.cpu_detail or {}).items()
    }
    return VolcanoView(spec.policies or {}, reserved, free, cpu.capacity, places, spec.pod_allocations or ())
