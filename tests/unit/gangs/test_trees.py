"""Trees by name: built once, and again only if something changed that a tree is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Trees
from bayplan.kube.topology_levels import HOSTNAME
from tests.builders.objects import node, simple_pod

Change = Callable[[ClusterState], object]


def two_racks() -> ClusterState:
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 4}, labels={"rack": "r1", "row": "a", "color": "red"}))
    state.set_node(node("n2", {"cpu": 4}, labels={"rack": "r2", "row": "a", "color": "red"}))
    return state


def domains(trees: Trees, name: str) -> dict[tuple[str, ...], list[str]]:
    """Nodes by the path of the lowest level above them."""
    tree = trees.get(name)
    assert tree is not None
    found: dict[tuple[str, ...], list[str]] = {}
    for path in tree.paths[tree.node_level]:
        found.setdefault(path[:-1], []).append(path[-1])
    return found


def test_several_topologies_over_the_same_nodes() -> None:
    trees = Trees(two_racks())
    trees.set("network", ("rack",))
    trees.set("power", ("row", HOSTNAME))
    assert trees.names == ["network", "power"]
    assert domains(trees, "network") == {("r1",): ["n1"], ("r2",): ["n2"]}
    assert domains(trees, "power") == {("a",): ["n1", "n2"]}
    assert domains(trees, "") == {(): ["n1", "n2"]}
    assert trees.get("storage") is None


@pytest.mark.parametrize(
    "kueue, kai, named, system, meant",
    [
        (("row", "rack"), ("row", "rack", HOSTNAME), "dc", "", "dc"),
        (("row", "rack"), ("row", "rack", HOSTNAME), "kai/dc", "", "dc"),
        (("row", "rack"), ("rack",), "kai/dc", "", "kai/dc"),
        (("row", "rack"), ("rack",), "dc", "kueue", "kueue/dc"),
        (("row", "rack"), ("rack",), "dc", "kai", "kai/dc"),
        (("row", "rack"), ("rack",), "dc", "", "dc"),
        (("row", "rack"), ("rack",), "", "kueue", "kueue/dc"),
        (("row", "rack"), ("rack",), "", "", ""),
        # One that only the other system has is meant, whatever the words.
        (("row",), ("rack",), "", "kueue", "kai/dc"),
    ],
)
def test_two_systems_may_each_have_a_topology_of_one_name(
    kueue: tuple[str, ...], kai: tuple[str, ...], named: str, system: str, meant: str
) -> None:
    trees = Trees(two_racks())
    trees.set("dc", kueue, system="kueue")
    trees.set("dc", kai, system="kai")
    assert trees.name_for(Gang("ml/rack", Group(pods=(), required="rack"), named, system=system)) == meant


def test_of_three_topologies_the_only_one_with_the_levels_of_a_gang_is_meant() -> None:
    trees = Trees(two_racks())
    trees.set("network", ("rack",), system="kueue")
    trees.set("same", ("rack", HOSTNAME), system="kai")
    trees.set("power", ("row",), system="kueue")
    assert trees.name_for(Gang("ml/rack", Group(pods=(), required="rack"))) == "network"
    assert trees.name_for(Gang("ml/rack", Group(pods=(), required="rack"), system="kai")) == "same"
    assert trees.name_for(Gang("ml/row", Group(pods=(), required="row"))) == "power"
    assert trees.name_for(Gang("ml/any", Group(pods=()))) == ""


@pytest.mark.parametrize(
    "third, named", [({"rack": "r2"}, "network"), ({}, "")], ids=["all nodes are in it", "a node is not"]
)
def test_a_gang_without_a_level_means_the_only_topology_if_it_has_every_node(third: dict[str, str], named: str) -> None:
    state = two_racks()
    state.set_node(node("n3", {"cpu": 4}, labels=third))
    trees = Trees(state)
    trees.set("network", ("rack",))
    assert trees.name_for(Gang("ml/any", Group(pods=()))) == named
    assert trees.name_for(Gang("ml/rack", Group(pods=(), required="rack"))) == "network"


def test_a_topology_may_change_and_go() -> None:
    trees = Trees(two_racks())
    trees.set("network", ("rack",))
    assert len(domains(trees, "network")) == 2
    trees.set("network", ("row",))
    assert domains(trees, "network") == {("a",): ["n1", "n2"]}
    trees.remove("network")
    assert trees.get("network") is None
    assert trees.names == []


@pytest.mark.parametrize(
    "change",
    [
        lambda state: None,
        lambda state: state.set_node(node("n1", {"cpu": 8}, labels={"rack": "r1", "row": "a", "color": "blue"})),
        lambda state: state.set_node(node("n1", {"cpu": 4}, labels={"rack": "r1", "row": "a"}, unschedulable=True)),
        lambda state: state.set_pod(simple_pod({"cpu": 1}, nodeName="n1")),
    ],
    ids=["nothing", "amounts and other labels", "cordoned", "a pod"],
)
def test_what_a_tree_is_not_made_of_leaves_it_as_it_is(change: Change) -> None:
    state = two_racks()
    trees = Trees(state)
    trees.set("network", ("rack",))
    before = trees.get("network")
    change(state)
    assert trees.get("network") is before


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda state: state.set_node(node("n1", labels={"rack": "r2"})), {("r2",): ["n1", "n2"]}),
        (lambda state: state.set_node(node("n1")), {("r2",): ["n2"]}),
        (lambda state: state.remove_node("n1"), {("r2",): ["n2"]}),
        (
            lambda state: state.set_node(node("n0", labels={"rack": "r1"})),
            {("r1",): ["n0", "n1"], ("r2",): ["n2"]},
        ),
        (
            lambda state: (state.remove_node("n1"), state.set_node(node("n3", labels={"rack": "r2"}))),
            {("r2",): ["n2", "n3"]},
        ),
    ],
    ids=["moved to another rack", "label lost", "removed", "added", "its row taken by another node"],
)
def test_trees_follow_nodes_and_their_labels(change: Change, expected: dict[tuple[str, ...], list[str]]) -> None:
    state = two_racks()
    trees = Trees(state)
    trees.set("network", ("rack",))
    trees.get("network")
    change(state)
    assert domains(trees, "network") == expected


def test_a_node_that_gets_its_labels_late_joins() -> None:
    state = two_racks()
    state.set_node(node("n3"))
    trees = Trees(state)
    trees.set("network", ("rack",))
    tree = trees.get("network")
    assert tree is not None
    assert tree.outside == {"n3": "rack"}
    state.set_node(node("n3", labels={"rack": "r2"}))
    assert domains(trees, "network") == {("r1",): ["n1"], ("r2",): ["n2", "n3"]}
