"""The CPU Manager's static policy: which containers own CPUs, which zones could serve them, which CPUs they get.

`CpuLedger` holds what one admission changes: the free CPUs and those that finished init containers of the same pod
leave for re-use. Hints go to `merge.py`; the choice of single CPUs is made in `cpu_assignment.py`; `replay.py` calls
both in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.cluster.pods.request import CPU, MEMORY, ContainerRequest, PodRequest, Role
from bayplan.engine.kubelet.cpu_assignment import ALIGN_BY_SOCKET, FULL_PCPUS_ONLY, take
from bayplan.engine.kubelet.masks import bits, subsets, sums_over
from bayplan.engine.kubelet.merge import Hint
from bayplan.engine.kubelet.node import CpuLayout, CpuSet, NodeKnowledge
from bayplan.engine.kubelet.verdict import SMT_ALIGNMENT_ERROR, ManagerRefused, NearestMiss, unexpected


@dataclass(slots=True)
class CpuLedger:
    """The CPUs during one admission; `owned` lists what each container got."""

    free: CpuSet
    reusable: CpuSet = 0
    owned: dict[str, CpuSet] = field(default_factory=dict)


def exclusive_cpus(node: NodeKnowledge, pod: PodRequest, container: ContainerRequest) -> int:
    """Whole CPUs that this container owns; 0 if it shares the pool or this node does not pin CPUs."""
    if not node.settings.cpu_static:
        return 0
    if pod.pod_level is None or not node.settings.pod_level_managers:
        return pod.exclusive_cpus(container)
    return whole_cpus(container.requests.get(CPU, 0)) if pod.guaranteed and is_guaranteed_alone(container) else 0


def is_guaranteed_alone(container: ContainerRequest) -> bool:
    """Under pod-level resources: whether this container would be Guaranteed by its own CPU and memory."""
    return all(container.limits.get(name, 0) == container.requests.get(name, 0) > 0 for name in (CPU, MEMORY))


def whole_cpus(milli: int) -> int:
    """A whole number of CPUs, or 0: fractions are never pinned."""
    return 0 if milli % 1000 else milli // 1000


def exclusive_cpus_of_pod(node: NodeKnowledge, pod: PodRequest) -> int:
    """The most CPUs that containers of the pod own at any one time."""
    sidecars = running = largest_start = 0
    for container in pod.containers:
        own = exclusive_cpus(node, pod, container)
        if container.role is Role.APP:
            running += own
        elif container.role is Role.SIDECAR:
            sidecars += own
        else:
            largest_start = max(largest_start, sidecars + own)
    return max(running + sidecars, largest_start)


def cpu_hints(node: NodeKnowledge, ledger: CpuLedger, count: int) -> list[Hint]:
    """Zones that could serve `count` CPUs. What a zone could hold at most includes its reserved and taken CPUs."""
    layout = node.cpus
    masks = subsets(tuple(sorted(layout.by_zone))).masks
    in_total = sums_over(masks, layout.cpus_in_zone)
    free_in = sums_over(masks, free_per_zone(layout, ledger.free | ledger.reusable))
    zones_to_keep = 0
    for zone, cpus in layout.by_zone.items():
        if cpus & ledger.reusable:
            zones_to_keep |= 1 << zone
    fewest = min((mask.bit_count() for mask in masks if in_total[mask] >= count), default=len(layout.by_zone))
    return [
        Hint(mask, mask.bit_count() == fewest or _fills_sockets(node, mask, fewest))
        for mask in masks
        if free_in[mask] >= count and zones_to_keep & ~mask == 0
    ]


def free_per_zone(layout: CpuLayout, cpus: CpuSet) -> dict[int, int]:
    """How many of these CPUs lie in each zone."""
    return {zone: (of_zone & cpus).bit_count() for zone, of_zone in layout.by_zone.items()}


def allocate_cpus(
    node: NodeKnowledge, ledger: CpuLedger, container: ContainerRequest, count: int, affinity: int | None
) -> None:
    """Give a container its CPUs: from the zones it was assigned first, the rest from anywhere."""
    if count == 0:
        return
    refuse_split_cores(node, ledger, count)
    cpus = cpus_for(node, ledger.free | ledger.reusable, count, affinity)
    ledger.owned[container.name] = cpus
    ledger.free &= ~cpus
    if container.role is Role.INIT:
        ledger.reusable |= cpus
    else:
        ledger.reusable &= ~cpus


def cpus_for(node: NodeKnowledge, available: CpuSet, count: int, affinity: int | None) -> CpuSet:
    """Choose `count` of the available CPUs, those near the affinity first; refuses if the node has too few."""
    options, version = node.settings.cpu_options, node.settings.version
    taken = 0
    if affinity is not None:
        near = available & _near(node.cpus, affinity, by_socket=ALIGN_BY_SOCKET in options)
        taken = take(node.cpus, options, near, min(count, near.bit_count()), version)
    missing = count - taken.bit_count()
    elsewhere = available & ~taken
    if missing > elsewhere.bit_count():
        raise unexpected(
            f"not enough cpus available to satisfy request: requested={missing}, available={elsewhere.bit_count()}",
            NearestMiss(CPU, None, available.bit_count() * 1000, count * 1000),
        )
    return taken | take(node.cpus, options, elsewhere, missing, version)


def refuse_split_cores(node: NodeKnowledge, ledger: CpuLedger, count: int) -> None:
    """full-pcpus-only: whole cores or nothing. It counts over the node, and CPUs left for re-use do not count."""
    if FULL_PCPUS_ONLY not in node.settings.cpu_options:
        return
    threads = node.cpus.threads_per_core
    touched = sum(cpus for cpus in node.cpus.by_core.values() if cpus & node.reserved_cpus)
    on_whole_cores = (ledger.free & ~touched).bit_count()
    nearest_miss = NearestMiss(CPU, None, on_whole_cores * 1000, count * 1000)
    if count % threads:
        message = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
        raise ManagerRefused(SMT_ALIGNMENT_ERROR, message, nearest_miss)
    if count > on_whole_cores:
        message = (
            f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {on_whole_cores}, "
            f"requested CPUs = {count}, CPUs per core = {threads}"
        )
        raise ManagerRefused(SMT_ALIGNMENT_ERROR, message, nearest_miss)


def _fills_sockets(node: NodeKnowledge, mask: int, fewest_zones: int) -> bool:
    """align-by-socket: also preferred is what spans no more sockets than the fewest zones would."""
    if ALIGN_BY_SOCKET not in node.settings.cpu_options:
        return False
    layout = node.cpus
    zones_per_socket = len(layout.by_zone) // len(layout.by_socket)
    if zones_per_socket == 0:
        return False
    return len(_sockets_of(layout, mask)) == -(-fewest_zones // zones_per_socket)


def _near(layout: CpuLayout, affinity: int, *, by_socket: bool) -> CpuSet:
    near = 0
    if by_socket:
        for socket in _sockets_of(layout, affinity):
            near |= layout.by_socket[socket]
    else:
        for zone in bits(affinity):
            near |= layout.by_zone.get(zone, 0)
    return near


def _sockets_of(layout: CpuLayout, mask: int) -> set[int]:
    nothing: frozenset[int] = frozenset()
    return {socket for zone in bits(mask) for socket in layout.sockets_of_zone.get(zone, nothing)}
