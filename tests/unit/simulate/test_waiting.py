"""Who is asked next in a simulation: by priority, then by age; and a class that found no place is not asked again
before something changes.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.dispatch.units import GangUnit, PodUnit
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.members import LiveMember
from bayplan.simulate.scenario.model import Kind, ScenarioPod, Workload
from bayplan.simulate.waiting import WaitingUnit, WaitingUnits
from tests.builders.objects import simple_pod

_CLASSES = PodClasses()
SMALL, LARGE, HUGE = 1, 8, 64


def a_pod(name: str, cpus: int, priority: int = 0) -> tuple[LiveMember, Pod]:
    pod = simple_pod({"cpu": cpus}, name, priority=priority)
    return LiveMember(Workload(name, Kind.POD, pod, (ScenarioPod(0.0),)), ScenarioPod(0.0), name), pod


def unit(name: str, cpus: int, priority: int = 0) -> WaitingUnit:
    member, pod = a_pod(name, cpus, priority)
    return WaitingUnit(PodUnit(name), ((member, pod),), _CLASSES.of(pod))


class Story:
    """Units that come, and decisions about them. Each takes 0.01 s; those of the sizes in `refused` find no place."""

    def __init__(self, *units: WaitingUnit) -> None:
        self.waiting = WaitingUnits()
        self.now = 0.0
        self.come(*units)

    def come(self, *units: WaitingUnit) -> None:
        for each in units:
            self.now += 0.001
            self.waiting.add(each, self.now)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.waiting.wake(self.now)

    def decide(self, refused: Collection[int] = (), most: int = 100) -> list[str]:
        """Ask until no unit can be placed; `name!` is one that found no place."""
        asked: list[str] = []
        classes = {_CLASSES.of(a_pod("x", cpus)[1]) for cpus in refused}
        while len(asked) < most and (found := self.waiting.next(self.now)) is not None:
            self.now += 0.01
            if found.waits_for in classes:
                self.waiting.park(found, self.now)
                asked.append(f"{found.key}!")
            else:
                self.waiting.placed(found)
                asked.append(str(found.key))
        return asked

    @property
    def left(self) -> list[str]:
        return [str(each.key) for each in self.waiting]


def test_no_pod_waits_at_first() -> None:
    assert (Story().decide(), Story().left) == ([], [])


@pytest.mark.parametrize(
    "priorities, order",
    [
        pytest.param((0, 0, 0), "abc", id="first come, first served"),
        pytest.param((0, 100, 0), "bac", id="the more important one first"),
        pytest.param((-1, 0, 2_000_000_000), "cba", id="whatever the numbers"),
        pytest.param((7, 7, 9), "cab", id="among equals the oldest"),
    ],
)
def test_who_goes_first(priorities: tuple[int, int, int], order: str) -> None:
    units = (unit(name, size, each) for name, size, each in zip("abc", (SMALL, LARGE, SMALL), priorities, strict=True))
    assert "".join(Story(*units).decide()) == order


def test_a_gang_is_as_important_as_its_most_important_pod() -> None:
    members = (a_pod("a-0", SMALL), a_pod("a-1", SMALL, 100))
    gang = WaitingUnit(GangUnit("a"), members, "a", SimulatedGang(PodGroup()))
    assert Story(unit("b", SMALL, 99), gang).decide() == ["gang a", "b"]


def test_a_unit_that_gets_more_pods_while_it_waits_does_not_become_younger() -> None:
    story = Story(unit("a", LARGE), unit("b", SMALL))
    story.come(unit("a", LARGE))
    assert story.decide() == ["a", "b"]


def test_one_with_patience_is_tried_again_when_that_ends_though_nothing_has_changed() -> None:
    story = Story(unit("a", LARGE))
    parked = story.waiting.next(1.0)
    assert parked is not None
    story.waiting.park(parked, 1.0, again_at=20.0)
    assert story.waiting.next(19.9) is None
    assert story.waiting.next(20.0) is parked


def test_one_of_a_class_answers_for_all_of_them() -> None:
    story = Story(unit("a", LARGE), unit("b", SMALL), unit("c", LARGE), unit("d", LARGE))
    assert story.decide(refused=[LARGE]) == ["a!", "b"]
    assert story.left == ["a", "c", "d"]


def test_a_newcomer_of_a_parked_class_joins_it_unasked() -> None:
    story = Story(unit("a", LARGE))
    story.decide(refused=[LARGE])
    story.come(unit("b", LARGE))
    assert story.decide() == []
    assert story.left == ["a", "b"]


def test_after_a_wake_up_each_class_tries_its_first_and_goes_on_while_it_succeeds() -> None:
    story = Story(unit("a", LARGE), unit("b", HUGE), unit("c", LARGE), unit("d", HUGE))
    story.decide(refused=[LARGE, HUGE])
    story.later(60.0)
    assert story.decide(refused=[HUGE]) == ["a", "b!", "c"]
    assert story.left == ["b", "d"]


def test_after_a_wake_up_the_important_go_before_those_who_came_first() -> None:
    """A notebook has waited longer; when the node becomes free, both workers are decided about before it."""
    story = Story(unit("notebook", SMALL), unit("worker-0", LARGE, 100), unit("worker-1", LARGE, 100))
    story.decide(refused=[SMALL, LARGE])
    story.later(60.0)
    assert story.decide() == ["worker-0", "worker-1", "notebook"]


def test_two_wake_ups_are_as_good_as_one() -> None:
    story = Story(unit("a", HUGE), unit("b", LARGE))
    story.decide(refused=[LARGE, HUGE])
    story.later(60.0)
    story.later(0.0)
    assert story.decide(refused=[LARGE, HUGE]) == ["a!", "b!"]


def test_a_class_whose_pods_are_all_placed_is_no_longer_parked() -> None:
    story = Story(unit("a", LARGE))
    story.decide(refused=[LARGE])
    story.later(60.0)
    story.decide()
    story.come(unit("b", LARGE))
    assert story.decide() == ["b"]


def test_who_never_fits_does_not_keep_new_pods_waiting() -> None:
    """However often something wakes it: one that has just failed lets others pass."""
    story = Story(unit("a", HUGE, 100))
    story.decide(refused=[HUGE])
    for name in ("b", "c", "d"):
        story.come(unit(name, LARGE))
        story.later(0.0)
        assert story.decide(refused=[HUGE], most=1) == [name]
