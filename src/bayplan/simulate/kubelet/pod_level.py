"""Pods with resources of their own (`spec.resources`) under the alpha gate PodLevelResourceManagers.

At pod scope such a pod gets CPUs and memory as a whole; containers that are Guaranteed by themselves get a part of
them, the others share what is left. Here are the rules about parts; `cpu_manager.py` and `memory_manager.py` do the
taking. Without the gate both managers leave such pods alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayplan.cluster.pods.request import CPU, MEMORY, ContainerRequest, PodRequest, Role, is_memory
from bayplan.simulate.kubelet.cpu_layout import CpuSet

EMPTY_SHARED_POOL = "EmptyPodSharedPoolError"


def guaranteed_by_itself(container: ContainerRequest) -> bool:
    """Whether a container's own CPU and memory requests equal its limits, so that it may own a part exclusively."""
    return all(
        container.requests.get(resource, 0) > 0 and container.requests[resource] == container.limits.get(resource)
        for resource in (CPU, MEMORY)
    )


def exclusive_cpus(pod: PodRequest, container: ContainerRequest) -> int:
    """Whole CPUs that a container of such a pod owns; 0 if it shares."""
    milli = container.requests.get(CPU, 0)
    if not pod.guaranteed or milli % 1000 or not guaranteed_by_itself(container):
        return 0
    return milli // 1000


def exclusive_cpus_of_pod(pod: PodRequest) -> int:
    """Whole CPUs that such a pod owns as a whole; 0 if it lives in the node's shared pool."""
    milli = (pod.pod_level or {}).get(CPU, 0)
    return milli // 1000 if pod.guaranteed and milli % 1000 == 0 else 0


def memory_of_container(container: ContainerRequest) -> dict[str, int]:
    """Memory by type that a container of such a pod owns; nothing if it shares."""
    if not guaranteed_by_itself(container):
        return {}
    return {resource: amount for resource, amount in container.requests.items() if is_memory(resource)}


def memory_of_pod(pod: PodRequest) -> dict[str, int]:
    """Memory by type that such a pod owns as a whole."""
    return {
        resource: amount for resource, amount in (pod.pod_level or {}).items() if is_memory(resource) and amount > 0
    }


def cpu_problem(pod: PodRequest, budget: int) -> str | None:
    """Why the pod's CPUs cannot be parted among its containers, or None."""
    parts = [({CPU: cpus} if (cpus := exclusive_cpus(pod, each)) else {}, each.role) for each in pod.containers]
    return _problem(parts, CPU, budget)


def memory_problem(pod: PodRequest, budget: Mapping[str, int]) -> str | None:
    """Why the pod's memory cannot be parted among its containers, or None."""
    parts = [(memory_of_container(each), each.role) for each in pod.containers]
    problems = (_problem(parts, resource, amount) for resource, amount in budget.items())
    return next((problem for problem in problems if problem), None)


def _problem(parts: list[tuple[dict[str, int], Role]], resource: str, budget: int) -> str | None:
    """A container without a part of its own shares what is left while it runs, so something must be left."""
    units, named, left = ("cpus", "cpus", "cpus") if resource == CPU else (f"of {resource}", resource, "memory")
    long_running = 0
    some_share = False
    for own, role in parts:
        amount = own.get(resource, 0)
        if role is not Role.INIT:
            some_share = some_share or not own
            long_running += amount
        elif own and amount > budget - long_running:
            return (
                f"pod rejected, largest exclusive init container requests {amount} {units}, "
                f"but only {budget - long_running} available"
            )
        elif not own and long_running >= budget:
            return f"pod rejected, pod has shared init containers but no {named} available for them"
    if some_share and long_running >= budget:
        return (
            f"pod rejected, sum of exclusive container {resource} requests equals pod budget, "
            f"leaving no {left} for shared containers"
        )
    return None


def cpu_parts(pod: PodRequest, whole: CpuSet, choose: Callable[[CpuSet, int], CpuSet]) -> dict[str, CpuSet]:
    """Each container's CPUs: its own ones, or those that are shared while it runs."""
    parts: dict[str, CpuSet] = {}
    left = whole
    for container in pod.containers:
        wanted = exclusive_cpus(pod, container)
        if wanted:
            parts[container.name] = choose(left, wanted)
            if container.role is not Role.INIT:
                left -= parts[container.name]
        elif container.role is Role.INIT:
            parts[container.name] = left
    return {container.name: parts.get(container.name, left) for container in pod.containers}


def memory_parts(pod: PodRequest, whole: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Each container's memory by type: its own, or what is shared while it runs."""
    parts: dict[str, dict[str, int]] = {}
    left = dict(whole)
    for container in pod.containers:
        own = memory_of_container(container)
        if own:
            parts[container.name] = own
            if container.role is not Role.INIT:
                left = {resource: amount - own.get(resource, 0) for resource, amount in left.items()}
        elif container.role is Role.INIT:
            parts[container.name] = left
    return {container.name: parts.get(container.name, left) for container in pod.containers}
