"""Which event wakes which unit: nodes wake pods, grown slots wake gangs, pods wake their neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sized

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.sub_queues import UnitState
from bayplan.dispatch.units import PodUnit
from bayplan.dispatch.waking import ForGang, ForItself, ForNeighbours, ForRoom, Namespaces, Waits, Waker, Waking
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import Amounts, node, simple_pod, topology, zone

PROFILE = default_profile()
RACK = "rack"
TREE = "network"


class Scene:
    """Two nodes of 8 CPUs in two racks, on each of which a pod of 6 and one of 1 runs; a queue, and waking."""

    def __init__(self) -> None:
        self.state = ClusterState()
        for name in ("n1", "n2"):
            self.state.set_node(self.node(name))
            self.run(f"large-{name}", name, cpu=6)
            self.run(f"small-{name}", name, cpu=1)
        trees = Trees(self.state)
        trees.set(TREE, (RACK,))
        self.gangs = GangScheduler(self.state, trees, PROFILE, ClassAnswers(self.state))
        self.waking = Waking(self.state, {PROFILE.name: self.gangs})
        self.queue = SchedulingQueue()
        self.now = 0.0

    def node(self, name: str, cpu: int = 8, *, unschedulable: bool = False) -> Node:
        return node(name, {"cpu": cpu, "memory": "32Gi"}, labels={RACK: f"r-{name}"}, unschedulable=unschedulable)

    def run(self, name: str, where: str, cpu: int) -> None:
        self.state.set_pod(simple_pod({"cpu": cpu}, name, nodeName=where))

    def room(self, waiting: Pod) -> ForRoom:
        return ForRoom(PROFILE.name, self.state.classes.of(waiting))

    def park(self, name: str, waits_for: Waits) -> None:
        key = PodUnit(name)
        self.queue.put(key, priority=0, created=0.0, now=self.now)
        assert self.queue.pop(self.now) == key
        self.queue.failed(key, self.now, waits_for=waits_for)
        self.waking.parked(waits_for)

    def woken(self, key: str) -> bool:
        """True if recent events wake the unit."""
        self.waking.wake(self.queue, self.now)
        unit = self.queue.get(PodUnit(key))
        assert unit is not None
        return unit.state is not UnitState.PARKED


def ends(name: str) -> Callable[[Scene], object]:
    return lambda scene: scene.state.remove_pod(f"default/{name}")


# -- pods ------------------------------------------------------------------------------------------------------------

EVENTS: dict[str, Callable[[Scene], object]] = {
    "nothing": lambda scene: None,
    "a small pod ends": ends("small-n1"),
    "a large pod ends": ends("large-n1"),
    "a pod comes": lambda scene: scene.run("another", "n1", cpu=1),
    "a node becomes larger": lambda scene: scene.state.set_node(scene.node("n1", cpu=12)),
    "a node is closed": lambda scene: scene.state.set_node(scene.node("n1", unschedulable=True)),
    "a node is gone": lambda scene: scene.state.remove_node("n2"),
    "a node comes": lambda scene: scene.state.set_node(scene.node("n3")),
    "a node comes closed": lambda scene: scene.state.set_node(scene.node("n3", unschedulable=True)),
    "a pod changes": lambda scene: scene.waking.pods_changed("default"),
}
HELPS_A_POD_OF_FOUR = {"a large pod ends", "a node becomes larger", "a node comes"}


@pytest.mark.parametrize("event", EVENTS)
def test_a_pod_is_woken_by_a_node_that_would_take_it(event: str) -> None:
    scene = Scene()
    scene.park("default/four", scene.room(simple_pod({"cpu": 4})))
    EVENTS[event](scene)
    assert scene.woken("default/four") == (event in HELPS_A_POD_OF_FOUR)


def test_a_report_of_free_zones_wakes_a_pod_that_must_be_in_one() -> None:
    scene = Scene()
    taken, free = (("8", "8", available) for available in ("2", "7"))
    for name in ("n1", "n2"):
        scene.state.set_topology(topology(zone(0, {"cpu": taken, "memory": "16Gi"}), name=name))
    scene.state.remove_pod("default/large-n1")
    scene.park("default/four", scene.room(simple_pod({"cpu": 4, "memory": "1Gi"})))
    assert not scene.woken("default/four"), "the node has room, but its zone has not, as far as is known"
    scene.state.set_topology(topology(zone(0, {"cpu": free, "memory": "16Gi"}), name="n1"))
    assert scene.woken("default/four")


def test_classes_are_woken_each_by_its_own_room() -> None:
    scene = Scene()
    scene.park("default/two", scene.room(simple_pod({"cpu": 2})))
    scene.park("default/four", scene.room(simple_pod({"cpu": 4})))
    scene.state.remove_pod("default/small-n1")
    assert scene.waking.wake(scene.queue, scene.now) == 1
    assert scene.queue.pop(scene.now) == PodUnit("default/two")


def test_room_that_was_taken_meanwhile_wakes_no_unit() -> None:
    scene = Scene()
    scene.park("default/four", scene.room(simple_pod({"cpu": 4})))
    scene.state.remove_pod("default/large-n1")
    scene.run("faster", "n1", cpu=6)
    assert not scene.woken("default/four")


def test_a_deleted_pod_costs_nothing_when_a_node_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer for a pod that named 10,000 labels took two seconds, long after the pod was deleted."""
    scene = Scene()
    scene.park("gone", scene.room(simple_pod({"cpu": 4})))
    scene.queue.remove(PodUnit("gone"))
    asked: list[object] = []
    monkeypatch.setattr(scene.gangs.answers, "for_class", lambda *question: asked.append(question))
    ends("large-n1")(scene)
    assert (scene.waking.wake(scene.queue, scene.now), asked) == (0, [])


