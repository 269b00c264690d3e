"""Pods beside pods: what a decision costs if the pod says something about others, on clusters with very many pods that
do.

Half of the 50,000 pods stand alone on their node by anti-affinity or are spread over zones, in applications of a
hundred pods each. `place/...` is decide and assume for pods of an application that is known; `first` is the first pod
of a new one, whose neighbours are counted then.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import default_profile
from benchmarks.measure import report

SIZES = (1_000, 5_000, 50_000)
PODS = 50_000
OF_ONE_APPLICATION = 100
ZONES = 10
IN_A_ROW = 50
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Json = dict[str, object]
Kind = Callable[[str], Json]


def run() -> None:
    """All figures of this group."""
    for size in SIZES:
        before = time.thread_time()
        state = cluster(size)
        report(f"relations/load-{PODS}-pods/{size}", time.thread_time() - before, "s")
        answers = ClassAnswers(state)
        for key in (HOSTNAME, ZONE):
            state.labels.codes(key)
        for name, kind in KINDS.items():
            first, others = _seconds_each(state, answers, kind)
            report(f"relations/place/{name}/first/{size}", first * 1e6, "us")
            report(f"relations/place/{name}/{size}", others * 1e6, "us")


def cluster(nodes: int) -> ClusterState:
    """Nodes in ten zones, and pods of five hundred applications on them, a fifth of each kind."""
    state = ClusterState()
    for number in range(nodes):
        labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % ZONES}"}
        allocatable = {"pods": 1000, "cpu": 1000}
        state.set_node(
            msgspec.convert(
                {"metadata": {"name": f"node-{number}", "labels": labels}, "status": {"allocatable": allocatable}}, Node
            )
        )
    kinds = list(KINDS.values())
    for number in range(PODS):
        application = number // OF_ONE_APPLICATION
        spec = kinds[application % len(kinds)](f"app-{application}")
        state.set_pod(pod(f"pod-{number}", f"app-{application}", {**spec, "nodeName": f"node-{number * 7919 % nodes}"}))
    return state


def pod(name: str, application: str, spec: Json) -> Pod:
    """A pod of an application, which all its pods name in a label."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}]
    metadata = {"name": name, "namespace": "bench", "labels": {"app": application}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": containers, **spec}}, Pod)


def _term(application: str, key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": application}}}


def _spread(application: str, action: str) -> Json:
    selector = {"matchLabels": {"app": application}}
    rule = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": action, "labelSelector": selector}
    return {"topologySpreadConstraints": [rule]}


KINDS: dict[str, Kind] = {
    "says-nothing": lambda _: {},
    "anti-affinity": lambda app: {"affinity": {"podAntiAffinity": {REQUIRED: [_term(app, HOSTNAME)]}}},
    "preferred-anti-affinity": lambda app: {
        "affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": _term(app, HOSTNAME)}]}}
    },
    "spread-required": lambda app: _spread(app, "DoNotSchedule"),
    "spread-preferred": lambda app: _spread(app, "ScheduleAnyway"),
}


def _seconds_each(state: ClusterState, answers: ClassAnswers, kind: Kind) -> tuple[float, float]:
    """Seconds for the first pod of a new application, and for each of the next ones; all are given back afterwards."""
    profile = default_profile()
    pods = [pod(f"new-{number}", "new", kind("new")) for number in range(IN_A_ROW + 1)]
    answers.for_class(state.classes.of(pods[0]), profile)
    seconds = []
    for batch in (pods[:1], pods[1:]):
        before = time.thread_time()
        for each in batch:
            assume(state, schedule_one(state, each, profile, answers), each)
        seconds.append((time.thread_time() - before) / len(batch))
    for each in pods:
        state.forget(f"bench/{each.metadata.name}")
    return seconds[0], seconds[1]
