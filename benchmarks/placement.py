"""Placing pods of a known class one after another: what a decision costs once the class's answers exist.

Targets on two shared cores: 60 us a placement at 5,000 nodes, and at 100,000 nodes no more than 1.5 times that.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswer, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import Profile, default_profile
from benchmarks.clusters import cluster, pod, pod_of_containers
from benchmarks.engine import SIZES
from benchmarks.measure import bytes_of_arrays, median_seconds, report

IN_A_ROW = 200
RUNS = 25

ONE_CONTAINER = [pod(f"one-{number}", cpu=2, memory="4Gi", gpu=1) for number in range(IN_A_ROW)]
TWO_CONTAINERS = [
    pod_of_containers(f"two-{number}", {"cpu": 1, "memory": "2Gi"}, {"cpu": 1, "memory": "2Gi", "nic": 1})
    for number in range(IN_A_ROW)
]


def run() -> None:
    """Print all figures of this group."""
    profile = default_profile()
    for size in SIZES:
        state = cluster(size)
        pod_class = state.classes.of(ONE_CONTAINER[0])
        new_class = median_seconds(partial(_judge_all, state, pod_class, profile))
        report(f"place/new-class/{size}", new_class * 1e3, "ms")
        answers = ClassAnswers(state)
        for name, pods in (("", ONE_CONTAINER), ("-2-containers", TWO_CONTAINERS)):
            seconds = statistics.median(_seconds_in_a_row(state, pods, answers) for _ in range(RUNS)) / IN_A_ROW
            report(f"place/known-class{name}/{size}", seconds * 1e6, "us")
        report(f"memory-of-a-class/{size}", bytes_of_arrays(answers.for_class(pod_class, profile)) / size, "bytes/node")


def _judge_all(state: ClusterState, pod_class: PodClass, profile: Profile) -> ClassAnswer:
    return ClassAnswer(state, pod_class, profile).refresh()


def _seconds_in_a_row(state: ClusterState, pods: list[Pod], answers: ClassAnswers) -> float:
    """Decide and assume each pod in turn; then, untimed, give all of it back, so that the next run starts alike."""
    profile = default_profile()
    answers.for_class(state.classes.of(pods[0]), profile)
    before = time.thread_time()
    for one in pods:
        assume(state, schedule_one(state, one, profile, answers), one)
    seconds = time.thread_time() - before
    for one in pods:
        state.forget(pod_key(one))
    return seconds
