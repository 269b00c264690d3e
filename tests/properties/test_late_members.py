"""Members that come late, in random clusters: they find the room that was kept for them, it ends when its time is over,
and nothing is lost or taken twice.

Gangs begin with a leader in a rack; their workers come after a while, together or one after the other, or never. Pods
of the same priority come and go all the time, and nodes are always nearly full.
"""

from __future__ import annotations

from random import Random

import pytest

from bayplan.cluster.state import pod_key
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.cycle import schedule_one
from tests.builders.units import dispatcher, pod
from tests.unit.dispatch.test_late_room import KEPT_FOR, arrive, bound, decide_all, leader, staged, workers

STEPS = 60
CLUSTERS = 40


class Story:
    """One cluster, its gangs and the other pods."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        racks = {f"n{number}": f"r{number % self.random.randint(1, 4)}" for number in range(self.random.randint(2, 8))}
        self.scheduler: Dispatcher = dispatcher(*racks, racks=racks, cpus=self.random.choice([4, 8, 12]))
        self.now = 0.0
        # By gang whose workers are to come: how many, of how many CPUs, and whether they come together.
        self.to_come: dict[str, list[Pod]] = {}
        self.running: dict[str, str] = {}
        self.waiting: dict[str, Pod] = {}
        self.made = self.found_kept = 0

    def come(self, *pods: Pod) -> None:
        self.waiting |= {pod_key(each): each for each in pods}
        self.note(arrive(self.scheduler, *pods, now=self.now))

    def note(self, came: dict[str, str]) -> None:
        self.running |= came
        for key in came:
            self.waiting.pop(key, None)

    def step(self) -> None:
        self.now += self.random.choice([0.5, 5.0, 40.0])
        match self.random.randrange(4):
            case 0:
                self.begin()
            case 1 if self.to_come:
                self.follow(self.random.choice(sorted(self.to_come)))
            case 2 if self.running:
                self.end(self.random.choice(sorted(self.running)))
            case _:
                self.made += 1
                self.come(pod(f"alone-{self.made}", self.random.randint(1, 4)))
        self.note(bound(decide_all(self.scheduler, self.now)))

    def begin(self) -> None:
        self.made += 1
        name, cpus, number = f"g{self.made}", self.random.randint(1, 3), self.random.randint(1, 4)
        self.scheduler.set_group(staged(name, number), self.now)
        self.come(leader(name, cpus))
        if self.random.random() < 0.8:
            self.to_come[name] = workers(name, number, cpus)

    def follow(self, name: str) -> None:
        """The workers come: if all their room is kept, they get it."""
        late = self.scheduler.late.get(f"ml/{name}")
        late_workers = self.to_come.pop(name)
        has_leader = f"ml/{name}-leader" in self.running
        is_kept = late is not None and late.until > self.now and len(late.every_seat) == len(late_workers)
        self.come(*late_workers)
        if is_kept and has_leader:
            self.found_kept += 1
            assert all(pod_key(each) in self.running for each in late_workers)

    def end(self, key: str) -> None:
        del self.running[key]
        self.scheduler.remove_pod(key, self.now)

    def check(self) -> None:
        """Nodes hold what they have, and room is kept no longer than it may be."""
        state, late = self.scheduler.state, self.scheduler.late
        columns = state.columns
        assert (columns.free[:, : columns.size] >= 0).all()
        assert (late.next_time() or self.now + 1) > self.now
        kept = set(state.promises.only_kept)
        assert len(kept) == late.members
        assert state.pods.keys() - kept == self.running.keys()


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_late_members_find_their_room_and_it_ends(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
        story.check()
    scheduler, state = story.scheduler, story.scheduler.state
    story.now += KEPT_FOR + 1
    for _ in range(3):
        story.note(bound(decide_all(scheduler, story.now)))
        story.now += 20
    story.check()
    # Members that still wait may keep room again, once; after that nothing is kept.
    story.now += KEPT_FOR + 1
    for _ in range(3):
        story.note(bound(decide_all(scheduler, story.now)))
        story.now += 20
    assert scheduler.late.members == 0
    profile = scheduler.profiles["bayplan"]
    for key, alone in story.waiting.items():
        if "alone" in key:
            assert not schedule_one(state, alone, profile, scheduler.answers, explain=False).placed, key
    for key, node in story.running.items():
        assert state.names[state.pods[key].row] == node


def test_the_stories_have_kept_room_in_them() -> None:
    found = 0
    for seed in range(CLUSTERS):
        story = Story(seed)
        for _ in range(STEPS):
            story.step()
        found += story.found_kept
    assert found > CLUSTERS
