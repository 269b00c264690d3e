"""The loop closed: what the scheduler's columns say about a node, against what its (virtual) kubelet has free.

`busy_node` draws a machine, a kubelet and a sequence of admissions and removals; `columns_of` reads a report into a
scheduler's state; `free_of` is the kubelet's own word. Tests with and without an API server compare the two after every
step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from bayplan.cluster.pods.request import CPU, PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.services.agent.settings import AgentSettings
from bayplan.simulate.kubelet import (
    CannotStart,
    Cpu,
    KubeletConfiguration,
    Machine,
    MachineDevice,
    MachineZone,
    VirtualKubelet,
)
from bayplan.simulate.kubelet.report import cpus_by_zone
from tests.builders.bodies import Json
from tests.builders.clusters import free_in_zones
from tests.builders.objects import GI, GPU, NIC, container, node, pod
from tests.virtual_node import VirtualNode

HUGE = "hugepages-1Gi"
CPU_OPTIONS = ((), (), ("full-pcpus-only",), ("distribute-cpus-across-numa",), ("align-by-socket",))

ZoneAmounts = dict[int, dict[str, int]]
"""Zone id to resource to amount; CPUs in milli, as columns have them."""


def free_of(kubelet: VirtualKubelet) -> ZoneAmounts:
    """What the kubelet could hand out in each zone."""
    free = kubelet.free()
    here = cpus_by_zone(kubelet.machine)
    found: ZoneAmounts = {}
    for zone in kubelet.machine.zones:
        amounts: dict[str, int] = {}
        usable = here.get(zone.id, frozenset()) - kubelet.reserved_cpus
        if zone.id in here:
            amounts[CPU] = 1000 * len(usable if free.cpus is None else usable & free.cpus)
        if free.memory is not None:
            amounts |= {name: amount for name, amount in free.memory[zone.id].free.items() if _exists(zone, name)}
        for resource, devices in kubelet.machine.devices.items():
            in_zone = [device for device in devices if zone.id in device.zones and device.healthy]
            if in_zone:
                idle = set(free.devices.get(resource, ()))
                amounts[resource] = sum(device.id in idle for device in in_zone)
        found[zone.id] = amounts
    return found


def _exists(zone: MachineZone, name: str) -> bool:
    return name == "memory" or zone.huge_pages.get(name, 0) > 0


def columns_of(document: Json) -> ZoneAmounts:
    """What a scheduler's columns have after it read a report, of the resources that the zones report."""
    state = ClusterState()
    state.set_node(node("n1", {}))
    topology = msgspec.convert({**document, "metadata": {"name": "n1"}}, NodeResourceTopology)
    state.set_topology(topology)
    return zones_in(state, "n1", document)


def zones_in(state: ClusterState, name: str, document: Json) -> ZoneAmounts:
    """The columns of one node, by zone id and resource, for what the document reports."""
    found: ZoneAmounts = {}
    for position, zone in enumerate(document["zones"]):
        found[int(zone["name"].removeprefix("node-"))] = {
            resource["name"]: free_in_zones(state, name, resource["name"])[position] for resource in zone["resources"]
        }
    return found


def settings_for(virtual: VirtualNode, **more: Any) -> AgentSettings:
    """How an agent is told to look at this node."""
    return AgentSettings(
        node=virtual.name,
        sysfs=virtual.sysfs,
        socket=virtual.socket,
        state_folder=virtual.state_folder,
        kubelet_config=str(virtual.config_file),
        **more,
    )


def attributes_in(document: Json) -> Mapping[str, str]:
    return {each["name"]: each["value"] for each in document["attributes"]}


# -- random nodes ----------------------------------------------------------------------------------------------------


def any_kubelet(random: Random) -> VirtualKubelet:
    """Any machine with up to 6 zones, ids with gaps, memory-only zones, devices in several zones, any policy and
    options.
    """
    while True:
        machine = any_machine(random)
        try:
            return VirtualKubelet(machine, any_configuration(random, machine))
        except CannotStart:
            continue


