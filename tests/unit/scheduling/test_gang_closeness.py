"""Of placements that are equally good otherwise, the one whose racks are close together; and what is not proven is not called so."""

from __future__ import annotations

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group
from bayplan.scheduling.gang_cycle import GangScheduler, schedule_gang
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.trees import Trees
from tests.helpers import GPU, cluster, container, node, pod, simple_pod, topology, zone

BLOCK, RACK = "x/block", "x/rack"


def decide(state: ClusterState, whole: Group) -> GangDecision:
    trees = Trees(state)
    trees.set("net", (BLOCK, RACK))
    return schedule_gang(
        GangScheduler(state, trees, default_profile(), ClassAnswers(state)), Gang("ml/g", whole, "net")
    )


def test_two_racks_of_one_block_before_two_racks_of_two() -> None:
    state = ClusterState()
    for name, gpus in {"b1/r1": 2, "b1/r2": 3, "b2/r1": 2, "b2/r2": 2}.items():
        block, rack = name.split("/")
        state.set_node(node(f"{block}-{rack}", {"cpu": 8, GPU: gpus}, labels={BLOCK: block, RACK: rack}))
    pods = tuple(simple_pod({GPU: 1}, f"p{number}") for number in range(4))
    decision = decide(state, Group(pods=pods, preferred=RACK))
    assert decision.preferred_domains == 2
    assert {seat.path[:2] for seat in decision.seats} == {("b2", "r1"), ("b2", "r2")}


def test_a_pod_that_fits_only_after_another_is_no_proof_that_it_does_not_fit() -> None:
    """Alone, its first container takes the zone that the second needs; once the GPU there is taken, it goes elsewhere."""
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
