"""Random clusters and pods for simulations: all policies, scopes, options and versions of kubelets on odd and ordinary
machines, awkward pods.

Everything follows from one seed. The load is such that pods come and go, zones fragment, and some pods have to wait.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.reports.kubelet_version import KubeletVersion
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.scenario.machine_text import machine_of
from bayplan.simulate.scenario.model import Kind, Scenario, ScenarioPod, SimulatedNode, Workload
from tests.builders.bodies import Json
from tests.builders.objects import GI, GPU, NIC, container, pod

MACHINES = (
    "pack:2 numa:1 core:16 pu:2 mem:64Gi hugepages-1Gi:16 gpu:2@numa nic:4@numa",
    "pack:2 numa:4 core:8 pu:2 mem:64Gi gpu:1@numa nic:1@pack",
    "pack:2 numa:2 core:12 pu:2 mem:48Gi hugepages-1Gi:8",
    "pack:1 numa:1 core:32 pu:1 mem:128Gi",
    "pack:2 numa:2 l3:2 core:4 pu:2 mem:32Gi gpu:2@numa",
    "pack:1 numa:3 core:6 pu:2 mem:24Gi gpu:1@numa nic:2@machine",
)
CPU_OPTIONS = (
    (),
    (),
    ("full-pcpus-only",),
    ("full-pcpus-only", "strict-cpu-reservation"),
    ("distribute-cpus-across-numa",),
    ("prefer-align-cpus-by-uncorecache",),
    ("distribute-cpus-across-cores",),
    ("align-by-socket",),
)
# Most pods run for a while; some end before any late report has listed them.
SPANS = ((5.0, 60.0), (5.0, 60.0), (0.1, 5.0))
NODES = 40
SHAPES = 12
LASTS = 600.0


def scenario(seed: int, pods: int) -> Scenario:
    """A cluster and about so many pods of a dozen shapes; most of them end after a while."""
    random = Random(seed)
    nodes = tuple(_node(random, number) for number in range(NODES))
    workloads = tuple(_workload(random, number, pods // SHAPES) for number in range(SHAPES))
    return Scenario(f"seed {seed}", nodes, workloads, seed=seed, lasts=LASTS)


def _node(random: Random, number: int) -> SimulatedNode:
    machine = _odd(random, machine_of(random.choice(MACHINES)))
    memory_static = random.random() < 0.7
    version = random.choice(list(KubeletVersion))
    settings = KubeletSettings(
        policy=random.choice(list(Policy)),
        scope=random.choice(list(Scope)),
        prefer_closest=random.random() < 0.3,
        cpu_static=random.random() < 0.9,
        cpu_options=frozenset(random.choice(CPU_OPTIONS)),
        memory_static=memory_static,
        version=version,
    )
    if settings.policy is Policy.SINGLE_NUMA_NODE:
        settings = replace(settings, cpu_options=settings.cpu_options - {"align-by-socket"})
    if not settings.cpu_static:
        settings = KubeletSettings(
            settings.policy, settings.scope, cpu_static=False, memory_static=memory_static, version=version
        )
    configuration = KubeletConfiguration(
        settings,
        reserved_cpus=_reserved(random, machine),
        reserved_memory={machine.zones[0].id: {"memory": GI}} if memory_static else {},
    )
    return SimulatedNode(f"n{number}", "random", machine, configuration)


def _odd(random: Random, machine: Machine) -> Machine:
    """Sometimes a machine with a broken device, or with one that hangs on two zones."""
    if random.random() < 0.7 or not machine.devices:
        return machine
    resource = random.choice(sorted(machine.devices))
    first, *others = machine.devices[resource]
    two_zones = tuple(zone.id for zone in machine.zones[:2])
    odd = replace(first, healthy=False) if random.random() < 0.5 else replace(first, zones=two_zones)
    return replace(machine, devices={**machine.devices, resource: (odd, *others)})


def _reserved(random: Random, machine: Machine) -> frozenset[int]:
    """A whole core, a core's half, or one CPU of every zone."""
    siblings = frozenset(number for number, cpu in enumerate(machine.cpus) if cpu.core == machine.cpus[0].core)
    one_of_each_zone = {cpu.zone: number for number, cpu in reversed(list(enumerate(machine.cpus)))}
    return random.choice((siblings, frozenset({0}), frozenset(one_of_each_zone.values())))


def _workload(random: Random, number: int, pods: int) -> Workload:
    arrivals = sorted(random.uniform(0, LASTS - 60) for _ in range(pods))
    members = tuple(
        ScenarioPod(at, random.uniform(*random.choice(SPANS)) if random.random() < 0.97 else None) for at in arrivals
    )
    return Workload(f"w{number}", random.choice(list(Kind)), _pod(random), members)


def _pod(random: Random) -> Pod:
    if random.random() < 0.1:
        return pod(container(requests={"cpu": "500m", "memory": "1Gi"}, limits={}))
    containers = [container(_amounts(random), f"c{index}") for index in range(random.choice((1, 1, 1, 2, 3)))]
    init: list[Json] = []
    if random.random() < 0.25:
        amounts = {"cpu": random.choice((1, 2, 4)), "memory": f"{random.choice((1, 4, 8))}Gi"}
        init.append(container(amounts, "first", sidecar=random.random() < 0.4))
    return pod(*containers, init=init)


def _amounts(random: Random) -> dict[str, str | int | float]:
    amounts: dict[str, str | int | float] = {
        "cpu": random.choice((1, 2, 4, 6, 8, 12, 16, 20, 24, "1500m")),
        "memory": f"{random.choice((1, 2, 4, 8, 16, 24, 40))}Gi",
    }
    if random.random() < 0.25:
        amounts[GPU] = random.choice((0, 1, 1, 2))
    if random.random() < 0.2:
        amounts[NIC] = random.choice((0, 1, 1, 2, 2))
    if random.random() < 0.2:
        amounts["hugepages-1Gi"] = f"{random.choice((1, 2, 4, 8))}Gi"
    return amounts
