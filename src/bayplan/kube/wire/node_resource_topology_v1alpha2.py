"""NodeResourceTopology (`topology.node.k8s.io`) in every form that has been written.

v1alpha2 (lists and top-level attributes), v1alpha1 (lists, only `topologyPolicies`) and the older map form, where
zones, resources and costs are keyed by name, all decode into one struct; `zones_of` turns them into one list. What the
values mean is decided in `cluster/reports/topology_report.py`.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from bayplan.kube.wire.core_v1 import Metadata, WireStruct

GROUP = "topology.node.k8s.io"
API_VERSIONS = (f"{GROUP}/v1alpha2", f"{GROUP}/v1alpha1")

QuantityText = str | int | float


class Attribute(WireStruct, frozen=True):
    """A name and a text."""

    name: str
    value: str


class Cost(WireStruct, frozen=True):
    """Distance to the zone called `name`, as the firmware's SLIT table gives it."""

    name: str
    value: int


class ZoneResource(WireStruct, frozen=True):
    """Amounts of one resource in one zone.

    In the early forms, which have no `available`, `allocatable` is what is left.
    """

    name: str = ""
    capacity: QuantityText | None = None
    allocatable: QuantityText | None = None
    available: QuantityText | None = None


class Zone(WireStruct, frozen=True):
    """A zone; only type `Node` (a NUMA node) is interpreted."""

    name: str = ""
    type: str = ""
    parent: str | None = None
    costs: list[Cost] | dict[str, int] | None = None
    attributes: list[Attribute] | dict[str, str | int] | None = None
    resources: list[ZoneResource] | dict[str, ZoneResource] | None = None


class NodeResourceTopology(WireStruct, frozen=True):
    """A node's NUMA zones; the object's name is the node's name."""

    metadata: Metadata = Metadata()
    topology_policies: list[str] | None = None
    attributes: list[Attribute] | None = None
    zones: list[Zone] | dict[str, Zone] | UnsetType | None = UNSET


def zones_of(topology: NodeResourceTopology) -> list[Zone]:
    """The zones as a list, whichever form the object has."""
    zones = topology.zones
    if isinstance(zones, dict):
        return [
            Zone(
                name=name,
                type=zone.type,
                parent=zone.parent,
                costs=zone.costs,
                attributes=zone.attributes,
                resources=zone.resources,
            )
            for name, zone in zones.items()
        ]
    return list(zones or []) if zones is not UNSET else []


def costs_of(zone: Zone) -> dict[str, int]:
    """Distances by zone name."""
    if isinstance(zone.costs, dict):
        return zone.costs
    return {cost.name: cost.value for cost in zone.costs or []}


def attributes_of(zone: Zone) -> dict[str, str]:
    """A zone's attributes by name."""
    if isinstance(zone.attributes, dict):
        return {name: str(value) for name, value in zone.attributes.items()}
    return {attribute.name: attribute.value for attribute in zone.attributes or []}


def resources_of(zone: Zone) -> list[tuple[str, ZoneResource]]:
    """Resources with their names, in the order written."""
    if isinstance(zone.resources, dict):
        return list(zone.resources.items())
    return [(resource.name, resource) for resource in zone.resources or []]


def shows_what_is_left(resource: ZoneResource) -> bool:
    """False if the object says only how much hardware there is."""
    return resource.available is not None or resource.allocatable is not None


def shows_available(zone: Zone) -> bool:
    """True if every resource of a zone says what is available."""
    return all(resource.available is not None for _, resource in resources_of(zone))
