"""Small clusters and pod sets in one line each: `racks({"b1/r1/x1": 4})` is a host with room
for four pods of one CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.compat.kueue.tas import (
    AssignmentResult,
    Host,
    Leaf,
    PodSet,
    Settings,
    Snapshot,
    TopologyRequest,
    place,
    snapshot_of,
)
from bayplan.kube.wire.core_v1 import Taint

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"


def racks(cpus: Mapping[str, int], levels: tuple[str, ...] = (BLOCK, RACK, HOST)) -> Snapshot:
    """A cluster from paths and free CPUs."""
    return snapshot_of("default", levels, [leaf(path, cpu=amount) for path, amount in cpus.items()])


def leaf(path: str, *, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] = (), **amounts: int) -> Leaf:
    values = tuple(path.split("/"))
    return Leaf(values, {"pods": 100, **amounts}, Host(values[-1], {HOST: values[-1], **(labels or {})}, taints))


def pods(count: int, *, name: str = "main", **wishes: Any) -> PodSet:
    """Pods of one CPU; `required`, `preferred`, `unconstrained` and `slices` make the topology request."""
    request = {key: wishes.pop(key) for key in ("required", "preferred", "unconstrained", "slices") if key in wishes}
    wishes.setdefault("requests", {"cpu": 1})
    return PodSet(name=name, count=count, topology=TopologyRequest(**request) if request else None, **wishes)


def placed(snapshot: Snapshot, *pod_sets: PodSet, **settings: Any) -> Any:
    """Pods per domain, or the reason; for several pod sets one entry each, by name."""
    outcomes = place(snapshot, pod_sets, Settings(**settings))
    shown = {name: told(outcome) for name, outcome in outcomes.items()}
    return shown if len(pod_sets) > 1 else shown[pod_sets[0].name]


def told(outcome: AssignmentResult) -> dict[str, int] | str:
    if outcome.assignment is None:
        return outcome.reason or ""
    return {"/".join(values): count for values, count in outcome.assignment.domains}
