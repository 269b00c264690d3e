"""What is left in each zone, counted once: a node with two zones of eight CPUs, of which 0 and 8 are reserved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayplan.cluster.reports.inventory import ListedDevice
from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.services.agent.accounting import account, excluded_on
from bayplan.services.agent.evidence import Amounts, Evidence, not_started
from bayplan.services.agent.sources.kubelet_config import KubeletSetup
from bayplan.services.agent.sources.pod_resources import Allocatable, DeviceGroup, MemoryBlock, PodResources
from bayplan.services.agent.sources.state_files import (
    CpuState,
    DeviceState,
    MemoryAmounts,
    MemoryState,
    MemoryZone,
)
from tests.unit.services.agent.nodes import GI, OFFERED, TWO_ZONES, available, container, machine, memory, pod

GPU = "vendor.com/gpu"


def evidence(*pods: PodResources, allocatable: Allocatable | None = OFFERED) -> Evidence:
    return Evidence(TWO_ZONES, allocatable=allocatable, pods=pods)


def test_an_idle_node_has_all_that_pods_may_use() -> None:
    first, second = account(evidence()).zones
    assert first.amounts == {
        "cpu": Amounts(8, 7, 7),
        "memory": Amounts(16 * GI, 14 * GI, 14 * GI),
        GPU: Amounts(2, 2, 2),
    }
    assert second.amounts[GPU] == Amounts(1, 1, 1)
    assert first.distances == {0: 10, 1: 21}


def test_cpus_devices_and_memory_of_a_pod_are_gone_from_their_zone() -> None:
    found = account(evidence(pod("a", container(1, 2, gpus={"gpu2": (1,)}, memory=[memory(4 * GI, 1)]))))
    assert available(found, "cpu") == {0: 5, 1: 7}
    assert available(found, GPU) == {0: 2, 1: 0}
    assert available(found, "memory") == {0: 14 * GI, 1: 10 * GI}
    assert found.holdings == {("default", "a"): {"cpu": {0: 2000}, GPU: {1: 1}, "memory": {1: 4 * GI}}}


# -- zones -----------------------------------------------------------------------------------------------------------


def test_zones_go_by_their_ids_which_may_have_gaps() -> None:
    sparse = machine({0: range(4), 33: range(4, 8)})
    found = account(Evidence(sparse, allocatable=Allocatable(cpus=tuple(range(8))), pods=[pod("a", container(5))]))
    assert available(found, "cpu") == {0: 4, 33: 3}


def test_a_zone_with_memory_only_has_no_cpu() -> None:
    found = account(Evidence(machine({0: range(4), 1: ()})))
    assert [sorted(zone.amounts) for zone in found.zones] == [["cpu", "memory"], ["memory"]]


# -- CPUs ------------------------------------------------------------------------------------------------------------


def test_a_container_that_is_listed_with_a_reserved_cpu_shows_the_shared_pool() -> None:
    pool = container(0, 3, 4, 5, 6, 7, 8, *range(9, 16), name="sidecar")
    found = account(evidence(pod("a", container(1, 2), pool), pod("b", replace(pool, name="main"))))
    assert available(found, "cpu") == {0: 5, 1: 7}
    assert found.holdings["default", "b"] == {}


def test_shared_cpus_belong_to_no_pod() -> None:
    pods = [pod("a", container(1, 2)), pod("b", container(3, 4))]
    found = account(replace(evidence(*pods), shared_cpus=frozenset({3, 4})))
    assert available(found, "cpu") == {0: 5, 1: 7}


def test_without_a_static_cpu_manager_no_cpu_is_ever_used() -> None:
    found = account(evidence(pod("a", container(*range(16))), allocatable=replace(OFFERED, cpus=())))
    assert [zone.amounts["cpu"] for zone in found.zones] == [Amounts(8, 8, 8)] * 2


@pytest.mark.parametrize(
    "setup, allocatable_cpus",
    [
        (KubeletSetup(KubeletSettings(cpu_static=True), reserved_cpus=frozenset({0, 1})), {0: 6, 1: 8}),
        (KubeletSetup(KubeletSettings(cpu_static=True), reserved_cpu_milli=1500), {0: 6, 1: 8}),
        (KubeletSetup(KubeletSettings(cpu_static=False), reserved_cpu_milli=1500), {0: 8, 1: 8}),
        (None, {0: 8, 1: 8}),
    ],
)
def test_without_an_answer_the_configuration_has_the_reservations(
    setup: KubeletSetup | None, allocatable_cpus: dict[int, int]
) -> None:
    found = account(Evidence(TWO_ZONES, setup))
    assert {zone.id: zone.amounts["cpu"].allocatable for zone in found.zones} == allocatable_cpus


def test_cpus_of_finished_init_containers_are_in_the_notes_alone() -> None:
    notes = CpuState("static", frozenset({0, *range(5, 16)}), {"uid-a": {"init": (3, 4), "main": (1, 2)}})
    found = account(replace(evidence(pod("a", container(1, 2))), cpu_state=notes))
    assert available(found, "cpu") == {0: 3, 1: 7}


def test_state_files_older_than_the_list_are_ignored() -> None:
    notes = CpuState("static", frozenset(range(16)) - {7}, {"uid-old": {"main": (7,)}})
    found = account(replace(evidence(pod("a", container(1, 2))), cpu_state=notes))
    assert available(found, "cpu") == {0: 5, 1: 7}


def test_pods_that_have_ended_hold_nothing_though_notes_name_them() -> None:
    notes = CpuState("static", frozenset(range(16)) - {1, 2}, {"uid-a": {"main": (1, 2)}})
    found = account(replace(evidence(), cpu_state=notes, ended=frozenset({"uid-a"})))
    assert available(found, "cpu") == {0: 7, 1: 7}


# -- a kubelet that has not started
# -------------------------------------------------------------------------------------


def setup_with(
    *, cpu_static: bool = False, memory_static: bool = False, reserved: frozenset[int] = frozenset({0, 8})
) -> KubeletSetup:
    return KubeletSetup(KubeletSettings(cpu_static=cpu_static, memory_static=memory_static), reserved)


@pytest.mark.parametrize(
    "setup, allocatable, started",
    [
        (setup_with(cpu_static=True), replace(OFFERED, cpus=()), False),
        (setup_with(memory_static=True), replace(OFFERED, memory=()), False),
        (setup_with(cpu_static=True, memory_static=True), OFFERED, True),
        (setup_with(), Allocatable(), True),
        (setup_with(cpu_static=True, reserved=frozenset(range(16))), Allocatable(), True),
        (setup_with(cpu_static=True), None, True),  # not asked
    ],
)
def test_static_managers_without_anything_to_hand_out_have_not_started(
    setup: KubeletSetup, allocatable: Allocatable | None, started: bool
) -> None:
    assert (not_started(Evidence(TWO_ZONES, setup, allocatable)) is None) == started


def test_without_a_configuration_state_files_name_static_managers() -> None:
    notes = CpuState("static", frozenset(range(5, 16)), {"uid-a": {"main": (1, 2)}})
    assert not_started(Evidence(TWO_ZONES, allocatable=Allocatable(), cpu_state=notes)) is not None
    assert not_started(Evidence(TWO_ZONES, allocatable=Allocatable(), cpu_state=replace(notes, policy="none"))) is None


# -- devices -----------------------------------------------------------------------------------------------------------


def test_a_device_in_two_zones_is_one_device_and_gone_from_both() -> None:
    both = Allocatable(devices=(DeviceGroup(GPU, ("x", "y"), (0, 1)),))
    found = account(Evidence(TWO_ZONES, allocatable=both, pods=[pod("a", container(gpus={"x": (0, 1)}))]))
    assert [zone.amounts[GPU] for zone in found.zones] == [Amounts(2, 2, 1)] * 2


def test_a_device_that_is_listed_once_per_zone_is_one_device() -> None:
    twice = Allocatable(devices=(DeviceGroup(GPU, ("x",), (0,)), DeviceGroup(GPU, ("x",), (1,))))
    found = account(Evidence(TWO_ZONES, allocatable=twice))
    assert found.devices == {GPU: (ListedDevice("x", (0, 1), "free"),)}


def test_a_device_that_is_held_and_no_longer_offered_still_exists() -> None:
    found = account(evidence(pod("a", container(gpus={"gpu9": (1,)}))))
    assert found.zones[1].amounts[GPU] == Amounts(2, 1, 1)


def test_a_device_with_an_unknown_location_is_in_no_zone() -> None:
    anywhere = Allocatable(devices=(DeviceGroup(GPU, ("x",)), DeviceGroup(GPU, ("y",), (-1,))))
    found = account(Evidence(TWO_ZONES, allocatable=anywhere))
    assert GPU not in found.devices
    assert (GPU in found.zones[0].amounts, found.problems) == (False, ())


def test_an_unknown_zone_is_reported_once_and_ignored() -> None:
    bogus = Allocatable(devices=(DeviceGroup(GPU, ("x",), (0, 7)), DeviceGroup(GPU, ("y",), (7,))))
    found = account(Evidence(TWO_ZONES, allocatable=bogus))
    assert available(found, GPU) == {0: 1}
    assert found.problems == ("device vendor.com/gpu: NUMA node 7 does not exist (there are 0-1): ignored",)


@pytest.mark.parametrize(
    "entries, held",
    [
        ({"uid-a": {"main": ("gpu0",), "init": ("gpu1",)}}, {"gpu0", "gpu1"}),
        ({"uid-a": {"main": ("gpu0",)}, "uid-ended": {"main": ("gpu2",)}}, {"gpu0"}),
        ({"uid-ended": {"main": ("gpu2",)}}, {"gpu0"}),
    ],
    ids=["init container", "a pod that has ended", "older than the list"],
)
def test_the_checkpoint_is_believed_about_pods_that_are_there(
    entries: dict[str, dict[str, tuple[str, ...]]], held: set[str]
) -> None:
    notes = DeviceState(
        {
            uid: {name: (DeviceGroup(GPU, ids, (0,)),) for name, ids in containers.items()}
            for uid, containers in entries.items()
        }
    )
    found = account(replace(evidence(pod("a", container(gpus={"gpu0": (0,)}))), device_state=notes))
    assert {device.id for device in found.devices[GPU] if device.state == "used"} == held


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blocks, left",
    [
        ([memory(20 * GI, 0, 1)], {0: 0, 1: 8 * GI}),
        ([memory(20 * GI, 1, 0)], {0: 0, 1: 8 * GI}),
        ([memory(4 * GI, 0), memory(4 * GI, 1)], {0: 10 * GI, 1: 10 * GI}),
        ([memory(40 * GI, 0)], {0: 0, 1: 14 * GI}),
        ([memory(0, 0)], {0: 14 * GI, 1: 14 * GI}),
    ],
    ids=["two zones", "whichever order", "one zone each", "more than there is", "nothing"],
)
def test_a_memory_block_is_taken_once(blocks: list[MemoryBlock], left: dict[int, int]) -> None:
    found = account(evidence(pod("a", container(1, memory=blocks))))
    assert available(found, "memory") == left


def test_zones_that_are_used_together_are_reported() -> None:
    found = account(evidence(pod("a", container(1, memory=[memory(20 * GI, 0, 1)]))))
    assert [zone.memory_group for zone in found.zones] == [(0, 1), (0, 1)]
    assert [zone.memory_group for zone in account(evidence()).zones] == [None, None]
    assert found.holdings["default", "a"]["memory"] == {0: 10 * GI, 1: 10 * GI}


def noted_memory(*free: int, entries: tuple[str, ...] = ("uid-a",)) -> MemoryState:
    zones = {zone: MemoryZone(1, (0, 1), {"memory": MemoryAmounts(14 * GI, each)}) for zone, each in enumerate(free)}
    return MemoryState("Static", zones, {uid: {"main": ()} for uid in entries})


@pytest.mark.parametrize(
    "notes, ended, left",
    [
        (noted_memory(6 * GI, 12 * GI), frozenset(), {0: 6 * GI, 1: 12 * GI}),
        (noted_memory(14 * GI, 14 * GI), frozenset(), {0: 4 * GI, 1: 14 * GI}),
        (noted_memory(-GI, 12 * GI), frozenset(), {0: 0, 1: 12 * GI}),
        (noted_memory(0, 0, entries=("uid-a", "uid-b")), frozenset({"uid-b"}), {0: 4 * GI, 1: 14 * GI}),
    ],
    ids=["as the kubelet has it", "older than the list", "less than nothing is nothing", "with a pod that has ended"],
)
def test_the_memory_managers_state_counts_if_it_is_current(
    notes: MemoryState, ended: frozenset[str], left: dict[int, int]
) -> None:
    pods = evidence(pod("a", container(1, memory=[memory(10 * GI, 0, 1)])))
    assert available(account(replace(pods, memory_state=notes, ended=ended)), "memory") == left


def test_huge_pages_are_no_longer_memory() -> None:
    found = account(Evidence(machine({0: range(4)}, memory=16 * GI, huge_pages=2 * GI)))
    assert found.zones[0].amounts["memory"] == Amounts(16 * GI, 14 * GI, 14 * GI)
    assert found.zones[0].amounts["hugepages-2Mi"] == Amounts(2 * GI, 2 * GI, 2 * GI)


def test_without_a_memory_manager_there_is_no_memory_by_zone() -> None:
    found = account(evidence(allocatable=replace(OFFERED, memory=())))
    assert all("memory" not in zone.amounts for zone in found.zones)


# -- pods and lists
# ------------------------------------------------------------------------------------------------------


def test_containers_that_use_the_same_cpus_after_each_other_count_once() -> None:
    found = account(evidence(pod("a", container(1, 2, name="init"), container(1, 2, 3))))
    assert available(found, "cpu") == {0: 4, 1: 7}
    assert found.holdings["default", "a"] == {"cpu": {0: 3000}}


def test_a_resource_that_is_left_out_is_left_out_everywhere_even_if_it_is_in_use() -> None:
    found = account(evidence(pod("a", container(1, gpus={"gpu0": (0,)}))), exclude={"cpu", GPU})
    assert [sorted(zone.amounts) for zone in found.zones] == [["memory"], ["memory"]]
    assert (found.devices, found.holdings) == ({}, {("default", "a"): {}})


@pytest.mark.parametrize("node, excluded", [("w1", {"cpu", "memory"}), ("w2", {"memory"})])
def test_exclusions_are_for_one_node_or_for_all(node: str, excluded: set[str]) -> None:
    assert excluded_on(node, {"w1": ["cpu"], "*": ["memory"]}) == excluded


def test_an_offline_cpu_is_reported_and_ignored() -> None:
    found = account(evidence(pod("a", container(1, 99))))
    assert (available(found, "cpu"), found.problems) == ({0: 6, 1: 7}, ("pods: CPU 99 is not online: ignored",))
