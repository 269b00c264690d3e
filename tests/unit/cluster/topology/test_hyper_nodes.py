"""HyperNodes as a tree: where nodes stand in it, what its levels are called, and what prevents HyperNodes from being
one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.topology.hyper_nodes import Hierarchy, hierarchy_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.volcano_topology_v1alpha1 import HyperNode
from tests.builders.hyper_nodes import hyper_node, inside, named, pattern, with_labels
from tests.builders.objects import node

# Two switches below a spine, as most networks are.
SWITCHES = (
    hyper_node("s0", 1, named("n0"), named("n1")),
    hyper_node("s1", 1, pattern("^n[23]$")),
    hyper_node("spine", 2, inside("s0"), inside("s1")),
)


def stands(hierarchy: Hierarchy, name: str, **labels: str) -> tuple[str, ...] | str:
    """The path of a node, or what it lacks."""
    (position,) = hierarchy.positions([node(name, labels=labels)])
    return position.lacks or position.path


def wrong(*objects: HyperNode) -> str:
    with pytest.raises(InvalidObject) as caught:
        hierarchy_of(objects)
    return str(caught.value)


class TestMembers:
    @pytest.mark.parametrize(
        "member, name, expected",
        [
            (named("n1"), "n1", True),
            (named("n1"), "n10", False),
            (pattern("^n1$"), "n10", False),
            (pattern("n1"), "gpu-n10", True),  # found anywhere, as in Volcano
            (pattern("^(?i)N[[:digit:]]$"), "n1", True),
            (pattern(r"\An\Q1\E\z"), "n1", True),
            (
                pattern("^([a-z0-9]+-?)+$"),
                "gke-cluster-pool-" * 8 + ".internal",
                False,
            ),  # one way after another is 2^60
            (with_labels(rack="r1"), "n1", True),
            (with_labels(rack="r2"), "n1", False),
            (with_labels(), "n1", False),  # an empty selector matches nothing, as in Volcano
        ],
    )
    def test_nodes_by_name_pattern_or_labels(self, member: dict[str, Any], name: str, expected: bool) -> None:
        hierarchy = hierarchy_of([hyper_node("s0", 1, member)])
        assert stands(hierarchy, name, rack="r1") == (("s0",) if expected else "HyperNode")

    def test_expressions_on_labels(self) -> None:
        member = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "b200"]}]}
        hierarchy = hierarchy_of([hyper_node("s0", 1, {"type": "Node", "selector": {"labelMatch": member}})])
        assert stands(hierarchy, "n0", gpu="b200") == ("s0",)
        assert stands(hierarchy, "n0", gpu="a100") == "HyperNode"

    def test_a_member_that_does_not_exist_matches_nothing(self) -> None:
        hierarchy = hierarchy_of([hyper_node("spine", 2, inside("s9"), named("n0"))])
        assert stands(hierarchy, "n0") == ("spine",)

    def test_a_node_in_nested_hyper_nodes_belongs_to_the_closer_one(self) -> None:
        hierarchy = hierarchy_of([*SWITCHES, hyper_node("core", 3, inside("spine"), pattern(".*"))])
        assert stands(hierarchy, "n0") == ("core", "spine", "s0")

    def test_a_node_in_two_that_do_not_contain_each_other_stands_nowhere(self) -> None:
        hierarchy = hierarchy_of([*SWITCHES, hyper_node("s2", 1, pattern("n3"))])
        assert stands(hierarchy, "n3") == "single HyperNode (in s1 and in s2)"
        assert stands(hierarchy, "n2") == ("spine", "s1")

    def test_a_node_whose_labels_change_stands_elsewhere(self) -> None:
        racks = [hyper_node(f"s{rack}", 1, with_labels(rack=f"r{rack}")) for rack in range(2)]
        hierarchy = hierarchy_of(racks)
        assert [stands(hierarchy, "n0", rack=rack) for rack in ("r0", "r1", "r2")] == [("s0",), ("s1",), "HyperNode"]


class TestGaps:
    """At each tier a node is in the largest HyperNode up to it."""

    def test_a_switch_without_anything_above_is_a_domain_of_the_wider_tiers_too(self) -> None:
        hierarchy = hierarchy_of([*SWITCHES, hyper_node("s9", 1, named("n9"))])
        assert stands(hierarchy, "n9") == ("s9", "s9")

    def test_a_tier_that_is_left_out_on_the_way_up(self) -> None:
        core = hyper_node("core", 3, inside("spine"), inside("s9"))
        hierarchy = hierarchy_of([*SWITCHES, hyper_node("s9", 1, named("n9")), core])
        assert stands(hierarchy, "n9") == ("core", "s9", "s9")

    def test_a_node_directly_at_a_spine_is_alone_at_the_tiers_below(self) -> None:
        spine = hyper_node("spine", 2, inside("s0"), inside("s1"), named("n9"))
        hierarchy = hierarchy_of([*SWITCHES[:2], spine])
        assert stands(hierarchy, "n9") == ("spine", "n9 alone")


class TestTiers:
    @pytest.mark.parametrize(
        "names, levels",
        [
            ({"s0": "", "spine": ""}, ["tier-7", "tier-0"]),
            ({"s0": "volcano.sh/switch", "spine": "spine"}, ["spine", "volcano.sh/switch"]),
            ({"s0": "switch", "s1": "nvlink", "spine": "spine"}, ["spine", "tier-0"]),  # two names: both count
            ({"s0": "kubernetes.io/hostname", "spine": "node"}, ["tier-7", "tier-0"]),  # these mean the nodes
        ],
    )
    def test_levels_have_the_names_of_tiers_or_their_numbers(self, names: dict[str, str], levels: list[str]) -> None:
        objects = [
            hyper_node(name, 7 if name == "spine" else 0, named("n0"), tier_name=own) for name, own in names.items()
        ]
        hierarchy = hierarchy_of(objects)
        assert [tier.level for tier in hierarchy.tiers] == levels
        assert all(hierarchy.tier_named[own] == (7 if name == "spine" else 0) for name, own in names.items() if own)

    @pytest.mark.parametrize(
        "first, second, told",
        [
            ("zone", "zone", '"zone" is the name of tier 1 in a: it cannot be that of tier 2 as well'),
            ("", "tier-1", '"tier-1" is the name of tier 1: it cannot be that of tier 2 as well'),
        ],
    )
    def test_a_name_means_one_tier(self, first: str, second: str, told: str) -> None:
        told_us = wrong(hyper_node("a", 1, tier_name=first), hyper_node("b", 2, tier_name=second))
        assert told_us == f"HyperNode b: spec.tierName: {told}"


class TestWhatIsNoTree:
    def test_two_parents(self) -> None:
        told = wrong(*SWITCHES, hyper_node("zoo", 2, named("n7"), inside("s0")))
        assert told == (
            'HyperNode zoo: spec.members[1].selector.exactMatch.name: "s0" is a member of spine already: a '
            "HyperNode has one parent"
        )

    def test_one_parent_that_names_it_twice_is_one(self) -> None:
        hierarchy = hierarchy_of([*SWITCHES[:2], hyper_node("spine", 2, inside("s0"), inside("s0"))])
        assert stands(hierarchy, "n0") == ("spine", "s0")

    def test_a_cycle(self) -> None:
        told = wrong(hyper_node("a", 3, inside("b")), hyper_node("b", 2, inside("c")), hyper_node("c", 1, inside("a")))
        assert told == 'HyperNode a: spec.members[0].selector.exactMatch.name: "b" contains itself: b in a in c in b'

    def test_one_that_contains_itself(self) -> None:
        told = wrong(hyper_node("a", 3, inside("a")))
        assert told == 'HyperNode a: spec.members[0].selector.exactMatch.name: "a" contains itself: a in a'

    @pytest.mark.parametrize("tier", [2, 5])
    def test_tiers_that_do_not_become_smaller(self, tier: int) -> None:
        told = wrong(hyper_node("s0", tier), hyper_node("spine", 2, inside("s0")))
        where = "HyperNode spine: spec.members[0].selector.exactMatch.name"
        assert told == f'{where}: "s0" has tier {tier}: must be below 2, the tier of spine'

    @pytest.mark.parametrize(
        "member, told",
        [
            ({"type": "Rack"}, '.type: "Rack" must be one of Node, HyperNode'),
            ({"type": "Node"}, ".selector: is empty: must be exactly one of exactMatch, regexMatch, labelMatch"),
            (
                {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "labelMatch": {}}},
                ".selector: has exactMatch and labelMatch: must be exactly one of exactMatch, regexMatch, labelMatch",
            ),
            (
                {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s.*"}}},
                ".selector.regexMatch: is for nodes: a HyperNode is named by exactMatch",
            ),
            (
                {"type": "HyperNode", "selector": {"exactMatch": {}}},
                ".selector.exactMatch.name: is missing: must be the name of a HyperNode",
            ),
            (pattern(""), ".selector.regexMatch.pattern: is missing: must be a regular expression of Go"),
            (
                pattern("gpu-["),
                '.selector.regexMatch.pattern: "gpu-[" is not a regular expression of Go: missing ]: [',
            ),
            (
                {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}},
                (
                    '.selector.labelMatch.matchExpressions[0].operator: "Gt" is not allowed: must be '
                    "In, NotIn, Exists, DoesNotExist"
                ),
            ),
        ],
    )
    def test_a_member_that_cannot_be_read(self, member: dict[str, Any], told: str) -> None:
        assert wrong(hyper_node("s0", 1, member)) == f"HyperNode s0: spec.members[0]{told}"

    @pytest.mark.parametrize(
        "spec, told",
        [
            ({}, "is missing: must be a number, the smaller the closer"),
            ({"tier": -1}, "-1 is negative: must be 0 or more"),
        ],
    )
    def test_a_tier_that_is_none(self, spec: dict[str, Any], told: str) -> None:
        written = msgspec.convert({"metadata": {"name": "s0"}, "spec": spec}, HyperNode)
        assert wrong(written) == f"HyperNode s0: spec.tier: {told}"
