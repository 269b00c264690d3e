"""The `kubelet` part of a node group: field names of the KubeletConfiguration, values as it takes them.

In come the written keys and the machine they are for, out goes the `KubeletConfiguration` of a virtual kubelet. Values
that no kubelet would start with are faults: those that a single key shows are found here, the rest by starting a
kubelet in `nodes.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, SCOPE_BY_TEXT, KubeletSettings, Policy, Scope
from bayplan.cluster.reports.kubelet_version import NEWEST, KubeletVersion, version_of
from bayplan.cluster.reports.reported_settings import CPU_OPTIONS, POD_LEVEL_GATE
from bayplan.explain.amounts import human
from bayplan.simulate.kubelet.configuration import MOST_PODS, KubeletConfiguration
from bayplan.simulate.kubelet.machine import Machine, MachineZone
from bayplan.simulate.scenario.lines import Section, Wrong, YamlValue
from bayplan.simulate.scenario.values import amount, one_of, text, whole_number, yes_or_no

KEYS = (
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "memoryManagerPolicy",
    "reservedSystemCPUs",
    "kubeReserved",
    "systemReserved",
    "reservedMemory",
    "maxPods",
    "featureGates",
    "version",
)
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")  # the last two are accepted and change nothing

ReservedMemory = dict[int, dict[str, int]]

_CPU_RANGE = re.compile(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*")


def kubelet_of(keys: Section, machine: Machine) -> KubeletConfiguration:
    """The kubelet that these keys describe; what is absent has the kubelet's own default."""
    options = keys.inner("topologyManagerPolicyOptions", ("prefer-closest-numa-nodes", "max-allowable-numa-nodes"))
    gates = keys.inner("featureGates", (POD_LEVEL_GATE,))
    memory_static = keys.take("memoryManagerPolicy", one_of({"None": False, "Static": True}), default=False)
    settings = KubeletSettings(
        policy=keys.take("topologyManagerPolicy", one_of(POLICY_BY_TEXT), Policy.NONE),
        scope=keys.take("topologyManagerScope", one_of(SCOPE_BY_TEXT), Scope.CONTAINER),
        max_numa_nodes=options.take("max-allowable-numa-nodes", whole_number(8, 64), 8),
        prefer_closest=options.take("prefer-closest-numa-nodes", yes_or_no, default=False),
        cpu_static=keys.take("cpuManagerPolicy", one_of({"none": False, "static": True}), default=False),
        cpu_options=_cpu_options(keys),
        memory_static=memory_static,
        threads_per_core=max(Counter(cpu.core for cpu in machine.cpus).values()),
        pod_level_managers=gates.take(POD_LEVEL_GATE, yes_or_no, default=False),
        version=keys.take("version", _version, NEWEST),
    )
    kube = _reserved(keys, "kubeReserved")
    system = _reserved(keys, "systemReserved")
    reserved = kube.get(MEMORY, 0) + system.get(MEMORY, 0)
    return KubeletConfiguration(
        settings=settings,
        reserved_cpus=keys.take("reservedSystemCPUs", lambda value: _cpu_set(value, len(machine.cpus)), frozenset()),
        reserved_cpu_milli=kube.get(CPU, 0) + system.get(CPU, 0),
        reserved_memory=_reserved_memory(keys, machine, reserved, needs_zones=memory_static),
        most_pods=keys.take("maxPods", whole_number(1, 100_000), MOST_PODS),
    )


def _version(written: YamlValue) -> KubeletVersion:
    """A release of the kubelet: `1.36`, `v1.36.4`."""
    version, problem = version_of(text(written))
    if problem:
        known = ", ".join(each.text for each in KubeletVersion)
        raise Wrong(f'"{text(written)}" is no kubelet that can be simulated: must be one of {known}')
    return version


def _cpu_options(keys: Section) -> frozenset[str]:
    options = keys.inner("cpuManagerPolicyOptions", CPU_OPTIONS)
    return frozenset(option for option in CPU_OPTIONS if options.take(option, yes_or_no, default=False))


