"""From a pod to a decision: the best node wins, every no is counted, and the kubelet's replay has the last word."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.explain.ranking import ranking
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide, place
from tests.builders.objects import GI, Amounts, container, node, pod, simple_pod, topology, zone

PROFILE = default_profile()
GUARANTEED: Amounts = {"cpu": 4, "memory": "1Gi"}


def machine(name: str, *cpus: int, **options: Any) -> NodeResourceTopology:
    return topology(
        *(zone(number, {"cpu": count, "memory": "16Gi"}) for number, count in enumerate(cpus)), name=name, **options
    )


def causes(decision: Decision) -> dict[str, tuple[str, ...]]:
    assert decision.shortfall is not None
    return {cause.cause: cause.nodes for cause in decision.shortfall.causes}


class TestPlaced:
    def test_the_roomier_node_wins(self) -> None:
        decision = decide(cluster(machine("small", 8), machine("large", 16)), simple_pod(GUARANTEED))
        assert (decision.node, decision.row, decision.placed) == ("large", 1, True)

    def test_equal_nodes_go_to_the_first_row(self) -> None:
        assert decide(cluster(machine("b", 8), machine("a", 8)), simple_pod(GUARANTEED)).node == "b"

    def test_zones_and_amounts_come_with_the_decision(self) -> None:
        state = cluster(machine("n1", 2, 8))
        decision = decide(state, simple_pod(GUARANTEED))
        assert [(each.container, each.zones) for each in decision.containers] == [("main", (1,))]
        names = state.columns.resource_names
        assert {(names[charge.resource], charge.zone, charge.amount) for charge in decision.charges} == {
            ("cpu", 1, 4000),
            ("memory", 1, GI),
        }

    def test_deciding_changes_nothing(self) -> None:
        state = cluster(machine("n1", 8))
        before = state.columns.zone_available.copy(), state.usage_log.end
        assert decide(state, simple_pod(GUARANTEED)) == decide(state, simple_pod(GUARANTEED))
        assert (state.columns.zone_available == before[0]).all()
        assert state.usage_log.end == before[1]

    def test_the_next_decision_sees_what_was_assumed(self) -> None:
        state = cluster(machine("a", 8), machine("b", 8))
        nodes = [place(state, simple_pod({"cpu": 8, "memory": "1Gi"}, f"pod-{number}")).node for number in (1, 2)]
        assert nodes == ["a", "b"]
        assert not decide(state, simple_pod({"cpu": 8, "memory": "1Gi"}, "pod-3")).placed

    def test_a_profile_without_topology_chooses_no_zones(self) -> None:
        profile = Profile("plain", tuple(each for each in PROFILE.filters if each is not PROFILE.topology), ())
        decision = decide(cluster(machine("n1", 2, 2)), simple_pod(GUARANTEED), profile)
        assert (decision.node, decision.containers, decision.charges) == ("n1", (), ())


class TestRefused:
    def test_every_node_is_counted_under_the_first_filter_that_refuses_it(self) -> None:
        state = cluster(
            machine("short", 2),
            machine("split", 3, 3),
            nodes=[
                node("cordoned", {"cpu": 64, "memory": "64Gi"}, unschedulable=True),
                node("tainted", {"cpu": 1}, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            ],
        )
        decision = decide(state, simple_pod(GUARANTEED))
        assert decision.shortfall is not None
        assert decision.shortfall.nodes == 4
        assert causes(decision) == {
            "node(s) were unschedulable": ("cordoned",),
            "node(s) had untolerated taint(s)": ("tainted",),
            "Insufficient cpu": ("short",),
            "no single NUMA zone holds the request": ("split",),
        }

    def test_causes_come_in_the_order_of_the_filters(self) -> None:
        state = cluster(machine("split", 3, 3), nodes=[node("short", {"cpu": 1}), node("off", unschedulable=True)])
        shortfall = decide(state, simple_pod(GUARANTEED)).shortfall
        assert shortfall is not None
        assert [cause.plugin for cause in shortfall.causes] == [
            "NodeUnschedulable",
            "NodeResourcesFit",
            "NodeResourceTopologyMatch",
        ]

    def test_an_empty_cluster(self) -> None:
        decision = decide(ClusterState(), simple_pod(GUARANTEED))
        assert decision.shortfall is not None
        assert (decision.placed, decision.shortfall.nodes, decision.shortfall.causes) == (False, 0, ())

    def test_removed_nodes_are_not_counted(self) -> None:
        state = cluster(machine("a", 2), machine("b", 2))
        state.remove_node("a")
        assert causes(decide(state, simple_pod(GUARANTEED))) == {"Insufficient cpu": ("b",)}


class TestHeldBack:
    @pytest.mark.parametrize(
        "spec, words",
        [
            ({"schedulingGates": [{"name": "quota"}]}, "waits for scheduling gate quota"),
            ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, "waits for scheduling gates a, b"),
            (
                {"resourceClaims": [{"name": "gpu"}], "os": {"name": "windows"}},
                "asks for spec.resourceClaims, spec.os.name, which this version of bayplan cannot judge yet",
            ),
        ],
        ids=["a gate", "two gates", "demands without a judge"],
    )
    def test_a_pod_that_must_not_be_placed_now(self, spec: Json, words: str) -> None:
        decision = decide(cluster(machine("n1", 8)), simple_pod(GUARANTEED, **spec))
        assert (decision.placed, decision.held_back, decision.shortfall) == (False, words, None)


class TestTheReplayHasTheLastWord:
    """Counts can be wrong where containers depend on each other; then the next best node is tried.

    A zone with a memory group serves no single zone, and the columns do not know about groups.
    """

    WAITING = simple_pod({"cpu": 2, "memory": "4Gi"})

    def grouped(self, name: str) -> NodeResourceTopology:
        zones = [
            {
                **zone(number, {"cpu": 32, "memory": ("64Gi", "64Gi", "60Gi")}),
                "attributes": [{"name": "bayplan.io/memory-group", "value": "0,1"}],
            }
            for number in (0, 1)
        ]
        return topology(*zones, name=name)

    def test_the_next_best_node_is_chosen(self) -> None:
        state = cluster(self.grouped("grouped"), machine("plain", 8))
        answers = ClassAnswers(state)
        answer = answers.for_class(state.classes.of(self.WAITING), PROFILE)
        assert [state.names[row] for row in ranking(answer, 5)] == ["grouped", "plain"]
        assert schedule_one(state, self.WAITING, PROFILE, answers).node == "plain"

    def test_a_node_refused_by_the_replay_alone_is_counted(self) -> None:
        decision = decide(cluster(self.grouped("grouped"), machine("small", 1)), self.WAITING)
        assert sorted(name for nodes in causes(decision).values() for name in nodes) == ["grouped", "small"]

    def test_what_it_said_is_kept_until_the_node_changes(self) -> None:
        state = cluster(self.grouped("grouped"), machine("plain", 8))
        answers = ClassAnswers(state)
        assert schedule_one(state, self.WAITING, PROFILE, answers).node == "plain"
        answer = answers.for_class(state.classes.of(self.WAITING), PROFILE)
        assert list(answer.refused_by_replay) == [state.rows["grouped"]]
        assert [state.names[row] for row in ranking(answer, 5)] == ["plain"]
        state.set_topology(machine("grouped", 32))
        assert schedule_one(state, self.WAITING, PROFILE, answers).node == "grouped"


def test_ranking_is_best_first_and_stable() -> None:
    state = cluster(machine("a", 8), machine("b", 16), machine("c", 8), machine("d", 2))
    answer = ClassAnswers(state).for_class(state.classes.of(simple_pod(GUARANTEED)), PROFILE)
    assert [state.names[row] for row in ranking(answer, 10)] == ["b", "a", "c"]
    assert [state.names[row] for row in ranking(answer, 1)] == ["b"]


def test_a_pod_that_fits_is_placed_even_where_something_else_is_overdrawn() -> None:
    """CPUs of n1 are promised 64 times over; a pod that asks for memory only is none of their business."""
    state = cluster(
        nodes=[node("n1", {"cpu": 1, "memory": "8Gi"})], pods=[simple_pod({"cpu": 64}, "greedy", nodeName="n1")]
    )
    fit_only = Profile(
        "fit", PROFILE.filters, tuple(each for each in PROFILE.scores if each[0].name == "NodeResourcesFit")
    )
    assert decide(state, pod(container(requests={"memory": "1Gi"})), fit_only).node == "n1"


@pytest.mark.parametrize(
    "nominated, taken", [("n2", "n2"), ("full", "n1"), ("gone", "n1"), ("", "n1")], ids=["fits", "full", "gone", "none"]
)
def test_a_pod_goes_to_its_nominated_node_if_that_takes_it(nominated: str, taken: str) -> None:
    nodes = [
        node("n1", {"cpu": 16, "memory": "16Gi"}),
        node("n2", {"cpu": 4, "memory": "4Gi"}),
        node("full", {"cpu": 1}),
    ]
    asks = container({"cpu": 2, "memory": "1Gi"})
    waiting = pod(asks, status={"nominatedNodeName": nominated})
    assert decide(cluster(nodes=nodes), waiting).node == taken
