"""Pods with resources of their own at pod scope (alpha gate PodLevelResourceManagers): one allotment, then divided.

The CPU and Memory Manager each set one lot aside for the whole pod, sized by `spec.resources`, and divide it among the
containers: a container that would be Guaranteed by itself owns its part, all others share what is left. A pod whose
owners would leave nothing for its sharers is refused. Devices are not handed out at admission for such pods.
`replay.py` comes here only if the node has the gate on and the pod has pod-level resources.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pods.request import CPU, PodRequest, Role
from bayplan.engine.kubelet.cpu import CpuLedger, cpus_for, exclusive_cpus, refuse_split_cores, whole_cpus
from bayplan.engine.kubelet.cpu_assignment import take
from bayplan.engine.kubelet.masks import zones_in
from bayplan.engine.kubelet.memory import MemoryLedger, charge, known_memory, manages, memory_requests, zones_for_memory
from bayplan.engine.kubelet.merge import Hint
from bayplan.engine.kubelet.node import NodeKnowledge
from bayplan.engine.kubelet.verdict import EMPTY_POD_SHARED_POOL_ERROR, ManagerRefused, MemoryBlock, NearestMiss


def pod_cpus(node: NodeKnowledge, pod: PodRequest) -> int:
    """Whole CPUs set aside for the pod; 0 if it shares the node's pool."""
    if not node.settings.cpu_static or not pod.guaranteed or pod.pod_level is None:
        return 0
    return whole_cpus(pod.pod_level.get(CPU, 0))


def pod_memory(node: NodeKnowledge, pod: PodRequest) -> dict[str, int]:
    """Bytes by memory type set aside for the pod."""
    if not manages(node, pod):
        return {}
    return {name: amount for name, amount in known_memory(node, pod.pod_level or {}).items() if amount > 0}


def cpu_lot_problem(node: NodeKnowledge, pod: PodRequest) -> ManagerRefused | None:
    """Why the pod's CPUs cannot be divided, if so."""
    total = pod_cpus(node, pod)
    owned = 0
    someone_shares = False
    for container in pod.containers:
        own = exclusive_cpus(node, pod, container)
        if container.role is not Role.INIT:
            someone_shares = someone_shares or own == 0
            owned += own
        elif own > total - owned:
            text = (
                f"pod rejected, largest exclusive init container requests {own} cpus, "
                f"but only {total - owned} available"
            )
            return _empty(text, NearestMiss(CPU, None, (total - owned) * 1000, own * 1000))
        elif own == 0 and owned >= total:
            return _empty("pod rejected, pod has shared init containers but no cpus available for them")
    if someone_shares and owned >= total:
        return _empty(
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers"
        )
    return None


def memory_lot_problem(node: NodeKnowledge, pod: PodRequest) -> ManagerRefused | None:
    """Why the pod's memory cannot be divided, if so."""
    total = pod_memory(node, pod)
    owned = dict.fromkeys(total, 0)
    someone_shares = False
    for container in pod.containers:
        own = memory_requests(node, pod, container)
        if container.role is not Role.INIT:
            someone_shares = someone_shares or not own
            for name in own:
                owned[name] = owned.get(name, 0) + own[name]
            continue
        for name, amount in total.items():
            left = amount - owned[name]
            if own and own.get(name, 0) > left:
                text = (
                    f"pod rejected, largest exclusive init container requests {own[name]} of {name}, "
                    f"but only {left} available"
                )
                return _empty(text, NearestMiss(name, None, left, own[name]))
            if not own and left <= 0:
                return _empty(f"pod rejected, pod has shared init containers but no {name} available for them")
    for name, amount in total.items():
        if someone_shares and owned[name] >= amount:
            return _empty(
                f"pod rejected, sum of exclusive container {name} requests equals pod budget, "
                "leaving no memory for shared containers"
            )
    return None


def allocate_pod_cpus(node: NodeKnowledge, ledger: CpuLedger, pod: PodRequest, affinity: int | None) -> None:
    """Set the pod's CPUs aside and divide them; a finished init container's part goes back into the lot."""
    total = pod_cpus(node, pod)
    if total == 0:
        return
    problem = cpu_lot_problem(node, pod)
    if problem is not None:
        raise problem
    refuse_split_cores(node, ledger, total)
    lot = cpus_for(node, ledger.free, total, affinity)
    ledger.free &= ~lot
    for container in pod.containers:
        count = exclusive_cpus(node, pod, container)
        if count:
            part = take(node.cpus, node.settings.cpu_options, lot, count, node.settings.version)
            ledger.owned[container.name] = part
            if container.role is not Role.INIT:
                lot &= ~part
        elif container.role is Role.INIT:
            ledger.owned[container.name] = lot
    for container in pod.containers:
        ledger.owned.setdefault(container.name, lot)


def allocate_pod_memory(node: NodeKnowledge, ledger: MemoryLedger, pod: PodRequest, hint: Hint) -> None:
    """Set the pod's memory aside and divide it, likewise."""
    if not manages(node, pod):
        return
    problem = memory_lot_problem(node, pod)
    if problem is not None:
        raise problem
    left = pod_memory(node, pod)
    mask = zones_for_memory(node, ledger, left, hint)
    for name, amount in left.items():
        charge(ledger, mask, name, amount)
    for container in pod.containers:
        own = memory_requests(node, pod, container)
        if own:
            ledger.owned[container.name] = _blocks(own, mask)
            if container.role is not Role.INIT:
                left = {name: amount - own.get(name, 0) for name, amount in left.items()}
        elif container.role is Role.INIT:
            ledger.owned[container.name] = _blocks(left, mask)
    for container in pod.containers:
        ledger.owned.setdefault(container.name, _blocks(left, mask))


def _blocks(amounts: Mapping[str, int], mask: int) -> list[MemoryBlock]:
    return [MemoryBlock(name, amount, zones_in(mask)) for name, amount in amounts.items() if amount > 0]


def _empty(message: str, nearest_miss: NearestMiss | None = None) -> ManagerRefused:
    return ManagerRefused(EMPTY_POD_SHARED_POOL_ERROR, message, nearest_miss)