def any_machine(random: Random) -> Machine:
    zones = random.choice((1, 2, 2, 4, 6))
    threads = random.choice((1, 2, 2))
    cores = random.randint(2, 6)
    ids = sorted(random.sample(range(8), zones + 1))
    with_cpus = ids[:zones]
    used = ids if random.random() < 0.3 else with_cpus
    places = [(zone, core // 4) for zone in with_cpus for core in range(cores)]
    return Machine(
        zones=tuple(
            MachineZone(
                zone,
                random.randint(4, 12) * GI,
                {HUGE: random.randint(0, 2) * GI},
                tuple(10 if other == zone else 21 for other in used),
            )
            for zone in used
        ),
        cpus=tuple(
            Cpu(core, with_cpus.index(zone) // 2, zone, 100 * zone + cache)
            for _ in range(threads)
            for core, (zone, cache) in enumerate(places)
        ),
        devices={
            resource: tuple(
                MachineDevice(
                    f"{resource[-3:]}-{number}",
                    tuple(sorted(random.sample(used, random.choice((1, 1, 1, min(2, len(used)), 0))))),
                )
                for number in range(random.randint(1, 6))
            )
            for resource in (GPU, NIC)
            if random.random() < 0.7
        },
    )


def any_configuration(random: Random, machine: Machine) -> KubeletConfiguration:
    static = random.random() < 0.8
    reserved = frozenset(random.sample(range(len(machine.cpus)), random.randint(1, 2)))
    return KubeletConfiguration(
        settings=KubeletSettings(
            policy=random.choice(tuple(Policy)),
            scope=random.choice(tuple(Scope)),
            prefer_closest=random.random() < 0.3,
            cpu_static=static,
            cpu_options=frozenset(random.choice(CPU_OPTIONS)) if static else frozenset(),
            memory_static=random.random() < 0.8,
        ),
        reserved_cpus=reserved,
        reserved_memory={machine.zones[0].id: {"memory": GI}},
    )


def any_request(random: Random) -> PodRequest:
    """What `any_pod` asks for."""
    return effective_request(any_pod(random))


def any_pod(random: Random, name: str = "pod") -> Pod:
    """Up to two init containers or sidecars and three others, mostly Guaranteed."""
    guaranteed = random.random() < 0.8
    init = [
        any_container(random, f"i{number}", guaranteed=guaranteed, sidecar=random.random() < 0.4)
        for number in range(random.choice((0, 0, 1, 2)))
    ]
    others = [
        any_container(random, f"c{number}", guaranteed=guaranteed) for number in range(random.choice((1, 1, 2, 3)))
    ]
    return pod(*others, init=init, name=name)


def any_container(random: Random, name: str, *, guaranteed: bool, sidecar: bool = False) -> Json:
    amounts: dict[str, str | int | float] = {
        "cpu": random.choice(("500m", "1", "1", "2", "2", "4")),
        "memory": f"{random.randint(1, 6) * 512}Mi",
    }
    for resource in (GPU, NIC):
        if random.random() < 0.3:
            amounts[resource] = random.randint(1, 2)
    if random.random() < 0.15:
        amounts[HUGE] = "1Gi"
    if guaranteed:
        return container(amounts, name, sidecar=sidecar)
    limits = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return container(name=name, requests=amounts, limits=limits, sidecar=sidecar)


def live(random: Random, virtual: VirtualNode, steps: int) -> Iterator[str]:
    """Let pods come and go, one of either with each step; gives what happened."""
    for number in range(steps):
        standing = list(virtual.kubelet.pods)
        if standing and random.random() < 0.15 + 0.05 * len(standing):
            key = random.choice(standing)
            virtual.remove(key)
            yield f"{number}: removed {key}"
        else:
            key = f"default/pod-{number}"
            admission = virtual.admit(key, any_request(random))
            yield f"{number}: {'admitted' if admission.admitted else 'refused'} {key}"
