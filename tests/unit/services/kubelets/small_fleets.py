"""Small fleets for the tests here: two zones of 4 CPUs, 1 of them reserved, and pods bound to them in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.kubelets.fleet import Fleet
from bayplan.services.kubelets.layout import NodeGroup, lay_out
from bayplan.services.kubelets.model import KubeletsSettings, SetPodStatus, Write

DELETED_BY = "2026-01-01T00:10:00Z"
MACHINE = "pack:2 core:4 mem:8Gi"  # zone 0 has 3 CPUs for pods, zone 1 has 4


def fleet(nodes: int = 1, *, kubelet: str = "", **settings: Any) -> Fleet:
    """Nodes virtual-0, virtual-1, ..."""
    return Fleet(KubeletsSettings(lay_out([NodeGroup(MACHINE, nodes, kubelet)]), **settings))


def bound(
    name: str,
    cpus: int = 2,
    *,
    node: str = "virtual-0",
    uid: str = "",
    phase: str = "Pending",
    created: str = "2026-01-01T00:00:00Z",
    deleted: bool = False,
    grace: int = 30,
    finalizers: Sequence[str] = (),
    started: str | None = None,
    annotations: dict[str, str] | None = None,
    init_cpus: int = 0,
    ready: bool | None = None,
    pre_stop: int = 0,
) -> Pod:
    """A Guaranteed pod on a node, as the API server tells of it."""
    main = _container("main", cpus) | ({"lifecycle": {"preStop": {"sleep": {"seconds": pre_stop}}}} if pre_stop else {})
    spec: dict[str, Any] = {"nodeName": node, "containers": [main]}
    if init_cpus:
        spec["initContainers"] = [_container("prepare", init_cpus)]
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "creationTimestamp": created,
        "annotations": annotations or {},
        "finalizers": list(finalizers),
    }
    if deleted:
        metadata |= {"deletionTimestamp": DELETED_BY, "deletionGracePeriodSeconds": grace}
    status: dict[str, Any] = {"phase": phase, "qosClass": "Guaranteed", "startTime": started}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def _container(name: str, cpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def phases(writes: list[Write]) -> list[tuple[str, str]]:
    """What becomes of which pod: `[("a", "Running"), ("b", "TopologyAffinityError")]`."""
    return [
        (write.name, str(write.status.get("reason") or write.status["phase"]))
        for write in writes
        if isinstance(write, SetPodStatus)
    ]


def on_node(a_fleet: Fleet, node: str = "virtual-0") -> list[str]:
    """The pods that hold something there."""
    return sorted(a_fleet.agents[node].kubelet.pods)
