"""Annotations about the placement, on group objects of other systems and on pods of gangs without one."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.dialects.members import Incomplete
from bayplan.dialects.registry import AnyPodGroup, gang_of_members, key_of, remarks_on
from bayplan.engine.gangs.objective import objective_of
from bayplan.gangs.model import Gang, ParallelGroups, Patience
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    coscheduling_v1alpha1,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    volcano_scheduling_v1beta1,
)
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import group_object, member

KUEUE = "kueue.x-k8s.io/"
EVERY_WORD = {
    "bayplan.io/objective": "least-leftover, closest",
    "bayplan.io/patience": "domains=2,seconds=300",
    "bayplan.io/placement": "spread",
    "bayplan.io/domain-placement": "spread",
}
KINDS: dict[str, tuple[type[AnyPodGroup], dict[str, Any]]] = {
    "coscheduling": (coscheduling_v1alpha1.PodGroup, {"minMember": 4}),
    "kai": (kai_scheduling_v2alpha2.PodGroup, {"minMember": 4}),
    "kubernetes": (k8s_scheduling_v1beta1.PodGroup, {"schedulingPolicy": {"gang": {"minCount": 4}}}),
    "volcano": (volcano_scheduling_v1beta1.PodGroup, {"minMember": 4}),
}


def read(kind: str, annotations: dict[str, str]) -> Gang:
    """A gang of four pods in the words of a system, with annotations on its group object or, for Kueue, on its pods."""
    if kind == "kueue":
        words = {KUEUE + "pod-group-total-count": "4"} | annotations
        gang = gang_of_members("kueue ml/pg", None, members({KUEUE + "pod-group-name": "pg"}, words), Topologies({}))
    else:
        written = group_object(*KINDS[kind], annotations=annotations)
        gang = gang_of_members(key_of(written), written, members(), Topologies({}))
    assert not isinstance(gang, Incomplete)
    return gang


def members(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> list[Pod]:
    return [member(name, labels, annotations) for name in "abcd"]


@pytest.mark.parametrize("kind", [*KINDS, "kueue"])
def test_every_system_s_gangs_are_placed_as_annotated(kind: str) -> None:
    gang = read(kind, EVERY_WORD)
    assert gang.objective == objective_of(["least-leftover", "closest"])
    assert gang.patience == Patience(2, 300.0)
    assert (gang.spread, gang.roomiest) == (True, True)


@pytest.mark.parametrize("kind", ["coscheduling", "kubernetes", "kueue", "volcano"])
def test_eight_ranks_in_four_pods_are_two_in_each(kind: str) -> None:
    gang = read(kind, {"bayplan.io/parallelism": "tensor=4,data=2"})
    assert gang.parallelism == (ParallelGroups("tensor", 2), ParallelGroups("data", 4))


@pytest.mark.parametrize("kind", [*KINDS, "kueue"])
def test_without_annotations_a_gang_stays_as_its_system_means_it(kind: str) -> None:
    gang = read(kind, {})
    assert (gang.patience, gang.spread, gang.roomiest, gang.parallelism) == (None, False, False, ())


@pytest.mark.parametrize(
    "key, text, allowed",
    [
        ("objective", "closest,closest", 'is no order of goals: "closest" is there twice'),
        (
            "objective",
            "closest;fewest-nodes",
            (
                "must have commas between goals; "
                "goals are fewest-domains, mean-distance, fewest-nodes, least-leftover, closest"
            ),
        ),
        ("patience", "domains=1,seconds=-4", "has seconds -4; must be 0 or more"),
        ("patience", "2", "must be such as domains=2,seconds=300"),
        ("placement", "wide", "must be one of binpack, spread"),
        ("domain-placement", "wide", "must be one of binpack, spread"),
        ("parallelism", "tensor=2,tensor=4", "must name tensor once"),
        ("parallelism", "tensor=0", "must be such as tensor=8,pipeline=4,data=2, at most 8 of them"),
        ("parallelism", "tensor=3", "makes 3 ranks, neither a multiple nor a divisor of the 4 pods"),
    ],
)
def test_an_invalid_value_is_named_with_its_annotation(key: str, text: str, allowed: str) -> None:
    with pytest.raises(InvalidObject) as error:
        read("kubernetes", {f"bayplan.io/{key}": text})
    assert str(error.value) == f'PodGroup ml/pg: metadata.annotations["bayplan.io/{key}"]: "{text}" {allowed}'


def test_parallel_groups_are_for_gangs_without_groups_inside() -> None:
    with pytest.raises(InvalidObject, match='"data=4" is for a gang without groups inside'):
        read("kai", {"bayplan.io/parallelism": "data=4"})


def test_bayplan_s_own_group_has_fields_instead() -> None:
    written = group_object(
        bayplan_v1alpha1.PodGroup, {"size": 4}, annotations={"bayplan.io/domain-placement": "spread"}
    )
    told = 'metadata.annotations["bayplan.io/domain-placement"]: has no effect on this kind; set spec.domainPlacement'
    assert remarks_on(written) == (told,)
