"""Replay pods whose init containers may end at any moment: a node as it is now, and as it is once they have ended.

Memory of an init container that no later container of its pod reuses becomes free when it ends, before or after the
next pod is admitted. So a verdict counts only if it is the same either way. Then it is the same if some have ended and
others have not: the kubelet takes the best set of zones that has room. More memory only adds sets, so the best of all
sets, which also has room with the least memory, is the best in between as well. Memory that spans zones can also close
zones to other pods, so there the replay stops.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from bayplan.cluster.pods.request import PodRequest, Role
from bayplan.engine.kubelet import Admission, NodeKnowledge, ZoneMemory, admit
from bayplan.engine.kubelet.masks import mask_of
from bayplan.engine.kubelet.memory import MemoryLedger, charge


@dataclass(frozen=True, slots=True)
class Outlook:
    """A node as it is, and `later` once the init containers of pods admitted here have ended, if that differs."""

    now: NodeKnowledge
    later: NodeKnowledge | None = None

    def admit(self, request: PodRequest) -> Admission | None:
        """The kubelet's verdict; None if it depends on whether init containers have ended."""
        admission = admit(self.now, request)
        if self.later is None or not admission.admitted:
            return admission
        return admission if admit(self.later, request).containers == admission.containers else None

    def after(self, request: PodRequest, admission: Admission) -> Outlook | None:
        """The node after an admitted pod; None if that cannot be told until its init containers have ended."""
        ends = {container.name for container in request.containers if container.role is Role.INIT}
        freed = [block for placed in admission.containers if placed.name in ends for block in placed.memory]
        if any(block.size and len(block.zones) > 1 for block in freed):
            return None
        following = after(self.now, admission)
        if self.later is None and not any(block.size for block in freed):
            return Outlook(following)
        return Outlook(following, after(self.later or self.now, admission, ended=ends))


def after(node: NodeKnowledge, admission: Admission, ended: Collection[str] = ()) -> NodeKnowledge:
    """The node after a pod is admitted: its resources are in use, without the memory of containers that have ended.

    CPUs and devices of init containers stay with their pod.
    """
    cpus = 0
    devices: dict[str, set[str]] = {}
    memory = MemoryLedger.of(node)
    for placed in admission.containers:
        cpus |= mask_of(placed.cpus)
        for resource, ids in placed.devices.items():
            devices.setdefault(resource, set()).update(ids)
        for block in () if placed.name in ended else placed.memory:
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
