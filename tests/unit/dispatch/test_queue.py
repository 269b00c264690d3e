"""Stories of units in the queue, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.sub_queues import UnitState
from bayplan.dispatch.units import PodUnit

GPU = "room for a GPU pod"
CPU = "room for a CPU pod"


class Story:
    """A queue with a clock; `created` counts up, so that units put later are younger."""

    def __init__(self, **settings: float) -> None:
        self.queue = SchedulingQueue(**settings)
        self.now = 0.0
        self.created = 0

    def put(self, *keys: str, priority: int = 0, **more: Any) -> None:
        for key in keys:
            self.created += 1
            self.queue.put(PodUnit(key), priority=priority, created=self.created, now=self.now, **more)

    def pop(self) -> str | None:
        unit = self.queue.pop(self.now)
        return None if unit is None else str(unit)

    def pop_all(self) -> list[str]:
        """All units that are due now; they stay in flight."""
        popped = []
        while (key := self.pop()) is not None:
            popped.append(key)
        return popped

    def fail(self, key: str, waits_for: str = GPU, **more: Any) -> None:
        self.queue.failed(PodUnit(key), self.now, waits_for=waits_for, **more)

    def try_all(self, fits: tuple[str, ...] = (), waits_for: str = GPU) -> list[str]:
        """Decide about all units that are due with the given outcome, and return them in order."""
        tried = []
        while (key := self.pop()) is not None:
            tried.append(key)
            if key in fits:
                self.queue.done(PodUnit(key))
            else:
                self.fail(key, waits_for)
        return tried

    def wake(self, waits_for: str = GPU) -> None:
        self.queue.wake(waits_for, self.now)

    def after(self, seconds: float) -> Story:
        self.now += seconds
        return self

    def pods(self, place: UnitState) -> int:
        return self.queue.counts()[place]

    def place(self, key: str) -> UnitState | None:
        queued = self.queue.get(PodUnit(key))
        return None if queued is None else queued.state


# -- order -----------------------------------------------------------------------------------------------------------


def test_the_highest_priority_is_first_then_the_oldest() -> None:
    story = Story()
    story.put("old", "young")
    story.put("urgent", priority=1000)
    story.put("idle", priority=-5)
    assert story.pop_all() == ["urgent", "old", "young", "idle"]
    assert story.pop() is None


def test_a_change_of_priority_counts_at_once() -> None:
    story = Story()
    story.put("a", "b", "c")
    story.queue.put(PodUnit("c"), priority=7, created=3, now=0)
    assert story.pop_all() == ["c", "a", "b"]


# -- backoff ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures, seconds", [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (60, 10.0)])
def test_backoff_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    story = Story()
    story.put("stuck")
    for _ in range(failures):
        story.after(100).wake()
        assert story.pop() == "stuck"
        story.fail("stuck")
    unit = story.queue.get(PodUnit("stuck"))
    assert unit is not None
    assert unit.attempts == failures
    assert unit.backoff_until == story.now + seconds


def test_ten_thousand_failures_do_not_overflow() -> None:
    story = Story(initial_backoff=0.5, max_backoff=1e300)
    story.put("stuck")
    for _ in range(10_000):
        assert story.pop() == "stuck"
        story.fail("stuck")
        story.wake()
    unit = story.queue.get(PodUnit("stuck"))
    assert unit is not None
    assert unit.backoff_until == 0.5 * 2**30


def test_a_unit_in_backoff_lets_lower_priorities_go_first() -> None:
    story = Story()
    story.put("stuck", priority=9)
    story.try_all()
    story.put("small-1", "small-2")
    story.wake()
    assert story.place("stuck") is UnitState.BACKOFF
    assert story.pop() == "small-1"
    story.after(1)
    assert story.pop() == "stuck", "its backoff has ended, and it goes before the other small one"
    assert story.pop() == "small-2"


def test_backoff_is_cut_short_if_no_other_unit_is_active() -> None:
    story = Story()
    story.put("stuck")
    story.try_all()
    story.after(0.1).wake()
    assert story.pop() == "stuck"


def test_a_retry_waits_for_its_rest_even_if_no_other_unit_is_active() -> None:
    story = Story()
    story.put("a")
    for seconds in (1.0, 2.0, 4.0, 8.0, 10.0):
        assert story.pop() == "a"
        story.queue.retry(PodUnit("a"), story.now)
        assert story.queue.next_time() == story.now + seconds
        assert story.after(seconds - 0.01).pop() is None
        story.after(0.01)
    assert story.pop() == "a"
    story.fail("a")
    story.after(10).wake()
    assert story.pop() == "a"
    story.queue.retry(PodUnit("a"), story.now)
    assert story.queue.next_time() == story.now + 1.0, "after an attempt that went well, trouble counts from one again"


def test_backoff_can_be_switched_off() -> None:
    story = Story(initial_backoff=0, max_backoff=0)
    story.put("a")
    story.put("b", priority=-1)
    assert story.pop() == "a"
    story.fail("a")
    story.wake()
    assert story.pop() == "a"


# -- fairness --------------------------------------------------------------------------------------------------------


def test_a_gang_whose_attempts_take_long_uses_a_tenth_of_the_time() -> None:
    story = Story()
    story.put("gang big", priority=100)
    attempts = 0
    while story.now < 1000:
        key = story.pop()
        if key is None:
            story.after(0.5).wake()
            continue
        attempts += 1
        story.after(3.0).fail(key, took=3.0)
    assert 33 <= attempts <= 34, "3 s of work, 27 s of rest"


def test_small_pods_go_on_while_a_gang_with_higher_priority_is_stuck() -> None:
    story = Story()
    story.put("gang big", priority=100)
    started, gang_attempts = [], 0
    for second in range(60):
        story.put(f"small-{second}")
        while (key := story.pop()) is not None:
            if key == "gang big":
                gang_attempts += 1
                story.fail(key, waits_for="a whole rack", took=0.2)
            else:
                started.append(key)
                story.queue.done(PodUnit(key))
        story.after(1.0).wake("a whole rack")
    assert started == [f"small-{second}" for second in range(60)]
    assert gang_attempts > 5, "it is tried as well: each time that the others leave time for it"


# -- parking and wait groups
# ------------------------------------------------------------------------------------------------


def test_a_parked_unit_waits_for_its_own_event() -> None:
    story = Story()
    story.put("gpu-pod", "cpu-pod")
    for key, waits_for in (("gpu-pod", GPU), ("cpu-pod", CPU)):
        assert story.pop() == key
        story.fail(key, waits_for)
    assert story.queue.is_parked(CPU)
    story.after(60).wake(CPU)
    assert not story.queue.is_parked(CPU), "a unit tries"
    assert story.pop_all() == ["cpu-pod"]
    assert story.queue.is_parked(GPU)


def test_waking_an_unknown_wait_group_changes_nothing() -> None:
    story = Story()
    story.put("a")
    story.wake()
    assert story.pop_all() == ["a"]


@pytest.mark.parametrize("room", [0, 1, 3])
def test_one_more_unit_of_a_wait_group_is_tried_than_fits(room: int) -> None:
    story = Story()
    names = [f"p{number}" for number in range(50)]
    story.put(*names)
    assert story.try_all() == names
    story.after(60).wake()
    assert story.try_all(fits=tuple(names[:room])) == names[: room + 1]
    assert story.pods(UnitState.PARKED) == 50 - room


def test_a_whole_wait_group_follows_while_there_is_room() -> None:
    story = Story()
    names = [f"p{number}" for number in range(50)]
    story.put(*names)
    story.try_all()
    story.after(60).wake()
    assert story.try_all(fits=tuple(names)) == names
    assert len(story.queue) == 0
    assert not story.queue.is_parked(GPU)
    assert story.queue.next_time() is None


def test_units_that_follow_a_scout_skip_their_backoff() -> None:
    story = Story()
    story.put("a", "b")
    assert story.try_all() == ["a", "b"]
    story.put("other", priority=-1)
    story.wake()
    story.after(1.0)
    unit = story.queue.get(PodUnit("b"))
    assert unit is not None
    unit.backoff_until = 10.0
    assert story.try_all(fits=("a", "b", "other")) == ["a", "b", "other"]


def test_the_scout_is_parked_when_another_of_its_wait_group_fails() -> None:
    story = Story()
    story.put("waits", priority=5)
    story.try_all()
    story.put("new")
    story.wake()
    assert story.place("waits") is UnitState.BACKOFF
    assert story.pop() == "new"
    story.fail("new")
    assert story.place("waits") is UnitState.PARKED
    assert story.after(60).pop() is None
    assert story.pods(UnitState.PARKED) == 2


def test_a_failure_for_another_reason_does_not_close_the_wait_group() -> None:
    story = Story()
    story.put("a", "b")
    story.try_all()
    story.after(60).wake()
    assert story.pop() == "a"
    story.fail("a", waits_for="its neighbours")
    assert story.pop() == "b"


def test_a_deleted_scout_is_replaced() -> None:
    story = Story()
    story.put("a", "b")
    story.try_all()
    story.wake()
    story.queue.remove(PodUnit("a"))
    assert story.after(1).pop_all() == ["b"]


def test_a_changed_scout_tries_for_itself_and_is_replaced() -> None:
    story = Story()
    story.put("a", "b")
    story.try_all()
    story.after(60).wake()
    story.queue.put(PodUnit("a"), priority=0, created=1, now=story.now)
    assert story.pop() == "a"
    story.fail("a", waits_for=CPU)
    assert story.pop() == "b"


def test_a_unit_deleted_while_parked_is_never_tried() -> None:
    story = Story()
    story.put("a", "b")
    story.try_all()
    story.queue.remove(PodUnit("a"))
    story.after(60).wake()
    assert story.pop_all() == ["b"]
    story.queue.done(PodUnit("b"))
    story.queue.remove(PodUnit("b"))
    assert len(story.queue) == 0


def test_a_wait_group_ends_with_its_last_unit() -> None:
    story = Story()
    story.put("a")
    story.try_all()
    story.queue.remove(PodUnit("a"))
    assert not story.queue.is_parked(GPU)
    assert story.queue.next_time() is None


# -- changes ---------------------------------------------------------------------------------------------------------


def test_a_parked_unit_that_changes_is_tried_after_its_backoff() -> None:
    story = Story()
    story.put("a")
    story.try_all()
    story.put("other")
    story.put("a")
    assert story.place("a") is UnitState.BACKOFF
    assert story.pop() == "other"
    assert story.after(1).pop() == "a"


def test_a_unit_that_changed_in_flight_is_not_parked() -> None:
    story = Story()
    story.put("a")
    assert story.pop() == "a"
    story.put("a")
    assert story.pop() is None, "it is being decided"
    story.fail("a")
    assert story.place("a") is UnitState.BACKOFF
    assert story.after(1).pop() == "a"
    story.fail("a")
    assert story.place("a") is UnitState.PARKED, "the change was for one attempt"


def test_a_unit_deleted_in_flight_stays_deleted() -> None:
    story = Story()
    story.put("a", "b", "c")
    assert story.pop_all() == ["a", "b", "c"]
    for key in "abc":
        story.queue.remove(PodUnit(key))
    story.fail("a")
    story.queue.retry(PodUnit("b"), story.now)
    assert story.queue.done(PodUnit("c")) is None
    assert len(story.queue) == 0


def test_an_old_attempt_does_not_affect_a_new_unit_of_the_same_name() -> None:
    story = Story()
    story.put("a")
    assert story.pop() == "a"
    story.queue.remove(PodUnit("a"))
    story.put("a")
    assert story.queue.done(PodUnit("a")) is None
    assert story.pop() == "a"


def test_members_of_a_gang_that_arrive_one_by_one_are_one_unit() -> None:
    story = Story()
    for members in (1, 2, 3):
        story.put("gang g", pods=members)
    assert story.pods(UnitState.ACTIVE) == 3
    assert story.pop() == "gang g"
    story.put("gang g", pods=4)
    done = story.queue.done(PodUnit("gang g"))
    assert done is not None
    assert done.changed, "a fourth member came while three were being placed: the owner puts the gang again"
    assert PodUnit("gang g") not in story.queue


# -- gates -----------------------------------------------------------------------------------------------------------


def test_a_gated_unit_is_counted_and_not_tried() -> None:
    story = Story()
    story.put("a", gated=True)
    assert story.pop() is None
    assert story.pods(UnitState.GATED) == 1
    story.put("a", gated=True)
    assert story.after(1000).pop() is None
    story.put("a")
    assert story.pop() == "a"


def test_a_parked_unit_that_gets_a_gate_leaves_its_wait_group() -> None:
    story = Story()
    story.put("a")
    story.try_all()
    story.put("a", gated=True)
    assert story.place("a") is UnitState.GATED
    assert not story.queue.is_parked(GPU)
    assert story.after(1000).pop() is None


def test_a_gated_unit_starts_to_wait_without_gates() -> None:
    story = Story()
    story.put("a", gated=True)
    story.after(50).put("a")
    unit = story.queue.get(PodUnit("a"))
    assert unit is not None
    assert unit.first_seen == 50.0


# -- time ------------------------------------------------------------------------------------------------------------


def test_nothing_is_parked_for_longer_than_the_flush() -> None:
    story = Story(flush_after=300)
    story.put("a", "b")
    story.try_all()
    assert story.queue.next_time() == 300.0
    assert story.after(299).pop() is None
    assert story.after(1).try_all() == ["a"], "one tries for all that wait for the same"
    assert story.queue.next_time() == 600.0
    assert story.after(300).try_all(fits=("a", "b")) == ["a", "b"]


def test_a_gang_is_retried_when_its_patience_ends() -> None:
    story = Story()
    story.put("gang a")
    assert story.pop() == "gang a"
    story.fail("gang a", again_at=30.0)
    assert story.queue.next_time() == 30.0
    assert story.after(29).pop() is None
    assert story.after(1).pop() == "gang a"


def test_the_next_time_is_the_end_of_the_first_backoff() -> None:
    story = Story()
    assert story.queue.next_time() is None
    story.put("a", "b")
    assert story.pop_all() == ["a", "b"]
    story.queue.retry(PodUnit("a"), 0.0)
    story.after(0.5).fail("b")
    assert story.queue.next_time() == 1.0
    story.queue.remove(PodUnit("a"))
    assert story.queue.next_time() == 300.5


def test_time_does_not_go_back() -> None:
    story = Story()
    story.after(5).put("a")
    with pytest.raises(ValueError, match=r"time goes back from 5\.0 to 4\.0"):
        story.queue.pop(4.0)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"initial_backoff": 5, "max_backoff": 1}, "backoff from 5 to 1 s: allowed is 0 <= initial <= max"),
        ({"initial_backoff": -1}, "backoff from -1 to 10 s: allowed is 0 <= initial <= max"),
        ({"flush_after": 0}, "flush after 0 s: must be more than 0"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SchedulingQueue(**settings)


# -- counts ----------------------------------------------------------------------------------------------------------


def test_pods_are_counted_by_state_and_gangs_by_their_pods() -> None:
    story = Story()
    story.put("stuck", "lucky")
    story.put("gang g", pods=8)
    story.put("gated", gated=True)
    assert story.pop() == "stuck"
    story.fail("stuck")
    assert story.pop() == "lucky"
    assert story.pop() == "gang g"
    story.queue.retry(PodUnit("gang g"), story.now)
    story.put("new")
    assert {place.value: number for place, number in story.queue.counts().items()} == {
        "active": 1,
        "backoff": 8,
        "unschedulable": 1,
        "gated": 1,
        "in_flight": 1,
    }
