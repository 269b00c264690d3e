"""The queue under anything that may happen to it: no unit is lost or tried out of turn, and no room stays empty
that a unit waits for.

The world is the simplest that has both: pods of three kinds, so many rooms for each kind. A room that becomes free
wakes those who wait for its kind, once; a decided unit takes a room if there is one when its decision begins, which
may be long before it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.sub_queues import UnitState
from bayplan.dispatch.units import PodUnit, Unit

KINDS = st.sampled_from("abc")
NUMBERS = st.integers(0, 7)
PRIORITIES = st.integers(-1, 1)
LONGER_THAN_ANY_BACKOFF = 50.0


class Attempt(NamedTuple):
    """A decision under way: whether there was a room when it began, and how much had happened by then."""

    kind: str
    has_room: bool
    news: int


class World(RuleBasedStateMachine):
    """Pods `a0`, `b3`, ... come, change, are decided, fail, succeed, end and vanish."""

    @initialize(rooms=st.fixed_dictionaries({kind: st.integers(0, 2) for kind in "abc"}))
    def begin(self, rooms: dict[str, int]) -> None:
        self.queue = SchedulingQueue()
        self.now = 0.0
        self.rooms = Counter(rooms)
        self.sizes: dict[Unit, int] = {}
        self.gated: set[Unit] = set()
        self.attempts: dict[Unit, Attempt] = {}
        self.news = 0

    @rule(kind=KINDS, number=NUMBERS, priority=PRIORITIES, pods=st.integers(1, 3), gated=st.booleans())
    def put(self, kind: str, number: int, priority: int, pods: int, gated: bool) -> None:
        key = PodUnit(f"{kind}{number}")
        gated &= key not in self.sizes or key in self.gated
        self.queue.put(key, priority=priority, created=number, now=self.now, pods=pods, gated=gated)
        self.sizes[key] = pods
        (self.gated.add if gated else self.gated.discard)(key)

    @rule(kind=KINDS, number=NUMBERS)
    def remove(self, kind: str, number: int) -> None:
        key = PodUnit(f"{kind}{number}")
        self.queue.remove(key)
        self.sizes.pop(key, None)
        self.gated.discard(key)
        attempt = self.attempts.pop(key, None)
        if attempt is not None and attempt.has_room:
            self.free(attempt.kind)

    @rule()
    def begin_attempt(self) -> None:
        active = [
            unit for unit in map(self.queue.get, self.sizes) if unit is not None and unit.state is UnitState.ACTIVE
        ]
        key = self.queue.pop(self.now)
        if key is None:
            assert not active
            return
        if active:
            chosen = self.queue.get(key)
            assert chosen is not None
            assert chosen.order <= min(unit.order for unit in active), "its backoff may have ended just now"
        assert key not in self.attempts, "no unit is decided about twice at once"
        assert key not in self.gated
        has_room = self.rooms[str(key)[0]] > 0
        self.rooms[str(key)[0]] -= has_room
        self.attempts[key] = Attempt(str(key)[0], has_room, self.news)

    @precondition(lambda self: self.attempts)
    @rule(choose=st.randoms(use_true_random=False).map(lambda dice: dice.choice), trouble=st.booleans(), took=NUMBERS)
    def end_attempt(self, choose: Callable[[list[Unit]], Unit], trouble: bool, took: int) -> None:
        key = choose(sorted(self.attempts, key=str))
        attempt = self.attempts.pop(key)
        if attempt.has_room and trouble:
            self.free(attempt.kind)
            self.queue.retry(key, self.now)
        elif attempt.has_room:
            assert self.queue.done(key) is not None
            del self.sizes[key]
        else:
            self.queue.failed(key, self.now, waits_for=attempt.kind, took=took / 2)
            if attempt.news != self.news:
                self.queue.wake(attempt.kind, self.now)

    @rule(kind=KINDS)
    def free(self, kind: str) -> None:
        self.rooms[kind] += 1
        self.news += 1
        self.queue.wake(kind, self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 11.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def everybody_is_somewhere_once(self) -> None:
        counts: Counter[UnitState] = Counter()
        for key, pods in self.sizes.items():
            unit = self.queue.get(key)
            assert unit is not None
            counts[unit.state] += pods
        assert len(self.queue) == len(self.sizes)
        assert {place: number for place, number in self.queue.counts().items() if number} == counts
        in_flight = {key for key in self.sizes if (unit := self.queue.get(key)) and unit.state is UnitState.IN_FLIGHT}
        assert in_flight == self.attempts.keys()

    def teardown(self) -> None:
        """In the end everything calms down. Then no unit waits that could have a room, without any flush."""
        if not hasattr(self, "queue"):
            return
        for key in list(self.attempts):
            self.end_attempt(lambda _, key=key: key, trouble=False, took=0)
        for _ in range(3):
            self.now += LONGER_THAN_ANY_BACKOFF
            while True:
                before = len(self.attempts)
                self.begin_attempt()
                if len(self.attempts) == before:
                    break
                self.end_attempt(lambda keys: keys[0], trouble=False, took=0)
        waiting = [key for key in self.sizes if key not in self.gated and self.rooms[str(key)[0]] > 0]
        assert not waiting


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=100, stateful_step_count=50)
