"""A machine out of sysfs: small trees, each with one thing that kernels, firmware or administrators do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bayplan.cluster.reports.inventory import OFFLINE
from bayplan.services.agent.sources.sysfs import huge_pages_name, read_hardware
from bayplan.services.agent.sources.sysfs_files import SysfsError, read_ids, read_mask, read_number

Files = Mapping[str, object]


def cpu(number: int, *, package: int = 0, core: int = 0, siblings: str = "", cache: str = "") -> dict[str, object]:
    folder = f"cpu/cpu{number}"
    files: dict[str, object] = {
        f"{folder}/topology/physical_package_id": package,
        f"{folder}/topology/core_id": core,
        f"{folder}/topology/thread_siblings_list": siblings or number,
    }
    if cache:
        files |= {f"{folder}/cache/index3/level": 3, f"{folder}/cache/index3/shared_cpu_list": cache}
    return files


def node(number: int, *, cpus: str, distances: str, kib: int = 1024, pages: Mapping[int, int] | None = None) -> Files:
    folder = f"node/node{number}"
    return {
        f"{folder}/cpulist": cpus,
        f"{folder}/distance": distances,
        f"{folder}/meminfo": f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree: 7 kB",
        **{f"{folder}/hugepages/hugepages-{size}kB/nr_hugepages": count for size, count in (pages or {}).items()},
    }


def tree(folder: Path, *parts: Files, beside: Files | None = None) -> Path:
    """Files under /sys/devices/system, and some `beside` them by whole path."""
    root = folder / "sys"
    files = {f"sys/devices/system/{name}": text for part in parts for name, text in part.items()} | dict(beside or {})
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return root


TWO_THREADS = (
    cpu(0, siblings="0,2"),
    cpu(1, core=1, siblings="1,3"),
    cpu(2, siblings="0,2"),
    cpu(3, core=1, siblings="1,3"),
)


def test_a_core_is_known_by_its_lowest_thread(tmp_path: Path) -> None:
    found = read_hardware(tree(tmp_path, *TWO_THREADS, node(0, cpus="0-3", distances="10")))
    assert [found.cpus[number].core for number in range(4)] == [0, 1, 0, 1]
    assert found.layout is not None
    assert found.layout.threads_per_core == 2


def test_cores_with_one_number_in_two_sockets_are_two(tmp_path: Path) -> None:
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1, package=1), node(0, cpus="0-1", distances="10")))
    assert [(each.core, each.kernel_core, each.socket) for each in found.cpus.values()] == [(0, 0, 0), (1, 0, 1)]


def test_siblings_with_unequal_core_numbers_are_two_cores(tmp_path: Path) -> None:
    parts = (cpu(0, core=0, siblings="0-1"), cpu(1, core=1, siblings="0-1"))
    found = read_hardware(tree(tmp_path, *parts, node(0, cpus="0-1", distances="10")))
    assert [each.core for each in found.cpus.values()] == [0, 1]


def test_an_offline_thread_has_no_siblings(tmp_path: Path) -> None:
    root = tree(tmp_path, *TWO_THREADS, {"cpu/online": "1-3"}, node(0, cpus="1-3", distances="10"))
    found = read_hardware(root)
    assert {number: each.core for number, each in found.cpus.items()} == {1: 1, 2: 2, 3: 1}
    assert found.offline_cpus == {0}
    assert found.layout is not None
    assert found.layout.core == (OFFLINE, 1, 2, 1)


@pytest.mark.parametrize("per_cpu", [True, False], ids=["file of the CPU", "list"])
def test_offline_cpus_are_in_no_zone(tmp_path: Path, per_cpu: bool) -> None:
    said: Files = {"cpu/cpu1/online": 0} if per_cpu else {"cpu/online": "0"}
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), said, node(0, cpus="0-1", distances="10")))
    assert found.zones[0].cpus == {0}
    assert found.offline_cpus == {1}


def test_zones_go_by_id_and_distances_follow_the_order_of_ids(tmp_path: Path) -> None:
    parts = (
        node(2, cpus="0", distances="10 40 22"),
        node(11, cpus="1", distances="22 30 10"),
        node(7, cpus="", distances="40 10 30"),
    )
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), *parts, {"node/online": "2,7,11"}))
    assert {zone.id: zone.distances for zone in found.zones} == {
        2: {2: 10, 7: 40, 11: 22},
        7: {2: 40, 7: 10, 11: 30},
        11: {2: 22, 7: 30, 11: 10},
    }
    assert [zone.cpus for zone in found.zones] == [{0}, set(), {1}]


def test_distances_that_do_not_fit_the_zones_are_unknown(tmp_path: Path) -> None:
    found = read_hardware(tree(tmp_path, cpu(0), node(0, cpus="0", distances="10 20 30")))
    assert found.zones[0].distances == {0: 255}
    assert found.problems[0].endswith("node0/distance has 3 distances for 1 NUMA nodes: assuming unknown distances")


def test_memory_and_huge_pages_are_bytes(tmp_path: Path) -> None:
    pages = {2048: 6, 1048576: 1, 64: 0}
    found = read_hardware(tree(tmp_path, cpu(0), node(0, cpus="0", distances="10", kib=4096, pages=pages)))
    assert found.zones[0].capacity == {"memory": 4096 * 1024, "hugepages-2Mi": 6 << 21, "hugepages-1Gi": 1 << 30}


def test_a_kernel_without_numa_is_one_zone(tmp_path: Path) -> None:
    beside = {"proc/meminfo": "MemTotal: 2048 kB", "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": 1}
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), beside=beside))
    (zone,) = found.zones
    assert (zone.id, sorted(zone.cpus)) == (0, [0, 1])
    assert zone.capacity == {"memory": 2048 * 1024, "hugepages-2Mi": 1 << 21}


def test_old_kernels_write_masks(tmp_path: Path) -> None:
    old = {
        "node/node0/cpumap": "00000001,00000000",
        "node/node0/distance": "10",
        "node/node0/meminfo": "MemTotal: 1 kB",
    }
    found = read_hardware(tree(tmp_path, cpu(32), old))
    assert found.zones[0].cpus == {32}


def test_cpus_share_the_last_level_cache_or_their_socket(tmp_path: Path) -> None:
    parts = (cpu(0, cache="0-1"), cpu(1, cache="0-1"), cpu(2, cache="2"), cpu(3, package=1), cpu(4, package=1))
    found = read_hardware(tree(tmp_path, *parts, node(0, cpus="0-4", distances="10")))
    assert [each.cache for each in found.cpus.values()] == [0, 0, 2, 3, 3]


@pytest.mark.parametrize(
    "files, kinds",
    [
        ({"sys/devices/cpu_core/cpus": "0", "sys/devices/cpu_atom/cpus": "1"}, {"cpu_core": {0}, "cpu_atom": {1}}),
        (
            {f"sys/devices/system/cpu/cpu{number}/cpu_capacity": 512 * (number + 1) for number in range(2)},
            {"cpu_capacity_512": {0}, "cpu_capacity_1024": {1}},
        ),
        ({f"sys/devices/system/cpu/cpu{number}/cpu_capacity": 1024 for number in range(2)}, None),
        ({}, None),
    ],
    ids=["named", "by strength", "all alike", "not said"],
)
def test_unequal_cores_have_kinds(tmp_path: Path, files: Files, kinds: object) -> None:
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), node(0, cpus="0-1", distances="10"), beside=files))
    assert found.kinds == kinds


def test_a_cpu_in_no_zone_is_ignored_and_reported(tmp_path: Path) -> None:
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), node(0, cpus="0", distances="10")))
    assert found.cpus[1].zone is None
    assert found.problems == ("CPUs 1 are online but in no online NUMA node: ignored",)


def test_zones_beyond_the_kubelets_range_have_only_amounts(tmp_path: Path) -> None:
    parts = (node(0, cpus="0", distances="10 20"), node(64, cpus="1", distances="20 10"))
    found = read_hardware(tree(tmp_path, cpu(0), cpu(1), *parts))
    assert ([zone.id for zone in found.zones], set(found.nameless_zones)) == ([0, 64], {64})
    assert found.problems == ("NUMA ids 64 are above 63: reporting amounts only, no CPU, device or pod by name",)


def test_the_folder_that_holds_sys_will_do(tmp_path: Path) -> None:
    tree(tmp_path, cpu(0), node(0, cpus="0", distances="10"))
    assert read_hardware(tmp_path).zone_ids == {0}


def test_a_folder_without_a_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SysfsError, match="shows no CPU: must be what Linux shows under /sys/devices/system/cpu"):
        read_hardware(tmp_path)


@pytest.mark.parametrize(
    "size, name", [(64, "64Ki"), (2048, "2Mi"), (32768, "32Mi"), (1048576, "1Gi"), (16777216, "16Gi")]
)
def test_huge_pages_are_named_by_their_size(size: int, name: str) -> None:
    assert huge_pages_name(size) == f"hugepages-{name}"


@pytest.mark.parametrize(
    "text, ids", [("0-2,8", {0, 1, 2, 8}), ("\0", set()), ("", set()), ("3-1", set()), ("x", set()), ("5\0\0", {5})]
)
def test_lists_that_make_no_sense_are_empty(tmp_path: Path, text: str, ids: set[int]) -> None:
    (tmp_path / "list").write_text(text)
    assert read_ids(tmp_path / "list") == ids


@pytest.mark.parametrize(
    "text, ids", [("3", {0, 1}), ("1,00000000", {32}), ("f0", {4, 5, 6, 7}), ("", set()), ("g", set())]
)
def test_masks_have_32_bits_between_commas(tmp_path: Path, text: str, ids: set[int]) -> None:
    (tmp_path / "mask").write_text(text)
    assert read_mask(tmp_path / "mask") == ids


@pytest.mark.parametrize("text, number", [("-1\n", -1), ("", None), ("many", None)])
def test_numbers_that_make_no_sense_are_none(tmp_path: Path, text: str, number: int | None) -> None:
    (tmp_path / "number").write_text(text)
    assert read_number(tmp_path / "number") == number
    assert read_number(tmp_path / "absent") is None
