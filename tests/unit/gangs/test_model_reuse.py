"""A scheduler that keeps its last answer decides as one that has just been started, whatever changes in between."""

from __future__ import annotations

from random import Random

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.gangs.class_slots import ClassSlots
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import GPU, node, simple_pod

BLOCK, RACK = "x/block", "x/rack"
NODES = 12


def cluster(random: Random) -> ClusterState:
    state = ClusterState()
    for number in range(NODES):
        change_node(state, random, number)
    return state


def change_node(state: ClusterState, random: Random, number: int) -> None:
    labels = {BLOCK: random.choice("ab"), RACK: random.choice("xyz")}
    state.set_node(node(f"n{number}", {"cpu": 8, GPU: random.randint(0, 4)}, labels=labels))


def scheduler(state: ClusterState) -> GangScheduler:
    return gang_scheduler(state, BLOCK, RACK, tree="net")


def change(state: ClusterState, random: Random, step: int) -> None:
    """A pod comes that the gang feels or does not feel, one goes, or a node is replaced."""
    held = [key for key in state.pods if key.startswith("default/o")]
    what = random.choice(("gpu", "cpu", "goes", "node", "nothing"))
    if what in ("gpu", "cpu"):
        amounts = {GPU: 1} if what == "gpu" else {"cpu": 1}
        name = f"n{random.randrange(NODES)}"
        state.set_pod(simple_pod(amounts, f"o{step}", nodeName=name))
    elif what == "goes" and held:
        state.remove_pod(random.choice(held))
    elif what == "node":
        change_node(state, random, random.randrange(NODES))


GANGS = {
    "required": Group(pods=tuple(simple_pod({GPU: 1}, f"p{rank}") for rank in range(4)), required=RACK),
    "preferred": Group(pods=tuple(simple_pod({GPU: 1}, f"p{rank}") for rank in range(6)), preferred=RACK),
    "elastic": Group(pods=tuple(simple_pod({GPU: 1}, f"p{rank}") for rank in range(30)), minimum=3),
    "groups": Group(
        groups=tuple(
            Group(f"g{number}", tuple(simple_pod({GPU: 1}, f"g{number}-{rank}") for rank in range(2)), required=RACK)
            for number in range(3)
        )
    ),
}


@pytest.mark.parametrize("root", GANGS.values(), ids=GANGS)
@pytest.mark.parametrize("seed", range(6))
def test_as_if_asked_for_the_first_time(root: Group, seed: int) -> None:
    random = Random(seed)
    state = cluster(random)
    gang, kept = Gang("ml/g", root, "net"), scheduler(state)
    for step in range(60):
        change(state, random, step)
        now, afresh = schedule_gang(kept, gang), schedule_gang(scheduler(state), Gang("ml/g", root, "net"))
        assert (now.status, now.bound, tuple(now.seats)) == (afresh.status, afresh.bound, tuple(afresh.seats)), step


def test_the_version_of_slots_tells_whether_a_count_has_changed() -> None:
    state = cluster(Random(1))
    state.set_node(node("n0", {"cpu": 8, GPU: 2}))
    pod_class = state.classes.of(simple_pod({GPU: 1}))
    profile = default_profile()
    slots = ClassSlots(state, pod_class, profile, ClassAnswers(state).for_class(pod_class, profile))
    versions: list[int] = []
    for amounts in ({}, {"cpu": 1}, {GPU: 1}):
        if amounts:
            state.set_pod(simple_pod(amounts, f"other-{len(versions)}", nodeName="n0"))
        slots.refresh(16)
        versions.append(slots.version)
    assert versions[0] == versions[1] < versions[2]


def test_the_slots_of_unused_classes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.gangs.scheduler.MOST_CLASSES", 2)
    kept = scheduler(cluster(Random(1)))
    tree = kept.trees.get("net")
    assert tree is not None
    classes = [kept.state.classes.of(simple_pod({"cpu": cpus})) for cpus in range(1, 6)]
    slots = [kept.slots(pod, tree, 8) for pod in classes]
    assert len(kept._slots) == 2
    assert kept.slots(classes[4], tree, 8) is slots[4]
    assert (kept.slots(classes[0], tree, 8) == slots[0]).all()
