"""What a node reports about itself: a NodeResourceTopology object read into zones and kubelet settings.

In comes the wire object in any of its forms, out goes a `TopologyReport` whose zones are in ascending NUMA id, with
exact integer amounts, plus a list of everything in the object that could not be used as written.
`zone_reports.py` reads zones, `reported_settings.py` policy, scope and options. `cluster/state.py` writes the
report into the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import msgspec

from bayplan.cluster.limits import (
    MOST_ATTRIBUTES,
    MOST_TOLD,
    OF_ONE_OBJECT,
    left_out,
)
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.fingerprint import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_EXCLUSIVE,
    PREFIX,
    VERSION,
    is_comparable,
    published_in,
)
from bayplan.cluster.reports.inventory import (
    CPUS,
    MADE_AT,
    PODS,
    STALE_SINCE,
    Inventory,
    NotUnderstood,
    PodHoldings,
    read_inventory,
    read_moment,
    read_pods,
    stale_mark,
)
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES, Assumptions, KubeletSettings
from bayplan.cluster.reports.reported_settings import settings_of, upstream_settings_of
from bayplan.cluster.reports.zone_reports import ResourceNames, ZoneReport, read_zones
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    NodeResourceTopology,
    zones_of,
)

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class TopologyReport:
    """A node's zones in ascending id, its kubelet settings, and what was wrong with the object."""

    node: str
    settings: KubeletSettings
    zones: tuple[ZoneReport, ...]
    remarks: list[ObjectRemark] = field(default_factory=list)
    shows_use: bool = True
    """False if some resource has neither `available` nor `allocatable`: what is in use is unknown."""
    inventory: Inventory | None = None
    """CPUs and devices by name, where the node lists them."""
    pods: PodHoldings | None = None
    """What each pod holds in zones, where the node lists them; None if it does not."""
    made_at: float | None = None
    """When all this was true, in seconds since 1970, if the node says so."""
    marked_stale: bool = False
    """`bayplan agent-gc` found that its agent has long not renewed it."""
    fingerprint: str = ""
    """Which pods it shows, as `cluster/reports/fingerprint.py` writes it; empty if the node does not say so."""
    only_exclusive: bool = False
    """Whether the fingerprint is only over pods that hold something in zones."""
    upstream_settings: KubeletSettings = field(default_factory=KubeletSettings)
    """Policy and scope as scheduler-plugins reads them."""
    readable: bool = True
    """False if the object could not be read at all, so that nothing else here means anything."""

    @cached_property
    def usable(self) -> bool:
        """False if it could not be read or its zones contradict each other, so that no verdict can be built on them."""
        return self.readable and len({zone.id for zone in self.zones}) == len(self.zones)

    @property
    def tells_enough(self) -> bool:
        """False if the kubelet refuses pods for what stands in which zone, and the report names no zone."""
        return bool(self.zones) or self.settings.policy not in REFUSING_POLICIES


def unreadable(node: str) -> TopologyReport:
    """The report of a node whose object could not be read: there is a report, but its content is unknown."""
    return TopologyReport(node, KubeletSettings(), (), readable=False)


