"""Memory of Guaranteed pods: two or more zones of 16 GiB, of which zone 0 has 15 for pods."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.simulate.kubelet import Admission, MemoryBlock, VirtualKubelet
from tests.builders.objects import GI, Amounts, container
from tests.unit.simulate.kubelet.nodes import HUGE, guaranteed, kubelet, machine, request


def blocks(admission: Admission) -> dict[str, list[tuple[str, int, tuple[int, ...]]]]:
    """Type, GiB and zones of each container's blocks."""
    return {
        each.name: [(block.type, block.size // GI, block.zones) for block in each.memory]
        for each in admission.containers
    }


def free(node: VirtualKubelet) -> dict[int, tuple[int, tuple[int, ...], int]]:
    """Each zone's free GiB of memory, its group and its assignments."""
    memory = node.free().memory
    assert memory is not None
    return {zone: (state.free["memory"] // GI, state.group, state.assignments) for zone, state in memory.items()}


def small(gigabytes: int) -> dict[str, str]:
    return {"cpu": "500m", "memory": f"{gigabytes}Gi"}


def test_memory_comes_from_the_lowest_zone_that_has_it() -> None:
    node = kubelet()
    assert blocks(node.admit("p", guaranteed(small(10)))) == {"main": [("memory", 10, (0,))]}
    assert blocks(node.admit("q", guaranteed(small(10)))) == {"main": [("memory", 10, (1,))]}
    assert free(node) == {0: (5, (0,), 1), 1: (6, (1,), 1)}


def test_more_than_a_zone_makes_a_group_until_it_is_given_back() -> None:
    node = kubelet(machine(3))
    assert blocks(node.admit("p", guaranteed(small(20)))) == {"main": [("memory", 20, (0, 1))]}
    assert free(node) == {0: (0, (0, 1), 1), 1: (11, (0, 1), 1), 2: (16, (2,), 0)}
    # A single-zone request must not go into the group, though zone 1 has room.
    assert blocks(node.admit("q", guaranteed(small(4)))) == {"main": [("memory", 4, (2,))]}
    assert node.admit("r", guaranteed(small(13))).message == (
        "Allocate failed due to [memorymanager] preferred hint violates NUMA node allocation, which is unexpected"
    )
    node.remove("p")
    assert free(node) == {0: (15, (0,), 0), 1: (16, (1,), 0), 2: (12, (2,), 1)}


def test_in_a_group_the_lowest_zone_is_charged_and_given_back_first() -> None:
    node = kubelet(policy=Policy.BEST_EFFORT)
    node.admit("p", guaranteed(small(17)))
    assert free(node) == {0: (0, (0, 1), 1), 1: (14, (0, 1), 1)}
    node.admit("q", guaranteed(small(10)))
    assert free(node) == {0: (0, (0, 1), 2), 1: (4, (0, 1), 2)}
    node.remove("q")
    assert free(node) == {0: (10, (0, 1), 1), 1: (4, (0, 1), 1)}


def test_without_the_topology_manager_it_chooses_by_itself() -> None:
    node = kubelet(policy=Policy.NONE)
    admission = node.admit("p", guaranteed(small(16)))
    assert admission.containers[0].zones is None
    assert blocks(admission) == {"main": [("memory", 16, (1,))]}
    assert node.admit("q", guaranteed(small(16))).message == (
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )


def test_what_no_zone_set_can_serve_passes_the_merge_and_dies_in_allocation() -> None:
    admission = kubelet().admit("p", guaranteed(small(40)))
    assert (admission.reason, admission.stage, admission.fits) == ("UnexpectedAdmissionError", "memory", False)


def test_huge_pages_come_from_the_same_zones_as_memory() -> None:
    node = kubelet(machine(2, huge_pages=2))
    node.admit("p", guaranteed({**small(1), HUGE: "2Gi"}))
    assert blocks(node.admit("q", guaranteed({**small(1), HUGE: "1Gi"}))) == {
        "main": [("memory", 1, (1,)), (HUGE, 1, (1,))]
    }


def test_a_size_of_huge_pages_that_no_zone_has_is_refused() -> None:
    admission = kubelet().admit("p", guaranteed({**small(1), "hugepages-2Mi": "4Mi"}))
    assert (admission.admitted, admission.stage) == (False, "memory")
    without = kubelet(memory=False).admit("p", guaranteed({**small(1), "hugepages-2Mi": "4Mi"}))
    assert without.reason == "OutOfhugepages-2Mi"


def test_an_init_containers_memory_is_used_again_in_the_same_zone() -> None:
    node = kubelet()
    pod = guaranteed(small(6), init=[container(small(10), "init")])
    assert blocks(node.admit("p", pod)) == {"init": [("memory", 4, (0,))], "main": [("memory", 6, (0,))]}
    assert free(node)[0] == (5, (0,), 2)
    node.start("p")
    assert free(node)[0] == (9, (0,), 1)
    assert [each.memory for each in node.pods["p"].containers] == [(), (MemoryBlock("memory", 6 * GI, (0,)),)]


def test_huge_pages_of_init_containers_alone_are_not_seen_at_pod_scope() -> None:
    node = kubelet(machine(2, huge_pages=2), scope=Scope.POD)
    node.admit("p", guaranteed({**small(1), HUGE: "2Gi"}))  # all of zone 0
    pod = guaranteed(small(1), init=[container({**small(1), HUGE: "2Gi"}, "init")])
    refused = node.admit("q", pod)
    assert (refused.stage, refused.container) == ("memory", "init")


@pytest.mark.parametrize("requests", [{"cpu": 1, "memory": "20Gi"}, {}])
def test_pods_that_are_not_guaranteed_are_left_alone(requests: Amounts) -> None:
    node = kubelet()
    assert blocks(node.admit("p", request(container(requests=requests)))) == {"main": []}
    assert free(node) == {0: (15, (0,), 0), 1: (16, (1,), 0)}


def test_a_zone_without_cpus_has_memory() -> None:
    node = kubelet(machine(1, memory_only_zones=1), policy=Policy.BEST_EFFORT)
    assert blocks(node.admit("p", guaranteed(small(16)))) == {"main": [("memory", 16, (1,))]}


def test_without_the_static_policy_nothing_is_kept() -> None:
    node = kubelet(memory=False)
    assert blocks(node.admit("p", guaranteed(small(20)))) == {"main": []}
    assert node.free().memory is None