def _reserved(keys: Section, key: str) -> dict[str, int]:
    """Amounts of kubeReserved or systemReserved."""
    section = keys.inner(key, RESERVABLE)
    return {resource: section.take(resource, partial(amount, resource), 0) for resource in (CPU, MEMORY)}


def _cpu_set(written: YamlValue, cpus: int) -> frozenset[int]:
    """CPU ids as Linux lists them: `0,32` or `0-1,32-33`."""
    found: set[int] = set()
    for part in text(written).split(","):
        match = _CPU_RANGE.fullmatch(part)
        if match is None:
            raise Wrong(f'"{text(written)}" is no list of CPUs: must be like 0,32 or 0-1,32-33')
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last or last >= cpus:
            raise Wrong(f'"{text(written)}" is not allowed: the machine has CPUs 0 to {cpus - 1}')
        found.update(range(first, last + 1))
    return frozenset(found)


def _reserved_memory(keys: Section, machine: Machine, in_all: int, *, needs_zones: bool) -> ReservedMemory:
    """What each zone keeps from pods: as `reservedMemory` says, else the node's sum from the lowest zones on."""
    has = sum(zone.memory for zone in machine.zones)
    if in_all > has:
        problem = f"{human(MEMORY, in_all)} of memory are reserved: must be at most the machine's {human(MEMORY, has)}"
        at = keys.get("kubeReserved") or keys.get("systemReserved") or keys.written
        at.wrong(f"{problem} (no kubelet would start)")
        return {}
    if keys.get("reservedMemory") is None:
        if needs_zones and in_all:
            question = f"which zones keep the {human(MEMORY, in_all)} of kubeReserved and systemReserved?"
            problem = f"Static needs reservedMemory: {question} (no kubelet would start)"
            keys.written.at("memoryManagerPolicy").wrong(problem)
        return _from_lowest_zones(machine, in_all)
    zones = {zone.id: zone for zone in machine.zones}
    reserved: ReservedMemory = {}
    for zone, amounts in keys.items("reservedMemory", lambda entry: _zone_reservation(entry, zones)):
        already = reserved.setdefault(zone, {})
        for resource, bytes_ in amounts.items():
            if resource in already:
                keys.written.at("reservedMemory").wrong(f"zone {zone} reserves {resource} twice")
            already[resource] = bytes_
    found = sum(amounts.get(MEMORY, 0) for amounts in reserved.values())
    if found < in_all:
        problem = f"adds up to {human(MEMORY, found)}, but kubeReserved and systemReserved to {human(MEMORY, in_all)}"
        keys.written.at("reservedMemory").wrong(f"{problem} (no kubelet would start)")
    return reserved


def _zone_reservation(entry: YamlValue, zones: dict[int, MachineZone]) -> tuple[int, dict[str, int]]:
    """One entry of reservedMemory: `{numaNode: 0, limits: {memory: 1Gi}}`."""
    section = Section(entry, ("numaNode", "limits"))
    zone = section.need("numaNode", whole_number(0, max(zones)), 0)
    limits = section.entries("limits", lambda name, value: _zone_amount(name, value, zones.get(zone)))
    return zone, limits


def _zone_amount(resource: str, written: YamlValue, zone: MachineZone | None) -> int:
    found = amount(resource, written)
    if resource != MEMORY and not resource.startswith(HUGEPAGES_PREFIX):
        raise Wrong("is unknown: must be memory or hugepages-SIZE")
    if zone is not None:
        huge = sum(zone.huge_pages.values())
        has = zone.memory - huge if resource == MEMORY else zone.huge_pages.get(resource, 0)
        if found > has:
            raise Wrong(f"{text(written)} is more than zone {zone.id} has ({human(resource, has)})")
    return found


def _from_lowest_zones(machine: Machine, amount_left: int) -> ReservedMemory:
    reserved: ReservedMemory = {}
    for zone in machine.zones:
        here = min(amount_left, zone.memory - sum(zone.huge_pages.values()))
        if here:
            reserved[zone.id] = {MEMORY: here}
            amount_left -= here
    return reserved
