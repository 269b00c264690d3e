"""A failed node: its pods move, the others stay, and what was promised still holds."""

from __future__ import annotations

import pytest

from bayplan.compat.kueue.tas import (
    Assignment,
    AssignmentResult,
    PodSet,
    RunningWorkload,
    Settings,
    SliceLayer,
    Snapshot,
    place,
)
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, pods, racks, told


def running(node: str, pods_on: dict[str, int], *, single: bool = False) -> RunningWorkload:
    assignment = Assignment((HOST,), tuple(((host,), count) for host, count in pods_on.items()))
    return RunningWorkload({"main": assignment}, (node,), owned_by_single_pod=single)


def replaced(cluster: Snapshot, pod_set: PodSet, workload: RunningWorkload, settings: Settings | None = None) -> object:
    outcome: AssignmentResult = place(cluster, [pod_set], settings or Settings(), workload)["main"]
    return told(outcome)


# x9 has failed and is not in the cluster any more
CLUSTER = racks({"b1/r1/x1": 1, "b1/r1/x2": 1, "b1/r2/x3": 4, "b2/r1/x4": 1})


@pytest.mark.parametrize(
    "wish, before, expected",
    [
        pytest.param({"required": RACK}, {"x2": 1, "x9": 1}, {"x1": 1, "x2": 1}, id="inside the required rack"),
        pytest.param({"required": BLOCK}, {"x2": 1, "x9": 3}, {"x2": 1, "x3": 3}, id="inside the required block"),
        pytest.param({"preferred": RACK}, {"x2": 1, "x9": 3}, {"x2": 1, "x3": 3}, id="preferred: anywhere"),
        pytest.param({"required": RACK}, {"x9": 2}, {"x1": 1, "x2": 1}, id="nothing was left: anywhere"),
        pytest.param({"required": HOST}, {"x9": 4}, {"x3": 4}, id="a whole host"),
        pytest.param({"preferred": RACK}, {"x3": 1, "x9": 3}, {"x3": 4}, id="added to what is there"),
    ],
)
def test_a_new_place(wish: dict[str, str], before: dict[str, int], expected: dict[str, int]) -> None:
    pod_set = pods(sum(before.values()), **wish)
    assert replaced(CLUSTER, pod_set, running("x9", before)) == expected


def test_no_room_in_the_required_domain() -> None:
    assert replaced(CLUSTER, pods(3, required=RACK), running("x9", {"x1": 1, "x9": 3})) == (
        'topology "default" allows to fit only 2 out of 3 pod(s). Total nodes: 4; excluded: topologyDomain: 2'
    )


@pytest.mark.parametrize(
    "layers, before, expected",
    [
        pytest.param([(RACK, 2)], {"x1": 1, "x3": 2, "x9": 1}, {"x1": 1, "x2": 1, "x3": 2}, id="the torn slice"),
        pytest.param(
            [(RACK, 2)], {"x1": 1, "x2": 1, "x9": 2}, {"x1": 1, "x2": 1, "x5": 1, "x6": 1}, id="a whole slice: anywhere"
        ),
        pytest.param(
            [(BLOCK, 4), (RACK, 2)],
            {"x1": 1, "x3": 2, "x9": 1},
            {"x1": 1, "x2": 1, "x3": 2},
            id="the innermost torn layer",
        ),
        pytest.param(
            [(BLOCK, 8), (HOST, 2)],
            {"x3": 2, "x5": 2, "x6": 2, "x9": 2},
            {"x3": 4, "x5": 2, "x6": 2},
            id="pairs stay pairs",
        ),
    ],
)
def test_slices(layers: list[tuple[str, int]], before: dict[str, int], expected: dict[str, int]) -> None:
    cluster = racks({"b1/r1/x1": 0, "b1/r1/x2": 1, "b1/r2/x3": 4, "b1/r3/x5": 1, "b1/r3/x6": 1})
    slices = tuple(SliceLayer(level, size) for level, size in layers)
    pod_set = pods(sum(before.values()), required=BLOCK, slices=slices)
    assert replaced(cluster, pod_set, running("x9", before)) == expected


def test_another_node_is_gone_too() -> None:
    assert replaced(CLUSTER, pods(3, required=RACK), running("x9", {"x1": 1, "x8": 1, "x9": 1})) == (
        "Cannot replace the node, because the existing topologyAssignment is invalid, as it "
        "contains the stale domain x8"
    )


def test_the_node_has_none_of_the_pods() -> None:
    found = replaced(CLUSTER, pods(1, required=RACK), running("x9", {"x1": 1}))
    assert found == "cannot find replacement assignment for unhealthy node: x9"


@pytest.mark.parametrize("stays, expected", [(True, {"x9": 1}), (False, {"x1": 1})])
def test_a_single_pod_stays(stays: bool, expected: dict[str, int]) -> None:
    settings = Settings(single_pods_stay=stays)
    assert replaced(CLUSTER, pods(1, required=HOST), running("x9", {"x9": 1}, single=True), settings) == expected


def test_pod_sets_without_an_assignment_are_left_alone() -> None:
    assert place(CLUSTER, [pods(1, name="other", required=HOST)], running=running("x9", {"x9": 1})) == {}


def test_two_pod_sets_do_not_get_the_same_place() -> None:
    here = Assignment((HOST,), ((("x9",), 1),))
    workload = RunningWorkload({"one": here, "two": here}, ("x9",))
    outcomes = place(CLUSTER, [pods(1, name=name, required=HOST) for name in ("one", "two")], running=workload)
    assert {name: told(outcome) for name, outcome in outcomes.items()} == {"one": {"x1": 1}, "two": {"x2": 1}}
