"""GPU machines as a cluster's dump has them: a Node, NFD's report without zones of pods, and pods that hold GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.builders.bodies import Json, node_body, pod_body, report_body
from tests.builders.objects import zone

GPU, NIC = "nvidia.com/gpu", "nvidia.com/mlnxnics"


def taint(key: str = GPU, value: str = "present", effect: str = "NoSchedule") -> Json:
    return {"key": key, "value": value, "effect": effect}


GPU_TAINT = taint()
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def gpu_machine(
    name: str,
    gpus: int = 8,
    zones: int = 2,
    *,
    cpus: int = 48,
    reserved: int = 0,
    memory: int = 512,
    busy: Sequence[int] = (),
    more: Mapping[str, Sequence[int]] | None = None,
    taints: Iterable[Json] = (GPU_TAINT,),
    ready: bool = True,
    cordoned: bool = False,
    reports: bool = True,
    policy: str = "restricted",
    scope: str = "container",
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    **attributes: str,
) -> list[Json]:
    """A machine of `zones` with `cpus` and `memory` Gi each, of which zone 0 reserves `reserved` CPUs.

    `busy` is how many GPUs of each zone a pod holds, with 4 CPUs and 32Gi for each; `more` has other resources by zone.
    """
    used = [*busy, *[0] * (zones - len(busy))]
    amounts: list[dict[str, tuple[int, int, int]]] = [
        {
            "cpu": (cpus, cpus - (0 if at else reserved), cpus - (0 if at else reserved) - 4 * used[at]),
            "memory": (memory << 30, memory << 30, memory - 32 * used[at] << 30),
            **({GPU: (gpus // zones, gpus // zones, gpus // zones - used[at])} if gpus else {}),
            **{resource: (each[at],) * 3 for resource, each in (more or {}).items() if each[at]},
        }
        for at in range(zones)
    ]
    total: dict[str, int] = {}
    for each in amounts:
        for resource, (_, allocatable, _) in each.items():
            total[resource] = total.get(resource, 0) + allocatable
    node = node_body(name, total, **(labels or {}))
    closing = [*taints, *([] if ready else [UNREACHABLE]), *([CORDON] if cordoned else [])]
    node["spec"] = {"taints": closing, "unschedulable": cordoned}
    node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    report = report_body(
        name, *(zone(at, each) for at, each in enumerate(amounts)), policy=policy, scope=scope, **attributes
    )
    holders = [holder(f"{name}-{at}", each, name, priority) for at, each in enumerate(used) if each]
    return [node, *([report] if reports else []), *holders]


def holder(name: str, gpus: int, on: str, priority: int = 0) -> Json:
    """A running pod that holds GPUs."""
    amounts: Json = {"cpu": 4 * gpus, "memory": f"{32 * gpus}Gi", GPU: gpus}
    return pod_body(name, "old", amounts, phase="Running", nodeName=on, priority=priority)


def cpu_machines(number: int = 2, **more: Any) -> list[Json]:
    """Machines without GPUs and taints, which are no help to pods with GPUs."""
    return [each for at in range(number) for each in gpu_machine(f"cpu-{at}", 0, taints=(), **more)]


def asking(
    gpus: int = 0, cpu: int = 8, memory: int = 64, *, tolerates: Iterable[str] = (GPU,), name: str = "new", **more: Any
) -> Json:
    """A waiting pod, `ml/new`; `more` are fields of its spec."""
    amounts: Json = {"cpu": cpu, "memory": f"{memory}Gi", **({GPU: gpus} if gpus else {})}
    extra = more.pop("amounts", {})
    tolerations = [{"key": key, "operator": "Exists"} for key in tolerates]
    return pod_body(name, "ml", {**amounts, **extra}, phase="Pending", tolerations=tolerations, **more)
