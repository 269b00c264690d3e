"""Pods that belong to one node: those of DaemonSets, and static pods, whose mirrors the node itself owns."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Pod


def belongs_to_its_node(pod: Pod) -> bool:
    """Whether a pod comes and goes with its node."""
    return any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references or ())
