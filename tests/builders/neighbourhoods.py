"""Pods beside pods in one line each: who a pod is, what it says about others, and small clusters of racks.

`apart("web")` and its like are fields of a pod's spec; put several together with `|`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import bound, node, simple_pod

HOSTNAME = "kubernetes.io/hostname"
RACK = "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def app_pod(name: str, app: str = "", *, labels: Mapping[str, str] | None = None, cpu: int = 1, **more: Any) -> Pod:
    """A pod of an application (its own name if none is given)."""
    return simple_pod({"cpu": cpu}, name, labels={"app": app or name, **(labels or {})}, **more)


def on(name: str, pod: Pod) -> Pod:
    """The same pod, bound to a node."""
    return bound(pod, name)


def racks(names: str, *standing: Pod) -> ClusterState:
    """`aab` are the nodes n1, n2 and n3 in the racks a, a and b; `.` is a node without labels.

    Pods stand where they are bound.
    """
    labels = [{} if rack == "." else {RACK: rack, HOSTNAME: f"n{at}"} for at, rack in enumerate(names, start=1)]
    return cluster(
        nodes=[node(f"n{at}", {"cpu": 8}, labels=each) for at, each in enumerate(labels, start=1)], pods=standing
    )


def term(app: str, key: str = HOSTNAME, **fields: Any) -> Json:
    """An affinity term about the pods of an application."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def apart(app: str, key: str = HOSTNAME, **fields: Any) -> Json:
    """Required anti-affinity."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term(app, key, **fields)]}}}


def together(app: str, key: str = HOSTNAME, **fields: Any) -> Json:
    """Required affinity."""
    return {"affinity": {"podAffinity": {REQUIRED: [term(app, key, **fields)]}}}


def drawn(app: str, weight: int, key: str = HOSTNAME, **fields: Any) -> Json:
    """Preferred affinity; with a negative weight, preferred anti-affinity."""
    kind = "podAffinity" if weight > 0 else "podAntiAffinity"
    wish = {"weight": abs(weight), "podAffinityTerm": term(app, key, **fields)}
    return {"affinity": {kind: {PREFERRED: [wish]}}}


def spread(app: str, key: str = RACK, *, skew: int = 1, required: bool = True, **fields: Any) -> Json:
    """One spread constraint over the pods of an application."""
    action = "DoNotSchedule" if required else "ScheduleAnyway"
    selector = {"matchLabels": {"app": app}}
    rule = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, "labelSelector": selector}
    return {"topologySpreadConstraints": [{**rule, **fields}]}
