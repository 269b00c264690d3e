"""The way of a pod through the kubelet: the order of the checks, the scopes, and that a refusal
leaves nothing behind.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.simulate.kubelet import MemoryBlock
from tests.builders.objects import GI, GPU, Amounts, container
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine, request

SMALL: Amounts = {"cpu": 2, "memory": "2Gi"}
ALL_POLICIES = list(Policy)


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_a_pod_that_fits_one_zone_is_admitted_by_every_policy(policy: Policy) -> None:
    node = kubelet(machine(gpus=([0], [1])), policy=policy)
    admission = node.admit("p", guaranteed({**SMALL, GPU: 1}))
    assert admission.admitted
    (main,) = admission.containers
    assert main.zones == (None if policy is Policy.NONE else (0,))
    assert (main.cpus, main.memory) == ((1, 9), (MemoryBlock("memory", 2 * GI, (0,)),))
    assert dict(main.devices) == {GPU: ("gpu-0",)}
    assert node.pods["p"].containers == admission.containers


@pytest.mark.parametrize(
    "policy, admitted",
    [(Policy.NONE, True), (Policy.BEST_EFFORT, True), (Policy.RESTRICTED, False), (Policy.SINGLE_NUMA_NODE, False)],
)
def test_two_gpus_of_different_zones_with_cpus_of_one(policy: Policy, admitted: bool) -> None:
    admission = kubelet(machine(gpus=([0], [1])), policy=policy).admit("p", guaranteed({**SMALL, GPU: 2}))
    assert admission.admitted is admitted
    if not admitted:
        assert (admission.reason, admission.stage) == ("TopologyAffinityError", "topology")
        assert admission.message == "Resources cannot be allocated with Topology locality"
        assert admission.fits


def test_the_managers_refuse_before_the_node_level_check() -> None:
    admission = kubelet(policy=Policy.NONE).admit("p", guaranteed({"cpu": 20, "memory": "1Gi"}))
    assert (admission.reason, admission.fits) == ("UnexpectedAdmissionError", False)
    shared = kubelet(policy=Policy.NONE).admit("p", guaranteed({"cpu": "15500m", "memory": "1Gi"}))
    assert (shared.reason, shared.stage, shared.container) == ("OutOfcpu", "predicate", "")


def test_the_last_pod_that_the_node_takes() -> None:
    node = kubelet(most_pods=1)
    assert node.admit("p", request(container())).admitted
    assert node.admit("q", request(container())).reason == "OutOfpods"
    node.remove("p")
    assert node.admit("q", request(container())).admitted


@pytest.mark.parametrize("scope, container_at_hand", [(Scope.CONTAINER, "second"), (Scope.POD, "")])
def test_the_container_at_hand_is_named_at_container_scope(scope: Scope, container_at_hand: str) -> None:
    node = kubelet(machine(gpus=([0], [1])), scope=scope)
    pod = request(container(SMALL, "first"), container({**SMALL, GPU: 2}, "second"))
    assert node.admit("p", pod).container == container_at_hand


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_a_refused_pod_leaves_nothing_behind(policy: Policy) -> None:
    node = kubelet(machine(gpus=([0], [1])), policy=policy)
    before = node.free()
    refused = node.admit("p", request(container({**SMALL, GPU: 1}, "first"), container({**SMALL, GPU: 4}, "second")))
    assert not refused.admitted
    assert node.free() == before
    assert not node.pods
    assert node.admit("p", guaranteed(SMALL)).admitted


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_a_pod_that_ends_gives_everything_back(policy: Policy) -> None:
    node = kubelet(machine(gpus=([0], [1])), policy=policy)
    before = node.free()
    node.admit("p", guaranteed({**SMALL, GPU: 1}, init=[container(SMALL, "init")]))
    node.start("p")
    assert node.pods["p"].started
    node.remove("p")
    assert node.free() == before


def test_a_key_can_only_be_used_once_at_a_time() -> None:
    node = kubelet()
    node.admit("p", guaranteed(SMALL))
    with pytest.raises(ValueError, match="pod p is on this node already"):
        node.admit("p", guaranteed(SMALL))


def test_later_containers_see_what_earlier_ones_took() -> None:
    node = kubelet()
    big: Amounts = {"cpu": 6, "memory": "1Gi"}
    admission = node.admit("p", request(container(big, "a"), container(big, "b")))
    assert [each.zones for each in admission.containers] == [(0,), (1,)]


def test_closest_zones_are_preferred_where_zone_ids_have_gaps() -> None:
    apart = machine(3, threads=1)
    zones = tuple(
        type(zone)(zone.id * 3, zone.memory, {}, distances)
        for zone, distances in zip(apart.zones, ((10, 40, 20), (40, 10, 40), (20, 40, 10)), strict=True)
    )
    cpus = tuple(type(cpu)(cpu.core, cpu.socket, cpu.zone * 3, cpu.cache) for cpu in apart.cpus)
    node = kubelet(type(apart)(zones, cpus), prefer_closest=True, memory=False)
    assert node.admit("p", guaranteed({"cpu": 6, "memory": "1Gi"})).containers[0].zones == (0, 6)
