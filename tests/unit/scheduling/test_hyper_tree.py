"""The tree of HyperNodes over nodes: it follows both, is no Topology, and is not built again for nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES, WITH_OTHER_NODES
from bayplan.cluster.topology.tree import Tree
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Trees
from tests.builders.hyper_nodes import hyper_node, inside, named, pattern, with_labels
from tests.builders.objects import node, simple_pod

Change = Callable[[Trees, ClusterState], object]


def switches() -> tuple[Trees, ClusterState]:
    """Two switches below a spine, the second one by label; nodes come in no order."""
    state = ClusterState()
    for name, rack in (("n10", "r0"), ("n3", "r1"), ("n2", ""), ("n1", ""), ("login", "")):
        state.set_node(node(name, {"cpu": 4}, labels={"rack": rack} if rack else {}))
    trees = Trees(state)
    trees.set_hyper_node(hyper_node("s0", 1, pattern("^n[12]$"), with_labels(rack="r0"), tier_name="switch"))
    trees.set_hyper_node(hyper_node("s1", 1, with_labels(rack="r1"), tier_name="switch"))
    trees.set_hyper_node(hyper_node("spine", 2, inside("s0"), inside("s1")))
    return trees, state


def hyper_tree(trees: Trees, name: str = HYPER_NODES) -> Tree:
    tree = trees.get(name)
    assert tree is not None
    return tree


def domains(trees: Trees, name: str = HYPER_NODES) -> dict[str, list[str]]:
    """Nodes in the order of the tree, by the path of the lowest level above them."""
    tree, found = hyper_tree(trees, name), dict[str, list[str]]()
    for path in tree.paths[tree.node_level]:
        found.setdefault("/".join(path[:-1]), []).append(path[-1])
    return found


def test_nodes_lie_in_the_order_of_their_paths() -> None:
    trees, state = switches()
    tree = hyper_tree(trees)
    assert tree.levels == ("tier-2", "switch")
    assert domains(trees) == {"spine/s0": ["n1", "n2", "n10"], "spine/s1": ["n3"]}
    assert [state.names[row] for row in tree.rows] == ["n1", "n2", "n10", "n3"]
    assert tree.outside == {"login": "HyperNode"}


def test_those_who_take_any_node_have_a_tree_with_the_others_each_alone() -> None:
    trees, _ = switches()
    assert domains(trees, WITH_OTHER_NODES) == {
        "login alone/login alone": ["login"],
        "spine/s0": ["n1", "n2", "n10"],
        "spine/s1": ["n3"],
    }
    trees.remove_hyper_node("s1")
    assert "n3 alone/n3 alone" in domains(trees, WITH_OTHER_NODES)


def test_without_hyper_nodes_there_is_no_such_tree() -> None:
    assert Trees(ClusterState()).get(HYPER_NODES) is None


def test_it_is_no_topology_that_others_could_mean() -> None:
    trees, _ = switches()
    trees.set("network", ("rack",))
    assert trees.names == ["network"]
    assert trees.name_for(Gang("ml/own", Group(pods=(), required="rack"))) == "network"


def test_hyper_nodes_that_are_no_tree_give_none_until_they_are_one() -> None:
    trees, _ = switches()
    trees.set_hyper_node(hyper_node("zoo", 2, inside("s0")))
    assert trees.get(HYPER_NODES) is None
    assert trees.topologies.hyper_nodes_problem.startswith("HyperNode zoo: spec.members[0]")
    trees.remove_hyper_node("zoo")
    assert domains(trees) == {"spine/s0": ["n1", "n2", "n10"], "spine/s1": ["n3"]}


@pytest.mark.parametrize(
    "change, expected",
    [
        (
            lambda trees, _: trees.set_hyper_node(hyper_node("s1", 1, named("login"))),
            {"spine/s0": ["n1", "n2", "n10"], "spine/s1": ["login"]},
        ),
        (
            lambda trees, _: trees.remove_hyper_node("spine"),
            {"s0": ["n1", "n2", "n10"], "s1": ["n3"]},
        ),
        (
            lambda _, state: state.set_node(node("n3", {"cpu": 4}, labels={"rack": "r0"})),
            {"spine/s0": ["n1", "n2", "n3", "n10"]},
        ),
        (
            lambda _, state: state.remove_node("n1"),
            {"spine/s0": ["n2", "n10"], "spine/s1": ["n3"]},
        ),
        (
            lambda _, state: (state.remove_node("n2"), state.set_node(node("n4", {"cpu": 4}, labels={"rack": "r1"}))),
            {"spine/s0": ["n1", "n10"], "spine/s1": ["n3", "n4"]},
        ),
    ],
    ids=["other members", "a HyperNode is gone", "a node moves", "a node is gone", "its row taken by another node"],
)
def test_the_tree_follows_hyper_nodes_and_nodes(change: Change, expected: dict[str, list[str]]) -> None:
    trees, state = switches()
    hyper_tree(trees)
    change(trees, state)
    assert domains(trees) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda _, state: state.set_node(node("n3", {"cpu": 2}, labels={"rack": "r1", "color": "blue"})),
        lambda _, state: state.set_pod(simple_pod({"cpu": 1}, nodeName="n1")),
        lambda trees, _: trees.set_hyper_node(hyper_node("s1", 1, with_labels(rack="r1"), tier_name="switch")),
    ],
    ids=["amounts and other labels", "a pod", "a HyperNode that says the same"],
)
def test_other_changes_leave_the_tree_as_it_is(change: Change) -> None:
    trees, state = switches()
    before = hyper_tree(trees)
    change(trees, state)
    assert hyper_tree(trees) is before


def test_patterns_are_tried_only_on_nodes_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, state = switches()
    hyper_tree(trees)
    hierarchy = trees.topologies.hierarchy
    assert hierarchy is not None
    asked: list[str] = []
    look = hierarchy._members.containing

    def counted(name: str, labels: Labels) -> set[str]:
        asked.append(name)
        return look(name, labels)

    monkeypatch.setattr(hierarchy._members, "containing", counted)
    state.set_node(node("n5", {"cpu": 4}, labels={"rack": "r1"}))
    assert domains(trees)["spine/s1"] == ["n3", "n5"]
    assert asked == ["n5"]


def test_another_state_has_the_same_hyper_nodes() -> None:
    trees, state = switches()
    trial = state.copy()
    trial.remove_node("n3")
    assert domains(trees.over(trial)) == {"spine/s0": ["n1", "n2", "n10"]}
    assert domains(trees) == {"spine/s0": ["n1", "n2", "n10"], "spine/s1": ["n3"]}
