"""What a filter sees of a node through a cache, and the arithmetic of a pessimistic reservation.

scheduler-plugins does not know in which zone the kubelet will put a pod. So it subtracts the pod's reservation from every zone that
has the resource, never below zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.cluster.pods.request import CPU, AmountError, Amounts, amount_of
from bayplan.kube.wire.topology_v1alpha2 import NodeResourceTopology, Zone, ZoneResource, resources_of, zones_of


@dataclass(frozen=True, slots=True)
class View:
    """A node's report as a cache shows it; `generation` counts the passes in which copies were replaced."""

    fresh: bool
    topology: NodeResourceTopology | None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Desynced:
    """Names of nodes whose copy may be wrong: because of reservations or foreign pods, or because of a changed configuration."""

    maybe_overreserved: list[str]
    config_changed: list[str]


def less(topology: NodeResourceTopology, reserved: Amounts) -> NodeResourceTopology:
    """A report with the sum of requests subtracted from every zone."""
    return replace(topology, zones=[_less(zone, reserved) for zone in zones_of(topology)])


def _less(zone: Zone, reserved: Amounts) -> Zone:
    return replace(zone, resources=[_left(name, resource, reserved) for name, resource in resources_of(zone)])


def _left(name: str, resource: ZoneResource, reserved: Amounts) -> ZoneResource:
    left_before = resource.allocatable if resource.available is None else resource.available
    named = replace(resource, name=name, available=left_before)
    if not reserved.get(name) or left_before is None:
        return named
    try:
        left = max(0, amount_of(name, left_before) - reserved[name])
    except AmountError:
        return named  # nothing can be subtracted from a malformed amount; the reader of the report will say so
    return replace(named, available=f"{left}m" if name == CPU else left)


def resource_names(topology: NodeResourceTopology | None) -> set[str]:
    """The resources that a report has in any zone, whatever its type."""
    if topology is None:
        return set()
    return {name for zone in zones_of(topology) for name, _ in resources_of(zone)}
