"""Pods beside pods in one line each: who somebody is, what it says about others, and small clusters of racks.

`apart("web")` and its like are fields of a pod's spec; put several together with `|`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from tests.helpers import Json, node, simple_pod

HOSTNAME = "kubernetes.io/hostname"
RACK = "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def somebody(
    name: str,
    app: str = "",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    leaving: bool = False,
    cpu: int = 1,
    **spec: Any,
) -> Pod:
    """A pod of an application (its own name if none is given); `leaving` is one that has been deleted and still runs."""
    pod = simple_pod({"cpu": cpu}, name, **spec)
    metadata = msgspec.structs.replace(
        pod.metadata,
        namespace=namespace,
        labels={"app": app or name, **(labels or {})},
        deletion_timestamp="2030-01-01T00:00:00Z" if leaving else None,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def on(name: str, pod: Pod) -> Pod:
    """The same pod, bound to a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name))


def racks(names: str, *standing: Pod) -> ClusterState:
    """`aab` are the nodes n1, n2 and n3 in the racks a, a and b; `.` is a node without labels. Pods stand where they are bound."""
    state = ClusterState()
    for number, rack in enumerate(names, start=1):
        labels = {} if rack == "." else {RACK: rack, HOSTNAME: f"n{number}"}
        state.set_node(node(f"n{number}", {"cpu": 8}, labels=labels))
    for pod in standing:
        state.set_pod(pod)
    return state


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
