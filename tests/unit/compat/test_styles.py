"""Gangs in the style of Kueue or KAI: their answers, and a sentence for what they cannot express."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.objective import objective_of
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Patience, Segments
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import gang_scheduler, gpu_pods
from tests.builders.objects import GPU, node, simple_pod

BLOCK, RACK = "x/block", "x/rack"
# Free GPUs by block, rack and node.
FREE = {"b1": {"r1": [2, 2], "r2": [4, 1]}, "b2": {"r1": [3, 3], "r2": [2, 4]}}
STYLES = ["kueue", "kueue-best-fit", "kueue-least-free-capacity", "kueue-balanced", "kai"]


def scheduler() -> GangScheduler:
    state = ClusterState()
    for block, racks in FREE.items():
        for rack, nodes in racks.items():
            for number, gpus in enumerate(nodes):
                labels = {BLOCK: block, RACK: rack}
                state.set_node(node(f"{block}-{rack}-{number}", {"cpu": 64, GPU: gpus}, labels=labels))
    return gang_scheduler(state, BLOCK, RACK, tree="net")


def placed(style: str, size: int, **wishes: Any) -> GangDecision:
    of_gang = {name: wishes.pop(name) for name in ("objective", "patience", "spread", "topology") if name in wishes}
    return schedule_gang(scheduler(), Gang("ml/g", Group(pods=gpu_pods(size), **wishes), style=style, **of_gang))


def racks(decision: GangDecision) -> set[tuple[str, ...]]:
    return {seat.path[:2] for seat in decision.seats}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("topology", ["net", ""])
@pytest.mark.parametrize("level", [RACK, "rack"])
def test_a_required_rack_is_one_rack(style: str, topology: str, level: str) -> None:
    decision = placed(style, 6, required=level, topology=topology)
    assert decision.placed
    assert len(racks(decision)) == 1
    assert decision.bound == f"as {style} would place it"


@pytest.mark.parametrize("style", STYLES)
def test_no_place_is_no_proof(style: str) -> None:
    decision = placed(style, 7, required=RACK)
    assert (decision.placed, decision.status) == (False, Status.LIMIT_REACHED)
    assert decision.bound


def test_kai_starts_the_minimum_and_leaves_others_out() -> None:
    decision = placed("kai", 9, required=RACK, minimum=5)
    assert decision.placed
    assert len(racks(decision)) == 1
    assert len(decision.seats) + len(decision.left_out) == 9
    assert len(decision.seats) >= 5


@pytest.mark.parametrize(
    "size, wishes, expected",
    [
        # Without a constraint Kueue fills the least free nodes first, unless its best fit is asked for.
        (
            5,
            {},
            {
                "kueue": {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-1": 1},
                "kueue-best-fit": {"b1-r2-0": 4, "b1-r2-1": 1},
                "kueue-least-free-capacity": {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-1": 1},
                "kueue-balanced": {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-1": 1},
            },
        ),
        # In a required block: the largest nodes, or the least free.
        (
            6,
            {"required": BLOCK},
            {
                "kueue": {"b1-r1-0": 2, "b1-r2-0": 4},
                "kueue-best-fit": {"b1-r1-0": 2, "b1-r2-0": 4},
                "kueue-least-free-capacity": {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-0": 1, "b1-r2-1": 1},
                "kueue-balanced": {"b1-r1-0": 2, "b1-r2-0": 4},
            },
        ),
        # Balanced is for preferred levels: 3 and 2, not 4 and 1.
        (
            5,
            {"preferred": RACK},
            {
                "kueue": {"b1-r2-0": 4, "b1-r2-1": 1},
                "kueue-best-fit": {"b1-r2-0": 4, "b1-r2-1": 1},
                "kueue-least-free-capacity": {"b1-r2-0": 4, "b1-r2-1": 1},
                "kueue-balanced": {"b2-r1-0": 3, "b2-r1-1": 2},
            },
        ),
    ],
)
def test_the_rules_of_kueue(size: int, wishes: dict[str, Any], expected: dict[str, dict[str, int]]) -> None:
    found = {style: Counter(seat.node for seat in placed(style, size, **wishes).seats) for style in expected}
    assert found == expected


@pytest.mark.parametrize(
    "style, wishes, unknown",
    [
        ("kueue", {"minimum": 3}, "minimum"),
        ("kueue", {"required": BLOCK, "preferred": RACK}, "required and preferred together"),
        ("kueue", {"segments": (Segments(2, RACK, apart=True),)}, "segments that are apart"),
        ("kueue", {"segments": (Segments(2, RACK, required=False),)}, "segments that are only preferred"),
        ("kueue", {"spread": True}, "placement spread"),
        ("kueue-balanced", {"minimum": 3}, "minimum"),
        ("kueue", {"objective": objective_of(["least-leftover"])}, "objective"),
        ("kai", {"objective": objective_of(["least-leftover"])}, "objective"),
        ("kai", {"segments": (Segments(2, RACK),)}, "segments"),
        ("kai", {"preferred": RACK, "patience": Patience(1, 60)}, "patience"),
    ],
)
def test_what_a_style_does_not_know_is_said(style: str, wishes: dict[str, Any], unknown: str) -> None:
    decision = placed(style, 4, **wishes)
    words = f"cannot be placed in style {style}: {unknown} cannot be expressed there; use style bayplan"
    assert (decision.bound, decision.style) == (words, style)
    assert not decision.placed


@pytest.mark.parametrize(
    "whole, reason",
    [
        (
            Group(required=BLOCK, groups=(Group("l", gpu_pods(1, "l")), Group("w", gpu_pods(4, "w"), preferred=RACK))),
            'preferred of group "w" beside required of the gang cannot be expressed there; use style bayplan',
        ),
        (
            Group(groups=(Group("m", groups=(Group("w", gpu_pods(4, "w"), required=RACK),), preferred=BLOCK),)),
            'required of group "w" beside preferred of group "m" cannot be expressed there; use style bayplan',
        ),
        (
            Group(groups=(Group("l", gpu_pods(1, "l")), Group("w", gpu_pods(4, "w"), required=RACK))),
            'a leader and its workers have one level; groups "l" and "w" ask for different ones',
        ),
        (
            Group(groups=(Group("a", gpu_pods(1, "a")), Group("b", gpu_pods(1, "b")), Group("c", gpu_pods(1, "c")))),
            "a pod set group is a leader and its workers, no more and no deeper",
        ),
        (Group(pods=(*gpu_pods(1), simple_pod({GPU: 2}, "q"))), "all pods of a group must be equal"),
    ],
)
def test_kueue_leaves_out_nothing_that_groups_ask_for(whole: Group, reason: str) -> None:
    decision = schedule_gang(scheduler(), Gang("ml/g", whole, style="kueue"))
    assert decision.bound == f"cannot be placed in style kueue: {reason}"


def test_a_level_that_a_group_inside_asks_for_holds_in_kueue_too() -> None:
    inner = Group("m", groups=(Group("l", gpu_pods(1, "l")), Group("w", gpu_pods(5, "w"))), required=RACK)
    decision = schedule_gang(scheduler(), Gang("ml/g", Group(groups=(inner,)), style="kueue"))
    assert decision.placed
    assert len(racks(decision)) == 1


@pytest.mark.parametrize("style", STYLES)
def test_preferred_domains_are_counted(style: str) -> None:
    decision = placed(style, 5, preferred=RACK)
    assert decision.preferred_domains == len(racks(decision))


# -- members that come back to those that run
# -----------------------------------------------------------------------------------


def coming_back(style: str, whole: Group, *, cordoned: str = "") -> GangDecision:
    world = scheduler()
    for group in whole.every_group():
        for pod in group.running:
            world.state.set_pod(pod)
    if cordoned:
        row = world.state.nodes[world.state.rows[cordoned]]
        assert row is not None
        world.state.set_node(msgspec.structs.replace(row, spec=msgspec.structs.replace(row.spec, unschedulable=True)))
    return schedule_gang(world, Gang("ml/g", whole, style=style))


def running(at: dict[str, int], name: str = "r") -> tuple[Pod, ...]:
    nodes = [node for node, number in at.items() for _ in range(number)]
    return tuple(simple_pod({GPU: 1}, f"{name}{number}", nodeName=node) for number, node in enumerate(nodes))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "at, lost, required, expected",
    [
        # In the rack where the others run, though others have more room.
        ({"b1-r1-0": 2}, 2, RACK, {"b1-r1-1": 2}),
        ({"b2-r1-0": 3}, 1, RACK, {"b2-r1-1": 1}),
        # All racks of the block, but no other block.
        ({"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-0": 4}, 1, BLOCK, {"b1-r2-1": 1}),
        # Three do not fit there any more.
        ({"b1-r1-0": 2}, 3, RACK, {}),
    ],
)
def test_members_that_come_back_join_those_that_run(
    style: str, at: dict[str, int], lost: int, required: str, expected: dict[str, int]
) -> None:
    decision = coming_back(style, Group(pods=gpu_pods(lost), running=running(at), required=required))
    assert Counter(seat.node for seat in decision.seats) == expected
    assert decision.bound.startswith("" if expected else f"cannot be placed in style {style}: ")


def test_kueue_makes_a_torn_segment_whole_again() -> None:
    whole = Group(
        pods=gpu_pods(1),
        running=running({"b2-r1-0": 2, "b2-r1-1": 1, "b2-r2-1": 4}),
        required=BLOCK,
        segments=(Segments(4, RACK),),
    )
    assert [seat.path[:2] for seat in coming_back("kueue", whole).seats] == [("b2", "r1")]


@pytest.mark.parametrize("style", ["kueue", "kai"])
def test_a_leader_comes_back_to_its_workers(style: str) -> None:
    groups = (Group("leader", gpu_pods(1, "l")), Group("workers", running=running({"b2-r1-0": 3, "b2-r1-1": 2})))
    decision = coming_back(style, Group(groups=groups, required=RACK))
    assert [(seat.node, seat.group) for seat in decision.seats] == [("b2-r1-1", "leader")]


@pytest.mark.parametrize("style", ["kueue", "kai"])
def test_a_node_cordoned_under_members_takes_no_pod_and_keeps_none_away(style: str) -> None:
    whole = Group(pods=gpu_pods(1), running=running({"b1-r1-0": 1}), required=RACK)
    assert [seat.node for seat in coming_back(style, whole, cordoned="b1-r1-0").seats] == ["b1-r1-1"]


def test_kai_takes_extra_members_one_by_one_as_far_as_there_is_room() -> None:
    whole = Group(pods=gpu_pods(3), running=running({"b1-r1-0": 2}), required=RACK, minimum=0)
    decision = coming_back("kai", whole)
    assert Counter(seat.node for seat in decision.seats) == {"b1-r1-1": 2}
    assert decision.left_out == ("default/p-2",)


def test_those_who_come_back_get_the_ranks_that_are_free() -> None:
    here = running({"b1-r1-0": 2})
    numbered = tuple(
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, annotations={"bayplan.io/rank": str(rank)})
        )
        for pod, rank in zip(here, (0, 2), strict=True)
    )
    decision = coming_back("kueue", Group(pods=gpu_pods(2), running=numbered, required=RACK))
    assert [seat.rank for seat in decision.seats] == [1, 3]
