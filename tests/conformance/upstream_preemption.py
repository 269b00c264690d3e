"""scheduler-plugins' preemption view: a node's report as its filter sees it while victims are being chosen.

In come the report, the victims and the zone of each container, as far as the node publishes them. Out comes the report
with the victims' exclusive amounts given back, as recorded from scheduler-plugins, including its gaps: containers that
run as sidecars give nothing back, and one amount above `allocatable` makes the whole simulation fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from bayplan.cluster.columns.resource_kinds import asks_for_devices, is_held_exclusively
from bayplan.cluster.pods.request import CPU, Role, amount_of, effective_request
from bayplan.cluster.reports.zone_reports import zone_id_of
from bayplan.compat.scheduler_plugins.cache.views import PREEMPTION_ENABLED, resource_names
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    NodeResourceTopology,
    Zone,
    ZoneResource,
    resources_of,
    zones_of,
)

Container = tuple[str, str, str]
"""Namespace, pod and name of a container."""
Placement = Mapping[Container, int]
"""The NUMA id of each container that the node publishes."""
# The NUMA id of a container that spans zones.
SEVERAL_ZONES = -1
REFUSAL = "eviction simulation in NRT is not possible:"


class CannotSimulate(Exception):
    """Why no report can be given as it would be without the victims, in scheduler-plugins' words."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}, cannot process eviction simulation")


class _TooMuch(CannotSimulate):
    def __init__(self) -> None:
        Exception.__init__(self, "resource release request exceeds NUMA allocatable")


@dataclass(frozen=True, slots=True)
class FilterView:
    """What the filter judges. A refusal `counts_against_node` if it makes the node one that may be over-reserved."""

    topology: NodeResourceTopology | None
    refusal: str = ""
    counts_against_node: bool = True


def filter_view(
    topology: NodeResourceTopology | None, victims: Sequence[Pod], placement: Placement | None, preemption_mode: str
) -> FilterView:
    """The report that the filter judges while these pods are considered as victims.

    Without a published placement, or with `preemptionMode: Disabled`, it is the report as it stands.
    """
    if not victims or preemption_mode != PREEMPTION_ENABLED or topology is None:
        return FilterView(topology)
    if not placement:
        return FilterView(topology, counts_against_node=False)
    try:
        return FilterView(after_evictions(topology, victims, placement), counts_against_node=False)
    except CannotSimulate as reason:
        return FilterView(topology, f"{REFUSAL}{reason}", counts_against_node=False)


def after_evictions(
    topology: NodeResourceTopology | None, victims: Sequence[Pod], placement: Placement | None
) -> NodeResourceTopology:
    """A report as it would be without the victims; raises `CannotSimulate`."""
    if topology is None:
        raise CannotSimulate("NRT not found")
    if not victims:
        raise CannotSimulate("no victims found")
    if placement is None:
        raise CannotSimulate("numa placement info not found")
    if not placement:
        raise CannotSimulate("no containers found in numa placement info")
    freed = _freed_by_zone(victims, placement, resource_names(topology))
    if not freed:
        raise CannotSimulate("no resources to add")
    return replace(topology, zones=[_with(zone, freed.get(zone_id_of(zone.name))) for zone in zones_of(topology)])


def _freed_by_zone(victims: Sequence[Pod], placement: Placement, reported: set[str]) -> dict[int | None, Counter[str]]:
    freed: dict[int | None, Counter[str]] = {}
    for victim in victims:
        request = effective_request(victim)
        if not request.guaranteed and not asks_for_devices(request):
            continue
        for container in request.containers:
            name = victim.metadata.namespace or "", victim.metadata.name, container.name
            zone = placement.get(name, SEVERAL_ZONES)
            if container.role is not Role.APP or zone == SEVERAL_ZONES:
                continue
            for resource, amount in container.requests.items():
                if is_held_exclusively(resource, amount, reported, guaranteed=request.guaranteed):
                    freed.setdefault(zone, Counter())[resource] += amount
    return freed


def _with(zone: Zone, freed: Counter[str] | None) -> Zone:
    if not freed:
        return zone
    left = dict(freed)
    # Only the first entry of a name gains.
    return replace(
        zone, resources=[_more(name, resource, left.pop(name, None)) for name, resource in resources_of(zone)]
    )


def _more(name: str, resource: ZoneResource, gain: int | None) -> ZoneResource:
    if gain is None:
        return resource
    available = amount_of(name, resource.available or 0) + gain
    if available > amount_of(name, resource.allocatable or 0):
        raise _TooMuch
    return replace(resource, name=name, available=f"{available}m" if name == CPU else available)
