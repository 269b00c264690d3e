"""Topologies as trees: which domains the labels of nodes make, and in which order they are walked through."""

import pytest

from bayplan.compat.kai.scheduler.model import Node, Topology
from bayplan.compat.kai.scheduler.tree import (
    ROOT,
    Domain,
    TopologyTree,
    build_tree,
    level_domains,
    lowest_common_domain,
    reverse_level_order,
)
from tests.unit.compat.kai.scheduler.small_clusters import LEVELS, TOPOLOGY, nodes


def tree_of(layout: str) -> TopologyTree:
    return build_tree(TOPOLOGY, nodes(layout))


def ids(domains: list[Domain]) -> list[str]:
    return [domain.id for domain in domains]


def test_every_level_has_the_domains_that_labels_make() -> None:
    tree = tree_of("z1/r1: 8 8, z1/r2: 8, z2/r1: 8")
    assert {
        level: {name: list(domain.nodes) for name, domain in by_id.items()} for level, by_id in tree.domains.items()
    } == {
        ROOT: {ROOT: ["n0", "n1", "n2", "n3"]},
        "zone": {"z1": ["n0", "n1", "n2"], "z2": ["n3"]},
        "rack": {"z1.r1": ["n0", "n1"], "z1.r2": ["n2"], "z2.r1": ["n3"]},
    }


def test_a_node_without_the_label_of_one_level_is_outside() -> None:
    outside = Node("half", {"zone": "z1"}, {}, {})
    tree = build_tree(TOPOLOGY, [*nodes("z1/r1: 8"), outside])
    assert list(tree.root.nodes) == ["n0"]


def test_dots_in_label_values_may_join_two_racks() -> None:
    assert list(tree_of("a.b/c: 8, a/b.c: 8").domains["rack"]["a.b.c"].nodes) == ["n0", "n1"]


@pytest.mark.parametrize("level", ["root", "/"])
def test_a_level_may_have_any_name(level: str) -> None:
    tree = build_tree(Topology("odd", ("rack", level)), [Node("n0", {"rack": "root", level: "/"}, {}, {})])
    assert ids(reverse_level_order(tree.root, {}))[-1] == ROOT


@pytest.mark.parametrize(
    "layout, lowest, expected",
    [
        ("z1/r1: 8 8", "", ("rack", "z1.r1")),
        ("z1/r1: 8, z1/r2: 8", "", ("zone", "z1")),
        ("z1/r1: 8, z2/r1: 8", "", (ROOT, ROOT)),
        ("z1/r1: 8 8", "zone", ("zone", "z1")),
        ("z1/r1: 8 8", "rack", ("rack", "z1.r1")),
        ("z1/: 8", "", ("zone", "z1")),
        ("/r1: 8", "", (ROOT, ROOT)),
    ],
)
def test_the_narrowest_domain_of_some_nodes(layout: str, lowest: str, expected: tuple[str, str]) -> None:
    assert lowest_common_domain(nodes(layout), LEVELS, lowest) == expected


def test_nodes_outside_the_topology_have_no_say_in_it() -> None:
    outside = Node("half", {"zone": "z9"}, {}, {})
    assert lowest_common_domain([*nodes("z1/r1: 8"), outside], LEVELS) == ("rack", "z1.r1")
    assert lowest_common_domain([outside], LEVELS) == (ROOT, ROOT)
    assert lowest_common_domain([], LEVELS) == (ROOT, ROOT)


def test_the_deepest_domains_come_first_and_equally_deep_ones_left_to_right() -> None:
    tree = tree_of("z1/r1: 8, z1/r2: 8, z2/r3: 8")
    assert ids(reverse_level_order(tree.root, {})) == ["z1.r1", "z1.r2", "z2.r3", "z1", "z2", ROOT]
    zones = list(tree.root.children.values())
    assert ids(reverse_level_order(tree.root, {tree.root: zones[::-1]})) == [
        "z2.r3",
        "z1.r1",
        "z1.r2",
        "z2",
        "z1",
        ROOT,
    ]


@pytest.mark.parametrize(
    "level, expected", [("rack", ["z1.r1", "z1.r2", "z2.r3"]), ("zone", ["z1", "z2"]), (ROOT, [ROOT]), ("row", [])]
)
def test_domains_of_one_level(level: str, expected: list[str]) -> None:
    assert ids(list(level_domains(tree_of("z1/r1: 8, z1/r2: 8, z2/r3: 8").root, level, {}))) == expected
