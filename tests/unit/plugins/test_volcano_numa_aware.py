"""`numa-aware`: which nodes a pod with a policy may use, which of them is best, and what users of Volcano have stumbled
over.
"""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.volcano_numa_aware import NumaAware, read_arguments
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import Profile
from tests.builders.clusters import decide, free_in_zones, place
from tests.builders.numatopologies import machine, numa_aware_profile, numatopology, policy_pod, volcano_cluster
from tests.builders.objects import GPU, container, node, pod, simple_pod, topology, zone

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
EIGHT = machine(2, 4)


def one_node_per_policy() -> ClusterState:
    """Four idle nodes, named by their policies."""
    return volcano_cluster(*(numatopology(policy, EIGHT, policy=policy) for policy in POLICIES))


def usable(state: ClusterState, waiting: Pod, profile: Profile) -> set[str]:
    answer = ClassAnswers(state).for_class(state.classes.of(waiting), profile)
    return {state.names[row] for row in np.flatnonzero(answer.total_score >= 0)}


def causes(state: ClusterState, waiting: Pod, profile: Profile) -> dict[str, str]:
    pod_class = state.classes.of(waiting)
    answer = ClassAnswers(state).for_class(pod_class, profile)
    blocked = {name: int(answer.blocked[row]) for name, row in state.rows.items()}
    return {name: profile.cause(pod_class, number)[1] for name, number in blocked.items() if number}


# -- the gate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compatibility", ["kubelet", "volcano"])
@pytest.mark.parametrize(
    "policy, nodes",
    [
        (None, set(POLICIES)),
        ("none", set(POLICIES)),
        ("best-effort", {"best-effort"}),
        ("restricted", {"restricted"}),
        ("single-numa-node", {"single-numa-node"}),
        ("Restricted", set()),
    ],
)
def test_a_policy_selects_nodes_that_have_it(policy: str | None, nodes: set[str], compatibility: str) -> None:
    profile = numa_aware_profile(compatibility=compatibility)
    assert usable(one_node_per_policy(), policy_pod(policy, 2), profile) == nodes


@pytest.mark.parametrize(
    "cpus, nodes",
    [
        pytest.param(4, {"best-effort", "restricted", "single-numa-node"}, id="fits into a zone"),
        pytest.param(6, {"best-effort", "restricted"}, id="spans zones"),
        pytest.param(9, set[str](), id="more than there is"),
    ],
)
def test_the_nodes_policy_decides_for_pods_that_ask_for_none(cpus: int, nodes: set[str]) -> None:
    state = volcano_cluster(*(numatopology(policy, EIGHT, policy=policy) for policy in POLICIES[1:]))
    assert usable(state, policy_pod(None, cpus), numa_aware_profile()) == nodes


def test_every_no_says_why() -> None:
    state = volcano_cluster(
        numatopology("other", EIGHT, policy="best-effort"),
        numatopology("shared", EIGHT, policy="restricted", cpu_manager="none"),
        numatopology("full", EIGHT, policy="restricted", free="0-1,4-5"),
    )
    state.set_node(node("silent", {"cpu": 64, "memory": "64Gi"}))
    assert causes(state, policy_pod("restricted", 4), numa_aware_profile()) == {
        "other": "node's topology policy is best-effort, the pod asks for restricted",
        "shared": "node's CPU Manager is not static, the pod asks for topology policy restricted",
        "full": "no set of NUMA zones is the smallest for every requested resource (policy restricted)",
        "silent": "node reports no NUMA topology, the pod asks for topology policy restricted",
    }
    assert causes(state, policy_pod("restricted", 4), numa_aware_profile(compatibility="volcano")) == {
        "other": "task topology policy[restricted] is different with node[best-effort]",
        "shared": "cpu manager policy isn't static",
        "full": "container cannot be assigned by numa",
        "silent": "numa info is empty",
    }


def test_an_unknown_policy_is_named_with_those_that_exist() -> None:
    assert causes(one_node_per_policy(), policy_pod("Restricted", 2), numa_aware_profile())["restricted"] == (
        'annotation volcano.sh/numa-topology-policy: unknown policy "Restricted";'
        " expected none, best-effort, restricted, single-numa-node"
    )


