"""One decision for a whole gang: cold (the class of pods is new), changed (its slots are known, and one node has more
or fewer than last time) and warm (a node has changed, but not in how many of these pods it holds: the last answer is
proven and stays).

16 nodes a rack, 16 racks a block, 0 to 8 free GPUs a node. Peers, measured on the same shape on two shared cores, in ms
at 640 / 5,000 / 20,000 / 50,000 nodes:

    Kueue, required rack, 32 pods      0.19   1.6    20    68
    Kueue, preferred, 512 pods         0.29   1.7    17    64
    KAI, required rack, 32 pods        11.8   103   809     -
    KAI, preferred rack, 512 pods      11.1   102   469     -
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import msgspec
import numpy as np

from bayplan.cluster.state import ClusterState
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeStatus, Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.process import freeze_gc
from benchmarks.clusters import pod
from benchmarks.measure import report

SIZES = (640, 5_000, 20_000, 50_000)
BLOCK, RACK = "example.com/block", "example.com/rack"
GPU = "vendor.com/gpu"
RUNS = 25
Clock = Callable[[], float]
# Pods that are all different: nothing is counted for many at once. The whole decision is one uninterrupted piece of
# work, which `WORK_OF_A_DECISION` bounds.
UNLIKE_NODES = (500, 5_000)
UNLIKE_SHAPES = (100, 300, 1_000, 3_000, 5_000)
UNLIKE_GROUPS = (0, 10, 100, 1_000)
UNLIKE_RUNS = 3


def run() -> None:
    """Print all figures of this group."""
    for size in SIZES:
        state = gang_cluster(size)
        before = time.thread_time()
        scheduler = gang_scheduler(state)
        report(f"gang/tree/{size}", time.thread_time() - before, "s")
        for name, gang in gangs_for(size).items():
            report(f"gang/{name}/cold/{size}", _median(partial(cold, scheduler, gang)) * 1e3, "ms")
            report(f"gang/{name}/changed/{size}", _median(changed(scheduler, gang)) * 1e3, "ms")
            report(f"gang/{name}/warm/{size}", _median(_warm(scheduler, gang)) * 1e3, "ms")
    for size in UNLIKE_NODES:
        scheduler = gang_scheduler(gang_cluster(size))
        freeze_gc()  # as a scheduler does: otherwise a run now and then pays for going through the whole cluster
        for shapes, groups in product(UNLIKE_SHAPES, UNLIKE_GROUPS):
            if groups <= shapes:
                gang = _unlike(shapes, groups)
                seconds = statistics.median(cold(scheduler, gang) for _ in range(UNLIKE_RUNS))
                report(f"gang/unlike/{shapes}-shapes/{groups}-groups/{size}", seconds, "s")


def gangs_for(size: int) -> dict[str, Gang]:
    """The gangs that are measured on a cluster of so many nodes, by name."""
    template = pod("p", gpu=1)
    # As a PodGroup or a controller makes them: many pods of one spec.
    equal = [_named(template, f"p{number}") for number in range(10_000)]
    groups = tuple(
        Group(f"g{number}", tuple(equal[8 * number : 8 * number + 8]), required=RACK) for number in range(64)
    )
    gangs = {
        "required-rack-32": Gang("bench/a", Group(pods=tuple(equal[:32]), required=RACK), "network"),
        "preferred-rack-512": Gang("bench/b", Group(pods=tuple(equal[:512]), preferred=RACK), "network"),
        "64-groups": Gang("bench/c", Group(groups=groups, required=BLOCK), "network"),
        "64-segments": Gang(
            "bench/s", Group(pods=tuple(equal[:512]), required=BLOCK, segments=(Segments(8, RACK),)), "network"
        ),
        "8-unequal-groups": Gang("bench/f", Group(groups=_unequal_groups(equal, 8)), "network"),
        "4-leaders-and-workers": Gang("bench/g", Group(groups=_leaders_and_workers(4)), "network"),
        "16-leaders-and-workers": Gang("bench/e", Group(groups=_leaders_and_workers(16)), "network"),
    }
    if size == SIZES[-1]:
        gangs["preferred-rack-10000"] = Gang("bench/d", Group(pods=tuple(equal), preferred=RACK), "network")
    return gangs


def _unequal_groups(pods: Sequence[Pod], number: int) -> tuple[Group, ...]:
    """Groups of 2, 4, 6, ... pods that each need a rack."""
    starts = [each * (each + 1) for each in range(number + 1)]
    return tuple(
        Group(f"g{each}", tuple(pods[starts[each] : starts[each + 1]]), required=RACK) for each in range(number)
    )


def _leaders_and_workers(number: int) -> tuple[Group, ...]:
    """A leader with 1 GPU and four workers with 4 in each rack: pods of two shapes."""
    leader, worker = pod("leader", gpu=1), pod("worker", gpu=4)
    return tuple(
        Group(
            f"g{group}",
            groups=(
                Group(f"leader-{group}", (_named(leader, f"leader-{group}"),)),
                Group(f"workers-{group}", tuple(_named(worker, f"worker-{group}-{each}") for each in range(4))),
            ),
            required=RACK,
        )
        for group in range(number)
    )


def _unlike(shapes: int, groups: int) -> Gang:
    """So many pods, each of another shape, in so many groups that need one rack each, or in none."""
    pods = tuple(_named(pod("p", cpu=1, memory=f"{1_000 + number}Mi"), f"p{number}") for number in range(shapes))
    if not groups:
        return Gang("bench/u", Group(pods=pods), "network")
    each = shapes // groups
    inner = tuple(
        Group(f"g{number}", pods[number * each : (number + 1) * each], required=RACK) for number in range(groups)
    )
    return Gang("bench/u", Group(groups=inner), "network")


def _named(template: Pod, name: str) -> Pod:
    return msgspec.structs.replace(template, metadata=Metadata(name=name, namespace="bench"))


def gang_cluster(size: int) -> ClusterState:
    """Nodes in blocks of 256 and racks of 16, with 0 to 8 GPUs each."""
    state = ClusterState()
    gpus = np.random.default_rng(1).integers(0, 9, size=size)
    for number in range(size):
        labels = {BLOCK: f"b{number // 256}", RACK: f"r{number // 16 % 16}"}
        allocatable: dict[str, str | int | float] = {"cpu": 64, "memory": "256Gi", "pods": 110, GPU: int(gpus[number])}
        metadata = Metadata(name=f"node-{number}", labels=labels)
        state.set_node(Node(metadata=metadata, status=NodeStatus(allocatable=allocatable)))
    return state


def gang_scheduler(state: ClusterState) -> GangScheduler:
    """One whose tree of blocks and racks is built."""
    trees = Trees(state)
    trees.set("network", (BLOCK, RACK))
    trees.get("network")
    return GangScheduler(state, trees, default_profile(), ClassAnswers(state))


def cold(known: GangScheduler, gang: Gang, clock: Clock = time.thread_time) -> float:
    """Seconds of a decision about a new class of pods; the tree is there."""
    scheduler = GangScheduler(known.state, known.trees, known.profile, ClassAnswers(known.state))
    before = clock()
    decision = schedule_gang(scheduler, gang)
    seconds = clock() - before
    assert decision.placed, decision
    return seconds


def _warm(scheduler: GangScheduler, gang: Gang) -> Callable[[], float]:
    """The same again after a node was used and released."""
    schedule_gang(scheduler, gang)
    state = scheduler.state
    other: Pod = pod("other", cpu=1)

    def once() -> float:
        state.assume("bench/other", len(state.names) // 2, state.classes.of(other), ())
        state.forget("bench/other")
        before = time.thread_time()
        decision = schedule_gang(scheduler, gang)
        seconds = time.thread_time() - before
        assert decision.placed
        return seconds

    return once


def changed(scheduler: GangScheduler, gang: Gang, clock: Clock = time.thread_time) -> Callable[[], float]:
    """The same again after a node has lost a GPU or got it back."""
    schedule_gang(scheduler, gang)
    state = scheduler.state
    other: Pod = pod("other", gpu=1)
    row = next(row for row in range(len(state.names) // 2, len(state.names)) if _has_gpu(state, row))

    def once() -> float:
        if "bench/changed" in state.pods:
            state.forget("bench/changed")
        else:
            state.assume("bench/changed", row, state.classes.of(other), ())
        before = clock()
        decision = schedule_gang(scheduler, gang)
        seconds = clock() - before
        assert decision.placed
        return seconds

    return once


def _has_gpu(state: ClusterState, row: int) -> bool:
    return bool(state.columns.free[state.columns.index_of(GPU), row] >= 1)


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(RUNS))
