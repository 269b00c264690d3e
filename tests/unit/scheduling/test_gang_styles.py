"""Gangs in the style of Kueue or KAI: their answers, and a sentence for what they cannot express."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.state import ClusterState
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
STYLES = ["kueue", "kai"]


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
    of_gang = {name: wishes.pop(name) for name in ("patience", "spread", "topology") if name in wishes}
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
    "style, wishes, unknown",
    [
        ("kueue", {"minimum": 3}, "minimum"),
        ("kueue", {"required": BLOCK, "preferred": RACK}, "required and preferred together"),
        ("kueue", {"slices": (Slices(2, RACK, apart=True),)}, "segments that are apart"),
        ("kueue", {"slices": (Slices(2, RACK, required=False),)}, "segments that are only preferred"),
        ("kueue", {"spread": True}, "placement spread"),
        ("kai", {"slices": (Slices(2, RACK),)}, "segments"),
        ("kai", {"preferred": RACK, "patience": Patience(1, 60)}, "patience"),
    ],
)
def test_what_a_style_does_not_know_is_said(style: str, wishes: dict[str, Any], unknown: str) -> None:
    decision = placed(style, 4, **wishes)
    assert decision.bound == f"style {style}: {unknown} cannot be expressed there; use style bayplan"
    assert not decision.placed
