"""What is wrong with a gang before any node is looked at: every sentence."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree, build_tree
from bayplan.gangs.checks import problem_of
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.objects import node, simple_pod, simple_pods

HOSTNAME = "kubernetes.io/hostname"
KNOWN = "the topology has block, rack, kubernetes.io/hostname"
NO_PODS = "size: 0; the gang or a group inside it must have 1 pod or more"


def pods(number: int, name: str = "p") -> tuple[Pod, ...]:
    return simple_pods({"cpu": 1}, number, name)


def tree(*levels: str, nodes: int = 1) -> Tree:
    state = ClusterState()
    for number in range(nodes):
        state.set_node(node(f"n{number}", labels=dict.fromkeys(levels, "x")))
    return build_tree(state, "network", levels)


NETWORK = Topologies({"network": ("block", "rack")})


def problem(root: Group, over: Tree | None = None) -> str:
    return problem_of(Gang("ml/gang", root, "network"), over or tree("block", "rack"), NETWORK)


@pytest.mark.parametrize(
    "root",
    [
        Group(pods=pods(4), required="block", preferred="rack"),
        Group(pods=pods(4), required=HOSTNAME),
        Group(pods=pods(4), minimum=0),
        Group(pods=pods(4), minimum=2, segments=(Segments(2, "rack"), Segments(1, HOSTNAME))),
        Group(pods=pods(4), minimum=3, segments=(Segments(2, "rack", required=False),)),
        Group(
            groups=(Group("a", pods(2, "a"), segments=(Segments(2, "rack"),)), Group("b", pods(1, "b"))),
            minimum_groups=1,
        ),
        Group(running=pods(1)),
    ],
)
def test_nothing_is_wrong(root: Group) -> None:
    assert problem(root) == ""


@pytest.mark.parametrize(
    "root, expected",
    [
        (Group(), NO_PODS),
        (Group(groups=(Group("a"),)), NO_PODS),
        (Group(pods=(*pods(1), *pods(1))), "pod default/p-0 is twice in the gang"),
        (Group(groups=(Group("a", pods(1)), Group("a", pods(1, "q")))), 'groups: "a" is the name of two groups'),
        (Group(groups=(Group("", pods(1)),)), "groups: a group inside has no name"),
        (Group(pods=pods(3), minimum=4), "minimum: 4 is not between 0 and the size 3"),
        (Group(pods=pods(3), minimum=-1), "minimum: -1 is not between 0 and the size 3"),
        (
            Group(groups=(Group("a", pods(1)),), minimum_groups=2),
            "minimumGroups: 2 is not between 0 and the 1 groups inside",
        ),
        (Group(pods=pods(3), required="row"), f'required: "row" is not a level; {KNOWN}'),
        (Group(pods=pods(3), preferred="row"), f'preferred: "row" is not a level; {KNOWN}'),
        (
            Group(groups=(Group("a", pods(1), required="row"),)),
            f'group "a": required: "row" is not a level; {KNOWN}',
        ),
        (Group(pods=pods(4), segments=(Segments(2, "row"),)), f'segments: "row" is not a level; {KNOWN}'),
        (Group(pods=pods(4), segments=(Segments(3, "rack"),)), "segments: size 3 does not divide 4"),
        (Group(pods=pods(4), segments=(Segments(0, "rack"),)), "segments: size 0 must be 1 or more"),
        (
            Group(pods=pods(8), segments=(Segments(4, "block"), Segments(3, "rack"))),
            "segments: size 3 does not divide 4",
        ),
        (
            Group(pods=pods(8), segments=(Segments(4, "rack"), Segments(2, "block"))),
            'segments: level "block" must be below the one before',
        ),
        (
            Group(pods=pods(8), segments=tuple(Segments(1, "rack") for _ in range(4))),
            "segments: 4 layers; must be at most 3",
        ),
        (
            Group(pods=pods(8), minimum=6, segments=(Segments(4, "rack"),)),
            "minimum: 6 is not a multiple of the segments' size 4",
        ),
        (
            Group(pods=pods(2), groups=(Group("a", pods(1, "a")),), segments=(Segments(2, "rack"),)),
            "segments: a gang with groups cannot have segments of its own; make each segment a group",
        ),
    ],
)
def test_what_is_wrong(root: Group, expected: str) -> None:
    assert problem(root) == expected


@pytest.mark.parametrize(
    "segments, expected",
    [
        ([Segments(0, "rack")], "segments: size 0 must be 1 or more"),
        ([Segments(-1, "rack")], "segments: size -1 must be 1 or more"),
        ([Segments(4, "block"), Segments(3, "rack")], "segments: size 3 does not divide 4"),
        ([Segments(4, "rack"), Segments(2, "block")], 'segments: level "block" must be below the one before'),
        ([Segments(2, "row")], f'segments: "row" is not a level; {KNOWN}'),
    ],
)
def test_segments_are_looked_at_as_they_are_written_though_members_run(segments: list[Segments], expected: str) -> None:
    bound = simple_pod({"cpu": 1}, "runs", nodeName="n1")
    annotated = msgspec.structs.replace(bound.metadata, annotations={"bayplan.io/segment": "0"})
    runs = msgspec.structs.replace(bound, metadata=annotated)
    assert problem(Group(pods=pods(1), running=(runs,), segments=tuple(segments))) == expected


@pytest.mark.parametrize(
    "topologies, expected",
    [
        (["power", "storage"], 'topology: "network" does not exist; known: power, storage'),
        ([], 'topology: "network" does not exist; the cluster has no Topology'),
        (
            ["kueue/network", "kai/network"],
            'topology: "network" is ambiguous: it may be kueue/network or kai/network',
        ),
    ],
)
def test_a_topology_that_does_not_exist(topologies: list[str], expected: str) -> None:
    known = Topologies(dict.fromkeys(topologies, ("rack",)))
    assert problem_of(Gang("ml/gang", Group(pods=pods(1)), "network"), None, known) == expected


def test_a_tree_without_nodes() -> None:
    root = Group(pods=pods(1))
    expected = 'topology: no node carries all labels of "network" (block, rack)'
    assert problem(root, tree("block", "rack", nodes=0)) == expected
    assert problem(root, tree(nodes=0)) == "the cluster has no nodes"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("network", 'no node carries all labels of "network" (block)'),
        # Pods of Kueue may name any label, without a Topology.
        ("nodes by block", "no node carries the label block; Pod ml/a asks for it"),
    ],
)
def test_a_tree_without_nodes_is_named_although_the_gang_does_not(name: str, expected: str) -> None:
    empty = build_tree(ClusterState(), name, ["block"])
    gang = Gang("ml/gang", Group(pods=pods(1), required="block"), asked_in="Pod ml/a asks for it")
    assert problem_of(gang, empty, NETWORK) == f"topology: {expected}"


def test_a_level_where_there_is_no_topology() -> None:
    state = ClusterState()
    state.set_node(node("n0"))
    gang = Gang("ml/gang", Group(pods=pods(1), required="rack"))
    assert problem_of(gang, build_tree(state, "", []), Topologies()) == (
        'required: "rack" is not a level; the cluster has no Topology'
    )
