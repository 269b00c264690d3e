"""Replacements in a gang that is cut into segments: each goes where the rest of its segment runs, and a "no" is true."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group, Slices
from bayplan.scheduling.gang_cycle import GangScheduler, schedule_gang
from bayplan.scheduling.late_segments import by_segments
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.trees import Trees
from tests.helpers import node, simple_pod

BLOCK, RACK = "example.com/block", "example.com/rack"


def waiting(name: str) -> Pod:
    return simple_pod({"cpu": 1, "memory": "1Gi"}, name)


def running(name: str, at: str, segment: int | None, rank: int) -> Pod:
    pod = waiting(name)
    written = {"bayplan.io/rank": str(rank)} | ({} if segment is None else {"bayplan.io/segment": str(segment)})
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations=written),
        spec=msgspec.structs.replace(pod.spec, node_name=at),
    )


def decide(whole: Group, cpus: dict[str, int]) -> GangDecision:
    """Two racks r0 and r1 with a node each, `r0-n` and `r1-n`, that have so many CPUs free."""
    state = ClusterState()
    for name, free in cpus.items():
        labels = {"kubernetes.io/hostname": name, BLOCK: "b", RACK: name.partition("-")[0]}
        state.set_node(node(name, {"cpu": free, "memory": "64Gi"}, labels=labels))
    trees = Trees(state)
    trees.set("network", (BLOCK, RACK))
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    return schedule_gang(scheduler, Gang("ml/train", whole, "network"))


def two_segments(missing: set[int], *, apart: bool = False, required: bool = True) -> Group:
    """Segments 0 and 1 of two pods each run in r0 and r1, but for those that are missing and wait again."""
    here = tuple(running(f"p{rank}", f"r{rank // 2}-n", rank // 2, rank) for rank in range(4) if rank not in missing)
    come = tuple(waiting(f"p{rank}") for rank in sorted(missing))
    return Group(pods=come, running=here, slices=(Slices(2, RACK, apart, required),), required=BLOCK)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_a_replacement_follows_its_segment_and_gets_its_number(rank: int) -> None:
    decision = decide(two_segments({rank}), {"r0-n": 4, "r1-n": 4})
    (seat,) = decision.seats
    assert (seat.node, seat.segment, seat.rank, seat.group) == (f"r{rank // 2}-n", rank // 2, rank, "")


def test_where_its_segment_has_no_room_it_waits_and_that_is_proven() -> None:
    decision = decide(two_segments({1}), {"r0-n": 0, "r1-n": 4})
    assert not decision.placed
    assert decision.status is Status.INFEASIBLE


def test_a_whole_segment_that_is_gone_stays_together() -> None:
    decision = decide(two_segments({2, 3}), {"r0-n": 1, "r1-n": 2})
    assert [(seat.node, seat.segment) for seat in decision.seats] == [("r1-n", 1), ("r1-n", 1)]


def test_a_wish_for_segments_gives_way() -> None:
    assert [seat.node for seat in decide(two_segments({1}, required=False), {"r0-n": 0, "r1-n": 4}).seats] == ["r1-n"]


def test_one_that_is_gone_whole_cannot_be_kept_apart_yet_and_that_is_said() -> None:
    room = {"r0-n": 4, "r1-n": 4}
    assert "cannot be kept apart" in decide(two_segments({2, 3}, apart=True), room).problem
    assert [seat.node for seat in decide(two_segments({2}, apart=True), room).seats] == ["r1-n"]


def test_segments_inside_segments_keep_their_numbers() -> None:
    here = tuple(running(f"p{rank}", "r0-n", rank // 2, rank) for rank in range(8) if rank != 5)
    group = Group(pods=(waiting("p5"),), running=here, slices=(Slices(4, BLOCK), Slices(2, RACK)))
    outer = by_segments(group)
    inner = {each.name: [pod_key(pod) for pod in each.pods] for each in outer.every_group() if each.pods}
    assert inner == {"segment 1 segment 2": ["default/p5"]}


def test_a_gang_that_starts_is_cut_as_before() -> None:
    group = Group(pods=tuple(waiting(f"p{rank}") for rank in range(4)), slices=(Slices(2, RACK),))
    assert by_segments(group) is group