def test_a_unit_that_waits_for_itself_is_woken_by_no_event() -> None:
    scene = Scene()
    scene.park("default/odd", ForItself(PodUnit("default/odd")))
    for event in EVENTS.values():
        event(scene)
    assert not scene.woken("default/odd")


# -- neighbours ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "namespaces, where, woken",
    [
        (frozenset({"shop"}), "shop", True),
        (frozenset({"shop"}), "other", False),
        (frozenset({"shop", "other"}), "other", True),
        (None, "anywhere", True),
    ],
)
def test_pods_wake_units_that_select_their_namespace(namespaces: Namespaces, where: str, woken: bool) -> None:
    scene = Scene()
    pod_class = scene.state.classes.of(simple_pod({"cpu": 1}))
    scene.park("shop/web", ForNeighbours(PROFILE.name, pod_class, "web", namespaces))
    assert not scene.woken("shop/web")
    scene.waking.pods_changed(where)
    assert scene.woken("shop/web") == woken


def test_a_deleted_namespace_wakes_units_that_select_it_and_is_forgotten() -> None:
    scene = Scene()
    pod_class = scene.state.classes.of(simple_pod({"cpu": 1}))
    scene.waking.pods_changed("shop")
    scene.park("shop/web", ForNeighbours(PROFILE.name, pod_class, "web", frozenset({"shop"})))
    scene.waking.namespace_gone("shop")
    assert scene.woken("shop/web")
    before = size_of(scene.waking)
    for number in range(100):
        scene.waking.pods_changed(f"ci-{number}")
        scene.waking.namespace_gone(f"ci-{number}")
    assert size_of(scene.waking) == before


def size_of(waking: Waking) -> int:
    """The number of items in all collections."""
    return sum(len(value) for value in vars(waking).values() if isinstance(value, Sized))


@pytest.mark.parametrize(
    "event, woken",
    [
        (ends("small-n1"), False),
        (ends("large-n1"), True),
        (EVENTS["a node is gone"], True),
        (EVENTS["a pod comes"], False),
    ],
)
def test_a_pod_with_neighbours_is_woken_by_newly_usable_nodes(event: Callable[[Scene], object], woken: bool) -> None:
    scene = Scene()
    scene.run("third", "n2", cpu=1)
    scene.state.remove_pod("default/small-n2")
    pod_class = scene.state.classes.of(simple_pod({"cpu": 3}))
    scene.park("shop/web", ForNeighbours(PROFILE.name, pod_class, "web", frozenset({"shop"})))
    event(scene)
    assert scene.woken("shop/web") == woken


