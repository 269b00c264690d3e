"""Pods that wait: first come, first served, and a class that found no place is not asked again before something changes."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.cluster.pod_class import PodClass, PodClasses
from bayplan.simulate.waiting import WaitingPods
from tests.helpers import simple_pod

_CLASSES = PodClasses()
SMALL, LARGE, HUGE = (_CLASSES.of(simple_pod({"cpu": cpus})) for cpus in (1, 8, 64))


def queue(*pods: tuple[PodClass, str]) -> WaitingPods[str]:
    waiting: WaitingPods[str] = WaitingPods()
    for pod_class, name in pods:
        waiting.add(pod_class, name)
    return waiting


def decide(waiting: WaitingPods[str], refused: Collection[PodClass] = ()) -> list[str]:
    """Ask until nobody has anything to hope for; `name!` is one that found no place."""
    asked = []
    while (candidate := waiting.next()) is not None:
        pod_class, name = candidate
        if pod_class in refused:
            waiting.park()
            asked.append(f"{name}!")
        else:
            waiting.placed()
            asked.append(name)
    return asked


def test_nobody_waits_at_first() -> None:
    assert (queue().next(), list(queue())) == (None, [])


def test_first_come_first_served() -> None:
    assert decide(queue((SMALL, "a"), (LARGE, "b"), (SMALL, "c"))) == ["a", "b", "c"]


def test_a_candidate_stays_until_it_is_decided() -> None:
    waiting = queue((SMALL, "a"))
    assert waiting.next() == waiting.next() == (SMALL, "a")


def test_one_of_a_class_answers_for_all_of_them() -> None:
    waiting = queue((LARGE, "a"), (SMALL, "b"), (LARGE, "c"), (LARGE, "d"))
    assert decide(waiting, refused=[LARGE]) == ["a!", "b"]
    assert list(waiting) == ["a", "c", "d"]


def test_a_newcomer_of_a_parked_class_joins_it_unasked() -> None:
    waiting = queue((LARGE, "a"))
    decide(waiting, refused=[LARGE])
    waiting.add(LARGE, "b")
    assert decide(waiting) == []
    assert list(waiting) == ["a", "b"]


def test_nothing_happens_without_a_wake_up() -> None:
    waiting = queue((LARGE, "a"))
    decide(waiting, refused=[LARGE])
    assert decide(waiting) == []


def test_after_a_wake_up_each_class_tries_its_first_and_goes_on_while_it_succeeds() -> None:
    waiting = queue((LARGE, "a"), (HUGE, "b"), (LARGE, "c"), (HUGE, "d"))
    decide(waiting, refused=[LARGE, HUGE])
    waiting.wake()
    assert decide(waiting, refused=[HUGE]) == ["a", "c", "b!"]
    assert list(waiting) == ["b", "d"]


def test_those_who_waited_go_before_newcomers() -> None:
    waiting = queue((LARGE, "a"))
    decide(waiting, refused=[LARGE])
    waiting.add(SMALL, "new")
    waiting.wake()
    assert decide(waiting) == ["a", "new"]


def test_who_parked_first_tries_first() -> None:
    waiting = queue((HUGE, "a"), (LARGE, "b"))
    decide(waiting, refused=[LARGE, HUGE])
    for _ in range(2):
        waiting.wake()
        assert decide(waiting, refused=[LARGE, HUGE]) == ["a!", "b!"]


def test_a_wake_up_amid_retries_lets_all_try_again() -> None:
    waiting = queue((HUGE, "a"), (LARGE, "b"))
    decide(waiting, refused=[LARGE, HUGE])
    waiting.wake()
    waiting.next()
    waiting.park()
    waiting.wake()
    assert decide(waiting) == ["b", "a"]


def test_two_wake_ups_are_as_good_as_one() -> None:
    waiting = queue((HUGE, "a"), (LARGE, "b"))
    decide(waiting, refused=[LARGE, HUGE])
    waiting.wake()
    waiting.wake()
    assert decide(waiting, refused=[LARGE, HUGE]) == ["a!", "b!"]


def test_a_class_whose_pods_are_all_placed_is_no_longer_parked() -> None:
    waiting = queue((LARGE, "a"))
    decide(waiting, refused=[LARGE])
    waiting.wake()
    decide(waiting)
    waiting.add(LARGE, "b")
    assert decide(waiting) == ["b"]


def test_who_never_fits_does_not_keep_new_pods_waiting() -> None:
    waiting = queue((HUGE, "a"))
    decide(waiting, refused=[HUGE])
    order = []
    for name in ("b", "c", "d"):
        waiting.wake()
        waiting.add(LARGE, name)
        for _ in range(2):
            asked = waiting.next()
            assert asked is not None
            order.append(asked[1])
            if asked[0] == HUGE:
                waiting.park()
            else:
                waiting.placed()
    assert order.count("a") == 3
    assert [name for name in order if name != "a"] == ["b", "c", "d"]
