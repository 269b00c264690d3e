"""What would let a gang in: every change was tried, and holds when it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bayplan.engine.budget import Budget
from bayplan.gangs import remedies as module
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Segments
from bayplan.gangs.remedies import (
    FewerPods,
    GangRemedy,
    PreferredLevel,
    PreferredSegments,
    Running,
    WiderLevel,
    WorkloadGone,
    gang_remedies,
)
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.remedies import OpenNodes
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.gangs import gpu_pods
from tests.builders.objects import GPU, node, simple_pod
from tests.conformance.test_consolidation import gpu_pod, movable
from tests.conformance.test_consolidation import scheduler as two_racks
from tests.unit.compat.test_styles import BLOCK, RACK, scheduler

# Free GPUs: block b1 has racks of 4 and 5, block b2 has racks of 6 and 6; no node has more than 4.


def gang(size: int, **asked: Any) -> Gang:
    return Gang("ml/g", Group(pods=gpu_pods(size), **asked), "net")


@pytest.mark.parametrize(
    "asking, expected",
    [
        (
            gang(8, required=RACK),
            (FewerPods("", 6, 8), WiderLevel("", BLOCK, RACK), PreferredLevel("", RACK, 2)),
        ),
        (gang(14, required=BLOCK), (FewerPods("", 12, 14), PreferredLevel("", BLOCK, 2))),
        (gang(30), (FewerPods("", 21, 30),)),
        (
            gang(8, segments=(Segments(4, "kubernetes.io/hostname"),), required=BLOCK),
            (FewerPods("", 4, 8), PreferredLevel("", BLOCK, 2), PreferredSegments("", 4, "kubernetes.io/hostname")),
        ),
        (
            Gang("ml/g",
                 Group(groups=(Group("a", gpu_pods(3, "a"), required=RACK),
                               Group("b", gpu_pods(7, "b"), required=RACK))), "net"),
            (FewerPods("b", 6, 7), WiderLevel("b", BLOCK, RACK), PreferredLevel("b", RACK, None)),
        ),
    ],
    ids=["a rack", "a block", "the cluster", "segments", "one of two groups"],
)  # fmt: skip
def test_changes_that_were_tried(asking: Gang, expected: tuple[GangRemedy, ...]) -> None:
    placing = scheduler()
    assert not schedule_gang(placing, asking).placed
    assert gang_remedies(placing, asking) == expected


TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
REPAIR = {"key": "example.com/repair", "effect": "NoExecute"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "closed, expected",
    [
        (({"unschedulable": True, "taints": [CORDON]}, {}), [OpenNodes(("n0",), (), (), ("n0",))]),
        (({"taints": [TAINT]}, {}), [OpenNodes((), (), (f"{GPU}=present:NoSchedule",), ("n0",))]),
        (
            ({"taints": [TAINT]}, {"unschedulable": True}),
            [OpenNodes(("n1",), (), (f"{GPU}=present:NoSchedule",), ("n0", "n1"))],
        ),
        (
            ({"taints": [REPAIR, TAINT]}, {}),
            [OpenNodes((), (), ("example.com/repair:NoExecute", f"{GPU}=present:NoSchedule"), ("n0",))],
        ),
    ],
    ids=["a cordon", "a taint", "both are needed", "two taints of one node"],
)
def test_nodes_that_could_be_opened_for_a_gang(closed: tuple[Json, ...], expected: list[GangRemedy]) -> None:
    """Both nodes have 4 GPUs, and the gang needs 8."""
    state = cluster(nodes=[node(f"n{number}", {GPU: 4}, **each) for number, each in enumerate(closed)])
    placing = GangScheduler(state, Trees(state), default_profile(), ClassAnswers(state))
    asking = Gang("ml/g", Group(pods=gpu_pods(8)))
    assert not schedule_gang(placing, asking).placed
    assert [each for each in gang_remedies(placing, asking) if isinstance(each, OpenNodes)] == expected


def with_minimum(style: str) -> Gang:
    return Gang("ml/g", Group(pods=gpu_pods(8), minimum=7, required=RACK), "net", style=style)


@pytest.mark.parametrize("style, expected", [("bayplan", FewerPods("", 6, 7)), ("kueue", None)])
def test_a_smaller_minimum_is_offered_only_in_styles_that_support_minimums(
    style: str, expected: GangRemedy | None
) -> None:
    offered = [each for each in gang_remedies(scheduler(), with_minimum(style)) if isinstance(each, FewerPods)]
    assert offered == ([expected] if expected else [])


def running(*each: Pod) -> Running:
    moved = movable(*each)
    return Running(moved.gang.name, moved.bound, lambda: moved.gang)


def asking_for(size: int) -> Gang:
    return Gang("ml/new", Group(pods=gpu_pods(size, "new"), required="x/rack"), "net")


def test_the_smallest_workload_that_could_move_is_named() -> None:
    one, other = gpu_pod("one", "n1"), gpu_pod("other", "n2")
    (_, _, gone) = gang_remedies(two_racks(one, other), asking_for(2), [running(one), running(other)])
    assert gone == WorkloadGone("ml/one", 1, moves=True, nodes=("n1",))


def test_a_workload_that_has_no_other_place_would_have_to_end() -> None:
    one, other = gpu_pod("one", "n1", 2), gpu_pod("other", "n2", 2)
    (gone,) = gang_remedies(two_racks(one, other), asking_for(2), [running(one), running(other)])
    assert gone == WorkloadGone("ml/one", 1, moves=False, nodes=("n1",))


def test_a_workload_of_which_only_a_part_has_another_place_does_not_move() -> None:
    pods, other = (gpu_pod("job-0", "n1"), gpu_pod("job-1", "n1")), gpu_pod("other", "n2")
    moved = movable(*pods)
    elastic = replace(moved.gang, root=replace(moved.gang.root, minimum=1))
    job = Running(elastic.name, moved.bound, lambda: elastic)
    (*_, gone) = gang_remedies(two_racks(*pods, other), asking_for(2), [job, running(other)])
    assert gone == WorkloadGone("ml/other", 1, moves=False, nodes=("n2",))


def test_nothing_is_touched_and_nothing_is_named_where_nothing_helps() -> None:
    placing = scheduler()
    before = placing.state.columns.free.copy()
    assert gang_remedies(placing, Gang("ml/g", Group(pods=(simple_pod({GPU: 9}, "p"),), required=RACK), "net")) == ()
    gang_remedies(placing, gang(8, required=RACK))
    assert (placing.state.columns.free == before).all()
    assert not placing.state.pods


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def watched(placing: GangScheduler, asking: Gang, *, parent: Budget) -> GangDecision:
        decision = schedule_gang(placing, asking, parent=parent)
        left.append(parent.left)
        return decision

    groups = tuple(Group(f"g{number}", gpu_pods(5, f"g{number}"), required=RACK) for number in range(4))
    asking = Gang("ml/g", Group(groups=groups), "net")
    monkeypatch.setattr(module, "schedule_gang", watched)
    gang_remedies(scheduler(), asking)
    searches, used = len(left), module.WORK - left[-1]
    left.clear()
    monkeypatch.setattr(module, "WORK", used / 3)
    gang_remedies(scheduler(), asking)
    assert 0 < len(left) < searches
    assert all(each > 0 for each in left[:-1])


@pytest.mark.parametrize("size", range(5, 22))
@pytest.mark.parametrize("level", [RACK, BLOCK])
def test_every_change_holds_when_it_is_made(size: int, level: str) -> None:
    placing, asking = scheduler(), gang(size, required=level)
    if schedule_gang(placing, asking).placed:
        return
    for remedy in gang_remedies(placing, asking):
        match remedy:
            case FewerPods():
                changed = gang(remedy.pods, required=level)
                assert not schedule_gang(placing, gang(remedy.pods + 1, required=level)).placed
            case WiderLevel():
                changed = gang(size, required=remedy.level)
            case PreferredLevel():
                changed = gang(size, preferred=remedy.level)
            case _:
                changed = replace(asking)
        assert schedule_gang(placing, changed).placed
