"""Objects of which only the head matters, so that nothing else of them is sent or has to be understood: nodes, and reports of every kind."""

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
    """Who wrote some of an object's fields, and when it last did."""

    manager: str = ""
    time: str = ""


class HeadMetadata(Metadata, frozen=True):
    """`generation` counts changes of all but the metadata."""

    generation: int = 0
    managed_fields: list[Managed] | None = None


class Head(WireStruct, frozen=True):
    """Name, uid and the like."""

    metadata: HeadMetadata = HeadMetadata()

    def is_same_as(self, other: Head) -> bool:
        """Whether both are of one object, and nothing but its metadata changed between them."""
        mine, others = self.metadata, other.metadata
        return (mine.uid, mine.generation) == (others.uid, others.generation)


def head_of(answer: bytes) -> Head | None:
    """The head of an object that the API server answered with; None if the answer is none."""
    try:
        return msgspec.json.decode(answer, type=Head)
    except msgspec.DecodeError:
        return None


def last_writer(head: Head) -> str:
    """The last writer of an object, by the name that it gave itself; empty if none is named."""
    writers = head.metadata.managed_fields or ()
    return max(writers, key=lambda writer: writer.time).manager if writers else ""


def heads_of(resource: Resource[Any]) -> Resource[Head]:
    """The same resource, of which only heads are read."""
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
