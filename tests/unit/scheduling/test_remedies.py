"""The smallest change that would let a pod in: what is promised fits, and one unit more does not."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.scheduling.remedies import (
    OpenNodes,
    OtherPolicy,
    OtherRequest,
    Remedy,
    WithoutFilter,
    ZonesCombined,
    remedies,
)
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide
from tests.builders.numatopologies import machine, numa_aware_profile, numatopology, policy_pod, volcano_cluster
from tests.builders.objects import GI, GPU, Amounts, ZoneAmounts, container, node, pod, simple_pod, topology, zone

MI = 2**20


NO_MEMORY_MANAGER = {"memoryManagerPolicy": "None"}


def found(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> list[Remedy]:
    profile = profile or default_profile()
    assert not decide(state, waiting, profile).placed
    pod_class = state.classes.of(waiting)
    return list(remedies(state, pod_class, profile, ClassAnswers(state).for_class(pod_class, profile)))


def smaller(state: ClusterState, waiting: Pod) -> list[tuple[str, int, int]]:
    return [
        (each.resource, each.amount, each.nodes)
        for each in found(state, waiting)
        if isinstance(each, OtherRequest) and each.amount < each.instead_of
    ]


def burstable(requests: Amounts) -> Pod:
    return pod(container(requests=requests))


@pytest.mark.parametrize(
    "free, asked, resource, amount, unit",
    [
        pytest.param({"cpu": "7900m"}, {"cpu": 9}, "cpu", 7900, 100, id="shared CPUs by the tenth"),
        pytest.param({"cpu": "1500m"}, {"cpu": "1550m"}, "cpu", 1500, 100, id="an amount between two tenths"),
        pytest.param({"memory": "1000Mi"}, {"memory": "1Gi"}, "memory", 1000 * MI, MI, id="memory by the MiB"),
        pytest.param({"memory": "9536Mi"}, {"memory": "10G"}, "memory", 9536 * MI, MI, id="memory written in decimal"),
        pytest.param({GPU: 3}, {GPU: 8}, GPU, 3, 1, id="devices one by one"),
    ],
)
def test_what_is_promised_fits_and_one_unit_more_does_not(
    free: Amounts, asked: Amounts, resource: str, amount: int, unit: int
) -> None:
    state = cluster(nodes=[node("n1", free)])
    assert smaller(state, burstable(asked)) == [(resource, amount, 1)]

    def fits(number: int) -> bool:
        text = f"{number}m" if resource == "cpu" else number
        return decide(state, burstable({resource: text})).placed

    assert fits(amount)
    assert not fits(amount + unit)


def test_pinned_cpus_come_whole() -> None:
    zones = (zone(0, {"cpu": 6, "memory": "16Gi"}), zone(1, {"cpu": 5, "memory": "16Gi"}))
    state = cluster(topology(*zones, name="a"), topology(*zones[1:], name="b"))
    assert smaller(state, simple_pod({"cpu": 9, "memory": "1Gi"})) == [("cpu", 6000, 1)]


def test_the_number_of_nodes_that_would_take_it() -> None:
    state = cluster(nodes=[node("a", {"cpu": 4}), node("b", {"cpu": 4}), node("c", {"cpu": 2})])
    assert smaller(state, burstable({"cpu": 6})) == [("cpu", 4000, 2)]


def test_only_the_container_and_resource_that_help_are_named() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8, "memory": "4Gi"})])
    waiting = pod(
        container(requests={"cpu": 2, "memory": "1Gi"}, name="small"),
        container(requests={"cpu": 2, "memory": "6Gi"}, name="large"),
    )
    assert [each for each in found(state, waiting) if isinstance(each, OtherRequest)] == [
        OtherRequest("large", "memory", 3 * GI, 6 * GI, 1)
    ]


def test_two_resources_short_at_once_have_no_single_remedy() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 1, "memory": "1Gi"})])
    assert smaller(state, burstable({"cpu": 4, "memory": "4Gi"})) == []


GPU_TAINT = {"key": "example.com/gpu", "value": "present", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
UNREACHABLE = [{"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoSchedule", "NoExecute")]


def test_a_selector_that_could_be_dropped() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8}), node("small", {"cpu": 1})])
    waiting = pod(container(requests={"cpu": 4}), nodeSelector={"disk": "ssd"})
    cause = "node(s) didn't match Pod's node affinity/selector"
    assert WithoutFilter("NodeAffinity", cause, 1) in found(state, waiting)


@pytest.mark.parametrize(
    "closed, expected",
    [
        pytest.param({"unschedulable": True}, (("n1",), (), ()), id="cordoned"),
        pytest.param({"unschedulable": True, "taints": [CORDON]}, (("n1",), (), ()), id="with the cordon's own taint"),
        pytest.param({"taints": UNREACHABLE}, ((), ("n1",), ()), id="not Ready"),
        pytest.param({"taints": [GPU_TAINT]}, ((), (), ("example.com/gpu=present:NoSchedule",)), id="tainted"),
        pytest.param(
            {"unschedulable": True, "taints": [GPU_TAINT]},
            (("n1",), (), ("example.com/gpu=present:NoSchedule",)),
            id="both",
        ),
    ],
)
def test_what_would_open_a_closed_node(closed: Json, expected: tuple[tuple[str, ...], ...]) -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8}, **closed), node("small", {"cpu": 1}, **closed)])
    (remedy,) = found(state, burstable({"cpu": 4}))
    assert isinstance(remedy, OpenNodes)
    assert (remedy.uncordon, remedy.ready, remedy.tolerate) == expected
    assert remedy.names == ("n1",)


def test_the_nodes_that_are_opened_most_easily_come_first() -> None:
    team = {"key": "team", "value": "a", "effect": "NoSchedule"}
    closed: list[Json] = [
        {"taints": [team, GPU_TAINT]},
        {"taints": [team, GPU_TAINT]},
        {"taints": [GPU_TAINT]},
        {"taints": [team], "unschedulable": True},
        {"unschedulable": True},
    ]
    state = cluster(nodes=[node(f"n{number}", {"cpu": 8}, **each) for number, each in enumerate(closed)])
    opened = [each for each in found(state, burstable({"cpu": 4})) if isinstance(each, OpenNodes)]
    assert [each.names for each in opened] == [("n2",), ("n4",), ("n0", "n1")]


def test_under_restricted_more_can_be_easier() -> None:
    """8 GPUs need both zones, 96 CPUs one; 113 CPUs need both, too."""
    amounts: ZoneAmounts = {"cpu": 112, "memory": "1Ti", GPU: 4}
    state = cluster(topology(zone(0, amounts), zone(1, amounts), policy="restricted"))
    assert OtherRequest("main", "cpu", 113_000, 96_000, 1) in found(
        state, simple_pod({"cpu": 96, "memory": "1200Gi", GPU: 8})
    )


def test_a_filter_that_is_not_the_only_obstacle_is_no_remedy() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 1}, unschedulable=True)])
    assert found(state, burstable({"cpu": 4})) == []


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_zones_that_could_be_combined(policy: str) -> None:
    zones = (zone(0, {"cpu": 5, "memory": "16Gi"}), zone(1, {"cpu": 5, "memory": "16Gi"}))
    state = cluster(topology(*zones, policy=policy), nodes=[node("n1", {"cpu": 10, "memory": "32Gi"})])
    assert ZonesCombined(1) in found(state, simple_pod({"cpu": 8, "memory": "1Gi"}))


def test_zones_that_are_short_in_sum_cannot_be_combined() -> None:
    zones = (zone(0, {"cpu": 3, "memory": "16Gi"}), zone(1, {"cpu": 3, "memory": "16Gi"}))
    state = cluster(topology(*zones), nodes=[node("n1", {"cpu": 10, "memory": "32Gi"})])
    assert not any(isinstance(each, ZonesCombined) for each in found(state, simple_pod({"cpu": 8, "memory": "1Gi"})))


@pytest.mark.parametrize(
    "asked, amount",
    [
        pytest.param(31, 28, id="more than there is: all of both zones"),
        pytest.param(16, 14, id="one zone could hold it if it were empty, so two are not allowed"),
    ],
)
def test_under_restricted_less_is_not_always_easier(asked: int, amount: int) -> None:
    """14 of 16 CPUs are free in both zones: up to 14 fit in one, 17 to 28 in two, 15 and 16 nowhere."""
    amounts: ZoneAmounts = {"cpu": (16, 16, 14), "memory": "16Gi"}
    state = cluster(topology(zone(0, amounts), zone(1, amounts), policy="restricted", attributes=NO_MEMORY_MANAGER))
    assert smaller(state, simple_pod({"cpu": asked, "memory": "1Gi"})) == [("cpu", amount * 1000, 1)]


def test_whole_cores_are_promised_where_only_whole_cores_are_given_out() -> None:
    attributes = {"cpuManagerPolicyOptions": "full-pcpus-only=true", "cpuManagerPolicy": "static"}
    amounts: ZoneAmounts = {"cpu": 8, "memory": "16Gi"}
    state = cluster(topology(zone(0, amounts), zone(1, amounts), attributes=attributes))
    for asked, amount in ((5, 4000), (11, 8000)):
        assert smaller(state, simple_pod({"cpu": asked, "memory": "1Gi"})) == [("cpu", amount, 1)]


def spanning(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> list[Remedy]:
    return [each for each in found(state, waiting, profile) if isinstance(each, ZonesCombined)]


def test_devices_that_are_gone_from_every_zone_cannot_be_combined() -> None:
    """The node itself knows nothing of who holds them: its own sum has room for two."""
    none: ZoneAmounts = {GPU: (1, 1, 0), "cpu": 8}
    one: ZoneAmounts = {GPU: (1, 1, 1), "cpu": 8}
    state = cluster(
        topology(zone(0, none), zone(1, none), name="a"),
        topology(zone(0, none), zone(1, one), name="b"),
        topology(zone(0, one), zone(1, one), name="c"),
    )
    assert spanning(state, burstable({GPU: 2})) == [ZonesCombined(1)]


def test_by_upstreams_rules_zones_that_are_short_in_sum_cannot_be_combined_either() -> None:
    upstream = default_profile(topology_match(read_arguments({"filterMode": "Upstream"})))
    amounts: ZoneAmounts = {"cpu": (16, 16, 3), "memory": "16Gi"}
    enough: ZoneAmounts = {"cpu": (16, 16, 12), "memory": "16Gi"}
    state = cluster(
        topology(zone(0, amounts), zone(1, amounts), name="short"),
        topology(zone(0, enough), zone(1, enough), name="enough"),
    )
    assert spanning(state, simple_pod({"cpu": 20, "memory": "1Gi"}), upstream) == [ZonesCombined(1)]


def test_only_nodes_whose_kubelet_would_admit_it_are_counted() -> None:
    """The init container holds huge pages in one zone, which the Memory Manager's merge at pod scope does not see."""
    waiting = pod(
        container({"cpu": 2, "memory": "2Gi"}),
        init=[container({"cpu": 1, "memory": "1Gi", "hugepages-1Gi": "4Gi"}, "init")],
    )

    def machine(name: str, *pages: str) -> NodeResourceTopology:
        zones = (
            zone(number, {"cpu": 8, "memory": "16Gi", "hugepages-1Gi": ("4Gi", "4Gi", free)})
            for number, free in enumerate(pages)
        )
        return topology(*zones, name=name, scope="pod")

    reports = [machine(f"bad{number}", "0", "4Gi") for number in range(12)] + [machine("good", "4Gi", "4Gi")]
    allocatable: Amounts = {"cpu": 16, "memory": "32Gi", "hugepages-1Gi": "8Gi"}
    nodes = [node(report.metadata.name, allocatable, unschedulable=True) for report in reports]
    remedy = next(each for each in found(cluster(*reports, nodes=nodes), waiting) if isinstance(each, OpenNodes))
    assert (remedy.nodes, remedy.names, remedy.at_least) == (1, ("good",), False)


