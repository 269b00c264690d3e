"""Two kubelets, written apart from each other, must say the same: the virtual one, which lives through a sequence of
pods, and the engine's replay, which judges one pod from what is known about a node.

Before each admission the virtual kubelet's machine and free state become that knowledge. The replay does not know the
node-level predicate, so a pod that only that refuses must be admitted by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.engine.kubelet import Admission as ReplayedAdmission
from bayplan.engine.kubelet import CpuLayout, Device, NodeKnowledge, ZoneMemory
from bayplan.engine.kubelet import admit as replayed
from bayplan.engine.kubelet.masks import mask_of
from bayplan.simulate.kubelet import (
    Admission,
    Cpu,
    KubeletConfiguration,
    Machine,
    MachineDevice,
    MachineZone,
    VirtualKubelet,
)
from tests.builders.objects import GI, GPU, NIC, container, pod

HUGE = "hugepages-1Gi"
CPU_OPTIONS = (
    (),
    (),
    ("full-pcpus-only",),
    ("strict-cpu-reservation",),
    ("distribute-cpus-across-numa",),
    ("distribute-cpus-across-numa", "full-pcpus-only"),
    ("prefer-align-cpus-by-uncorecache",),
    ("prefer-align-cpus-by-uncorecache", "full-pcpus-only"),
    ("distribute-cpus-across-cores",),
    ("align-by-socket",),
    ("align-by-socket", "full-pcpus-only", "strict-cpu-reservation"),
)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Sockets of several zones or zones of several sockets, one or two threads a core, perhaps a zone without CPUs."""
    sockets, zones_per_socket = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 1), (2, 2), (1, 4), (4, 1), (2, 3)]))
    threads = draw(st.sampled_from([1, 2, 2]))
    zones = sockets * zones_per_socket
    cores_of = draw(
        st.one_of(
            st.integers(1, 4).map(lambda n: [n] * zones), st.lists(st.integers(1, 4), min_size=zones, max_size=zones)
        )
    )
    cores_per_cache = draw(st.integers(1, 4))
    sockets_per_zone = 2 if zones == sockets == 4 and draw(st.booleans()) else 1
    ids = sorted(draw(st.sets(st.integers(0, 7), min_size=zones + 1, max_size=zones + 1)))
    places = [
        (number // zones_per_socket, ids[number // sockets_per_zone], core // cores_per_cache + 8 * number)
        for number in range(zones)
        for core in range(cores_of[number])
    ]
    cpus = tuple(
        Cpu(core, socket, zone, cache) for _ in range(threads) for core, (socket, zone, cache) in enumerate(places)
    )
    used = sorted({cpu.zone for cpu in cpus}) + (ids[-1:] if draw(st.booleans()) else [])
    return Machine(
        zones=tuple(
            MachineZone(
                zone,
                draw(st.integers(4, 9)) * GI,
                {HUGE: draw(st.integers(0, 2)) * GI},
                tuple(10 if other == zone else draw(st.sampled_from([12, 21, 32])) for other in used),
            )
            for zone in used
        ),
        cpus=cpus,
        devices={
            resource: draw(devices(resource[-3:], used))
            for resource in sorted(draw(st.sets(st.sampled_from([GPU, NIC]))))
        },
    )


def devices(name: str, zones: list[int]) -> st.SearchStrategy[tuple[MachineDevice, ...]]:
    where = st.lists(st.sampled_from(zones), max_size=2, unique=True).map(lambda ids: tuple(sorted(ids)))
    one = st.tuples(where, st.sampled_from([True, True, True, False]))
    return st.lists(one, min_size=1, max_size=6).map(
        lambda listed: tuple(
            MachineDevice(f"{name}-{number}", at, healthy=healthy) for number, (at, healthy) in enumerate(listed)
        )
    )


@st.composite
def configurations(draw: st.DrawFn, machine: Machine) -> KubeletConfiguration:
    """Anything with which a kubelet starts on this machine."""
    options = frozenset(draw(st.sampled_from(CPU_OPTIONS)))
    policies = list(Policy)
    if "align-by-socket" in options:
        policies.remove(Policy.SINGLE_NUMA_NODE)
        if len({cpu.socket for cpu in machine.cpus}) > len({cpu.zone for cpu in machine.cpus}):
            options = frozenset()
    static = draw(st.sampled_from([True, True, False]))
    reserved = draw(st.sets(st.integers(0, len(machine.cpus) - 1), min_size=1, max_size=3))
    by_amount = draw(st.booleans())
    return KubeletConfiguration(
        settings=KubeletSettings(
            policy=draw(st.sampled_from(policies)),
            scope=draw(st.sampled_from(Scope)),
            prefer_closest=draw(st.booleans()),
            cpu_static=static,
            cpu_options=options if static else frozenset(),
            memory_static=draw(st.sampled_from([True, True, False])),
            pod_level_managers=draw(st.sampled_from([False, False, True])),
        ),
        reserved_cpus=frozenset() if by_amount else frozenset(reserved),
        reserved_cpu_milli=500 * len(reserved) if by_amount else 0,
        reserved_memory={machine.zones[0].id: {"memory": GI}},
        most_pods=6,
    )


@st.composite
def containers(draw: st.DrawFn, name: str, *, sidecar: bool = False) -> dict[str, Any]:
    cpu = draw(st.sampled_from(["500m", "1", "1", "2", "2", "3", "4", "6", "10"]))
    amounts: dict[str, str | int] = {"cpu": cpu, "memory": f"{draw(st.integers(1, 24)) * 512}Mi"}
    optional: dict[str, st.SearchStrategy[str | int]] = {
        GPU: st.integers(0, 3),
        NIC: st.integers(0, 3),
        HUGE: st.sampled_from(["1Gi", "2Gi"]),
    }
    for resource in sorted(draw(st.sets(st.sampled_from(sorted(optional)), max_size=2))):
        amounts[resource] = draw(optional[resource])
    if draw(st.integers(0, 9)) == 0:
        limits = {resource: amount for resource, amount in amounts.items() if resource in (GPU, NIC, HUGE)}
        return container(name=name, requests=amounts, limits=limits, sidecar=sidecar)
    return container(amounts, name, sidecar=sidecar)


@st.composite
def requests(draw: st.DrawFn) -> PodRequest:
    init = [draw(containers(f"i{number}", sidecar=draw(st.booleans()))) for number in range(draw(st.integers(0, 2)))]
    app = [draw(containers(f"c{number}")) for number in range(draw(st.sampled_from([1, 1, 2, 3])))]
    request = effective_request(pod(*app, init=init))
    if draw(st.integers(0, 5)) == 0:
        spare = draw(st.sampled_from([0, 500, 1000, 2000])), draw(st.integers(0, 4)) * GI
        root = {"cpu": f"{request.total['cpu'] + spare[0]}m", "memory": str(request.total["memory"] + spare[1])}
        return effective_request(pod(*app, init=init, resources={"requests": root, "limits": root}))
    return request


def knowledge(kubelet: VirtualKubelet) -> NodeKnowledge:
    machine, configuration, free = kubelet.machine, kubelet.configuration, kubelet.free()
    memory = {}
    for zone in machine.zones if free.memory is not None else ():
        assert free.memory is not None
        state, reserved = free.memory[zone.id], configuration.reserved_memory.get(zone.id, {})
        allocatable = dict(zone.huge_pages)
        allocatable["memory"] = zone.memory - sum(zone.huge_pages.values()) - reserved.get("memory", 0)
        memory[zone.id] = ZoneMemory(allocatable, dict(state.free), mask_of(state.group), state.assignments)
    return NodeKnowledge(
        zone_ids=tuple(zone.id for zone in machine.zones),
        distances=tuple(zone.distances for zone in machine.zones),
        settings=configuration.settings,
        cpus=CpuLayout(
            core=tuple(cpu.core for cpu in machine.cpus),
            socket=tuple(cpu.socket for cpu in machine.cpus),
            numa=tuple(cpu.zone for cpu in machine.cpus),
            l3=tuple(cpu.cache for cpu in machine.cpus),
        ),
        free_cpus=mask_of(free.cpus or ()),
        reserved_cpus=mask_of(kubelet.reserved_cpus),
        memory=memory,
        devices={
            resource: tuple(
                Device(
                    id=device.id,
                    zones=mask_of(device.zones),
                    healthy=device.healthy,
                    allocated=device.id not in free.devices[resource],
                )
                for device in listed
            )
            for resource, listed in machine.devices.items()
        },
    )


@dataclass(frozen=True)
class Outcome:
    """What both must agree on."""

    admitted: bool
    reason: str
    message: str
    stage: str
    container: str
    containers: dict[str, tuple[Any, ...]]


def outcome(verdict: Admission | ReplayedAdmission) -> Outcome:
    return Outcome(
        verdict.admitted,
        verdict.reason,
        verdict.message,
        verdict.stage,
        verdict.container,
        {
            each.name: (
                each.zones,
                each.preferred,
                each.cpus,
                sorted((block.type, block.size, block.zones) for block in each.memory),
                dict(each.devices),
            )
            for each in verdict.containers
        },
    )


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_both_kubelets_admit_the_same_pods_and_give_them_the_same(data: st.DataObject) -> None:
    machine = data.draw(machines(), label="machine")
    kubelet = VirtualKubelet(machine, data.draw(configurations(machine), label="configuration"))
    for number in range(data.draw(st.integers(1, 10))):
        key = f"pod-{number}"
        request = data.draw(requests(), label=key)
        before = knowledge(kubelet)
        verdict = kubelet.admit(key, request)
        again = replayed(before, request)
        if verdict.stage == "predicate":
            assert again.admitted
        else:
            assert outcome(verdict) == outcome(again)
        if kubelet.pods:
            on_node = st.sampled_from(sorted(kubelet.pods))
            match data.draw(st.sampled_from(["", "", "start", "remove"])):
                case "start":
                    kubelet.start(data.draw(on_node))
                case "remove":
                    kubelet.remove(data.draw(on_node))
