"""What kind of thing a resource name stands for, in scheduler-plugins' terms.

Its filter, its LeastNUMANodes score and its notion of an "exclusive" pod all rest on these few rules about names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bayplan.cluster.pods.request import CPU, ContainerRequest, PodRequest, Role, is_memory


def is_native(resource: str) -> bool:
    """Kubernetes' own resources: no domain in the name, or one of its own domains."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_host_level(resource: str) -> bool:
    """Resources that may have no NUMA affinity at all."""
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def is_numa_affine(resource: str) -> bool:
    """Resources that always belong to a zone."""
    return resource == CPU or is_memory(resource)


def asks_for_devices(request: PodRequest) -> bool:
    """True if any container asks for a resource that is not Kubernetes' own."""
    return any(not is_native(name) for container in request.containers for name in container.requests)


def holds_exclusively(request: PodRequest, reported: Collection[str]) -> bool:
    """True if a running container would hold something of a zone for itself alone: what a report has to show."""
    return any(True for _ in containers_that_hold_exclusively(request, reported))


def containers_that_hold_exclusively(request: PodRequest, reported: Collection[str]) -> Iterator[str]:
    """The names of such containers.

    `reported` are the resource names in the node's report. Init containers are over by the time it matters.
    """
    for container in request.containers:
        if container.role is not Role.INIT and _exclusive_in(request, container, reported):
            yield container.name


def is_held_exclusively(name: str, amount: int, reported: Collection[str], *, guaranteed: bool) -> bool:
    """True if a container with this request holds that much of a zone for itself alone."""
    if not is_native(name):
        return name in reported  # even an amount of zero: scheduler-plugins looks at the name alone
    return guaranteed and bool(amount) and (is_memory(name) or (name == CPU and amount % 1000 == 0))


def _exclusive_in(request: PodRequest, container: ContainerRequest, reported: Collection[str]) -> bool:
    return any(
        is_held_exclusively(name, amount, reported, guaranteed=request.guaranteed)
        for name, amount in container.requests.items()
    )
