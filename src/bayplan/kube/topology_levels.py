"""Topology objects: the names of the levels of a cluster's tree, as Kueue and KAI write them.

Kueue (`kueue.x-k8s.io`, v1alpha1 to v1beta2) and KAI (`kai.scheduler/v1alpha1`) share one form: `spec.levels[].nodeLabel`, the widest
level first. Nothing but names: which nodes belong together is in the nodes' labels. The rules here are those of their CRDs.
"""

from __future__ import annotations

import re

from bayplan.kube.core_v1 import Metadata, WireStruct
from bayplan.kube.errors import InvalidObject, ObjectPath

KIND = "Topology"
API_VERSIONS = (
    "kueue.x-k8s.io/v1alpha1",
    "kueue.x-k8s.io/v1beta1",
    "kueue.x-k8s.io/v1beta2",
    "kai.scheduler/v1alpha1",
)
HOSTNAME = "kubernetes.io/hostname"
MOST_LEVELS = 16
LONGEST_LABEL = 316

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = re.compile(rf"({_PREFIX}/)?{_NAME}")


class TopologyLevel(WireStruct, frozen=True):
    """One level: nodes with the same value of this label, and the same values above it, are one domain."""

    node_label: str = ""


class TopologySpec(WireStruct, frozen=True):
    """Levels, the widest first."""

    levels: list[TopologyLevel] | None = None


class Topology(WireStruct, frozen=True):
    """A named tree."""

    metadata: Metadata = Metadata()
    spec: TopologySpec = TopologySpec()


def is_node_label(text: str) -> bool:
    """Whether a text could be the node label of a level."""
    return bool(_LABEL.fullmatch(text)) and len(text) <= LONGEST_LABEL


def levels_of(topology: Topology) -> tuple[str, ...]:
    """The labels of the levels; raises `InvalidObject` where the API server would refuse the object."""
    at = ObjectPath.of(topology).child("spec").child("levels")
    labels = [level.node_label for level in topology.spec.levels or []]
    if not 1 <= len(labels) <= MOST_LEVELS:
        raise InvalidObject(at, f"has {len(labels)} entries: must be 1 to {MOST_LEVELS}")
    for index, label in enumerate(labels):
        where = at.item(index).child("nodeLabel")
        if not is_node_label(label):
            raise InvalidObject(where, f'"{label}" is not a label name; expected such as example.com/rack')
        if label in labels[:index]:
            raise InvalidObject(where, f'"{label}" appears twice: levels must be unique')
        if label == HOSTNAME and index < len(labels) - 1:
            raise InvalidObject(where, f'"{HOSTNAME}" can only be the lowest level')
    return tuple(labels)
