"""Slots of one node by replaying its kubelet: admit a pod, take what it got, admit the next, until one is refused.

`engine/slots.py` comes here for nodes where amounts alone do not tell: pods with init containers or larger than a zone, memory
that may span zones, machines that are not regular.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.cluster.kubelet_settings import Assumptions
from bayplan.cluster.pod_request import PodRequest
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import Admission, NodeKnowledge, ZoneMemory, admit
from bayplan.engine.kubelet.masks import mask_of
from bayplan.engine.kubelet.memory import MemoryLedger, charge
from bayplan.engine.placement import knowledge_of


def replayed_slots(state: ClusterState, row: int, request: PodRequest, assumptions: Assumptions, most: int) -> int:
    """How many equal pods, at most `most`, the kubelet of one node admits one after another."""
    node = knowledge_of(state, row, assumptions)
    assert node is not None
    for admitted in range(most):
        admission = admit(node, request)
        if not admission.admitted:
            return admitted
        node = after(node, admission)
    return most


def after(node: NodeKnowledge, admission: Admission) -> NodeKnowledge:
    """The node once a pod is admitted: its CPUs, devices and memory are taken, its init containers have not finished."""
    cpus = 0
    devices: dict[str, set[str]] = {}
    memory = MemoryLedger.of(node)
    for placed in admission.containers:
        cpus |= mask_of(placed.cpus)
        for resource, ids in placed.devices.items():
            devices.setdefault(resource, set()).update(ids)
        for block in placed.memory:
            charge(memory, mask_of(block.zones), block.type, block.size)
    return replace(
        node,
        free_cpus=node.free_cpus & ~cpus,
        memory={
            zone: ZoneMemory(
                allocatable=before.allocatable,
                free={name: memory.free[zone, name] for name in before.free},
                group=memory.group[zone],
                assignments=memory.assignments[zone],
            )
            for zone, before in node.memory.items()
        },
        devices={
            resource: tuple(
                replace(device, allocated=True) if device.id in devices[resource] else device for device in listed
            )
            if resource in devices
            else listed
            for resource, listed in node.devices.items()
        },
    )