def read_report(topology: NodeResourceTopology, assumptions: Assumptions = Assumptions()) -> TopologyReport:  # noqa: B008 - immutable
    """Read one object. Wrong quantities raise `InvalidObject`; odd zones and attributes become remarks.

    `assumptions` say what to believe where the object names a policy or scope that no kubelet has, or none.
    """
    at = ObjectPath.of(topology)
    remarks: list[ObjectRemark] = []
    beyond = len(topology.attributes or ()) - MOST_ATTRIBUTES
    if beyond > 0:
        remarks.append(ObjectRemark(at.child("attributes"), f"{beyond} left out: at most {MOST_ATTRIBUTES} are read"))
        topology = msgspec.structs.replace(topology, attributes=(topology.attributes or [])[:MOST_ATTRIBUTES])
    names = ResourceNames()
    zones, shows_use = read_zones(zones_of(topology), at, names, remarks, keyed=isinstance(topology.zones, dict))
    if names.beyond:
        remarks.append(ObjectRemark(at.child("zones"), left_out(names.beyond, OF_ONE_OBJECT)))
    if not zones:
        remarks.append(
            ObjectRemark(at.child("zones"), "holds no NUMA zone (type Node, name node-0): nothing can be aligned")
        )
    settings = settings_of(topology, assumptions, lambda where, text: remarks.append(ObjectRemark(where, text)))
    in_order = tuple(sorted(zones, key=lambda zone: zone.id))
    attributes = {attribute.name: attribute.value for attribute in topology.attributes or []}
    annotations = topology.metadata.annotations or {}
    # In v1alpha1, which has no attributes, the moment is among the annotations.
    made_at = _understood(lambda: read_moment({**annotations, **attributes}), at.key(MADE_AT), remarks)
    published = published_in(topology)
    if published.fingerprint and not is_comparable(published.fingerprint):
        text = f'"{published.fingerprint}" is ignored: expected {PREFIX}{VERSION} and 16 hexadecimal digits'
        in_annotations = at.child("metadata").child("annotations")
        where = in_annotations.key(ANNOTATION) if published.in_annotation else at.child("attributes").key(ATTRIBUTE)
        remarks.append(ObjectRemark(where, text))
    listed = _understood(lambda: read_inventory(attributes), at.key(CPUS), remarks)
    if listed is not None:
        # On machines whose cores differ the kubelet takes the average, which no attribute has a word for.
        settings = replace(settings, threads_per_core=listed.cpus.threads_per_core)
    return TopologyReport(
        topology.metadata.name,
        settings,
        in_order,
        _few(remarks, at),
        shows_use,
        inventory=listed,
        pods=_understood(lambda: read_pods(attributes), at.key(PODS), remarks),
        made_at=made_at,
        marked_stale=STALE_SINCE in annotations
        and made_at is not None
        and annotations[STALE_SINCE] == stale_mark(made_at),
        fingerprint=published.fingerprint if is_comparable(published.fingerprint) else "",
        only_exclusive=published.method == METHOD_EXCLUSIVE,
        upstream_settings=upstream_settings_of(topology),
    )


def _few(remarks: list[ObjectRemark], at: ObjectPath) -> list[ObjectRemark]:
    """The first remarks of very many."""
    if len(remarks) <= MOST_TOLD:
        return remarks
    more = ObjectRemark(at, f"{len(remarks) - MOST_TOLD + 1} more problems")
    return [*remarks[: MOST_TOLD - 1], more]


def _understood(read: Callable[[], _Value], at: ObjectPath, remarks: list[ObjectRemark]) -> _Value | None:
    """What an agent lists, or nothing and a problem if it cannot be read."""
    try:
        return read()
    except NotUnderstood as error:
        remarks.append(ObjectRemark(at, f"is ignored: expected {error}"))
        return None


def same_use(before: TopologyReport, after: TopologyReport) -> bool:
    """True if two reports of a node show the same amounts as available."""

    def left(report: TopologyReport) -> list[tuple[int, dict[str, int]]]:
        return [(zone.id, dict(zip(zone.names, zone.available, strict=True))) for zone in report.zones]

    return before.shows_use == after.shows_use and left(before) == left(after)


def differ_in_use_only(before: TopologyReport, after: TopologyReport) -> bool:
    """True if two reports of a node tell of the same machine and the same kubelet, and only of other use."""

    def machine(zone: ZoneReport) -> tuple[object, ...]:
        return zone.id, zone.costs, dict(zip(zone.names, zone.totals, strict=True))

    return (
        before.settings == after.settings
        and after.usable
        and [machine(zone) for zone in before.zones] == [machine(zone) for zone in after.zones]
    )
