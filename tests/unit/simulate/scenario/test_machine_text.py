"""A machine from a line of text: what its words mean, and what is said about words that mean nothing."""

import pytest

from bayplan.simulate.scenario.machine_text import MachineTextError, machine_of
from tests.builders.objects import GI


def test_words_count_what_lies_inside_the_next_wider_level() -> None:
    machine = machine_of("pack:2 numa:2 core:16 pu:2 mem:64Gi gpu:2@numa")
    assert [zone.id for zone in machine.zones] == [0, 1, 2, 3]
    assert {zone.memory for zone in machine.zones} == {64 * GI}
    assert len(machine.cpus) == 4 * 16 * 2
    assert [device.zones for device in machine.devices["example.com/gpu"]] == [
        (0,), (0,), (1,), (1,), (2,), (2,), (3,), (3,)
    ]  # fmt: skip


def test_cpus_are_numbered_as_linux_does_it_first_threads_first() -> None:
    machine = machine_of("pack:2 numa:1 core:2 pu:2 mem:8Gi")
    assert [cpu.core for cpu in machine.cpus] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [cpu.zone for cpu in machine.cpus] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert [cpu.socket for cpu in machine.cpus] == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    "text, caches",
    [
        ("numa:2 core:4 mem:8Gi", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("numa:2 l3:2 core:2 mem:8Gi", [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_a_zone_has_one_cache_unless_l3_says_more(text: str, caches: list[int]) -> None:
    assert [cpu.cache for cpu in machine_of(text).cpus] == caches


@pytest.mark.parametrize(
    "text, of_zone_0",
    [
        ("pack:2 numa:2 core:1 mem:8Gi", (10, 12, 21, 21)),
        ("pack:2 numa:2 core:1 mem:8Gi distance:11,32", (10, 11, 32, 32)),
        ("pack:4 core:1 mem:8Gi", (10, 21, 21, 21)),
        ("pack:2 core:1 mem:8Gi memonly:32Gi@pack", (10, 21, 16, 25)),
    ],
)
def test_distances_within_and_across_packages(text: str, of_zone_0: tuple[int, ...]) -> None:
    assert machine_of(text).zones[0].distances == of_zone_0


def test_huge_pages_are_pages_of_a_zone() -> None:
    zone = machine_of("pack:2 core:4 mem:64Gi hugepages-1Gi:16 hugepages-2Mi:512").zones[1]
    assert zone.huge_pages == {"hugepages-1Gi": 16 * GI, "hugepages-2Mi": GI}


@pytest.mark.parametrize(
    "word, resource, zones",
    [
        ("gpu:1@numa", "example.com/gpu", [(0,), (1,), (2,), (3,)]),
        ("nvidia.com/gpu:1@pack", "nvidia.com/gpu", [(0,), (2,)]),
        ("fuse:2@machine", "example.com/fuse", [(), ()]),
        ("nic:2@3,1", "example.com/nic", [(1,), (1,), (3,), (3,)]),
    ],
)
def test_where_devices_are(word: str, resource: str, zones: list[tuple[int, ...]]) -> None:
    devices = machine_of(f"pack:2 numa:2 core:1 mem:1Gi {word}").devices[resource]
    assert [device.zones for device in devices] == zones
    assert [device.id for device in devices] == sorted(device.id for device in devices)


def test_memory_without_cpus_is_a_zone_after_all_others() -> None:
    machine = machine_of("pack:2 numa:1 core:2 mem:64Gi memonly:256Gi@machine")
    assert [zone.memory // GI for zone in machine.zones] == [64, 64, 256]
    assert {cpu.zone for cpu in machine.cpus} == {0, 1}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", '"" has no core'),
        ("numa:2 mem:1Gi", "has no core: how many cores does a zone have, such as core:16?"),
        ("numa:2 core:4", "has no mem: how much memory does a zone have, such as mem:64Gi?"),
        ("numa:2 cores:4 mem:1Gi", '"cores:4" is unknown: did you mean core?'),
        ("core:4 mem:1Gi gpu:2", '(a device says where it is: gpu:2@numa)'),
        ("core:4 mem:1Gi gpu:2@node",
         '"gpu:2@node" has no such place: must be numa, pack, machine, or zones from 0 to 0'),
        ("core:4 mem:1Gi gpu:2@1", '"gpu:2@1" has no such place'),
        ("core:4 mem:1Gi gpu:0@numa", '"gpu:0@numa" is not allowed: must be 1 to 4096'),
        ("numa:2 core:4 mem:1Gi gpu:3000@numa", "makes 6000 devices: must be at most 4096"),
        ("core:4 pu:2 mem:1Gi gpu:5000@numa", "must be 1 to 4096"),
        ("core:4 mem:1Gi -:1@numa", "names no device"),
        ("core:4 mem:1Gi gpu:1@0 example.com/gpu:1@0", "says example.com/gpu a second time"),
        ("core:0 mem:1Gi", '"core:0" is not allowed: must be 1 to 4096'),
        ("core:-4 mem:1Gi", '"core:-4" has no whole number: must be 1 or more'),
        ("core:four mem:1Gi", '"core:four" has no whole number'),
        ("core:4 core:8 mem:1Gi", '"core:8" comes after "core:4": core is said twice'),
        ("core:4 numa:2 mem:1Gi", '"numa:2" comes after "core:4": the order is pack numa l3 core pu'),
        ("core:4@numa mem:1Gi", '"core:4@numa" is not allowed: only devices and memonly have a place'),
        ("core mem:1Gi", '"core" is not understood: must be NAME:NUMBER or DEVICE:COUNT@PLACE'),
        ("numa:65 core:1 mem:1Gi", "has 65 zones: must be at most 64"),
        ("pack:32 numa:2 core:1 mem:1Gi memonly:1Gi@machine", "has 65 zones"),
        ("pack:2 numa:16 core:128 pu:2 mem:1Gi", "has 8192 CPUs: must be at most 4096"),
        ("core:4 mem:0", '"mem:0" is not allowed: must be more than nothing'),
        ("core:4 mem:64G1", '"mem:64G1": invalid quantity "64G1"'),
        ("core:4 mem:-1Gi", '"mem:-1Gi": "-1Gi" is negative'),
        ("core:4 mem:8Gi hugepages-1Gi:9", '"hugepages-1Gi:9" is more than the 8Gi of memory that a zone has'),
        ("core:4 mem:8Gi hugepages-big:9", '"hugepages-big:9" has no page size: must be like hugepages-1Gi'),
        ("core:4 mem:8Gi memonly:8Gi", '"memonly:8Gi" has no such place: must be memonly:SIZE@pack'),
        ("core:4 mem:8Gi distance:21", '"distance:21" is not allowed: must be two distances above 10'),
        ("core:4 mem:8Gi distance:21,12", '"distance:21,12" is not allowed'),
    ],
)  # fmt: skip
def test_wrong_texts_are_named_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(MachineTextError) as error:
        machine_of(text)
    assert message in str(error.value)
