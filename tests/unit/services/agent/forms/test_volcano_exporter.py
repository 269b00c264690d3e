"""Volcano's Numatopology: reservations, lists of CPUs and what its scheduler makes of odd objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.kube.quantity import parse
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import CpuInfo, Numatopology
from bayplan.services.agent.forms.volcano_exporter import cpus_in_list, policies_of
from tests.conformance.node_agents.volcano import (
    CannotExport,
    as_volcano_reads,
    by_numa,
    cpus_in_text,
    reserved_amounts,
    reserved_cpu,
)
from tests.unit.services.agent.nodes import container, pod


@pytest.mark.parametrize(
    "text, cpus", [("0-2,5", (0, 1, 2, 5)), ("", ()), ("\n", ()), ("3-1", ()), ("1-2-3,7", (7,)), ("4\n", (4,))]
)
def test_lists_of_cpus_in_volcanos_reading(text: str, cpus: tuple[int, ...]) -> None:
    assert cpus_in_text(text) == cpus


@pytest.mark.parametrize("text", ["abc", "0-", "1,,2"])
def test_lists_that_volcano_gives_up_on(text: str) -> None:
    with pytest.raises(CannotExport, match="is no list of CPUs"):
        cpus_in_text(text)


@pytest.mark.parametrize(
    "eviction, memory",
    [({}, "1324Mi"), ({"memory.available": "1Gi"}, "2348Mi"), ({"memory.available": "50%"}, "3372Mi")],
)
def test_memory_is_reserved_for_kubelet_system_and_eviction(eviction: dict[str, str], memory: str) -> None:
    configuration = {
        "kubeReserved": {"cpu": "200m", "memory": "300Mi"},
        "systemReserved": {"cpu": "300m", "memory": "1Gi"},
        "evictionHard": eviction,
    }
    found = reserved_amounts(configuration, {"cpu": parse(4), "memory": parse("4Gi")})
    assert found == {"cpu": parse("500m"), "memory": parse(memory)}


@pytest.mark.parametrize(
    "configuration, flag, cpu",
    [
        ({"kubeReserved": {"cpu": "1"}, "systemReserved": {"cpu": "500m"}}, None, "1500m"),
        ({"kubeReserved": {"cpu": "1"}}, {"cpu": "2"}, "2"),
        ({"kubeReserved": {"cpu": "-1"}}, None, "0"),
        ({"evictionHard": {"memory.available": "lots"}}, None, "0"),
        ({}, {"memory": "1Gi"}, "0"),
    ],
)
def test_the_reservation_that_is_published(
    configuration: dict[str, Any], flag: dict[str, str] | None, cpu: str
) -> None:
    assert reserved_cpu(configuration, flag) == cpu


def test_policies_are_none_only_while_there_is_no_configuration() -> None:
    assert set(policies_of(None).values()) == {"none"}
    assert set(policies_of({}).values()) == {""}


def test_unlisted_cpus_are_free() -> None:
    use = cpus_in_list(range(6), [pod("b", container(1, 99)), pod("a", container(2)), pod("idle", container())])
    assert (use.free, [each.name for each in use.pods]) == ((0, 3, 4, 5), ["a", "b"])
    assert by_numa(use.free, {0: 0, 3: 1, 4: 1}) == {0: [0, 5], 1: [3, 4]}


@pytest.mark.parametrize(
    "spec, free, reserved, places",
    [
        ({"numares": {"cpu": {"allocatable": "1-3,5", "capacity": 6}}}, (1, 2, 3, 5), 0, {}),
        ({"numares": {"cpu": {"allocatable": "x"}}, "resReserved": {"cpu": "500m"}}, (), 500, {}),
        ({"resReserved": {"cpu": "1", "memory": "lots"}}, (), None, {}),
        ({"cpuDetail": {"2": {"numa": 1}, "x": {"core": 3}}}, (), 0, {2: CpuInfo(numa=1), 0: CpuInfo(core=3)}),
        ({}, (), 0, {}),
    ],
    ids=["as written", "no list", "no quantity", "no number", "nothing"],
)
def test_how_volcanos_scheduler_reads_an_object(
    spec: dict[str, Any], free: tuple[int, ...], reserved: int | None, places: dict[int, CpuInfo]
) -> None:
    view = as_volcano_reads(msgspec.convert({"spec": spec}, Numatopology))
    assert (view.free, view.reserved_milli, view.places) == (free, reserved, places)
