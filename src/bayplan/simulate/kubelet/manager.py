"""What the Device, CPU and Memory Manager have in common: how `kubelet.py` asks them for hints and has them hand things
out.

For each pod: `begin`, then hints and allocations container by container (or once for the whole pod), and `release` when
the pod ends or is refused on the way. An allocation that is not possible raises `Refusal`.
"""

from __future__ import annotations

from typing import Protocol

from bayplan.cluster.pods.request import ContainerRequest, PodRequest
from bayplan.simulate.kubelet.topology_manager import Hint, Hints


class Manager(Protocol):
    """A hint provider in the kubelet's words. An empty list of hints means that it does not care."""

    def begin(self, key: str) -> None:
        """A new pod comes: nothing is its own yet."""

    def container_hints(self, pod: PodRequest, container: ContainerRequest, /) -> list[Hints]:
        """Zone sets that could serve a container, one list for each resource."""

    def pod_hints(self, pod: PodRequest) -> list[Hints]:
        """Zone sets that could serve the whole pod, one list for each resource."""

    def allocate(self, key: str, pod: PodRequest, container: ContainerRequest, hint: Hint, /) -> None:
        """Give a container what it asks for, in the hinted zones as far as this manager keeps to them."""

    def allocate_pod(self, key: str, pod: PodRequest, hint: Hint, /) -> None:
        """Give a pod with resources of its own (`pod_level.py`) all of them, and each container its part."""

    def release(self, key: str) -> None:
        """A pod ended or was refused: take back all it has."""
