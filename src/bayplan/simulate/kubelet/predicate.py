"""The node-level check that comes after the managers: does the sum of all requests stay within what the node can give?

In come what the node can give, what its pods use and a new pod; out goes the resource that is short, if any.
`kubelet.py` runs it last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY, PODS, PodRequest
from bayplan.simulate.kubelet.answer import AdmissionError

_NAMED_FIRST = (PODS, CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which the node has too little for one more pod."""

    resource: str
    requested: int
    used: int
    capacity: int

    def refuse(self) -> NoReturn:
        """Raise the refusal that names this shortage."""
        message = (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )
        raise AdmissionError("predicate", f"OutOf{self.resource}", message)


def first_shortage(allocatable: Mapping[str, int], used: Mapping[str, int], pod: PodRequest) -> Shortage | None:
    """The shortage that the kubelet would name, or None if the pod fits. `used` counts pods too.

    Resources that the node does not know at all are passed over: someone else may provide them.
    """
    short = [
        Shortage(resource, requested, used.get(resource, 0), allocatable.get(resource, 0))
        for resource, requested in (*pod.total.items(), (PODS, 1))
        if 0 < requested > allocatable.get(resource, 0) - used.get(resource, 0)
        and (resource in allocatable or resource.startswith(HUGEPAGES_PREFIX))
    ]
    return min(short, key=lambda shortage: _naming_order(shortage.resource), default=None)


def _naming_order(resource: str) -> tuple[int, str]:
    return (_NAMED_FIRST.index(resource) if resource in _NAMED_FIRST else len(_NAMED_FIRST), resource)
