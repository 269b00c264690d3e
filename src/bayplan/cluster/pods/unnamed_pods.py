"""Numatopologies that list pods by uids that are still unknown.

An agent that reads the kubelet's state file knows no names. Its object may arrive before the watch event that puts a
pod on its node, and the agent writes again only when something changes. So such an object is kept and reread as soon as
one of its pods is known (`cluster/state.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology

Kept = tuple[Numatopology, float | None]
"""An object and the moment it came."""


class UnnamedPods:
    """The last object of each node that lists an unknown pod."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[frozenset[str], Kept]] = {}

    def note(self, topology: Numatopology, known: Collection[str], at: float | None) -> None:
        """An object came; `known` are the uids of the pods on its node."""
        listed = topology.spec.pod_allocations or ()
        unknown = frozenset(pod.uid for pod in listed if pod.uid and not pod.name and pod.uid not in known)
        self._kept.pop(topology.metadata.name, None)
        if unknown:
            self._kept[topology.metadata.name] = unknown, (topology, at)

    def worth_reading_again(self, node: str, uid: str) -> Kept | None:
        """A pod is on a node: the object that lists it by its uid and could not name it."""
        unknown, kept = self._kept.get(node, (frozenset(), None))
        return kept if uid in unknown else None

    def forget(self, node: str) -> None:
        """The node's object is gone."""
        self._kept.pop(node, None)
