"""Replacements in a gang that is cut into segments: each goes where the rest of its segment
runs, and a "no" is true.
"""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Segments
from bayplan.gangs.ranks.late_segments import by_segments
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import bound, cpu_pod, node

BLOCK, RACK = "example.com/block", "example.com/rack"


def waiting(name: str) -> Pod:
    return cpu_pod(1, name)


def running(name: str, at: str, segment: int | None, rank: int) -> Pod:
    written = {"bayplan.io/rank": str(rank)} | ({} if segment is None else {"bayplan.io/segment": str(segment)})
    return bound(waiting(name), at, annotations=written)


def with_labels(pod: Pod, labels: dict[str, str]) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def decide(root: Group, cpus: dict[str, int]) -> GangDecision:
    """Racks r0, r1, ... with a node each, `r0-n`, `r1-n`, ..., that have so many CPUs free."""
    state = ClusterState()
    for name, free in cpus.items():
        labels = {"kubernetes.io/hostname": name, BLOCK: "b", RACK: name.partition("-")[0]}
        state.set_node(node(name, {"cpu": free, "memory": "64Gi"}, labels=labels))
    scheduler = gang_scheduler(state, BLOCK, RACK)
    return schedule_gang(scheduler, Gang("ml/train", root, "network"))


def two_segments(missing: set[int], *, apart: bool = False, required: bool = True) -> Group:
    """Segments 0 and 1 of two pods each run in r0 and r1, but for those that are missing and wait again."""
    here = tuple(running(f"p{rank}", f"r{rank // 2}-n", rank // 2, rank) for rank in range(4) if rank not in missing)
    come = tuple(waiting(f"p{rank}") for rank in sorted(missing))
    return Group(pods=come, running=here, segments=(Segments(2, RACK, apart, required),), required=BLOCK)


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


def test_a_wish_for_segments_gives_way_and_that_is_said() -> None:
    decision = decide(two_segments({1}, required=False), {"r0-n": 0, "r1-n": 4})
    assert [(seat.node, seat.segment) for seat in decision.seats] == [("r1-n", 0)]
    assert decision.relaxed == ("segment 0",)


@pytest.mark.parametrize(
    "cpus, nodes",
    [
        # Segment 0 runs in r0, which has the most room; segment 1 lost its rack and takes another one.
        ({"r0-n": 9, "r1-n": 0, "r2-n": 2}, ["r2-n", "r2-n"]),
        ({"r0-n": 9, "r1-n": 4, "r2-n": 4}, ["r1-n", "r1-n"]),
        # Only where it runs there is room.
        ({"r0-n": 9, "r1-n": 1, "r2-n": 1}, []),
    ],
)
def test_a_whole_segment_that_comes_back_keeps_apart_from_those_that_run(
    cpus: dict[str, int], nodes: list[str]
) -> None:
    decision = decide(two_segments({2, 3}, apart=True), cpus)
    assert [seat.node for seat in decision.seats] == nodes
    assert decision.problem == ""
    if not nodes:
        assert decision.status is Status.INFEASIBLE
        where = "in one example.com/rack apart from those that run"
        assert decision.bound == f"group segment 1 needs 2 slots {where}, but can get at most 1"


def test_a_wish_to_be_apart_gives_way() -> None:
    decision = decide(two_segments({2, 3}, apart=True, required=False), {"r0-n": 2, "r1-n": 0})
    assert [seat.node for seat in decision.seats] == ["r0-n", "r0-n"]
    assert decision.relaxed == ("segment 1",)


def test_one_that_runs_beside_another_against_the_rule_is_made_whole_there() -> None:
    here = (running("p0", "r0-n", 0, 0), running("p1", "r0-n", 0, 1), running("p2", "r0-n", 1, 2))
    group = Group(pods=(waiting("p3"),), running=here, segments=(Segments(2, RACK, apart=True),))
    assert [seat.node for seat in decide(group, {"r0-n": 1, "r1-n": 4}).seats] == ["r0-n"]


def indexed(rank: int) -> Pod:
    return with_labels(waiting(f"p{rank}"), {"batch.kubernetes.io/job-completion-index": str(rank)})


def test_of_two_that_are_lost_the_one_that_is_back_follows_its_own_segment() -> None:
    here = tuple(
        with_labels(running(f"p{rank}", f"r{rank // 4}-n", rank // 4, rank), dict(indexed(rank).metadata.labels or {}))
        for rank in range(8)
        if rank not in (1, 5)
    )
    group = Group(pods=(indexed(5),), running=here, segments=(Segments(4, RACK),), required=BLOCK)
    (seat,) = decide(group, {"r0-n": 4, "r1-n": 4}).seats
    assert (seat.rank, seat.segment, seat.node) == (5, 1, "r1-n")


@pytest.mark.parametrize(
    "sizes, first, missing, running_segments, expected",
    [
        # (sizes of optional layers, rank of the group's first member, who is missing, size by which numbers were
        # written, segments)
        ([4, 2], 0, [5], 2, {5: "segment 1 segment 2"}),
        # The narrow layer was given up when the gang started: numbers are those of the wide one.
        ([4, 2], 0, [5], 4, {5: "segment 1"}),
        # A group behind a leader, whose first member has rank 1.
        ([4], 1, [4], 4, {4: "w segment 0"}),
        ([4], 1, [1, 8], 4, {1: "w segment 0", 8: "w segment 1"}),
    ],
)
def test_the_segment_follows_from_the_rank(
    sizes: list[int], first: int, missing: list[int], running_segments: int, expected: dict[int, str]
) -> None:
    layers = tuple(Segments(size, level, required=False) for size, level in zip(sizes, (BLOCK, RACK), strict=False))
    ranks = range(first, first + 8)
    here = tuple(
        running(f"p{rank}", "r0-n", (rank - first) // running_segments, rank) for rank in ranks if rank not in missing
    )
    group = Group(
        "w" if first else "", pods=tuple(waiting(f"p{rank}") for rank in missing), running=here, segments=layers
    )
    leader = Group("leader", running=(running("leader", "r0-n", None, 0),))
    root = Group(groups=(leader, group)) if first else group
    cut = by_segments(Gang("ml/train", root, "network"))
    found = {pod_key(pod): each.name for each in cut.every_group() for pod in each.pods}
    assert found == {f"default/p{rank}": name for rank, name in expected.items()}


def test_where_all_of_a_segment_runs_and_none_are_apart_there_is_nothing_to_search() -> None:
    cut = by_segments(Gang("ml/train", two_segments({1}), "network"))
    assert [group.name for group in cut.every_group()] == ["", "segment 0"]


def test_segments_that_were_given_up_bind_no_newcomer() -> None:
    here = tuple(running(f"p{rank}", f"r{rank % 2}-n", None, rank) for rank in range(3))
    group = Group(pods=(waiting("p3"),), running=here, segments=(Segments(4, RACK, required=False),))
    assert decide(group, {"r0-n": 1, "r1-n": 1}).placed


def test_a_gang_that_starts_is_cut_as_before() -> None:
    group = Group(pods=tuple(waiting(f"p{rank}") for rank in range(4)), segments=(Segments(2, RACK),))
    assert by_segments(Gang("ml/train", group, "network")) is group
