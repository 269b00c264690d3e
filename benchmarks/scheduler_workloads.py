"""What kube-scheduler's own performance cases ask of a scheduler, as data: `scheduler_perf` of Kubernetes 1.36.

Names, pods and their terms are those of its configuration. Pods that are there before the measurement stand on nodes
in turn instead of being placed first, so that every scheduler meets the same cluster. `scheduler_perf.py` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
STANDING, MEASURED = "sched-0", "sched-1"
"""Namespaces that terms about other pods name."""
ONE_ZONE, THREE_ZONES = ("zone1",), ("moon-1", "moon-2", "moon-3")
HIGH_PRIORITY = "high"
SMALL = {"cpu": "100m", "memory": "500Mi"}


def pod(
    amounts: Mapping[str, str],
    *,
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod without a name."""
    resources = {"requests": dict(amounts), "limits": dict(amounts if limits is None else limits)}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10.2", "resources": resources}
    return {
        "metadata": {"labels": dict(labels or {})},
        "spec": {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def _term(colour: str, key: str) -> Json:
    selector = {"matchLabels": {"color": colour}}
    return {"labelSelector": selector, "topologyKey": key, "namespaces": [STANDING, MEASURED]}


def _related(colour: str, kind: str, key: str) -> Json:
    """A pod that must, or must not, be with pods of its own colour."""
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(colour, key)]}
    return pod(SMALL, labels={"color": colour}, affinity={kind: terms})


def _drawn(colour: str, kind: str, key: str) -> Json:
    """A pod that prefers to be, or not to be, with pods of its own colour."""
    wish = {"weight": 1, "podAffinityTerm": _term(colour, key)}
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
    return pod(SMALL, labels={"color": colour}, affinity={kind: terms})


def _spread(when: str) -> Json:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return pod(SMALL, labels={"color": "blue"}, topologySpreadConstraints=[constraint])


PLAIN = pod(SMALL)
ANTI_AFFINITY = _related("green", "podAntiAffinity", HOSTNAME)
AFFINITY = _related("blue", "podAffinity", ZONE)
PREFERRED_AFFINITY = _drawn("red", "podAffinity", HOSTNAME)
PREFERRED_ANTI_AFFINITY = _drawn("yellow", "podAntiAffinity", HOSTNAME)
IN_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]}
NODE_AFFINITY = pod(
    SMALL,
    affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_ZONES]}},
    },
)
LOW = pod({"cpu": "900m", "memory": "500Mi"})
HIGH = pod({"cpu": "3", "memory": "500Mi"}, priorityClassName=HIGH_PRIORITY)
TOO_LARGE = pod({"cpu": "9", "memory": "500Mi"}, limits={}, priorityClassName=HIGH_PRIORITY)


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods that are measured, and those that are there before.

    `counts` says how many there are before and how many are measured, by the number of nodes. `churns` if a node, a
    pod that fits nowhere and a Service are created and deleted meanwhile, each once a second. `preempts` if the
    measured pods need the room of those before.
    """

    name: str
    measured: Json
    standing: Json | None = None
    counts: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    zones: Sequence[str] = ONE_ZONE
    volumes: bool = False
    churns: bool = False
    preempts: bool = False

    def numbers(self, nodes: int) -> tuple[int, int] | None:
        """How many pods there are before and how many are measured; None if there is no such case.

        On fewer than 1,000 nodes, which only a trial run has, as many for each node as on 1,000.
        """
        if nodes >= LEAST:
            return self.counts.get(nodes)
        standing, measured = self.counts[LEAST]
        return standing * nodes // LEAST, measured * nodes // LEAST


LEAST = 1_000
USUAL = {1_000: (1_000, 1_000), 5_000: (1_000, 2_000)}
WITHOUT = {1_000: (0, 1_000), 5_000: (0, 2_000)}
ANTI = {1_000: (200, 600), 5_000: (1_000, 2_000)}  # one such pod fits on a node
SPREAD = {1_000: (2_000, 1_000), 5_000: (5_000, 2_000)}
VICTIMS = {1_000: (4_000, 1_000)}  # as in scheduler_perf, which has no larger one

WORKLOADS = (
    Workload("SchedulingBasic", PLAIN, PLAIN, USUAL),
    Workload("SchedulingPodAntiAffinity", ANTI_AFFINITY, ANTI_AFFINITY, ANTI),
    Workload("SchedulingPodAffinity", AFFINITY, AFFINITY, USUAL),
    Workload("SchedulingPreferredPodAffinity", PREFERRED_AFFINITY, PREFERRED_AFFINITY, USUAL),
    Workload("SchedulingPreferredPodAntiAffinity", PREFERRED_ANTI_AFFINITY, PREFERRED_ANTI_AFFINITY, USUAL),
    Workload("SchedulingNodeAffinity", NODE_AFFINITY, NODE_AFFINITY, USUAL),
    Workload("SchedulingCSIPVs", PLAIN, PLAIN, USUAL, volumes=True),
    Workload("SchedulingWithMixedChurn", PLAIN, None, WITHOUT, churns=True),
    Workload("PreemptionBasic", HIGH, LOW, VICTIMS, preempts=True),
    Workload("TopologySpreading", _spread("DoNotSchedule"), PLAIN, SPREAD, zones=THREE_ZONES),
    Workload("PreferredTopologySpreading", _spread("ScheduleAnyway"), PLAIN, SPREAD, zones=THREE_ZONES),
)


def chosen_workloads(names: str) -> Sequence[Workload]:
    """Those with these names, which commas separate; all of them if there are none."""
    if not names:
        return WORKLOADS
    by_name = {workload.name: workload for workload in WORKLOADS}
    return [by_name[name] for name in names.split(",")]
