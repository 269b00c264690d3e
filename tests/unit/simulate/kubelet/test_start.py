"""What a kubelet settles at start: which CPUs it reserves, what the node can give, and where it
would not start at all.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.simulate.kubelet import CannotStart, KubeletConfiguration, Machine, TooManyZones, VirtualKubelet
from bayplan.simulate.kubelet.machine import OFFLINE_CPU
from tests.builders.objects import GI, GPU
from tests.unit.simulate.kubelet.nodes import HUGE, kubelet, machine

TEN_ZONES = machine(10, cores=1, threads=1)
SEVENTEEN_ZONES = machine(17, cores=1, threads=1)
SIXTY_FOUR_ZONES = machine(64, cores=1, threads=1, gpus=([0], [63]))
WITHOUT_CPU_8 = Machine(machine().zones, (*machine().cpus[:8], OFFLINE_CPU, *machine().cpus[9:]))
FOUR_SOCKETS_IN_TWO_ZONES = Machine(
    machine().zones,
    tuple(type(cpu)(cpu.core, cpu.core // 2, cpu.zone, cpu.cache) for cpu in machine().cpus),
)


@pytest.mark.parametrize(
    "hardware, settings, message",
    [
        (Machine((), ()), {}, "no CPUs or no zones"),
        (TEN_ZONES, {}, "policy restricted is not supported on 10 zones: max-allowable-numa-nodes is 8"),
        (machine(), {"max_numa_nodes": 4}, "max-allowable-numa-nodes is 4: must be at least 8"),
        (machine(), {"reserved_cpus": ()}, "policy static needs at least one reserved CPU"),
        (machine(), {"reserved_cpus": (3, 16)}, "reserved CPU 16 does not exist: the machine has 0-15"),
        (WITHOUT_CPU_8, {"reserved_cpus": (3, 8)}, "reserved CPU 8 does not exist: the machine has 0-7,9-15"),
        (machine(), {"cpu": False, "options": ["full-pcpus-only"]}, "takes no options, but full-pcpus-only is set"),
        (
            machine(),
            {"options": ["full-cores"]},
            "unknown CPU Manager option full-cores: must be one of align-by-socket",
        ),
        (
            machine(),
            {"options": ["full-pcpus-only", "distribute-cpus-across-cores"]},
            "full-pcpus-only and distribute-cpus-across-cores cannot be used at the same time",
        ),
        (
            machine(),
            {"options": ["prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"]},
            "cannot be used at the same time",
        ),
        (
            machine(),
            {"options": ["align-by-socket"], "policy": Policy.SINGLE_NUMA_NODE},
            "align-by-socket does not go with Topology Manager policy single-numa-node",
        ),
        (
            FOUR_SOCKETS_IN_TWO_ZONES,
            {"options": ["align-by-socket"]},
            r"does not go with more sockets \(4\) than zones with CPUs \(2\)",
        ),
        (machine(), {"reserved_memory": {}}, "policy Static needs reserved memory, and none is reserved"),
        (machine(), {"reserved_memory": {2: {"memory": GI}}}, "zone 2, which does not exist: the machine has 0, 1"),
        (machine(), {"reserved_memory": {0: {"memory": 17 * GI}}}, f"must be between 0 and the {16 * GI} it has"),
        (machine(), {"reserved_memory": {0: {HUGE: GI}}}, "hugepages-1Gi is reserved in zone 0, which has none"),
    ],
)
def test_where_it_would_not_start(hardware: Machine, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotStart, match=message):
        kubelet(hardware, **settings)


@pytest.mark.parametrize(
    "hardware, settings",
    [
        (TEN_ZONES, {"policy": Policy.NONE}),
        (TEN_ZONES, {"max_numa_nodes": 16}),
        (machine(16, cores=1, threads=1), {"max_numa_nodes": 16}),
        (SIXTY_FOUR_ZONES, {"policy": Policy.NONE, "memory": False, "reserved_memory": {}}),
        (machine(), {"cpu": False, "reserved_cpus": ()}),
        (machine(), {"memory": False, "reserved_memory": {}}),
        (machine(4, zones_per_socket=2), {"options": ["align-by-socket"]}),
    ],
)
def test_where_it_does(hardware: Machine, settings: dict[str, Any]) -> None:
    assert kubelet(hardware, **settings).pods == {}


@pytest.mark.parametrize(
    "hardware, settings",
    [
        (SEVENTEEN_ZONES, {"max_numa_nodes": 64, "memory": False}),
        (SIXTY_FOUR_ZONES, {"policy": Policy.BEST_EFFORT, "max_numa_nodes": 64, "cpu": False, "memory": False}),
        (SEVENTEEN_ZONES, {"policy": Policy.NONE}),
        (SEVENTEEN_ZONES, {"policy": Policy.NONE, "memory": False, "options": ["distribute-cpus-across-numa"]}),
    ],
)
def test_too_many_zones_to_combine(hardware: Machine, settings: dict[str, Any]) -> None:
    message = f"{len(hardware.zones)} zones are more than this simulator can align, .*: must be at most 16, or"
    with pytest.raises(TooManyZones, match=message):
        kubelet(hardware, **settings)


def by_amount(milli: int, *options: str) -> VirtualKubelet:
    settings = KubeletSettings(cpu_static=True, cpu_options=frozenset(options), memory_static=False)
    return VirtualKubelet(machine(), KubeletConfiguration(settings, reserved_cpu_milli=milli))


@pytest.mark.parametrize(
    "milli, options, expected",
    [
        (500, [], {0}),
        (2000, [], {0, 8}),  # a whole core
        (2100, [], {0, 8, 1}),
        (2000, ["distribute-cpus-across-cores"], {0, 1}),
    ],
)
def test_an_amount_is_reserved_as_whole_cpus(milli: int, options: list[str], expected: set[int]) -> None:
    node = by_amount(milli, *options)
    assert node.reserved_cpus == expected
    assert node.allocatable["cpu"] == 16_000 - milli


def test_more_than_the_machine_has_cannot_be_reserved() -> None:
    with pytest.raises(CannotStart, match="16001m CPUs are reserved: must be between 0 and the machine's 16"):
        by_amount(16_001)


def test_what_the_node_can_give() -> None:
    node = kubelet(machine(huge_pages=2, gpus=([0], [1])), reserved_cpus=(0, 8), most_pods=30)
    assert node.allocatable == {"cpu": 14_000, "memory": 27 * GI, HUGE: 4 * GI, "pods": 30, GPU: 2}
