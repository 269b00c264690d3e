"""Where other agents count otherwise: each story shows what is true first and then what NFD's and RTE's agents say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.agent.accounting import ZoneAccount, account
from bayplan.services.agent.evidence import Evidence
from bayplan.services.agent.sources.pod_resources import Allocatable, DeviceGroup, PodResources
from bayplan.services.agent.sources.sysfs import Hardware
from tests.builders.objects import cpu_pod
from tests.conformance.node_agents import nfd, rte
from tests.conformance.node_agents.rte import ListedZone
from tests.unit.services.agent.nodes import GI, OFFERED, TWO_ZONES, container, machine, memory, pod

GPU = "vendor.com/gpu"


def guaranteed(name: str, cpus: str = "2") -> Pod:
    return cpu_pod(cpus, name)


def left(zones: Sequence[ZoneAccount], resource: str) -> dict[int, int]:
    return {zone.id: zone.amounts[resource].available for zone in zones if resource in zone.amounts}


def three_answers(
    resource: str, pods: Sequence[PodResources], allocatable: Allocatable = OFFERED, hardware: Hardware = TWO_ZONES
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """What is left of a resource by zone: in truth, to NFD's agent, to RTE's."""
    listed = [ListedZone(zone.id, zone.cpus, tuple(zone.distances.values())) for zone in hardware.zones]
    capacity = {zone.id: zone.capacity for zone in hardware.zones}
    known = {each.key: guaranteed(each.name) for each in pods}
    scan = nfd.scan(pods, known)
    return (
        left(account(Evidence(hardware, allocatable=allocatable, pods=pods)).zones, resource),
        left(nfd.aggregate(listed, capacity, allocatable, scan.pods), resource),
        left(rte.scan(listed, capacity, allocatable, pods).zones, resource),
    )


def test_all_agree_about_a_pod_in_one_zone() -> None:
    truth, nfd, rte = three_answers("cpu", [pod("a", container(1, 2))])
    assert truth == nfd == rte == {0: 5, 1: 7}


def test_gaps_among_the_ids_of_zones() -> None:
    sparse, offered = machine({0: range(4), 2: range(4, 8)}), Allocatable(cpus=tuple(range(8)))
    truth, nfd, rte = three_answers("cpu", [pod("a", container(5))], offered, sparse)
    assert truth == {0: 4, 2: 3}
    assert nfd == rte == {0: 4, 1: 0}


def test_memory_that_spans_zones() -> None:
    truth, nfd, rte = three_answers("memory", [pod("a", container(1, memory=[memory(20 * GI, 0, 1)]))])
    assert truth == nfd == {0: 0, 1: 8 * GI}
    assert rte == {0: 0, 1: 0}


def test_a_device_in_two_zones() -> None:
    offered = Allocatable(devices=(DeviceGroup(GPU, ("x", "y"), (0, 1)),))
    truth, nfd, rte = three_answers(GPU, [pod("a", container(gpus={"x": (0, 1)}))], offered)
    assert truth == rte == {0: 1, 1: 1}
    assert nfd == {0: 2, 1: 1}


def test_a_sidecar_for_which_an_old_kubelet_lists_the_shared_pool() -> None:
    pool = container(0, *range(3, 8), *range(8, 16), name="sidecar")
    truth, nfd, rte = three_answers("cpu", [pod("a", container(1, 2), pool)])
    assert truth == {0: 5, 1: 7}
    assert nfd == {0: 0, 1: 0}
    assert rte == {0: 0, 1: 0}


def test_one_pod_that_vanished_ends_the_scan_of_nfds_agent() -> None:
    with pytest.raises(
        nfd.PodMissing, match="pod default/ghost is listed by the kubelet and unknown to the API server"
    ):
        nfd.scan([pod("ghost", container(1))], {})


def test_nfds_agent_goes_on_where_the_original_ends_itself() -> None:
    listed = [ListedZone(0, range(8), (10,))]
    scan = nfd.scan([pod("a", container(1, 2))], {("default", "a"): guaranteed("a")})
    (zone,) = nfd.aggregate(listed, {}, Allocatable(cpus=tuple(range(1, 8))), scan.pods, {"cpu"})
    assert zone.amounts == {}


def test_a_reference_container_shows_rtes_agent_what_is_shared() -> None:
    listed = [ListedZone(0, range(8), (10, 21)), ListedZone(1, range(8, 16), (21, 10))]
    pods = [pod("a", container(1, 2)), pod("b", container(3, 4)), pod("rte", container(3, 4, name="shared"))]
    found = rte.scan(listed, {}, OFFERED, pods, method="all", reference=("default", "rte", "shared"))
    assert left(found.zones, "cpu") == {0: 5, 1: 7}
    assert found.attributes["nodeTopologyPodsFingerprintMethod"] == "all"
