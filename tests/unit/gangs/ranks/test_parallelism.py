"""Parallel groups of a training job: what may be declared, and that inner groups are kept together before everything
else.
"""

from __future__ import annotations

import pytest

from bayplan.dialects.own.reader import read_gang
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import GangDecision
from bayplan.gangs.ranks.parallelism import parallel_groups
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.bayplan_v1alpha1 import ParallelGroup, PodGroup, PodGroupSpec, PodShape
from bayplan.kube.wire.core_v1 import Metadata
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import node

AT = ObjectPath("PodGroup ml/train", "spec.parallelism")
RACK = "example.com/rack"


def declared(text: str) -> list[ParallelGroup]:
    return [ParallelGroup(name=each.split("=")[0], size=int(each.split("=")[1])) for each in text.split(",")]


@pytest.mark.parametrize(
    "text, pods, expected",
    [
        ("tensor=4,pipeline=2,data=2", 16, {"tensor": 4, "pipeline": 8, "data": 16}),
        # eight ranks in each pod: tensor groups are inside a pod
        ("tensor=8,pipeline=4,data=2", 8, {"pipeline": 4, "data": 8}),
        ("tensor=2,pipeline=8", 8, {"pipeline": 8}),
        # undeclared replicas
        ("tensor=4", 16, {"tensor": 4}),
    ],
)
def test_how_many_pods_are_in_a_group(text: str, pods: int, expected: dict[str, int]) -> None:
    assert {each.name: each.pods for each in parallel_groups(declared(text), pods, AT)} == expected


@pytest.mark.parametrize(
    "text, pods, problem",
    [
        ("tensor=5", 16, "spec.parallelism: makes 5 ranks, neither a multiple nor a divisor of the 16 pods"),
        ("tensor=2,tensor=4", 8, 'spec.parallelism[1].name: "tensor" is the name of another one already'),
        ("tensor=0", 16, "spec.parallelism[0].size: 0 must be 1 or more"),
        (
            "tensor=3,pipeline=2",
            3,
            "spec.parallelism[0].size: makes groups of 3 ranks, which do not go with 2 ranks in each pod",
        ),
    ],
)
def test_sizes_that_do_not_go_with_the_pods(text: str, pods: int, problem: str) -> None:
    with pytest.raises(InvalidObject) as error:
        parallel_groups(declared(text), pods, AT)
    assert str(error.value) == f"PodGroup ml/train: {problem}"


def decide(cpus_by_rack: dict[str, list[int]], size: int, parallelism: str) -> GangDecision:
    """Pods of one CPU on nodes with so many."""
    nodes = [
        node(f"{rack}-{number}", {"cpu": cpus}, labels={RACK: rack})
        for rack, here in cpus_by_rack.items()
        for number, cpus in enumerate(here)
    ]
    state = cluster(nodes=nodes)
    spec = PodGroupSpec(
        topology="network",
        preferred=RACK,
        size=size,
        pod=PodShape(resources={"cpu": 1}),
        parallelism=declared(parallelism) if parallelism else None,
    )
    gang = read_gang(PodGroup(metadata=Metadata(name="train", namespace="ml"), spec=spec))
    return schedule_gang(gang_scheduler(state, RACK), gang)


def nodes_of_groups(decision: GangDecision, size: int) -> list[set[str]]:
    by_rank = [seat.node for seat in sorted(decision.seats, key=lambda seat: seat.rank)]
    return [set(by_rank[first : first + size]) for first in range(0, len(by_rank), size)]


def test_inner_groups_stay_on_one_node_where_nodes_have_room_for_them() -> None:
    racks = {"a": [5, 5, 5]}
    assert nodes_of_groups(decide(racks, 12, "tensor=4,data=3"), 4) == [{"a-0"}, {"a-1"}, {"a-2"}]
    assert nodes_of_groups(decide(racks, 12, ""), 4) != [{"a-0"}, {"a-1"}, {"a-2"}]


def test_where_not_all_groups_fit_on_a_node_the_others_are_still_together_in_a_rack() -> None:
    decision = decide({"a": [4, 2, 2], "b": [3, 1]}, 12, "tensor=4,data=3")
    assert decision.placed
    assert sorted(nodes_of_groups(decision, 4), key=sorted) == [{"a-0"}, {"a-1", "a-2"}, {"b-0", "b-1"}]
