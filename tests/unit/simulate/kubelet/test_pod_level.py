"""Pods with resources of their own, without and with the alpha gate PodLevelResourceManagers."""

from __future__ import annotations

import pytest

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.reports.kubelet_version import KubeletVersion
from bayplan.simulate.kubelet import Admission
from bayplan.simulate.kubelet.pod_level import cpu_problem, exclusive_cpus_of_pod
from tests.builders.bodies import Json
from tests.builders.objects import GI, Amounts, container
from tests.unit.simulate.kubelet.nodes import cpus, kubelet, request

OWN: Amounts = {"cpu": 2, "memory": "2Gi"}


def whole(cpu: str | int, *containers: Json, init: tuple[Json, ...] = ()) -> PodRequest:
    amounts = {"cpu": cpu, "memory": "8Gi"}
    return request(*containers, init=init, resources={"requests": amounts, "limits": amounts})


def gigabytes(admission: Admission) -> dict[str, list[int]]:
    return {each.name: [block.size // GI for block in each.memory] for each in admission.containers}


def test_without_the_gate_the_managers_leave_such_pods_alone() -> None:
    admission = kubelet(scope=Scope.POD).admit("p", whole(4, container(OWN)))
    assert (admission.admitted, cpus(admission), gigabytes(admission)) == (True, {"main": ()}, {"main": []})


def test_with_the_gate_containers_get_a_part_or_share_the_rest() -> None:
    node = kubelet(scope=Scope.POD, pod_level_managers=True)
    pod = whole(4, container(OWN, "own"), container(name="shared"), init=(container(name="init"),))
    admission = node.admit("p", pod)
    assert cpus(admission) == {"init": (1, 2, 9, 10), "own": (1, 9), "shared": (2, 10)}
    assert gigabytes(admission) == {"init": [8], "own": [2], "shared": [6]}
    memory = node.free().memory
    assert memory is not None
    assert memory[0].free["memory"] == 7 * GI
    node.start("p")
    assert node.free().memory == memory  # the pod keeps all of it
    node.remove("p")
    assert node.free() == kubelet(scope=Scope.POD, pod_level_managers=True).free()


def test_a_fraction_of_a_cpu_lives_in_the_shared_pool() -> None:
    admission = kubelet(scope=Scope.POD, pod_level_managers=True).admit("p", whole("2500m", container(OWN)))
    assert cpus(admission) == {"main": ()}


@pytest.mark.parametrize(
    "policy, reason", [(Policy.RESTRICTED, "TopologyAffinityError"), (Policy.BEST_EFFORT, "EmptyPodSharedPoolError")]
)
def test_where_nothing_is_left_to_share(policy: Policy, reason: str) -> None:
    node = kubelet(policy=policy, scope=Scope.POD, pod_level_managers=True)
    before = node.free()
    admission = node.admit("p", whole(2, container(OWN, "own"), container(name="shared")))
    assert (admission.reason, admission.container) == (reason, "")
    assert node.free() == before


@pytest.mark.parametrize(
    "cpu, containers, init, problem",
    [
        (4, (OWN, {}), (), None),
        (2, (OWN, {}), (), "leaving no cpus for shared containers"),
        (2, (OWN,), ({},), None),
        (2, ({},), (OWN,), None),
        (1, ({},), (OWN,), "largest exclusive init container requests 2 cpus, but only 1 available"),
    ],
)
def test_whether_the_cpus_can_be_parted(
    cpu: int, containers: tuple[Amounts, ...], init: tuple[Amounts, ...], problem: str | None
) -> None:
    pod = whole(
        cpu,
        *(container(amounts, f"c{number}") for number, amounts in enumerate(containers)),
        init=tuple(container(amounts, f"i{number}") for number, amounts in enumerate(init)),
    )
    found = cpu_problem(pod, exclusive_cpus_of_pod(pod))
    assert (found is None) is (problem is None)
    assert problem is None or problem in str(found)


def test_a_sidecar_that_takes_everything_leaves_nothing_for_an_init_container() -> None:
    pod = whole(2, container(OWN), init=(container(OWN, "proxy", sidecar=True), container(name="init")))
    assert cpu_problem(pod, 2) == "pod rejected, pod has shared init containers but no cpus available for them"


def test_until_1_36_a_container_without_memory_needs_a_zone_at_container_scope() -> None:
    pod = whole(4, container(name="shared"))

    def admission(policy: Policy, version: KubeletVersion) -> Admission:
        return kubelet(policy=policy, pod_level_managers=True, version=version).admit("p", pod)

    refused = admission(Policy.SINGLE_NUMA_NODE, KubeletVersion.V1_36)
    assert (refused.stage, refused.container) == ("memory", "shared")
    assert "failed to get the default NUMA affinity" in refused.message
    assert admission(Policy.RESTRICTED, KubeletVersion.V1_36).admitted
    assert admission(Policy.SINGLE_NUMA_NODE, KubeletVersion.V1_37).admitted
