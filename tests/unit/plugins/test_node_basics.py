"""Cordons, node names, taints and host ports, as kube-scheduler judges them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec import structs

from bayplan.cluster.pods.tolerations import tolerates
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod, Taint, Toleration
from bayplan.plugins.base import FilterPlugin
from bayplan.plugins.node_basics import NodeDeclaredFeatures, NodeName, NodePorts, NodeUnschedulable, TaintToleration
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import container, node, pod


def passing(plugin: FilterPlugin, state: ClusterState, waiting: Pod) -> set[str]:
    asked = state.classes.of(waiting)
    if not plugin.applies(asked):
        return set(state.rows)
    return {name for name, row in state.rows.items() if not plugin.refusal(state, asked, row)}


class TestTolerations:
    GPU = Taint(key="gpu", value="a100", effect="NoSchedule")

    @pytest.mark.parametrize(
        "toleration, covers",
        [
            (Toleration(key="gpu", operator="Exists"), True),
            (Toleration(key="gpu", operator="Equal", value="a100"), True),
            (Toleration(key="gpu", value="a100"), True),
            (Toleration(key="gpu", operator="", value="a100"), True),
            (Toleration(key="gpu", value="h100"), False),
            (Toleration(key="disk", operator="Exists"), False),
            (Toleration(operator="Exists"), True),
            (Toleration(operator="Equal", value="a100"), False),
            (Toleration(operator="Exists", effect="NoSchedule"), True),
            (Toleration(operator="Exists", effect="NoExecute"), False),
            (Toleration(key="gpu", operator="Near", value="a100"), False),
        ],
        ids=[
            "key exists",
            "key equals",
            "equal is the default",
            "an empty operator too",
            "another value",
            "another key",
            "everything",
            "equal needs a key",
            "everything of this effect",
            "everything of another effect",
            "no such operator",
        ],
    )
    def test_one_toleration_and_one_taint(self, toleration: Toleration, covers: bool) -> None:
        assert tolerates(toleration, self.GPU) is covers


class TestTaints:
    STATE = cluster(
        nodes=[
            node("clean"),
            node("gpu", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            node("leaving", taints=[{"key": "down", "effect": "NoExecute"}]),
            node("both", taints=[{"key": "gpu", "effect": "NoSchedule"}, {"key": "down", "effect": "NoExecute"}]),
            node("soft", taints=[{"key": "old", "effect": "PreferNoSchedule"}]),
        ]
    )

    @pytest.mark.parametrize(
        "tolerations, nodes",
        [
            ([], {"clean", "soft"}),
            ([{"key": "gpu", "operator": "Exists"}], {"clean", "soft", "gpu"}),
            ([{"operator": "Exists"}], {"clean", "soft", "gpu", "leaving", "both"}),
        ],
        ids=["none", "one key", "all"],
    )
    def test_hard_taints_keep_pods_away(self, tolerations: list[Json], nodes: set[str]) -> None:
        assert passing(TaintToleration(), self.STATE, pod(tolerations=tolerations)) == nodes

    def scores(self, state: ClusterState, *names: str, **spec: Any) -> list[int]:
        asked = state.classes.of(pod(**spec))
        rows = np.array([state.rows[name] for name in names])
        plugin = TaintToleration()
        found = plugin.scores(state, asked, rows)
        if plugin.compares(state, asked):
            found += plugin.scores_among(state, asked, rows)
        return [int(score) for score in found]

    def test_soft_taints_cost_score_unless_tolerated(self) -> None:
        assert self.scores(self.STATE, "clean", "soft") == [100, 0]
        assert self.scores(self.STATE, "clean", "soft", tolerations=[{"key": "old", "operator": "Exists"}]) == [
            100,
            100,
        ]

    def test_the_most_soft_taints_among_the_remaining_nodes_give_0(self) -> None:
        taints = [{"key": f"t{number}", "effect": "PreferNoSchedule"} for number in range(3)]
        state = cluster(nodes=[node(f"soft{number}", taints=taints[:number]) for number in range(4)])
        assert self.scores(state, "soft0", "soft1", "soft3") == [100, 67, 0]
        assert self.scores(state, "soft0", "soft1") == [100, 0]

    def test_nodes_are_not_compared_once_no_node_has_a_soft_taint(self) -> None:
        state = cluster(nodes=[node("n1", taints=[{"key": "old", "effect": "PreferNoSchedule"}])])
        asked = state.classes.of(pod())
        assert TaintToleration().compares(state, asked)
        state.set_node(node("n1"))
        assert not TaintToleration().compares(state, asked)


class TestCordons:
    STATE = cluster(nodes=[node("open"), node("cordoned", unschedulable=True)])

    def test_a_cordoned_node_takes_no_pod(self) -> None:
        assert passing(NodeUnschedulable(), self.STATE, pod()) == {"open"}

    def test_unless_the_pod_tolerates_it(self) -> None:
        daemon = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
        assert passing(NodeUnschedulable(), self.STATE, daemon) == {"open", "cordoned"}


class TestNodeName:
    STATE = cluster(nodes=[node("a"), node("b")])

    @pytest.mark.parametrize("name, nodes", [(None, {"a", "b"}), ("b", {"b"}), ("missing", set())])
    def test_a_pod_that_names_its_node_goes_nowhere_else(self, name: str | None, nodes: set[str]) -> None:
        assert passing(NodeName(), self.STATE, pod(nodeName=name)) == nodes


class TestPorts:
    def web(self, port: int = 80, **more: Any) -> Pod:
        return pod(container(ports=[{"containerPort": 80, "hostPort": port, **more}]))

    def holding(self, **more: Any) -> ClusterState:
        """Port 80 is taken on node a."""
        written = [{"containerPort": 80, "hostPort": 80, **more}]
        return cluster(nodes=[node("a"), node("b")], pods=[pod(container(ports=written), name="first", nodeName="a")])

    def test_a_port_is_given_once_per_node(self) -> None:
        assert passing(NodePorts(), self.holding(), self.web()) == {"b"}
        assert passing(NodePorts(), self.holding(), self.web(81)) == {"a", "b"}
        assert passing(NodePorts(), self.holding(), self.web(protocol="UDP")) == {"a", "b"}

    def test_addresses_of_one_node_are_apart(self) -> None:
        taken = self.holding(hostIP="10.0.0.1")
        assert passing(NodePorts(), taken, self.web(hostIP="10.0.0.2")) == {"a", "b"}
        assert passing(NodePorts(), taken, self.web()) == {"b"}

    def test_one_node_is_answered_like_all_of_them_and_without_a_look_at_the_others(self) -> None:
        state = self.holding()
        asked = state.classes.of(self.web())
        assert NodePorts().refusals(state, asked, slice(0, 2)).tolist() == [1, 0]
        assert [NodePorts().refusal(state, asked, row) for row in (0, 1)] == [1, 0]
        assert state.bookings.port_users["TCP", 80].keys() == {state.rows["a"]}

    def test_a_port_is_free_again_when_its_pod_goes(self) -> None:
        state = self.holding()
        state.remove_pod("default/first")
        assert passing(NodePorts(), state, self.web()) == {"a", "b"}


@pytest.mark.parametrize(
    "plugin, words",
    [
        (NodeUnschedulable(), "node(s) were unschedulable"),
        (NodeName(), "node(s) didn't match the requested node name"),
        (TaintToleration(), "node(s) had untolerated taint(s)"),
        (NodePorts(), "node(s) didn't have free ports for the requested pod ports"),
    ],
)
def test_causes_are_kube_schedulers_words(plugin: FilterPlugin, words: str) -> None:
    state = cluster()
    assert plugin.cause(state.classes.of(pod()), 1) == words


class TestDeclaredFeatures:
    RESTART_ALL = "RestartAllContainersOnContainerExits"
    HOST_USERS = "UserNamespacesHostNetworkSupport"
    RULES: ClassVar[Json] = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}

    def state(self) -> ClusterState:
        state = cluster(nodes=[node("old")])
        for name, features in (("new", [self.RESTART_ALL, "Other"]), ("newest", [self.RESTART_ALL, self.HOST_USERS])):
            plain = node(name)
            status = structs.replace(plain.status, declared_features=features)
            state.set_node(structs.replace(plain, status=status))
        return state

    def test_pods_go_to_nodes_that_declare_what_they_need(self) -> None:
        plugin, state = NodeDeclaredFeatures(), self.state()
        restarts_all = pod({"name": "main", **self.RULES})
        assert passing(plugin, state, restarts_all) == {"new", "newest"}
        assert passing(plugin, state, pod(hostNetwork=True, hostUsers=False)) == {"newest"}
        assert passing(plugin, state, pod({"name": "main", **self.RULES}, hostNetwork=True, hostUsers=False)) == {
            "newest"
        }

    def test_other_pods_need_nothing(self) -> None:
        state = self.state()
        for waiting in (pod(), pod(hostNetwork=True), pod(hostUsers=False)):
            assert not NodeDeclaredFeatures().applies(state.classes.of(waiting))
