"""Which zones a pod gets on the chosen node, and what that takes out of each."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, free_in_zones, place
from tests.builders.objects import GI, GPU, container, node, pod, simple_pod, topology, zone

Taken = dict[tuple[str, int], int]


def placed(state: ClusterState, waiting: Pod) -> tuple[list[tuple[str, tuple[int, ...] | None]], Taken]:
    """Zones per container, and amounts by resource and position of the zone."""
    placement = NodeResourceTopologyMatch().place(state, state.classes.of(waiting), 0)
    assert placement.refusal is None
    names = state.columns.resource_names
    taken = {(names[charge.resource], charge.zone): int(charge.amount) for charge in placement.charges}
    return [(each.container, each.zones) for each in placement.containers], taken


def cpus(number: int, name: str = "main") -> Json:
    return container({"cpu": number, "memory": "1Gi"}, name)


TWIN = (zone(0, {"cpu": 8, "memory": "16Gi", GPU: 1}), zone(1, {"cpu": 8, "memory": "16Gi", GPU: 1}))


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_one_container_gets_the_lowest_zone_that_holds_everything(policy: str) -> None:
    half_full = (zone(0, {"cpu": (8, 8, 2), "memory": "16Gi"}), zone(1, {"cpu": 8, "memory": "16Gi"}))
    zones, taken = placed(cluster(topology(*half_full, policy=policy)), pod(cpus(4)))
    assert zones == [("main", (1,))]
    assert taken == {("cpu", 1): 4000, ("memory", 1): GI}


def test_zones_are_named_by_id_and_charged_by_position() -> None:
    sparse = (zone(9, {"cpu": 8, "memory": "16Gi"}), zone(4, {"cpu": 2, "memory": "16Gi"}))
    zones, taken = placed(cluster(topology(*sparse)), pod(cpus(4)))
    assert zones == [("main", (9,))]
    assert taken == {("cpu", 1): 4000, ("memory", 1): GI}


def test_containers_take_their_zones_in_turn() -> None:
    zones, taken = placed(cluster(topology(*TWIN)), pod(cpus(6, "a"), cpus(6, "b"), cpus(2, "c")))
    assert zones == [("a", (0,)), ("b", (1,)), ("c", (0,))]
    assert taken == {("cpu", 0): 8000, ("cpu", 1): 6000, ("memory", 0): 2 * GI, ("memory", 1): GI}


def test_a_container_over_two_zones_takes_from_both() -> None:
    zones, taken = placed(cluster(topology(*TWIN, policy="restricted")), simple_pod({"cpu": 12, "memory": "20Gi"}))
    assert zones == [("main", (0, 1))]
    assert {name: sum(amount for (each, _), amount in taken.items() if each == name) for name in ("cpu", "memory")} == {
        "cpu": 12_000,
        "memory": 20 * GI,
    }


def test_what_an_init_container_had_is_taken_once() -> None:
    waiting = pod(cpus(4), init=[cpus(6, "prepare")])
    zones, taken = placed(cluster(topology(*TWIN)), waiting)
    assert zones == [("prepare", (0,)), ("main", (0,))]
    assert taken["cpu", 0] == 6000, "CPUs of a finished init container stay with the pod"


def test_only_aligned_amounts_are_taken_from_zones() -> None:
    burstable = pod(container(requests={"cpu": 4, GPU: 1}, limits={GPU: 1}))
    zones, taken = placed(cluster(topology(*TWIN)), burstable)
    assert zones == [("main", (0,))]
    assert taken == {(GPU, 0): 1}


def test_without_a_policy_there_is_no_affinity_but_cpus_are_taken_all_the_same() -> None:
    zones, taken = placed(cluster(topology(*TWIN, policy="none")), pod(cpus(4)))
    assert zones == [("main", None)]
    assert sum(amount for (name, _), amount in taken.items() if name == "cpu") == 4000


def test_without_a_report_nothing_is_placed_in_zones() -> None:
    assert placed(cluster(nodes=[node("n1", {"cpu": 64, "memory": "64Gi"})]), pod(cpus(4))) == ([], {})


def test_pods_fill_a_node_zone_by_zone() -> None:
    state = cluster(topology(*TWIN))
    for number in range(4):
        place(state, simple_pod({"cpu": 4, "memory": "4Gi"}, f"pod-{number}"))
    assert free_in_zones(state, "n1", "cpu") == [0, 0]
    assert free_in_zones(state, "n1", "memory") == [8 * GI, 8 * GI]


def test_containers_without_names_are_charged_each() -> None:
    state = cluster(topology(*TWIN))
    place(state, pod(cpus(4, ""), cpus(4, "")))
    assert free_in_zones(state, "n1", "cpu") == [0, 8000]


def test_a_report_of_absurdly_many_devices_is_placed_like_any_other() -> None:
    state = cluster(topology(zone(0, {GPU: 2**40}), policy="none"))
    place(state, pod(container({GPU: 1}, "a"), container({GPU: 1}, "b")))
    assert free_in_zones(state, "n1", GPU) == [2**40 - 2]


def zero(*devices: str) -> Json:
    """A container that asks for none of some devices by name."""
    return container(limits=dict.fromkeys(devices, 0))


def test_zero_devices_of_two_kinds_need_a_zone_that_has_both() -> None:
    apart = (zone(0, {"example.com/a": 1}), zone(1, {"example.com/b": 1}))
    state = cluster(topology(*apart, policy="single-numa-node"))
    codes = NodeResourceTopologyMatch().refusals(
        state, state.classes.of(pod(zero("example.com/a", "example.com/b"))), slice(0, 1)
    )
    assert codes is not None
    assert codes[0]
    assert (
        NodeResourceTopologyMatch().refusals(state, state.classes.of(pod(zero("example.com/a"))), slice(0, 1)) is None
    )


def test_zero_devices_are_refused_where_none_works() -> None:
    broken = cluster(nodes=[node("n1", {"cpu": 8, GPU: 0})])
    placement = NodeResourceTopologyMatch().place(broken, broken.classes.of(pod(zero(GPU))), 0)
    assert placement.refusal is not None
    assert placement.refusal.message == (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy "
        f"devices {GPU}, which is unexpected"
    )
    without = cluster(nodes=[node("n1", {"cpu": 8})])
    assert NodeResourceTopologyMatch().place(without, without.classes.of(pod(zero(GPU))), 0).refusal is None


def test_a_pod_with_pod_level_resources_is_replayed_where_its_kubelet_serves_them() -> None:
    both = {"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static"}
    gate = {"featureGates": "PodLevelResourceManagers=true"}
    amounts = {"cpu": "12", "memory": "4Gi"}
    whole = pod(container(), resources={"requests": amounts, "limits": amounts})
    for attributes, refused in ((both, False), ({**both, **gate}, True)):
        state = cluster(topology(*TWIN, scope="pod", attributes=attributes))
        placement = NodeResourceTopologyMatch().place(state, state.classes.of(whole), 0)
        assert (placement.refusal is not None) is refused
