"""No unit with a place stays parked: queue and waking in random clusters, against a scheduler that simply asks for
everybody.

Pods and gangs wait; nodes, reports and other pods come, change and go. After each batch of news, a woken unit is
decided. Then a fresh look at the cluster, without anything kept, must find no place for any of those who still wait.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bayplan.cluster.state import pod_key
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.dispatch.waking import ForGang, ForRoom, Waking
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import GPU, Amounts, simple_pod
from tests.random_gangs import TOPOLOGY, Case, numa_case, odd_case, plain_case, tight_case
from tests.unit.scheduling.test_answers import PODS, Weather

PROFILE = default_profile()
# More than any backoff: a woken unit is tried.
A_WHILE = 20.0
BATCHES = 40
GANGS: dict[Callable[[int], Case], int] = {plain_case: 200, tight_case: 120, numa_case: 100, odd_case: 40}
VISITORS: tuple[Amounts, ...] = ({GPU: 1}, {"cpu": 1}, {"cpu": 2, "memory": "1Gi"}, {GPU: 2, "cpu": 3})
CHUNKS = 4


@pytest.mark.parametrize("seed", range(40))
def test_no_pod_stays_parked_that_a_node_would_take(seed: int) -> None:
    weather = Weather(seed, PROFILE)
    state, answers = weather.state, weather.answers
    waking = Waking(state, {PROFILE.name: GangScheduler(state, Trees(state), PROFILE, answers)})
    queue, now, came, woken = SchedulingQueue(flush_after=1e9), 0.0, 0, 0
    waiting: dict[Unit, Pod] = {}
    for _ in range(BATCHES):
        for _ in range(weather.dice.randint(0, 3)):
            came += 1
            unit = PodUnit(f"default/{came}")
            waiting[unit] = weather.dice.choice(PODS)
            queue.put(unit, priority=weather.dice.randint(0, 1), created=came, now=now)
        for _ in range(weather.dice.randint(1, 3)):
            weather.happen()
        woken += waking.wake(queue, now)
        now += A_WHILE
        while (key := queue.pop(now)) is not None:
            decision = schedule_one(state, waiting[key], PROFILE, answers, explain=False)
            pod_class = state.classes.of(waiting[key])
            if decision.placed:
                state.assume(str(key), decision.row, pod_class, decision.charges)
                queue.done(key)
                del waiting[key]
            else:
                queue.failed(key, now, waits_for=ForRoom(PROFILE.name, pod_class))
                waking.parked(ForRoom(PROFILE.name, pod_class))
        for still, pod in waiting.items():
            fresh = schedule_one(state, pod, PROFILE, ClassAnswers(state), explain=False)
            assert not fresh.placed, f"{still} waits, and {fresh.node} would take it"
    assert woken, "a story in which no unit is woken would prove little"


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("make", GANGS)
def test_no_gang_stays_parked_that_has_a_place(make: Callable[[int], Case], chunk: int) -> None:
    waited = 0
    for seed in range(chunk, GANGS[make], CHUNKS):
        waited += follow(make(seed), Random(seed), f"{make.__name__}({seed})")
    assert waited, "gangs that never wait would prove little"


def follow(case: Case, dice: Random, name: str) -> int:
    """Visitors come and go until the gang has a place; says how often it was told to wait."""
    state = case.state
    running = {pod_key(pod) for group in case.gang.root.every_group() for pod in group.running}
    visitors = [key for key in state.pods if key not in running]
    waking, queue = Waking(state, {PROFILE.name: case.scheduler}), SchedulingQueue(flush_after=1e9)
    queue.put(GangUnit("ml/gang"), priority=0, created=0.0, now=0.0)
    waits_for, now, waited = ForGang(PROFILE.name, case.gang), 0.0, 0
    for number in range(12):
        for _ in range(dice.randint(1, 2)):
            if visitors and dice.random() < 0.5:
                state.remove_pod(visitors.pop(dice.randrange(len(visitors))))
            else:
                visitor = simple_pod(dice.choice(VISITORS), f"visitor-{number}-{len(visitors)}")
                decision = schedule_one(state, visitor, PROFILE, case.scheduler.answers, explain=False)
                if decision.placed:
                    state.assume(pod_key(visitor), decision.row, state.classes.of(visitor), decision.charges)
                    visitors.append(pod_key(visitor))
        waking.wake(queue, now)
        now += A_WHILE
        if queue.pop(now) is not None:
            if schedule_gang(case.scheduler, case.gang).placed:
                return waited
            queue.failed(GangUnit("ml/gang"), now, waits_for=waits_for)
            waking.parked(waits_for)
            waited += 1
        trees = Trees(state)
        trees.set(TOPOLOGY, case.levels)
        fresh = GangScheduler(state, trees, PROFILE, ClassAnswers(state))
        assert not schedule_gang(fresh, case.gang).placed, f"{name}: waits and has a place, batch {number}"
    return waited
