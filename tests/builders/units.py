"""A dispatcher with a few nodes, and the pods, PodGroups and actions of its stories."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import Action, Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodGroupSpec, PodGroupStatus
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import node, simple_pod

RACK = "example.com/rack"


def dispatcher(
    *nodes: str,
    cpus: int = 8,
    racks: dict[str, str] | None = None,
    expects_group: Callable[[Pod], bool] = lambda _: False,
    why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "",
) -> Dispatcher:
    made = Dispatcher({"bayplan": default_profile()}, expects_group=expects_group, why_gang_waits=why_gang_waits)
    for name in nodes:
        add_node(made, name, cpus, (racks or {}).get(name, ""))
    made.set_levels("network", (RACK,))
    return made


def add_node(to: Dispatcher, name: str, cpus: int = 8, rack: str = "") -> None:
    labels = {"kubernetes.io/hostname": name, **({RACK: rack} if rack else {})}
    to.state.set_node(node(name, {"cpu": cpus, "memory": "64Gi"}, labels=labels))


def pod(name: str, cpus: int = 1, *, gang: str = "", priority: int = 0, uid: str = "", group: str = "") -> Pod:
    made = simple_pod({"cpu": str(cpus), "memory": "1Gi"}, name)
    labels = {**({"bayplan.io/pod-group": gang} if gang else {}), **({"bayplan.io/group": group} if group else {})}
    metadata = msgspec.structs.replace(made.metadata, labels=labels, uid=uid or f"uid-{name}", namespace="ml")
    spec = msgspec.structs.replace(made.spec, scheduler_name="bayplan", priority=priority)
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)


def on_node(waiting: Pod, node: str, *, by_us: bool = True) -> Pod:
    annotations = {"bayplan.io/rank": "0"} if by_us else None
    return msgspec.structs.replace(
        waiting,
        metadata=msgspec.structs.replace(waiting.metadata, annotations=annotations),
        spec=msgspec.structs.replace(waiting.spec, node_name=node),
    )


def pod_group(size: int, *, minimum: int | None = None, required: str | None = None, phase: str = "") -> PodGroup:
    spec = PodGroupSpec(topology="network", size=size, minimum=minimum, required=required)
    status = PodGroupStatus(phase=phase) if phase else None
    return PodGroup(metadata=Metadata(name="train", namespace="ml", uid="g"), spec=spec, status=status)


def being_deleted(alive: Pod) -> Pod:
    metadata = msgspec.structs.replace(alive.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(alive, metadata=metadata)


def places(action: Action | None) -> dict[str, str]:
    assert isinstance(action, Bind)
    return {pod_key(each.pod): each.node for each in action.assignments}


def fail(scheduler: Dispatcher, action: Action | None, key: str, now: float) -> None:
    """The bind of one pod failed."""
    assert isinstance(action, Bind)
    scheduler.not_bound(action, [each for each in action.assignments if pod_key(each.pod) == key], now)


def reason(action: Action | None) -> str:
    assert isinstance(action, Unschedulable)
    return action.reason