def test_what_was_not_replayed_is_not_counted() -> None:
    waiting = pod(container({"cpu": 2, "memory": "1Gi"}), init=[container({"cpu": 2, "memory": "1Gi"}, "init")])
    amounts: ZoneAmounts = {"cpu": 8, "memory": "16Gi"}
    reports = [topology(zone(0, amounts), zone(1, amounts), name=f"n{number}") for number in range(70)]
    nodes = [node(report.metadata.name, {"cpu": 16, "memory": "32Gi"}, unschedulable=True) for report in reports]
    (remedy,) = found(cluster(*reports, nodes=nodes), waiting)
    assert isinstance(remedy, OpenNodes)
    assert (remedy.nodes, remedy.at_least) == (64, True)


def test_memory_that_no_manager_looks_at_does_not_stop_zones_from_being_combined() -> None:
    amounts: ZoneAmounts = {"cpu": (16, 16, 6), "memory": ("16Gi", "16Gi", "0")}
    state = cluster(topology(zone(0, amounts), zone(1, amounts), attributes=NO_MEMORY_MANAGER))
    assert spanning(state, simple_pod({"cpu": 10, "memory": "1Gi"})) == [ZonesCombined(1)]


@pytest.mark.parametrize(
    "asked, cpus, expected",
    [
        pytest.param("restricted", 2, [("best-effort", 1), ("single-numa-node", 2)], id="those that nodes have"),
        pytest.param("Restricted", 2, [("best-effort", 1), ("single-numa-node", 2)], id="a slip of the pen"),
        pytest.param("restricted", 6, [("best-effort", 1)], id="only where the kubelet would admit it"),
    ],
)
def test_another_topology_policy(asked: str, cpus: int, expected: list[tuple[str, int]]) -> None:
    policies = {"loose": "best-effort", "strict-0": "single-numa-node", "strict-1": "single-numa-node"}
    state = volcano_cluster(
        *(numatopology(name, machine(2, 4), policy=policy, reserved="1") for name, policy in policies.items())
    )
    changes = found(state, policy_pod(asked, cpus), numa_aware_profile())
    policies_found = [each for each in changes if isinstance(each, OtherPolicy)]
    assert [(each.policy, each.nodes) for each in policies_found] == expected
    assert {each.instead_of for each in policies_found} == {asked}


def test_no_policy_at_all_where_none_of_the_nodes_helps() -> None:
    """A CPU Manager that is not static aligns nothing, so a pod that asks for a policy does not get there."""
    state = volcano_cluster(numatopology("n1", machine(2, 4), cpu_manager="none"))
    changes = found(state, policy_pod("single-numa-node", 2), numa_aware_profile())
    assert changes == [OtherPolicy("none", "single-numa-node", 1)]


def test_a_policy_is_no_obstacle_where_it_is_not_compared() -> None:
    state = volcano_cluster(numatopology("n1", machine(2, 4)))
    changes = found(state, policy_pod("restricted", 6))
    assert not [each for each in changes if isinstance(each, OtherPolicy)]
