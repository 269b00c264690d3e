"""KAI's PodGroup: from the flat list of sub-groups to a tree, and the sentences about lists that make none."""

import time

import msgspec
import pytest

from bayplan.kube.wire.kai_scheduling_v2alpha2 import (
    DEEPEST,
    PodGroup,
    PodGroupSpec,
    PodSet,
    SubGroup,
    SubGroupSet,
    TopologyConstraint,
    gang_tree,
    sub_group_tree,
)
from tests.builders.kai_webhook import sub_groups_problem

PARENTS_FIRST = (("a", None), ("b", "a"), ("c", "b"))


def listed(*names_and_parents: tuple[str, str | None]) -> list[SubGroup]:
    return [SubGroup(name=name, min_member=2, parent=parent) for name, parent in names_and_parents]


def test_an_object_as_it_is_written() -> None:
    written = b"""{
        "kind": "PodGroup", "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"minMember": 3, "queue": "team",
                 "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "zone"},
                 "subGroups": [{"name": "leader", "minMember": 1},
                               {"name": "workers", "minMember": 2,
                                "topologyConstraint": {"topology": "dc", "preferredTopologyLevel": "rack"}}]}}"""
    group = msgspec.json.decode(written, type=PodGroup)
    assert (group.metadata.name, group.spec.queue) == ("train", "team")
    assert gang_tree(group.spec) == SubGroupSet(
        "",
        TopologyConstraint("dc", required="zone"),
        pod_sets=(PodSet("leader", 1), PodSet("workers", 2, TopologyConstraint("dc", preferred="rack"))),
    )


def test_sub_groups_with_children_are_inner_ones_in_whatever_order_they_are_listed() -> None:
    tree = SubGroupSet("", sub_groups=(SubGroupSet("a", sub_groups=(SubGroupSet("b", pod_sets=(PodSet("c", 2),)),)),))
    assert sub_group_tree(PodGroupSpec(sub_groups=listed(*PARENTS_FIRST))) == tree
    assert sub_group_tree(PodGroupSpec(sub_groups=listed(*PARENTS_FIRST[::-1]))) == tree
    assert [pod_set.name for pod_set in tree.all_pod_sets()] == ["c"]


def test_without_sub_groups_the_pods_are_one_pod_set() -> None:
    assert sub_group_tree(PodGroupSpec(min_member=4)) == SubGroupSet("")
    assert gang_tree(PodGroupSpec(min_member=4)) == SubGroupSet("", pod_sets=(PodSet("default", 4),))
    assert gang_tree(PodGroupSpec(min_member=0)) == SubGroupSet("", pod_sets=(PodSet("default", 1),))


def test_at_least_one_pod_of_a_pod_set_has_to_start() -> None:
    assert sub_group_tree(PodGroupSpec(sub_groups=[SubGroup(name="a")])) == SubGroupSet("", pod_sets=(PodSet("a", 1),))


@pytest.mark.parametrize(
    "names_and_parents, by_webhook, by_scheduler",
    [
        (PARENTS_FIRST, None, None),
        ((), None, None),
        ((("a", None), ("a", "a")), "duplicate subgroup name a", "subgroup <a> already exists"),
        ((("a", "lost"),), "parent lost of a was not found", "parent subgroup <lost> of <a> not found"),
        ((("A", None), ("b", "A")), None, "parent subgroup <a> of <b> not found"),
        ((("", None), ("a", "")), None, "a subgroup has no name"),
        ((("a", "a"),), "cycle detected in subgroups", "cycle detected in subgroups"),
        ((("a", "b"), ("b", "a"), ("c", None)), "cycle detected in subgroups", "cycle detected in subgroups"),
        (
            tuple((f"s{depth}", f"s{depth - 1}" if depth else None) for depth in range(2000)),
            None,
            f"subgroup <s{DEEPEST}> is nested more than {DEEPEST} deep",
        ),
    ],
)
def test_what_is_wrong_with_a_list(
    names_and_parents: tuple[tuple[str, str | None], ...], by_webhook: str | None, by_scheduler: str | None
) -> None:
    sub_groups = listed(*names_and_parents)
    tree = sub_group_tree(PodGroupSpec(sub_groups=sub_groups))
    assert sub_groups_problem(sub_groups) == by_webhook
    assert (tree if isinstance(tree, str) else None) == by_scheduler
    assert isinstance(gang_tree(PodGroupSpec(sub_groups=sub_groups)), SubGroupSet) is (by_scheduler is None)


def test_twenty_thousand_sub_groups_in_a_circle_are_told_at_once() -> None:
    """One such PodGroup took ten seconds of every decision about it."""
    number = 20_000
    circle = PodGroupSpec(sub_groups=listed(*((f"g{each}", f"g{(each + 1) % number}") for each in range(number))))
    began = time.thread_time()
    assert sub_group_tree(circle) == "cycle detected in subgroups"
    assert time.thread_time() - began < 1.0
