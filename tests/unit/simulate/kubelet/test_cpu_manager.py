"""Exclusive CPUs as pods see them: two zones of four cores with two threads; CPU n and n + 8 are siblings, CPU 0 is
reserved.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from tests.builders.objects import container
from tests.unit.simulate.kubelet.nodes import cpus, guaranteed, kubelet, machine, request

MEMORY = {"memory": "1Gi"}


@pytest.mark.parametrize(
    "cpu, expected",
    [
        ("2", (1, 9)),  # zone 0 has a CPU less than zone 1
        ("7", (1, 2, 3, 8, 9, 10, 11)),
        ("1500m", ()),
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_exclusive(cpu: str, expected: tuple[int, ...]) -> None:
    node = kubelet()
    assert cpus(node.admit("p", guaranteed({"cpu": cpu, **MEMORY}))) == {"main": expected}
    free = node.free().cpus
    assert free == frozenset(range(1, 16)) - set(expected)


def test_burstable_pods_share() -> None:
    burstable = request(container(requests={"cpu": 2}, limits={"cpu": 4}))
    assert cpus(kubelet().admit("p", burstable)) == {"main": ()}


@pytest.mark.parametrize("cpu, admitted", [(6, True), (7, True), (8, False), (9, True), (15, False)])
def test_reserved_cpus_count_for_how_few_zones_would_do(cpu: int, admitted: bool) -> None:
    node = kubelet(reserved_cpus=(0, 4), memory=False)  # each zone has seven of its eight CPUs for pods
    assert node.admit("p", guaranteed({"cpu": cpu, **MEMORY})).admitted is admitted


def test_more_than_a_zone_is_taken_from_two() -> None:
    node = kubelet(memory=False)
    admission = node.admit("p", guaranteed({"cpu": 10, **MEMORY}))
    assert admission.containers[0].zones == (0, 1)
    assert len(cpus(admission)["main"]) == 10


def test_an_init_containers_cpus_are_used_again() -> None:
    node = kubelet(policy=Policy.NONE)
    pod = guaranteed({"cpu": 2, **MEMORY}, init=[container({"cpu": 4, **MEMORY}, "init")])
    assert cpus(node.admit("p", pod)) == {"init": (1, 2, 9, 10), "main": (1, 9)}
    free = node.free().cpus
    assert free is not None
    assert not free & {1, 2, 9, 10}  # what is not used again stays with the pod
    node.remove("p")
    assert node.free().cpus == frozenset(range(1, 16))


def test_a_sidecars_cpus_are_not() -> None:
    pod = guaranteed({"cpu": 2, **MEMORY}, init=[container({"cpu": 2, **MEMORY}, "proxy", sidecar=True)])
    assert cpus(kubelet().admit("p", pod)) == {"proxy": (1, 9), "main": (2, 10)}


def test_a_pod_counts_as_a_whole_at_pod_scope() -> None:
    pod = request(container({"cpu": 4, **MEMORY}, "a"), container({"cpu": 4, **MEMORY}, "b"))
    assert cpus(kubelet(scope=Scope.POD).admit("p", pod)) == {
        "a": (4, 5, 12, 13),
        "b": (6, 7, 14, 15),
    }  # together in zone 1
    assert kubelet(scope=Scope.CONTAINER).admit("p", pod).containers[0].zones == (0,)


ODD = "requested 3 cpus not multiple cpus per core = 2"
TOO_MANY = "not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, CPUs per core = 2"


@pytest.mark.parametrize("cpu, problem", [(3, ODD), (16, TOO_MANY)])
def test_full_pcpus_only_refuses_what_would_split_a_core(cpu: int, problem: str) -> None:
    node = kubelet(policy=Policy.NONE, options=["full-pcpus-only"])
    admission = node.admit("p", guaranteed({"cpu": cpu, **MEMORY}))
    assert (admission.reason, admission.stage, admission.container) == ("SMTAlignmentError", "cpu", "main")
    assert admission.message == f"SMT Alignment Error: {problem}"


def test_too_many_cpus() -> None:
    admission = kubelet(policy=Policy.NONE).admit("p", guaranteed({"cpu": 16, **MEMORY}))
    assert admission.reason == "UnexpectedAdmissionError"
    assert admission.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=16, available=15, "
        "which is unexpected"
    )


def test_align_by_socket_is_content_with_any_zone_of_the_socket() -> None:
    snc = machine(4, zones_per_socket=2)  # 32 CPUs, eight a zone, sixteen a socket
    pod = guaranteed({"cpu": 8, **MEMORY})
    plain = kubelet(snc, reserved_cpus=(0, 4, 8, 12), memory=False)
    assert plain.admit("p", pod).reason == "TopologyAffinityError"
    admission = kubelet(snc, reserved_cpus=(0, 4, 8, 12), memory=False, options=["align-by-socket"]).admit("p", pod)
    assert admission.containers[0].zones == (0, 1)


@pytest.mark.parametrize(
    "option, expected",
    [
        ("strict-cpu-reservation", (1, 9)),
        ("distribute-cpus-across-cores", (1, 2)),
        ("distribute-cpus-across-numa", (1, 9)),
        ("prefer-align-cpus-by-uncorecache", (1, 9)),
    ],
)
def test_options_change_the_choice(option: str, expected: tuple[int, ...]) -> None:
    admission = kubelet(options=[option]).admit("p", guaranteed({"cpu": 2, **MEMORY}))
    assert cpus(admission) == {"main": expected}


def test_without_the_static_policy_no_cpu_is_anybodys() -> None:
    node = kubelet(cpu=False)
    assert cpus(node.admit("p", guaranteed({"cpu": 2, **MEMORY}))) == {"main": ()}
    assert node.free().cpus is None
    assert node.reserved_cpus == frozenset()
