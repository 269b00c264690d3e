"""The work of one decision: it is bounded whatever the gang asks for, and grows with pods that are all different no
faster than n log n.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import Budget
from bayplan.engine.gangs import closeness
from bayplan.engine.gangs.problem import Status
from bayplan.gangs import cycle as gang_cycle
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import container, node, pod, simple_pod, topology, zone

PLENTY = 1e12
RACK = "rack"


def scheduler_of(state: ClusterState) -> GangScheduler:
    return gang_scheduler(state, "block", RACK)


def plain(nodes: int = 64) -> GangScheduler:
    """Racks of eight nodes, without reports."""
    state = ClusterState()
    for number in range(nodes):
        labels = {"block": f"b{number // 32}", RACK: f"r{number // 8 % 4}"}
        state.set_node(node(f"n{number}", {"cpu": 64, "memory": "256Gi", "pods": 110}, labels=labels))
    return scheduler_of(state)


def with_zones(nodes: int = 32) -> GangScheduler:
    """Nodes with two NUMA zones each: kubelets are asked about different pods on one node."""
    names = [f"n{number}" for number in range(nodes)]
    reports = [
        topology(
            *(zone(at, {"cpu": 16, "memory": f"{64 + number}Gi"}) for at in (0, 1)),
            name=name,
            policy="single-numa-node",
        )
        for number, name in enumerate(names)
    ]
    labels = [{"block": "b0", RACK: f"r{number // 8}"} for number in range(nodes)]
    nodes_of = [
        node(name, {"cpu": 32, "memory": "256Gi", "pods": 110}, labels=each)
        for name, each in zip(names, labels, strict=True)
    ]
    return scheduler_of(cluster(*reports, nodes=nodes_of))


def unlike(shapes: int, groups: int = 0) -> Gang:
    """Pods of which no two ask for the same, in groups that need one rack each, or in none."""
    pods = [simple_pod({"cpu": 1, "memory": f"{100 + number}Mi"}, f"p{number}") for number in range(shapes)]
    if not groups:
        return Gang("ml/gang", Group(pods=tuple(pods)), "network")
    each = shapes // groups
    inner = (Group(f"g{at}", tuple(pods[at * each : (at + 1) * each]), required=RACK) for at in range(groups))
    return Gang("ml/gang", Group(groups=tuple(inner)), "network")


def work_of(scheduler: GangScheduler, gang: Gang) -> float:
    budget = Budget(PLENTY)
    decision = schedule_gang(scheduler, gang, parent=budget)
    assert decision.placed, decision
    return PLENTY - budget.left


@pytest.mark.parametrize(
    "cluster_of, groups_of", [(plain, 0), (plain, 1), (plain, 10), (with_zones, 0), (with_zones, 1)]
)
def test_unlike_pods_cost_no_more_than_n_log_n(cluster_of: Callable[[], GangScheduler], groups_of: int) -> None:
    few, many = 100, 400
    works = [work_of(cluster_of(), unlike(shapes, shapes // groups_of if groups_of else 0)) for shapes in (few, many)]
    assert works[1] <= 1.5 * works[0] * (many * log(many)) / (few * log(few))


def test_unlike_pods_share_the_domain_that_holds_them_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closeness, "WORK_FOR_CLOSER", 1)  # less than reading the gang takes, as with 4,000 shapes
    state = ClusterState()
    for number in range(64):
        labels = {"block": f"b{number // 32}", RACK: f"r{number // 8 % 4}"}
        room = {"cpu": 64 if number % 2 else 32, "memory": "256Gi", "pods": 110}
        state.set_node(node(f"n{number}", room, labels=labels))
    decision = schedule_gang(scheduler_of(state), unlike(1_200))
    assert len({seat.path[0] for seat in decision.seats}) == 1


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("groups", [0, 60])
def test_a_decision_ends_when_its_budget_does(share: float, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = work_of(plain(), unlike(300, groups))
    monkeypatch.setattr(gang_cycle, "WORK_OF_A_DECISION", share * needed)
    budget = Budget(PLENTY)
    decision = schedule_gang(plain(), unlike(300, groups), parent=budget)
    assert PLENTY - budget.left <= share * needed + 1.0
    assert decision.placed or (decision.status, decision.bound[:20]) == (Status.LIMIT_REACHED, "search limit reached")


def test_replays_count_and_go_on_where_they_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Init containers are replayed admission by admission.

    A gang that runs out of work over it gets further the next time.
    """
    scheduler = with_zones()
    each = pod(
        container({"cpu": 2, "memory": "1Gi"}),
        init=[container({"cpu": 1, "memory": "1Gi"}, "init")],
    )
    gang = Gang("ml/gang", Group(pods=(each,)), "network")
    assert schedule_gang(scheduler, gang).placed
    needed = work_of(with_zones(), gang)
    monkeypatch.setattr(gang_cycle, "WORK_OF_A_DECISION", needed / 2)
    waiting = with_zones()
    first = schedule_gang(waiting, gang)
    assert (first.placed, first.status) == (False, Status.LIMIT_REACHED)
    assert first.bound == "search limit reached: the slots of its pods are not all counted"
    assert any(schedule_gang(waiting, gang).placed for _ in range(5))
