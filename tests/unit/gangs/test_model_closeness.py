"""Racks that are close together, places beside members that run; and what is not proven is not called so."""

from __future__ import annotations

from collections import Counter

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import distances_among
from bayplan.engine.gangs.objective import objective_of
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler, gpu_pods
from tests.builders.objects import GPU, container, node, pod, simple_pod, topology, zone

BLOCK, RACK = "x/block", "x/rack"


def decide(state: ClusterState, root: Group, *objective: str) -> GangDecision:
    gang = Gang("ml/g", root, "net", objective=objective_of(objective))
    return schedule_gang(gang_scheduler(state, BLOCK, RACK, tree="net"), gang)


def racks(**free: int) -> ClusterState:
    """A node for each rack, named like b1_r2, with so many GPUs."""
    state = ClusterState()
    for name, gpus in free.items():
        block, rack = name.split("_")
        state.set_node(node(name, {"cpu": 8, GPU: gpus}, labels={BLOCK: block, RACK: rack}))
    return state


def running(*nodes: str) -> tuple[Pod, ...]:
    return tuple(simple_pod({"cpu": 1}, f"runs-{number}", nodeName=each) for number, each in enumerate(nodes))


def test_two_racks_of_one_block_before_two_racks_of_two() -> None:
    decision = decide(racks(b1_r1=2, b1_r2=3, b2_r1=2, b2_r2=2), Group(pods=gpu_pods(4), preferred=RACK))
    assert decision.preferred_domains == 2
    # Three and one are closer to each other than two and two.
    assert Counter(seat.path[:2] for seat in decision.seats) == {("b1", "r2"): 3, ("b1", "r1"): 1}


def test_seven_pods_share_two_racks_of_a_block_though_another_would_save_a_slot() -> None:
    decision = decide(racks(b1_r1=4, b1_r2=4, b2_r1=3), Group(pods=gpu_pods(7), preferred=RACK))
    assert {seat.path[0] for seat in decision.seats} == {"b1"}


def test_fewest_racks_then_fewest_blocks_for_pods_of_different_shapes() -> None:
    large = tuple(simple_pod({GPU: 2}, f"large-{number}") for number in range(2))
    state = racks(b1_r1=4, b2_r1=5, b2_r2=4, b3_r1=4)
    decision = decide(state, Group(pods=(*gpu_pods(4), *large), preferred=RACK))
    assert decision.preferred_domains == 2
    assert {seat.path[0] for seat in decision.seats} == {"b2"}


@pytest.mark.parametrize(
    "objective, racks_used, left_over, distance",
    [
        # 5 + 5 in two blocks.
        ([], 2, 1, 6),
        (["fewest-domains", "closest"], 2, 1, 6),
        # 5 + 2 + 2 in two blocks.
        (["least-leftover"], 3, 0, 6),
        # All four racks of the third block.
        (["closest"], 4, 1, 4),
        (["closest", "least-leftover"], 4, 1, 4),
    ],
)
def test_the_order_of_goals_decides(objective: list[str], racks_used: int, left_over: int, distance: int) -> None:
    free = {"b1_r1": 5, "b2_r1": 5, "b3_r1": 2, "b3_r2": 2, "b3_r3": 3, "b3_r4": 3}
    decision = decide(racks(**free), Group(pods=gpu_pods(9), preferred=RACK), *objective)
    used = {seat.node for seat in decision.seats}
    assert (len(used), sum(free[each] for each in used) - 9) == (racks_used, left_over)
    assert distances_among([seat.path for seat in decision.seats]).largest == distance
    assert (decision.status, decision.bound) == (Status.OPTIMAL, "equal pods: counted exactly")
    assert decision.objective == objective_of(objective)