# -- gangs -----------------------------------------------------------------------------------------------------------


def gang_of(*amounts: Amounts, required: str | None = RACK, name_tree: str = TREE) -> Gang:
    pods = tuple(simple_pod(amount, f"member-{rank}") for rank, amount in enumerate(amounts))
    return Gang("default/gang", Group(pods=pods, required=required), name_tree)


def parked_gang(scene: Scene, gang: Gang) -> str:
    assert not schedule_gang(scene.gangs, gang).placed
    scene.park("gang default/gang", ForGang(PROFILE.name, gang))
    return "gang default/gang"


@pytest.mark.parametrize("event", EVENTS)
def test_a_gang_is_woken_by_slots_that_grew(event: str) -> None:
    scene = Scene()
    key = parked_gang(scene, gang_of(*[{"cpu": 2}] * 3))
    EVENTS[event](scene)
    assert scene.woken(key) == (event in HELPS_A_POD_OF_FOUR | {"a small pod ends"})


@pytest.mark.parametrize("cpu, woken", [(8, True), (7, False)])
def test_a_gang_is_woken_by_a_node_with_room_that_moves_to_another_rack(cpu: int, woken: bool) -> None:
    scene = Scene()
    scene.state.set_node(scene.node("n1", cpu=cpu))
    key = parked_gang(scene, gang_of(*[{"cpu": 1}] * 9))
    scene.state.set_node(node("n1", {"cpu": cpu, "memory": "32Gi"}, labels={RACK: "r-n2"}))
    assert scene.woken(key) == woken


def test_a_gang_remembers_what_was_taken_before_it_was_parked() -> None:
    scene = Scene()
    gang = gang_of(*[{"cpu": 1}] * 9)
    key = parked_gang(scene, gang)
    scene.run("visitor", "n1", cpu=1)
    scene.queue.put(PodUnit(key), priority=0, created=0.0, now=100.0)
    assert scene.queue.pop(100.0) == PodUnit(key)
    scene.queue.failed(PodUnit(key), 100.0, waits_for=ForGang(PROFILE.name, gang))
    scene.waking.parked(ForGang(PROFILE.name, gang))
    scene.now = 100.0
    assert not scene.woken(key)
    scene.state.remove_pod("default/visitor")
    assert scene.woken(key), "as much as at first, but more than when it was told no the last time"


def test_growth_that_another_gang_saw_first_is_not_lost() -> None:
    scene = Scene()
    first, second = (gang_of(*[{"cpu": 1}] * 9) for _ in range(2))
    scene.park("gang default/first", ForGang(PROFILE.name, first))
    scene.state.remove_pod("default/small-n1")
    scene.park("gang default/second", ForGang(PROFILE.name, second))
    assert scene.woken("gang default/first")
    assert not scene.woken("gang default/second")


def test_a_larger_gang_of_the_same_class_does_not_wake_a_smaller_one() -> None:
    scene = Scene()
    for name in ("n1", "n2"):
        scene.state.set_node(scene.node(name, cpu=80))
    scene.park("gang default/small", ForGang(PROFILE.name, gang_of(*[{"cpu": 1}] * 20)))
    scene.park("gang default/large", ForGang(PROFILE.name, gang_of(*[{"cpu": 1}] * 200)))
    assert not scene.woken("gang default/small")


def test_pods_of_two_classes_are_woken_by_any_amount_that_grew() -> None:
    scene = Scene()
    scene.state.remove_node("n2")
    scene.state.remove_pod("default/large-n1")
    gang = gang_of({"cpu": 4}, {"cpu": 4})
    mixed = gang_of({"cpu": 5}, {"cpu": 3})
    scene.park("gang default/equal", ForGang(PROFILE.name, gang))
    scene.park("gang default/mixed", ForGang(PROFILE.name, mixed))
    scene.state.set_node(scene.node("n1"))
    assert not scene.woken("gang default/mixed")
    scene.state.remove_pod("default/small-n1")
    assert scene.woken("gang default/mixed"), "8 free CPUs hold one of 5 and one of 3 together: slots of neither grew"
    assert schedule_gang(scene.gangs, mixed).placed


