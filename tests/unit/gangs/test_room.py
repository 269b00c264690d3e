"""Gangs that start with fewer than their size go where the others will have room: into the tightest domain for all of
them, not for those who are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bayplan.dialects.own.members import gang_with_pods
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Metadata, Pod
from tests.builders.objects import GPU, simple_pod, simple_pods
from tests.unit.gangs.test_cycle import racks

ALL = "equal pods: counted exactly; with room for {} more that are still to come"
SOME = "equal pods: counted exactly; room was found for {} of {} more that are still to come"


def gang_of(spec: dict[str, Any], members: Sequence[Pod]) -> Gang:
    """The gang of a PodGroup with this spec."""
    written = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"topology": "network", **spec}}
    gang = gang_with_pods(msgspec.convert(written, PodGroup), members)
    assert isinstance(gang, Gang)
    return gang


def members(number: int, group: str = "", gpus: int = 1, **spec: Any) -> list[Pod]:
    """Pods of a group, as their controller has made them."""
    labels = {"bayplan.io/group": group} if group else {}
    return list(simple_pods({GPU: gpus}, number, group or "p", labels=labels, **spec))


def decide(scheduler: GangScheduler, spec: dict[str, Any], here: Sequence[Pod]) -> GangDecision:
    return schedule_gang(scheduler, gang_of(spec, here))


def racks_of(decision: GangDecision) -> list[str]:
    return [seat.path[1] for seat in decision.seats]


@pytest.mark.parametrize(
    "cluster, spec, here, expected, bound",
    [
        # r1 would be the tightest for one; four are closest to each other on one node of r3.
        (("b1/r1: 1", "b1/r2: 2 2", "b1/r3: 4 4"), {"size": 4, "minimum": 1}, 1, ["r3"], ALL.format(3)),
        (("b1/r1: 2", "b1/r2: 2 2", "b1/r3: 4 4"), {"size": 4, "minimum": 2}, 3, ["r3"] * 3, ALL.format(1)),
        # Nowhere is room for all: where most of them have.
        (("b1/r1: 1", "b1/r2: 2 1", "b1/r3: 2"), {"size": 4, "minimum": 1}, 1, ["r2"], SOME.format(2, 3)),
        (("b1/r1: 1", "b1/r2: 1"), {"size": 4, "minimum": 1}, 1, ["r1"], SOME.format(0, 3)),
        # Who can start now does not stay away for those who come later.
        (("b1/r1: 2", "b1/r2: 1"), {"size": 4, "minimum": 1}, 2, ["r1", "r1"], SOME.format(0, 2)),
        # Everybody is there: nothing is said, and the tightest is the best.
        (("b1/r1: 2", "b1/r2: 4"), {"size": 2, "minimum": 1}, 2, ["r1", "r1"], "equal pods: counted exactly"),
    ],
    ids=["one of four", "three of four", "not for all", "for no other pod", "now before later", "all are there"],
)
def test_where_the_whole_size_has_room(
    cluster: Sequence[str], spec: dict[str, Any], here: int, expected: list[str], bound: str
) -> None:
    decision = decide(racks(*cluster), {"required": "rack", **spec}, members(here))
    assert racks_of(decision) == expected
    assert (decision.status, decision.bound) == (Status.OPTIMAL, bound)


def test_a_leader_goes_where_its_workers_will_have_room() -> None:
    groups = [{"name": "leader", "size": 1}, {"name": "workers", "size": 3}]
    spec = {"required": "rack", "groups": groups, "minimumGroups": 1}
    decision = decide(racks("b1/r1: 1", "b1/r2: 2 2"), spec, members(1, "leader"))
    assert racks_of(decision) == ["r2"]
    assert decision.bound.endswith("with room for 3 more that are still to come")


def test_workers_that_are_too_few_to_start_count_as_still_to_come() -> None:
    groups = [{"name": "leader", "size": 1}, {"name": "workers", "size": 3}]
    spec = {"required": "rack", "groups": groups, "minimumGroups": 1}
    here = [*members(1, "leader"), *members(2, "workers", gpus=2)]
    decision = decide(racks("b1/r1: 4", "b1/r2: 3 3", "b1/r3: 4 4"), spec, here)
    assert [(seat.pod, seat.path[1]) for seat in decision.seats] == [("default/leader-0", "r3")]


def test_workers_who_need_a_rack_of_their_own_have_one_in_the_block() -> None:
    groups = [{"name": "leader", "size": 1}, {"name": "workers", "size": 4, "required": "rack"}]
    spec = {"required": "block", "groups": groups, "minimumGroups": 1}
    decision = decide(racks("b1/r1: 3", "b1/r2: 3", "b2/r3: 4", "b2/r4: 4"), spec, members(1, "leader"))
    assert decision.seats[0].path[0] == "b2"


def test_segments_that_come_later_have_room_as_whole_segments() -> None:
    spec = {"size": 4, "minimum": 2, "required": "block", "segments": [{"size": 2, "level": "rack"}]}
    decision = decide(racks("b1/r1: 3", "b1/r2: 1", "b2/r3: 3", "b2/r4: 2"), spec, members(2))
    assert decision.seats[0].path[0] == "b2"
    assert [seat.segment for seat in decision.seats] == [0, 0]


def workers(*indices: int) -> list[Pod]:
    """Pods whose controller has numbered them so."""
    label = "training.kubeflow.org/replica-index"
    metadata = [Metadata(name=f"w-{index}", namespace="default", labels={label: str(index)}) for index in indices]
    return [msgspec.structs.replace(simple_pod({GPU: 1}), metadata=each) for each in metadata]


@pytest.mark.parametrize(
    "here, expected",
    [
        # Pod, segment and rack: each waits for its fellow where that will have room.
        ([1, 3], [("w-1", 0, "r2"), ("w-3", 1, "r3")]),
        ([0, 1, 2], [("w-0", 0, "r2"), ("w-1", 0, "r2"), ("w-2", 1, "r3")]),
        ([2, 3], [("w-2", 1, "r2"), ("w-3", 1, "r2")]),
        ([0, 1], [("w-0", 0, "r2"), ("w-1", 0, "r2")]),
    ],
)
def test_pods_are_in_the_segment_of_their_index_in_any_order(
    here: list[int], expected: list[tuple[str, int, str]]
) -> None:
    spec = {"size": 4, "minimum": 2, "segments": [{"size": 2, "level": "rack"}]}
    decision = decide(racks("b1/r1: 1", "b1/r2: 2", "b1/r3: 2"), spec, workers(*here))
    assert [(seat.pod.removeprefix("default/"), seat.segment, seat.path[1]) for seat in decision.seats] == expected
    assert [seat.rank for seat in decision.seats] == here
    assert decision.bound.endswith(f"with room for {4 - len(here)} more that are still to come")


def test_pods_of_groups_that_are_segments_get_their_numbers() -> None:
    segments = [{"name": f"segment-{number}", "size": 2 - number, "segment": number} for number in range(2)]
    here = [*members(2, "segment-0"), *members(1, "segment-1")]
    decision = decide(racks("b1/r1: 4"), {"groups": segments}, here)
    assert [(seat.pod, seat.group, seat.segment) for seat in decision.seats] == [
        ("default/segment-0-0", "", 0),
        ("default/segment-0-1", "", 0),
        ("default/segment-1-0", "", 1),
    ]


def test_segments_in_segments_are_cut_by_index_too() -> None:
    layers = [{"size": 4, "level": "block"}, {"size": 2, "level": "rack"}]
    spec = {"size": 8, "minimum": 4, "segments": layers}
    cluster = racks("b0/r0: 3", "b1/r1: 2", "b1/r2: 2", "b2/r3: 2", "b2/r4: 2")
    decision = decide(cluster, spec, workers(0, 3, 4, 7))
    found = [(seat.segment, seat.path[:2]) for seat in decision.seats]
    assert found == [(0, ("b1", "r1")), (1, ("b1", "r2")), (2, ("b2", "r3")), (3, ("b2", "r4"))]


# -- preferred levels
# ----------------------------------------------------------------------------------------------------------


def test_the_preferred_domain_has_room_for_all_too() -> None:
    decision = decide(racks("b1/r1: 2", "b1/r2: 4"), {"size": 4, "minimum": 2, "preferred": "rack"}, members(2))
    assert racks_of(decision) == ["r2", "r2"]
    assert decision.preferred_domains == 1


def test_room_for_later_costs_no_preferred_domain_now() -> None:
    # For six, two racks of three leave nothing over; the four that are there have one of their own.
    spec = {"size": 6, "minimum": 4, "preferred": "rack", "required": "block"}
    decision = decide(racks("b1/r1: 3", "b1/r2: 3", "b2/r3: 4"), spec, members(4))
    assert racks_of(decision) == ["r3"] * 4
    assert decision.bound == SOME.format(0, 2)


def test_a_gang_without_levels_has_no_domain_to_be_trapped_in() -> None:
    decision = decide(racks("b1/r1: 1", "b1/r2: 4"), {"size": 4, "minimum": 1}, members(1))
    assert decision.bound == "equal pods: counted exactly"


# -- who is still to come
# ------------------------------------------------------------------------------------------------------


def test_a_member_missing_while_others_run_may_have_ended() -> None:
    here = [*members(1), *members(1, nodeName="n1")]
    assert gang_of({"size": 4, "minimum": 1}, here).root.coming == ()


def test_an_impossible_size_is_not_made_of_pods() -> None:
    assert len(gang_of({"size": 2_000_000_000, "minimum": 1}, members(1)).root.coming) == 100_000
