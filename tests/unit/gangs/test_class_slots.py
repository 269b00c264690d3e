"""Slots that are repaired from the change logs equal those of a fresh count."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Rows
from bayplan.engine.slots.slots import slots as count_slots
from bayplan.gangs import class_slots
from bayplan.gangs.class_slots import ClassSlots, SlotCounts
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.clusters import cluster, place
from tests.builders.objects import Amounts, container, node, pod, simple_pod, topology, zone
from tests.unit.scheduling.test_answers import PODS, PROFILES, Weather

PROFILE = default_profile()
SMALL = simple_pod({"cpu": 1, "memory": "1Gi"})
MANY = 100


def slots_for(state: ClusterState, waiting: Pod) -> ClassSlots:
    pod_class = state.classes.of(waiting)
    return ClassSlots(state, pod_class, PROFILE, ClassAnswer(state, pod_class, PROFILE))


def three_nodes() -> ClusterState:
    return cluster(*(topology(zone(0, {"cpu": 8, "memory": "8Gi"}), name=f"n{number}") for number in range(3)))


@pytest.mark.parametrize("seed", range(4))
def test_repaired_slots_equal_fresh_ones(seed: int) -> None:
    weather = Weather(seed, PROFILES["LeastAllocated"])
    kept = [slots_for(weather.state, waiting) for waiting in PODS]
    for _ in range(60):
        for _ in range(weather.dice.randint(1, 3)):
            weather.happen()
        for number, waiting in enumerate(PODS):
            fresh = slots_for(weather.state, waiting).refresh(MANY)
            assert kept[number].refresh(MANY).tolist() == fresh.tolist()
    assert weather.placed > 5


def test_a_placement_recounts_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    state = three_nodes()
    slots = slots_for(state, SMALL)
    counted: list[Rows] = []

    def recorded(*arguments: Any) -> SlotCounts:
        counted.append(arguments[3])
        return count_slots(*arguments)

    monkeypatch.setattr(class_slots, "slots", recorded)
    assert slots.refresh(MANY).tolist() == [8, 8, 8]
    row = place(state, SMALL).row
    assert slots.refresh(MANY).tolist() == [7 if each == row else 8 for each in range(3)]
    assert counted == [slice(0, 3), slice(row, row + 1)]


def test_nodes_that_a_filter_refuses_have_no_slots() -> None:
    room: Amounts = {"cpu": 8, "memory": "8Gi"}
    state = cluster(nodes=[node("open", room), node("cordoned", room, unschedulable=True), node("small", {"cpu": 8})])
    slots = slots_for(state, SMALL)
    assert slots.refresh(MANY).tolist() == [8, 0, 0]
    state.set_node(node("cordoned", room))
    assert slots.refresh(MANY).tolist() == [8, 8, 0]


def test_a_host_port_allows_one_pod_per_node() -> None:
    state = three_nodes()
    waiting = pod(container({"cpu": 1, "memory": "1Gi"}, ports=[{"containerPort": 80, "hostPort": 80}]))
    slots = slots_for(state, waiting)
    assert slots.refresh(MANY).tolist() == [1, 1, 1]
    decision = place(state, waiting)
    assert slots.refresh(MANY).tolist() == [0 if row == decision.row else 1 for row in range(3)]


def test_the_limit_may_change_between_calls() -> None:
    state = three_nodes()
    state.set_node(node("n1", {"cpu": 2, "memory": "8Gi"}))
    slots = slots_for(state, SMALL)
    for most, expected in ((3, [3, 2, 3]), (5, [5, 2, 5]), (1, [1, 1, 1]), (MANY, [8, 2, 8])):
        assert slots.refresh(most).tolist() == expected


def test_kubelets_align_pods_even_if_the_profile_has_no_numa_plugin() -> None:
    state = cluster(topology(zone(0, {"cpu": 8, "memory": "8Gi"}), zone(1, {"cpu": 8, "memory": "8Gi"})))
    profile = Profile("plain", tuple(plugin for plugin in PROFILE.filters if plugin is not PROFILE.topology), ())
    pod_class = state.classes.of(simple_pod({"cpu": 5, "memory": "1Gi"}))
    slots = ClassSlots(state, pod_class, profile, ClassAnswer(state, pod_class, profile))
    assert slots.refresh(MANY).tolist() == [2]
