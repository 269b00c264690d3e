"""Objects of which only the head matters, so that nothing else of them has to be understood: nodes, and reports of every kind."""

from __future__ import annotations

from typing import Any

from bayplan.kube.core_v1 import Metadata, WireStruct
from bayplan.kube.resources import (
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES_V1ALPHA1,
    NODES,
    NUMATOPOLOGIES,
    Resource,
)


class Head(WireStruct, frozen=True):
    """Name, uid and the like."""

    metadata: Metadata = Metadata()


def heads_of(resource: Resource[Any]) -> Resource[Head]:
    """The same resource, of which only heads are read."""
    return Resource(resource.api_version, resource.plural, resource.kind, Head, namespaced=False)


NODE_HEADS = heads_of(NODES)
REPORT_HEADS: dict[str, Resource[Head]] = {
    each.api_version: heads_of(each)
    for each in (NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES_V1ALPHA1, NUMATOPOLOGIES)
}
"""By `apiVersion`."""
