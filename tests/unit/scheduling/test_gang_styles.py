"""Gangs in the style of Kueue or KAI: their answers, and a sentence for what they cannot express."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.objective import objective_of
from bayplan.engine.gangs.problem import Status
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group, Patience, Slices
from bayplan.scheduling.gang_cycle import GangScheduler, schedule_gang
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.trees import Trees
from tests.helpers import GPU, node, simple_pod

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
    trees = Trees(state)
    trees.set("net", (BLOCK, RACK))
    return GangScheduler(state, trees, default_profile(), ClassAnswers(state))


def placed(style: str, size: int, **wishes: Any) -> GangDecision:
    of_gang = {name: wishes.pop(name) for name in ("objective", "patience", "spread", "topology") if name in wishes}
    pods = tuple(simple_pod({GPU: 1}, f"p{number}") for number in range(size))
    return schedule_gang(scheduler(), Gang("ml/g", Group(pods=pods, **wishes), style=style, **of_gang))


def racks(decision: GangDecision) -> set[tuple[str, ...]]:
    return {seat.path[:2] for seat in decision.seats}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("topology", ["net", ""])
def test_a_required_rack_is_one_rack(style: str, topology: str) -> None:
    decision = placed(style, 6, required=RACK, topology=topology)
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
        ("kueue", {"slices": (Slices(2, RACK, apart=True),)}, "segments that are apart"),
        ("kueue", {"slices": (Slices(2, RACK, required=False),)}, "segments that are only preferred"),
        ("kueue", {"spread": True}, "placement spread"),
        ("kueue-balanced", {"minimum": 3}, "minimum"),
        ("kueue", {"objective": objective_of(["closest"])}, "objective"),
        ("kai", {"objective": objective_of(["closest"])}, "objective"),
        ("kai", {"slices": (Slices(2, RACK),)}, "segments"),
        ("kai", {"preferred": RACK, "patience": Patience(1, 60)}, "patience"),
    ],
)
def test_what_a_style_does_not_know_is_said(style: str, wishes: dict[str, Any], unknown: str) -> None:
    decision = placed(style, 4, **wishes)
    assert decision.bound == f"style {style}: {unknown} cannot be expressed there; use style bayplan"
    assert not decision.placed