def test_match_policyless_lets_pods_onto_nodes_without_a_policy() -> None:
    state = one_node_per_policy()
    state.set_node(node("silent", {"cpu": 64, "memory": "64Gi"}))
    profile = numa_aware_profile(matchPolicyless=True)
    waiting = policy_pod("restricted", 2)
    assert usable(state, waiting, profile) == {"none", "silent", "restricted"}
    assert decide(state, waiting, profile).node == "restricted", "a node that keeps the promise is better"


@pytest.mark.parametrize("compatibility", ["kubelet", "volcano"])
def test_pods_that_are_not_guaranteed_go_anywhere(compatibility: str) -> None:
    burstable = pod(container(requests={"cpu": 2}))
    with_policy = policy_pod("restricted", 2)
    waiting = type(burstable)(metadata=with_policy.metadata, spec=burstable.spec)
    assert usable(one_node_per_policy(), waiting, numa_aware_profile(compatibility=compatibility)) == set(POLICIES)


# -- what the kubelet does and Volcano does not --------------------------------------------------------------------


@pytest.mark.parametrize("compatibility, admitted", [("kubelet", False), ("volcano", True)])
def test_pod_scope(compatibility: str, *, admitted: bool) -> None:
    """Two containers of four CPUs on 2 x 4: at pod scope one zone would have to hold both."""
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 8, "memory": "8Gi"}))
    cpus = (
        '{"core": [0,1,2,3,4,5,6,7], "socket": [0,0,0,0,1,1,1,1], "zone": '
        '[0,0,0,0,1,1,1,1], "cache": [0,0,0,0,1,1,1,1]}'
    )
    state.set_topology(
        topology(
            zone(0, {"cpu": 4}),
            zone(1, {"cpu": 4}),
            scope="pod",
            attributes={"cpuManagerPolicy": "static", "bayplan.io/cpus": cpus, "bayplan.io/free-cpus": "0-7"},
        )
    )
    profile = numa_aware_profile(compatibility=compatibility)
    assert decide(state, policy_pod("single-numa-node", 4, 4), profile).placed is admitted


def test_devices_and_init_containers_count() -> None:
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 8, "memory": "8Gi", GPU: 2}))
    state.set_topology(topology(zone(0, {"cpu": 4, GPU: 0}), zone(1, {"cpu": 2, GPU: 2})))
    profile = numa_aware_profile()
    with_gpu = pod(container({"cpu": 4, "memory": "1Gi", GPU: 1}))
    assert not decide(state, with_gpu, profile).placed
    large_start = pod(container({"cpu": 2, "memory": "1Gi"}), init=[container({"cpu": 5, "memory": "1Gi"}, "init")])
    assert not decide(state, large_start, profile).placed


# -- the score -----------------------------------------------------------------------------------------------------


def test_a_starved_best_effort_node_does_not_win() -> None:
    """Volcano admits the pod there with no CPU at all, which needs no NUMA node and so gets the top score."""
    state = volcano_cluster(
        numatopology("starved", EIGHT, policy="best-effort", free="0"),
        numatopology("roomy", EIGHT, policy="best-effort"),
    )
    waiting = policy_pod("best-effort", 4)
    assert decide(state, waiting, numa_aware_profile()).node == "roomy"
    assert decide(state, waiting, numa_aware_profile(compatibility="volcano")).node == "starved"


def test_scores_are_whole_numbers_among_the_nodes_that_are_left() -> None:
    """One zone of three: Volcano's 67, not 66.67; and 50 as soon as the widest node is gone."""
    state = volcano_cluster(
        numatopology("one", machine(3, 6), policy="best-effort"),
        numatopology("two", machine(3, 3), policy="best-effort"),
        numatopology("three", machine(3, 2), policy="best-effort"),
    )
    plugin = NumaAware(settings=read_arguments({"weight": 1}))
    pod_class = state.classes.of(policy_pod("best-effort", 6))
    assert plugin.scores_among(state, pod_class, np.array([0, 1, 2])).tolist() == [67, 34, 0]
    assert plugin.scores_among(state, pod_class, np.array([0, 1])).tolist() == [50, 0]


def test_zones_of_all_containers_are_counted() -> None:
    state = volcano_cluster(
        numatopology("apart", EIGHT, policy="best-effort"),
        numatopology("together", machine(2, 8), policy="best-effort"),
    )
    assert decide(state, policy_pod("best-effort", 4, 4), numa_aware_profile()).node == "together"