def test_pods_of_two_classes_are_woken_by_a_zone_that_has_more_free() -> None:
    scene = Scene()
    scene.state.remove_node("n2")
    for name in ("large-n1", "small-n1"):
        scene.state.remove_pod(f"default/{name}")
    mixed = gang_of({"cpu": 5, "memory": "1Gi"}, {"cpu": 3, "memory": "1Gi"})
    scene.state.set_topology(topology(zone(0, {"cpu": (8, 8, 7), "memory": "16Gi"})))
    key = parked_gang(scene, mixed)
    assert not scene.woken(key)
    scene.state.set_topology(topology(zone(0, {"cpu": (8, 8, 8), "memory": "16Gi"})))
    assert scene.woken(key), "the node had enough in sum before, and slots of neither class grew"
    assert schedule_gang(scene.gangs, mixed).placed


def test_a_gang_waits_for_its_topology() -> None:
    scene = Scene()
    gang = gang_of({"cpu": 1}, name_tree="not yet there")
    key = parked_gang(scene, gang)
    scene.state.remove_pod("default/small-n1")
    assert not scene.woken(key)
    scene.gangs.trees.set("not yet there", (RACK,))
    assert scene.woken(key)


def test_a_gang_with_neighbours_is_woken_by_their_namespaces() -> None:
    scene = Scene()
    scene.park("gang default/gang", ForGang(PROFILE.name, gang_of({"cpu": 9}), frozenset({"shop"})))
    scene.waking.pods_changed("other")
    assert not scene.woken("gang default/gang")
    scene.waking.pods_changed("shop")
    assert scene.woken("gang default/gang")


# -- housekeeping ----------------------------------------------------------------------------------------------------


def test_the_moment_changes_with_every_event() -> None:
    scene = Scene()
    before = scene.waking.moment()
    assert scene.waking.moment() == before
    scene.waking.pods_changed("shop")
    changed = scene.waking.moment()
    scene.state.remove_pod("default/small-n1")
    assert len({before, changed, scene.waking.moment()}) == 3


def test_many_parked_units_are_looked_at_in_slices_between_decisions() -> None:
    """3,000 unlike gangs without a place kept other tenants' pods waiting for 1.5 s at a change of a node."""
    scene = Scene()
    for number in range(3):
        scene.park(f"default/{number}", scene.room(simple_pod({"cpu": 2 + number})))
        scene.park(f"gang default/{number}", ForGang(PROFILE.name, gang_of({"cpu": 2 + number})))
    ends("large-n1")(scene)
    clock = itertools.count()
    waker = Waker(scene.waking, scene.queue, lambda: float(next(clock)))  # a second for each look
    awake: list[int] = []
    while waker.next_time() is not None:
        scene.now += 10.0
        waker.wake(scene.now)
        awake.append(6 - scene.queue.counts()[UnitState.PARKED])
    assert awake == [1, 2, 3, 4, 5, 6, 6]


def test_events_during_a_look_at_many_units_are_seen_by_the_next_one() -> None:
    scene = Scene()
    scene.park("default/two", scene.room(simple_pod({"cpu": 2})))
    for number in range(2):
        scene.park(f"gang default/{number}", ForGang(PROFILE.name, gang_of({"cpu": 2 + number})))
    ends("small-n1")(scene)
    scene.waking.wake(scene.queue, scene.now, lambda: True)
    scene.park("default/six", scene.room(simple_pod({"cpu": 6})))
    ends("large-n1")(scene)
    scene.waking.wake(scene.queue, scene.now)
    assert scene.woken("default/six")


def test_nothing_is_kept_of_deleted_units() -> None:
    scene = Scene()
    for number in range(200):
        key = f"default/{number}"
        scene.park(key, scene.room(simple_pod({"cpu": 100 + number})))
        scene.queue.remove(PodUnit(key))
        key = f"gang default/{number}"
        scene.park(key, ForGang(PROFILE.name, gang_of({"cpu": 9})))
        scene.queue.remove(PodUnit(key))
    scene.state.remove_pod("default/small-n1")
    scene.waking.wake(scene.queue, scene.now)
    assert not scene.waking._marks
    assert not list(scene.waking._parked_pods)
    assert not scene.waking._watches[PROFILE.name]._slots
