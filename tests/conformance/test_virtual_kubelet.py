"""The virtual kubelet against the recorded one (v1.36.4): every merge, and every step of every recorded node.

A recorded node is a machine, a kubelet configuration and a sequence of pods admitted, started and removed. The virtual
kubelet gets nothing but these inputs; what it resolves at start, each verdict with reason, stage, message and
allocations, and what is free after every step must be what the real one had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT
from bayplan.simulate.kubelet import (
    Admission,
    ContainerAllocation,
    Cpu,
    FreeState,
    KubeletConfiguration,
    Machine,
    MachineDevice,
    MachineZone,
    VirtualKubelet,
)
from bayplan.simulate.kubelet.topology_manager import DO_NOT_CARE, IMPOSSIBLE, Hints, admits, merge
from bayplan.simulate.kubelet.zone_sets import zone_sets_of
from tests.conformance.test_kubelet import (
    HUGE_PAGE_BYTES,
    RECORDED,
    cpu_ids,
    recorded_placement,
    settings_of,
    wire_pod,
    without_chance,
)

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance


@pytest.mark.fixture_files("kubelet/merge", "kubelet/merge_upstream", label="virtual kubelet")
def test_merges_hints_like_the_kubelet(conformance: Conformance) -> None:
    conformance.check_each(merge_problem)


@pytest.mark.fixture_files("kubelet/node", "kubelet/node_podlevel", label="virtual kubelet")
def test_lives_through_a_sequence_of_pods_like_the_kubelet(conformance: Conformance) -> None:
    conformance.check_each(sequence_problem)


def merge_problem(case: Case) -> str | None:
    policy = POLICY_BY_TEXT[case["policy"]]
    distances = tuple(map(tuple, case["dist"])) if case.get("closest") else ()
    hints = [hints_of(listed) for provider in case["prov"] for listed in (provider or {}).values()]
    hint = merge(policy, zone_sets_of(tuple(case["numa"]), distances), hints, closest=bool(case.get("closest")))
    got = {"mask": hint.zones, "pref": hint.preferred, "admit": admits(policy, hint)}
    return None if got == case["out"] else f"got {got}, recorded {case['out']}"


def hints_of(listed: list[tuple[int | None, int]] | None) -> Hints:
    if listed is None:
        return DO_NOT_CARE
    if not listed:
        return IMPOSSIBLE
    return Hints(
        [mask for mask, preferred in listed if preferred], [mask for mask, preferred in listed if not preferred]
    )


def test_a_refused_pod_gives_back_no_other_pods_cpus() -> None:
    """14 CPUs on 10 sockets: the kubelet's choice for a container can lie outside its pod's CPUs."""
    numa = [4, 4, 4, 7, 9, 9, 9, 9, 11, 15, 15, 16, 16, 16]
    socket = [0, 0, 1, 2, 4, 4, 5, 5, 6, 8, 9, 10, 10, 11]
    # Zone 4 is next to zone 7, and zone 15 to 7, 9 and 11.
    distances = [
        (10, 11, 21, 21, 20, 21),
        (11, 10, 11, 21, 11, 32),
        (21, 11, 10, 21, 12, 21),
        (21, 21, 21, 10, 12, 20),
        (20, 11, 12, 12, 10, 21),
        (21, 32, 21, 20, 21, 10),
    ]
    zones = [
        {"id": zone, "mem": 8 << 30, "dist": dist} for zone, dist in zip((4, 7, 9, 11, 15, 16), distances, strict=True)
    ]
    machine = machine_of({"numa": zones, "cpu": {"core": list(range(14)), "socket": socket, "numa": numa}})
    settings = {
        "topology_policy": "best-effort",
        "topology_scope": "pod",
        "cpu_policy": "static",
        "memory_policy": "Static",
        "reserved_cpu_milli": 0,
        "reserved_cpus": "4,9",
        "reserved_memory": {"16": {"memory": 1 << 27}},
        "feature_gates": {"PodLevelResourceManagers": True},
    }
    kubelet = VirtualKubelet(machine, configuration_of(settings, "1.37.1"))

    def admits_pod(name: str, cpu: int, pod_level: dict[str, int] | None = None) -> bool:
        own = {"name": "c0", "req": {"cpu": cpu, "memory": 1 << 29} if cpu else {}, "lim": None}
        sidecar = {"name": "i0", "sidecar": True, "req": {}, "lim": None}
        written: dict[str, Any] = {"name": name, "containers": [own]}
        written |= {"pod_req": pod_level} if pod_level else {}
        written |= {"init": [sidecar]} if pod_level and cpu else {}
        return kubelet.admit(name, effective_request(wire_pod(written))).admitted

    assert admits_pod("p0", 1000)
    assert admits_pod("p4", 0, {"cpu": 3000, "memory": 1 << 30})
    assert admits_pod("p5", 1000)
    before = kubelet.free()
    assert not admits_pod("p6", 2000, {"cpu": 4000, "memory": 1 << 29})
    assert kubelet.free() == before


def sequence_problem(case: Case) -> str | None:
    kubelet = VirtualKubelet(
        machine_of(case["machine"]), configuration_of(case["kubelet"], case.get("version", RECORDED))
    )
    resolved = case["resolved"]
    free = case["free0"]
    differing = difference(
        {"reserved_cpus": set(cpu_ids(resolved["reserved_cpus"])), "allocatable": resolved["allocatable"]},
        {"reserved_cpus": kubelet.reserved_cpus, "allocatable": kubelet.allocatable},
    ) or difference(free, free_as_recorded(kubelet.free()))
    if differing:
        return f"at start: {differing}"
    for number, step in enumerate(case["steps"]):
        free = step.get("free", free)
        problem = step_problem(kubelet, step) or difference(free, free_as_recorded(kubelet.free()))
        if problem:
            return f"step {number}, {step['op']}: {problem}"
    return None


def step_problem(kubelet: VirtualKubelet, step: dict[str, Any]) -> str | None:
    match step["op"]:
        case "admit":
            pod = effective_request(wire_pod(step["pod"]))
            return admission_problem(step["out"], pod, kubelet.admit(step["pod"]["name"], pod))
        case "start":
            kubelet.start(step["name"])
        case "remove":
            kubelet.remove(step["name"])
    return None


def admission_problem(recorded: dict[str, Any], pod: PodRequest, got: Admission) -> str | None:
    expected = {
        "qos": recorded["qos"],
        "fit": recorded["fit"],
        "admit": recorded["admit"],
        "reason": recorded.get("reason", ""),
        "fail": recorded.get("fail", {}).get("stage", ""),
        "container": recorded.get("fail", {}).get("container", ""),
        # Older recordings have none where it depends on the order of a Go map.
        "message": without_chance(recorded.get("msg") or got.message),
        "containers": {name: recorded_placement(each) for name, each in recorded.get("ctr", {}).items()},
    }
    seen = {
        "qos": pod.qos.value,
        "fit": got.fits,
        "admit": got.admitted,
        "reason": got.reason,
        "fail": got.stage,
        "container": got.container,
        "message": without_chance(got.message),
        "containers": {each.name: seen_allocation(each) for each in got.containers},
    }
    return difference(expected, seen)


def seen_allocation(allocation: ContainerAllocation) -> tuple[Any, ...]:
    blocks = [(block.type, block.size, block.zones) for block in allocation.memory]
    return allocation.zones, allocation.preferred, allocation.cpus, sorted(blocks), dict(allocation.devices)


def free_as_recorded(free: FreeState) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if free.cpus:
        written["cpu"] = cpu_list(free.cpus)
    if free.memory is not None:
        written["mem"] = {
            str(zone): {"free": dict(state.free), "cells": list(state.group), "n": state.assignments}
            for zone, state in free.memory.items()
        }
    if free.devices:
        written["dev"] = {resource: list(ids) for resource, ids in free.devices.items()}
    return written


def difference(expected: dict[str, Any], seen: dict[str, Any]) -> str | None:
    differing = sorted(key for key in expected.keys() | seen.keys() if expected.get(key) != seen.get(key))
    return "; ".join(f"{key}: got {seen.get(key)}, recorded {expected.get(key)}" for key in differing) or None


def machine_of(recorded: dict[str, Any]) -> Machine:
    columns = recorded["cpu"]
    caches = columns.get("l3") or columns["socket"]
    places = zip(columns["core"], columns["socket"], columns["numa"], caches, strict=True)
    return Machine(
        zones=tuple(
            MachineZone(
                id=zone["id"],
                memory=zone["mem"],
                huge_pages={
                    f"hugepages-{size}": pages * HUGE_PAGE_BYTES[size] for size, pages in (zone.get("hp") or {}).items()
                },
                distances=tuple(zone["dist"]),
            )
            for zone in sorted(recorded["numa"], key=lambda zone: zone["id"])
        ),
        cpus=tuple(Cpu(*place) for place in places),
        devices={
            resource: tuple(
                MachineDevice(each["id"], tuple(each["numa"]), healthy=not each.get("unhealthy", False))
                for each in listed
            )
            for resource, listed in (recorded.get("devices") or {}).items()
        },
    )


def configuration_of(recorded: dict[str, Any], version: str = RECORDED) -> KubeletConfiguration:
    most_zones = int((recorded.get("topology_options") or {}).get("max-allowable-numa-nodes", 8))
    return KubeletConfiguration(
        settings=replace(settings_of(recorded, version), max_numa_nodes=most_zones),
        reserved_cpus=frozenset(cpu_ids(recorded.get("reserved_cpus", ""))),
        reserved_cpu_milli=recorded["reserved_cpu_milli"],
        reserved_memory={int(zone): amounts for zone, amounts in (recorded.get("reserved_memory") or {}).items()},
    )
