"""What Volcano's resource-exporter does with its own sources, faults included, and how Volcano's scheduler reads the
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.kube.quantity import Quantity, QuantityError, parse
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import CpuInfo, Numatopology, PodAllocation, ResourceInfo
from bayplan.services.agent.forms.volcano_exporter import CpuUse, container_allocations, sorted_pods
from bayplan.services.agent.sources.state_files import CpuState

STORAGE = "ephemeral-storage"
_RESERVABLE = (CPU, MEMORY, STORAGE)
_EVICTION_SIGNALS = {"memory.available": MEMORY, "nodefs.available": STORAGE}
_NOTHING = Quantity(0)
_INTEGER = re.compile(r"[+-]?[0-9]+")

Quantities = Mapping[str, str | int | float]


class CannotExport(ValueError):
    """A source that the exporter gives up on; what it published before stays."""


def cpus_in_text(text: str) -> tuple[int, ...]:
    """The CPUs of a list, in Volcano's reading: parts with more than one dash and ranges that
    go backwards are nothing.
    """
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
    pods = [
        PodAllocation(uid=uid, container_allocations=container_allocations(held)) for uid, held in state.entries.items()
    ]
    return CpuUse(tuple(sorted(state.shared_cpus)), sorted_pods(pods))


def by_numa(cpus: Iterable[int], numa_of: Mapping[int, int]) -> dict[int, list[int]]:
    """CPUs by NUMA node; one that sysfs does not know counts for node 0."""
    found: dict[int, list[int]] = {}
    for cpu in cpus:
        found.setdefault(numa_of.get(cpu, 0), []).append(cpu)
    return found


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
    """What is kept back of each resource that the machine has: for the kubelet, for the system, and before pods are
    evicted.
    """
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
    """The one reservation that is published: the exporter's own flag if it is given, else what the kubelet's
    configuration comes to.
    """
    if flag and CPU in flag:
        return flag[CPU]
    try:
        return str(reserved_amounts(configuration, {CPU: _NOTHING}).get(CPU, _NOTHING))
    except CannotExport:
        return str(_NOTHING)


class VolcanoView(NamedTuple):
    """A node's CPUs as Volcano's scheduler has them after reading the object; reserved ones are only counted, None if
    that cannot be read.
    """

    policies: Mapping[str, str]
    reserved_milli: int | None
    free: tuple[int, ...]
    capacity: int
    places: Mapping[int, CpuInfo]
    pods: Sequence[PodAllocation]


def as_volcano_reads(topology: Numatopology) -> VolcanoView:
    """What remains of an object: a list that cannot be read is empty, a reservation that cannot be read is unknown
    (None), and a CPU without a number is CPU 0.
    """
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
