"""Slots that are repaired from the change logs are the slots that a fresh count would give, and say which of them were counted."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.gangs.class_slots import ClassSlots
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.profile import Profile, default_profile
from tests.helpers import Amounts, cluster, container, node, place, pod, simple_pod, topology, zone
from tests.unit.scheduling.test_answers import PODS, PROFILES, Weather

PROFILE = default_profile()
SMALL = simple_pod({"cpu": 1, "memory": "1Gi"})
MANY = 100


def slots_for(state: ClusterState, waiting: Pod) -> ClassSlots:
    pod_class = state.classes.of(waiting)
    return ClassSlots(state, pod_class, PROFILE, ClassAnswer(state, pod_class, PROFILE))


def three_nodes() -> ClusterState:
    return cluster(*(topology(zone(0, {"cpu": 8, "memory": "8Gi"}), name=f"n{number}") for number in range(3)))


def nothing_changed(slots: ClassSlots) -> bool:
    changed = slots.refresh(MANY)[1]
    return changed is not None and not len(changed)


@pytest.mark.parametrize("seed", range(4))
def test_repaired_slots_equal_fresh_ones(seed: int) -> None:
    weather = Weather(seed, PROFILES["LeastAllocated"])
    kept = [slots_for(weather.state, waiting) for waiting in PODS]
    copies = [slots.refresh(MANY)[0].copy() for slots in kept]
    for _ in range(60):
        for _ in range(weather.dice.randint(1, 3)):
            weather.happen()
        for number, waiting in enumerate(PODS):
            counts, changed = kept[number].refresh(MANY)
            fresh, _ = slots_for(weather.state, waiting).refresh(MANY)
            assert counts.tolist() == fresh.tolist()
            if changed is None:
                copies[number] = counts.copy()
            else:
                copies[number][changed] = counts[changed]
            assert copies[number].tolist() == fresh.tolist(), "whoever follows the changed rows knows all"
    assert weather.placed > 5, "a story in which nothing is placed would prove little"


def test_a_placement_costs_one_row() -> None:
    state = three_nodes()
    slots = slots_for(state, SMALL)
    assert slots.refresh(MANY)[1] is None
    assert nothing_changed(slots)
    decision = place(state, SMALL)
    counts, changed = slots.refresh(MANY)
    assert changed is not None
    assert changed.tolist() == [decision.row]
    assert counts.tolist() == [7 if row == decision.row else 8 for row in range(3)]


def test_nodes_that_a_filter_refuses_have_no_slots() -> None:
    room: Amounts = {"cpu": 8, "memory": "8Gi"}
    state = cluster(nodes=[node("open", room), node("cordoned", room, unschedulable=True), node("small", {"cpu": 8})])
    slots = slots_for(state, SMALL)
    assert slots.refresh(MANY)[0].tolist() == [8, 0, 0]
    state.set_node(node("cordoned", room))
    counts, changed = slots.refresh(MANY)
    assert counts.tolist() == [8, 8, 0]
    assert changed is not None
    assert changed.tolist() == [1]


def test_a_host_port_leaves_one_slot_and_taken_none() -> None:
    state = three_nodes()
    waiting = pod(container({"cpu": 1, "memory": "1Gi"}, ports=[{"containerPort": 80, "hostPort": 80}]))
    slots = slots_for(state, waiting)
    assert slots.refresh(MANY)[0].tolist() == [1, 1, 1]
    decision = place(state, waiting)
    assert slots.refresh(MANY)[0].tolist() == [0 if row == decision.row else 1 for row in range(3)]


def test_the_limit_may_change_from_question_to_question() -> None:
    state = three_nodes()
    state.set_node(node("n1", {"cpu": 2, "memory": "8Gi"}))
    slots = slots_for(state, SMALL)
    for most, expected in ((3, [3, 2, 3]), (5, [5, 2, 5]), (1, [1, 1, 1]), (MANY, [8, 2, 8])):
        counts, changed = slots.refresh(most)
        assert counts.tolist() == expected
        assert changed is None, "under another limit any count may be another"
    assert nothing_changed(slots)


def test_a_profile_without_zones_counts_what_kubelets_admit_all_the_same() -> None:
    state = cluster(topology(zone(0, {"cpu": 8, "memory": "8Gi"}), zone(1, {"cpu": 8, "memory": "8Gi"})))
    profile = Profile("plain", tuple(plugin for plugin in PROFILE.filters if plugin is not PROFILE.topology), ())
    pod_class = state.classes.of(simple_pod({"cpu": 5, "memory": "1Gi"}))
    slots = ClassSlots(state, pod_class, profile, ClassAnswer(state, pod_class, profile))
    assert slots.refresh(MANY)[0].tolist() == [2]