def test_beside_the_other_plugins_it_adds_to_their_scores() -> None:
    state = volcano_cluster(
        numatopology("two", machine(2, 4), policy="best-effort"),
        numatopology("one", machine(2, 8), policy="best-effort"),
    )
    profile = numa_aware_profile(alone=False, weight=10)
    decision = decide(state, policy_pod("best-effort", 6), profile)
    assert (decision.node, decision.score >= 500) == ("one", True)


# -- what users met ------------------------------------------------------------------------------------------------


def test_issue_2892_a_pod_of_16_cpus_and_20_free_on_one_numa_node() -> None:
    """Two sockets of ten cores with two threads each; CPUs 0-9,20-29 on NUMA node 0 and the
    others on 1, which is idle.
    """
    detail = {str(cpu): {"numa": cpu // 10 % 2, "socket": cpu // 10 % 2, "core": cpu % 10} for cpu in range(40)}
    state = volcano_cluster(numatopology("n1", detail, free="0,20,10-19,30-39", reserved="1"))
    decision = decide(state, policy_pod("single-numa-node", 16), numa_aware_profile())
    assert (decision.node, decision.containers[0].zones) == ("n1", (1,))


def test_issue_2892_core_numbers_that_repeat_in_every_socket_cost_nothing() -> None:
    """Two reserved CPUs are one core.

    Volcano takes "core 0" of both sockets for that, and refuses 19 CPUs that are there.
    """
    detail = {str(cpu): {"numa": cpu // 10 % 2, "socket": cpu // 10 % 2, "core": cpu % 10} for cpu in range(40)}
    state = volcano_cluster(numatopology("n1", detail, reserved="2"))
    waiting = policy_pod("single-numa-node", 19)
    assert decide(state, waiting, numa_aware_profile()).containers[0].zones == (1,)
    assert not decide(state, waiting, numa_aware_profile(compatibility="volcano")).placed


def test_issue_2861_a_pod_of_a_deployment_and_a_node_with_another_policy() -> None:
    """Nothing is wrong with Deployments: the node says restricted and the pod single-numa-node.

    Volcano says nothing; the event does.
    """
    state = volcano_cluster(numatopology("n1", EIGHT, policy="restricted"))
    waiting = policy_pod("single-numa-node", 2)
    decision = schedule_one(state, waiting, numa_aware_profile(), ClassAnswers(state))
    assert decision.shortfall is not None
    assert causes(state, waiting, numa_aware_profile()) == {
        "n1": "node's topology policy is restricted, the pod asks for single-numa-node"
    }


def test_issue_5500_cpus_that_are_released_while_a_pod_is_on_its_way() -> None:
    """The node's object grows and does not list the new pod yet: what was promised to it stays subtracted, and nothing
    else.
    """
    state = volcano_cluster(numatopology("n1", EIGHT, free="4-7", pods={"default/old": "0-3"}))
    profile = numa_aware_profile()
    state.set_pod(policy_pod(None, 4, name="old", nodeName="n1"))
    place(state, policy_pod("single-numa-node", 4, name="new"), profile)
    assert free_in_zones(state, "n1", "cpu") == [0, 0]

    state.remove_pod("default/old")
    state.set_numatopology(numatopology("n1", EIGHT, pods={}))
    assert free_in_zones(state, "n1", "cpu") == [4000, 0]
    place(state, policy_pod("single-numa-node", 4, name="next"), profile)
    assert not decide(state, policy_pod("single-numa-node", 4, name="last"), profile).placed

    state.set_numatopology(numatopology("n1", EIGHT, free="4-7", pods={"default/new": "0-3"}))
    assert free_in_zones(state, "n1", "cpu") == [0, 4000], (
        "the kubelet chose the other zone; next is still promised there"
    )


# -- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"weight": "10"}, "weight: must be a whole number, not a string"),
        ({"weight": -1}, "weight: -1 is not allowed: must be 0 to 1000"),
        ({"weigth": 1}, "weigth"),
        ({"compatibility": "koordinator"}, 'compatibility: "koordinator" is not allowed: must be kubelet or volcano'),
        ({"matchPolicyless": "yes"}, "matchPolicyless: must be true or false, not a string"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        read_arguments(arguments)
    assert problem in str(raised.value)


def test_it_is_off_unless_a_configuration_switches_it_on() -> None:
    assert "numa-aware" in {plugin.name for plugin in numa_aware_profile(alone=False).filters}
    state = one_node_per_policy()
    assert decide(state, simple_pod({"cpu": 2, "memory": "1Gi"})).placed
