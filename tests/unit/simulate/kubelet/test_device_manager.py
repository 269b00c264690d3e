"""Devices: who gets which. Two zones; the GPUs' zones are given with each test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.simulate.kubelet import Admission, Machine, MachineDevice
from tests.builders.objects import GPU, container
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine, request

SPREAD = ([0], [1], [0], [1])


def gpus(admission: Admission) -> dict[str, tuple[str, ...]]:
    return {each.name: each.devices.get(GPU, ()) for each in admission.containers}


def asking(number: int, name: str = "main") -> dict[str, object]:
    """A container that is not Guaranteed: devices are aligned all the same."""
    return container(name=name, limits={GPU: number})


@pytest.mark.parametrize(
    "where, wanted, zones, expected",
    [
        (SPREAD, 2, (0,), ("gpu-0", "gpu-2")),
        (SPREAD, 3, (0, 1), ("gpu-0", "gpu-1", "gpu-2")),
        (([1], [0, 1], [0]), 2, (0,), ("gpu-1", "gpu-2")),  # a device may be near both zones
        (([], [], [1]), 1, (1,), ("gpu-2",)),  # where the others are is unknown
        (([], [], []), 1, (0, 1), ("gpu-0",)),  # no device has a zone: any will do
    ],
)
def test_devices_of_as_few_zones_as_possible_ids_ascending(
    where: Sequence[Sequence[int]], wanted: int, zones: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    admission = kubelet(machine(gpus=where)).admit("p", request(asking(wanted)))
    assert (admission.containers[0].zones, gpus(admission)) == (zones, {"main": expected})


def test_what_is_in_use_still_counts_for_how_few_zones_would_do() -> None:
    node = kubelet(machine(gpus=SPREAD))
    node.admit("p", request(asking(1)))
    node.admit("q", request(container(name="a", limits={GPU: 1}), container(name="b", limits={GPU: 1})))
    refused = node.admit("r", request(asking(2)))
    assert refused.reason == "TopologyAffinityError"  # two could share a zone, and no zone has two left
    assert node.free().devices == {GPU: ("gpu-3",)}


def test_more_than_there_are() -> None:
    admission = kubelet(machine(gpus=SPREAD), policy=Policy.NONE).admit("p", request(asking(5)))
    assert (admission.reason, admission.stage) == ("UnexpectedAdmissionError", "device")
    assert admission.message == (
        f"Allocate failed due to requested number of devices unavailable for {GPU}. Requested: 5, Available: 4, "
        "which is unexpected"
    )


def sick(*healthy: bool) -> Machine:
    idle = machine(gpus=SPREAD)
    listed = tuple(
        MachineDevice(device.id, device.zones, healthy=well)
        for device, well in zip(idle.devices[GPU], healthy, strict=True)
    )
    return Machine(idle.zones, idle.cpus, {GPU: listed})


def test_broken_devices_are_not_handed_out_but_count_as_room() -> None:
    node = kubelet(sick(True, True, False, True))
    assert node.allocatable[GPU] == 3
    assert gpus(node.admit("p", request(asking(2)))) == {"main": ("gpu-1", "gpu-3")}
    assert node.admit("q", request(asking(2))).reason == "TopologyAffinityError"


def test_where_all_are_broken_the_message_says_so() -> None:
    admission = kubelet(sick(False, False, False, False), policy=Policy.NONE).admit("p", request(asking(1)))
    assert "no healthy devices present; cannot allocate unhealthy devices" in admission.message


def test_an_init_containers_devices_are_used_again_and_stay_with_the_pod() -> None:
    node = kubelet(machine(gpus=SPREAD), policy=Policy.BEST_EFFORT)
    pod = request(asking(2), init=[asking(1, "init")])
    assert gpus(node.admit("p", pod)) == {"init": ("gpu-0",), "main": ("gpu-0", "gpu-2")}
    node.remove("p")
    pod = request(container(), init=[asking(1, "init")])
    node.admit("q", pod)
    node.start("q")
    assert node.free().devices == {GPU: ("gpu-1", "gpu-2", "gpu-3")}


def test_at_pod_scope_the_sum_decides() -> None:
    node = kubelet(machine(gpus=SPREAD), scope=Scope.POD)
    admission = node.admit("p", request(asking(1, "a"), asking(1, "b")))
    assert gpus(admission) == {"a": ("gpu-0",), "b": ("gpu-2",)}


def test_resources_that_no_plugin_offers_are_passed_over() -> None:
    admission = kubelet().admit("p", guaranteed({"cpu": "500m", "memory": "1Gi", "example.com/fpga": 3}))
    assert admission.admitted
