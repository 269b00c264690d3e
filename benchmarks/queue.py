"""The queue with ever more pods in it, and what news cost when many classes or one very large class are parked."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from itertools import count

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import PodUnit, Unit
from bayplan.dispatch.waking import ForGang, ForRoom, Waits, Waking
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from benchmarks.clusters import cluster, pod
from benchmarks.measure import median_seconds, report

SIZES = (1_000, 10_000, 100_000)
# So many operations are timed together: one takes about as long as looking at the clock.
AT_ONCE = 1_000
LOTS = 100
IN_ONE_LOT = 50_000
NODES = 5_000
CLASSES = (1, 100, 1_000, 2_000)
GANGS = (1, 100)
PODS_OF_A_GANG = 64
PROFILE = default_profile()


def run() -> None:
    """Print all figures of this group."""
    for size in SIZES:
        _operations(size)
    _wake_of_a_large_lot()
    for classes in CLASSES:
        report(f"queue/news-of-1-node/{classes}-classes/{NODES}", _seconds_of_news(classes, _waiting_pod) * 1e6, "us")
    for gangs in GANGS:
        report(f"queue/news-of-1-node/{gangs}-gangs/{NODES}", _seconds_of_news(gangs, _waiting_gang) * 1e6, "us")


def _operations(size: int) -> None:
    """Each operation with `size` pods in the queue, all of different age; a tenth of the lots that there may be."""
    ages = count()
    queue = SchedulingQueue()

    def put(number: int) -> None:
        queue.put(PodUnit(f"default/pod-{number}"), priority=number % 3, created=next(ages), now=0.0)

    def measure(name: str, do: Callable[[int], object], numbers: range) -> None:
        report(f"queue/{name}/{size}", _seconds_each(do, numbers) * 1e6, "us")

    for number in range(size):
        put(number)
    measure("put", put, range(size, size + AT_ONCE))
    measure("put-again", put, range(AT_ONCE))
    popped: list[Unit] = []
    measure("pop", lambda _: popped.append(_next(queue, 0.0)), range(AT_ONCE))
    measure("failed", lambda number: queue.failed(popped[number], 1.0, waits_for=number % LOTS), range(AT_ONCE))
    while (key := queue.pop(2.0)) is not None:
        queue.failed(key, 2.0, waits_for=int(str(key)[-2:]) % LOTS)
    measure("wake", lambda number: queue.wake(number, 3.0), range(LOTS))
    measure("pop-in-backoff", lambda _: queue.done(_next(queue, 4.0)), range(AT_ONCE // 2))
    measure("remove", lambda number: queue.remove(PodUnit(f"default/pod-{number}")), range(AT_ONCE))


def _next(queue: SchedulingQueue, now: float) -> Unit:
    unit = queue.pop(now)
    assert unit is not None
    return unit


def _seconds_each(do: Callable[[int], object], numbers: range) -> float:
    """Without garbage collection, as timeit measures: one falls into any thousand operations by chance, and costs a
    fifth of them.
    """
    gc.collect()
    gc.disable()
    try:
        before = time.thread_time()
        for number in numbers:
            do(number)
        return (time.thread_time() - before) / len(numbers)
    finally:
        gc.enable()


def _wake_of_a_large_lot() -> None:
    """A lot of very many pods opens, one of them finds a place, the next one does not, and the lot closes."""
    queue = SchedulingQueue()
    for number in range(IN_ONE_LOT):
        queue.put(PodUnit(f"default/pod-{number}"), priority=0, created=number, now=0.0)
    while (key := queue.pop(0.0)) is not None:
        queue.failed(key, 0.0, waits_for="room")

    def one_place_becomes_free(number: int) -> None:
        now = 10.0 * (number + 1)
        queue.wake("room", now)
        queue.done(_next(queue, now))
        queue.failed(_next(queue, now), now, waits_for="room")

    report(
        f"queue/wake-place-1-park-1/lot-of-{IN_ONE_LOT}", _seconds_each(one_place_becomes_free, range(200)) * 1e6, "us"
    )


def _seconds_of_news(units: int, waiting: Callable[[ClusterState, int], Waits]) -> float:
    """So many units are parked that no node can hold, none like another; then a node changes, which helps none."""
    state = cluster(NODES)
    scheduler = GangScheduler(state, Trees(state), PROFILE, ClassAnswers(state))
    waking, queue = Waking(state, {PROFILE.name: scheduler}), SchedulingQueue()
    for number in range(units):
        waits_for = waiting(state, number)
        queue.put(PodUnit(f"default/{number}"), priority=0, created=number, now=0.0)
        queue.failed(_next(queue, 0.0), 0.0, waits_for=waits_for)
        waking.parked(waits_for)

    def news() -> None:
        state.usage_log.append(0)
        assert waking.wake(queue, 1.0) == 0

    return median_seconds(news, seconds=0.2)


def _waiting_pod(state: ClusterState, number: int) -> Waits:
    return ForRoom(PROFILE.name, state.classes.of(_too_large(number)))


def _waiting_gang(_: ClusterState, number: int) -> Waits:
    return ForGang(PROFILE.name, Gang(f"default/gang-{number}", Group(pods=(_too_large(number),) * PODS_OF_A_GANG)))


def _too_large(number: int) -> Pod:
    return pod(f"large-{number}", cpu=1_000 + number, memory="4Gi", gpu=0)
