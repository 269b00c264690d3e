"""Nodes and reports of which only the metadata are requested."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.kube.resources import (
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    Resource,
)
from bayplan.kube.wire.core_v1 import Metadata, WireStruct


class Managed(WireStruct, frozen=True):
    """A field manager, and the time of its last write."""

    manager: str = ""
    time: str = ""


class HeadMetadata(Metadata, frozen=True):
    """Metadata with generation and field managers."""

    generation: int = 0
    managed_fields: list[Managed] | None = None


class Head(WireStruct, frozen=True):
    """The metadata of an object."""

    metadata: HeadMetadata = HeadMetadata()

    def is_same_as(self, other: Head) -> bool:
        """Whether both are the same object, with no change but in its metadata."""
        mine, others = self.metadata, other.metadata
        return (mine.uid, mine.generation) == (others.uid, others.generation)


def head_of(answer: bytes) -> Head | None:
    """The metadata in an answer of the API server; None if it is malformed."""
    try:
        return msgspec.json.decode(answer, type=Head)
    except msgspec.DecodeError:
        return None


def last_writer(head: Head) -> str:
    """The field manager with the last write; empty if there is none."""
    writers = head.metadata.managed_fields or ()
    return max(writers, key=lambda writer: writer.time).manager if writers else ""


def heads_of(resource: Resource[Any]) -> Resource[Head]:
    """The same resource, metadata only."""
    return Resource(
        resource.api_version, resource.plural, resource.kind, Head, namespaced=resource.namespaced, metadata_only=True
    )


NODE_HEADS = heads_of(NODES)
REPORT_HEADS: dict[str, Resource[Head]] = {
    version: heads_of(each.at(version))
    for each in (NODE_RESOURCE_TOPOLOGIES, NUMATOPOLOGIES)
    for version in each.api_versions
}
"""By `apiVersion`."""