@pytest.mark.parametrize(
    "free, members, expected",
    [
        # On a member's own node, else in its rack, else in its block.
        ({"b1_r1": 1, "b1_r2": 1, "b2_r1": 1}, ["b1_r1"], "b1_r1"),
        ({"b1_r1": 0, "b1_r2": 1, "b2_r1": 1}, ["b1_r1"], "b1_r2"),
        ({"b1_r1": 1, "b2_r1": 0, "b2_r2": 1}, ["b2_r1"], "b2_r2"),
        # Where most of them are.
        ({"b1_r1": 0, "b1_r2": 1, "b2_r1": 0, "b2_r2": 1}, ["b1_r1", "b2_r1", "b2_r1"], "b2_r2"),
        ({"b1_r1": 0, "b1_r2": 1, "b2_r1": 0, "b2_r2": 1}, ["b1_r1", "b1_r1", "b2_r1"], "b1_r2"),
    ],
)
@pytest.mark.parametrize("preferred", [None, BLOCK, RACK])
def test_a_late_member_stands_near_those_that_run(
    free: dict[str, int], members: list[str], expected: str, preferred: str | None
) -> None:
    decision = decide(racks(**free), Group(pods=gpu_pods(1), preferred=preferred, running=running(*members)))
    assert [seat.node for seat in decision.seats] == [expected]


def test_late_members_of_a_group_stand_near_it_too() -> None:
    late = Group("late", gpu_pods(1), required=BLOCK, running=running("b1_r2"))
    other = Group("other", gpu_pods(2)[1:], required=BLOCK)
    decision = decide(racks(b1_r1=4, b1_r2=1, b2_r1=4), Group(groups=(late, other)))
    assert {seat.group: seat.node for seat in decision.seats}["late"] == "b1_r2"


@pytest.mark.parametrize(
    "objective, status, bound",
    [
        (["closest"], Status.OPTIMAL, "all in one x/block, and no narrower domain holds them"),
        (
            ["least-leftover"],
            Status.FEASIBLE,
            (
                "groups packed; nothing was preferred; least-leftover is exact for equal pods in one group only, "
                "these were searched by fewest-domains"
            ),
        ),
    ],
)
def test_groups_are_close_in_every_order_and_goals_out_of_reach_are_said_to_be(
    objective: list[str], status: Status, bound: str
) -> None:
    # Best fit would take a rack of each block.
    state = racks(b1_r1=2, b1_r2=4, b2_r1=3, b2_r2=3)
    groups = (Group("a", gpu_pods(2), required=RACK), Group("b", gpu_pods(5)[2:], required=RACK))
    decision = decide(state, Group(groups=groups), *objective)
    assert (decision.status, decision.bound) == (status, bound)
    assert len({seat.path[0] for seat in decision.seats}) == 1


def test_one_of_very_many_narrowest_domains_is_proven_closest() -> None:
    state = racks(**{f"b1_r{number}": 5 for number in range(40)})
    groups = (Group("a", gpu_pods(2), required=RACK), Group("b", gpu_pods(5)[2:], required=RACK))
    decision = decide(state, Group(groups=groups), "closest")
    assert (decision.status, decision.bound) == (Status.OPTIMAL, "all on one node, and no narrower domain holds them")


def test_a_pod_that_fits_only_after_another_is_no_proof_that_it_does_not_fit() -> None:
    """Alone, its first container takes the zone that the second needs; once the GPU there is
    taken, it goes elsewhere.
    """
    report = topology(zone(0, {"cpu": 6, GPU: 1}), zone(1, {"cpu": 4, GPU: 1}))
    state = cluster(report, nodes=[node("n1", {"cpu": 10, "memory": "64Gi", GPU: 2}, labels={BLOCK: "b", RACK: "r"})])
    taker = simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1}, "taker")
    led = pod(
        container({"cpu": 2, "memory": "1Gi", GPU: 1}, "first"),
        container({"cpu": 5, "memory": "1Gi"}, "second"),
        name="led",
    )
    decision = decide(state, Group(groups=(Group("a", (taker,)), Group("b", (led,))), required=RACK))
    assert (decision.placed, decision.status) == (False, Status.LIMIT_REACHED)
    assert "unless different pods on one node help each other" in decision.bound
